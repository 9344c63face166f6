//! Makes a verdict out of single probe results. The verdict changes only after several equal results in a row.

use super::planted::planted;

/// Counts the results of a health probe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Health {
    rise: u32,
    fall: u32,
    verdict: Option<bool>,
    /// How many of the latest results in a row were equal to `last`.
    row: u32,
    last: bool,
}

impl Health {
    /// Healthy after `rise` good results in a row, unhealthy after `fall` bad results; 0 counts as 1. Unknown before that.
    #[must_use]
    pub const fn new(rise: u32, fall: u32) -> Self {
        let (rise, fall) = (if rise == 0 { 1 } else { rise }, if fall == 0 { 1 } else { fall });
        Self { rise, fall, verdict: None, row: 0, last: false }
    }

    /// Takes one more result, and returns the verdict if the verdict has changed.
    pub fn result(&mut self, ok: bool) -> Option<bool> {
        self.row = if self.last == ok { self.row.saturating_add(1) } else { 1 };
        self.last = ok;
        let enough = if ok { self.rise } else { self.fall };
        if self.row < enough && !planted!(NoHysteresis) || self.verdict == Some(ok) {
            return None;
        }
        self.verdict = Some(ok);
        self.verdict
    }

    /// The verdict. None: unknown yet.
    #[must_use]
    pub const fn verdict(&self) -> Option<bool> {
        self.verdict
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::{any, proptest};

    #[test]
    fn one_lost_probe_is_nothing() {
        let mut health = Health::new(2, 3);
        let heard: Vec<_> = [true, true, false, false, true, false, false, false, true, true]
            .map(|ok| health.result(ok))
            .into_iter()
            .collect();
        assert_eq!(heard, [None, Some(true), None, None, None, None, None, Some(false), None, Some(true)]);
    }

    #[test]
    fn unknown_until_enough_was_seen() {
        let mut health = Health::new(1, 2);
        assert_eq!((health.verdict(), health.result(false), health.verdict()), (None, None, None));
        assert_eq!(health.result(false), Some(false));
        assert_eq!(Health::new(0, 0).result(true), Some(true));
    }

    proptest! {
        #[test]
        fn changes_only_after_enough_in_a_row(rise in 1..5_u32, fall in 1..5_u32, all: Vec<bool>, last in any::<bool>()) {
            let mut health = Health::new(rise, fall);
            for (n, ok) in all.iter().chain([&last]).enumerate() {
                let before = health.verdict();
                if let Some(verdict) = health.result(*ok) {
                    let row = if verdict { rise } else { fall } as usize;
                    assert!(before != Some(verdict) && verdict == *ok && n + 1 >= row);
                    assert!(all.iter().chain([&last]).skip(n + 1 - row).take(row).all(|x| *x == verdict));
                }
            }
        }
    }
}
