//! Limits the number of writes per second.

use std::time::Duration;

/// Unused capacity may be caught up, up to this time.
const CATCH_UP: Duration = Duration::from_millis(100);

/// Limits writes to a rate.
#[derive(Clone, Debug)]
pub struct Pace {
    /// Time between two writes; None: no limit.
    between: Option<Duration>,
    /// When the next write may go.
    next: Duration,
}

impl Pace {
    /// The number of writes a second; None: no limit.
    #[must_use]
    pub fn new(per_second: Option<u32>) -> Self {
        Self { between: per_second.map(|count| Duration::from_secs(1) / count.max(1)), next: Duration::ZERO }
    }

    /// Whether a write may go now; if so, it is counted.
    pub fn take(&mut self, now: Duration) -> bool {
        let Some(between) = self.between else { return true };
        if self.next > now {
            return false;
        }
        self.next = self.next.max(now.saturating_sub(CATCH_UP)) + between;
        true
    }

    /// When the next write may go; None: now.
    #[must_use]
    pub fn next(&self) -> Option<Duration> {
        self.between.map(|_| self.next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_a_second_and_no_more() {
        let mut pace = Pace::new(Some(50));
        let mut sent = 0;
        for millis in 10_000..20_000 {
            while pace.take(Duration::from_millis(millis)) {
                sent += 1;
            }
        }
        assert!((500..=506).contains(&sent), "{sent} in ten seconds");
        assert!(pace.next().is_some());
        let mut free = Pace::new(None);
        assert!((0..1_000).all(|_| free.take(Duration::ZERO)) && free.next().is_none());
    }
}
