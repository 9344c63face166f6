//! How many VIPs may be carried before their record is written: as many as the API can write in time, judging by its last
//! answers.

use std::time::Duration;

use super::calls::WRITES;

/// So many if the API has not answered a write yet: a slow API writes these within a second.
const FEWEST: usize = 64;
/// More than a node usually has. A VIP whose record is not written within a second gets a short fence, and is probed for.
const MOST: usize = 256;
/// They shall be written within this: half of the time that they have.
const WITHIN: Duration = Duration::from_millis(500);

/// The mean time of a write. Recent writes weigh more than old ones.
#[derive(Debug, Default)]
pub(super) struct Pace(Option<Duration>);

impl Pace {
    /// A write was answered after so long.
    pub(super) fn took(&mut self, time: Duration) {
        self.0 = Some(self.0.map_or(time, |mean| (mean * 7 + time) / 8));
    }

    /// How many VIPs may be carried before their record is written.
    pub(super) fn beside(&self) -> usize {
        let Some(mean) = self.0 else { return FEWEST };
        let rounds = WITHIN.as_micros() / mean.as_micros().max(1);
        usize::try_from(rounds).unwrap_or(MOST).saturating_mul(WRITES).clamp(FEWEST, MOST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quick_api_lets_many_be_beside_and_a_slow_one_few() {
        let mut pace = Pace::default();
        assert_eq!(pace.beside(), FEWEST);
        pace.took(Duration::from_millis(5));
        assert_eq!(pace.beside(), MOST);
        for _ in 0..32 {
            pace.took(Duration::from_millis(50));
        }
        assert!((FEWEST..=12 * WRITES).contains(&pace.beside()), "{}", pace.beside());
        for _ in 0..32 {
            pace.took(Duration::from_millis(900));
        }
        assert_eq!(pace.beside(), FEWEST);
        pace.took(Duration::ZERO);
        assert!(pace.beside() >= FEWEST);
    }
}
