//! When a VIP is announced.

use std::time::Duration;

use super::time::Time;

/// Offsets of the announcements that follow a take, in milliseconds.
const OFFSETS: [u64; 6] = [0, 100, 500, 1_000, 2_000, 5_000];

/// A burst is over this long after the VIP was taken: the last offset, the kernel's answer before the first, and a step that is
/// a little late.
pub const BURST: Duration = Duration::from_secs(6);

/// Whether the burst after a take still goes on: all that a provisional holder announces. After a late step the take may be long
/// ago, although the clock does not show it.
#[must_use]
pub fn is_burst_on(now: Time, taken: Time, late_at: Time) -> bool {
    now <= taken + BURST && late_at <= taken
}

/// The announcements of one VIP: a burst after it was taken (or another owner was heard), then a slow refresh.
#[derive(Clone, Debug)]
pub struct Schedule {
    start: Time,
    sent: usize,
    next: Option<Time>,
    refresh: Duration,
}

impl Schedule {
    /// Nothing to announce until [`Schedule::restart`]. `refresh` zero: no slow refresh.
    #[must_use]
    pub fn new(refresh: Duration) -> Self {
        Self { start: Time::default(), sent: 0, next: None, refresh }
    }

    /// The burst begins now.
    pub fn restart(&mut self, now: Time) {
        *self = Self { start: now, sent: 0, next: Some(now), refresh: self.refresh };
    }

    /// Nothing more is announced.
    pub fn stop(&mut self) {
        self.next = None;
    }

    /// When the next announcement is due.
    #[must_use]
    pub fn next(&self) -> Option<Time> {
        self.next
    }

    /// Whether an announcement is due; if so the next one is planned. Announcements that a late step missed are left out.
    pub fn due(&mut self, now: Time) -> bool {
        if self.next.is_none_or(|at| now < at) {
            return false;
        }
        self.sent += 1;
        while OFFSETS.get(self.sent).is_some_and(|ms| self.start + Duration::from_millis(*ms) <= now) {
            self.sent += 1;
        }
        self.next = match OFFSETS.get(self.sent) {
            Some(ms) => Some(self.start + Duration::from_millis(*ms)),
            None => (!self.refresh.is_zero()).then(|| now + self.refresh),
        };
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_then_a_slow_refresh() {
        let start = Time::from_nanos(1_000_000_000);
        let mut schedule = Schedule::new(Duration::from_secs(30));
        assert!(!schedule.due(start));
        schedule.restart(start);
        let mut sent = vec![];
        while sent.len() < 8 {
            let at = schedule.next().unwrap();
            assert!(schedule.due(at) && !schedule.due(at));
            sent.push(at.since(start).as_millis());
        }
        assert_eq!(sent, [0, 100, 500, 1_000, 2_000, 5_000, 35_000, 65_000]);
    }

    #[test]
    fn what_a_late_step_missed_is_not_made_up_for() {
        let start = Time::from_nanos(0);
        let mut schedule = Schedule::new(Duration::ZERO);
        schedule.restart(start);
        assert!(schedule.due(start + Duration::from_millis(1_200)));
        assert_eq!(schedule.next(), Some(start + Duration::from_secs(2)));
    }
}
