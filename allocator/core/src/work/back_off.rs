//! When a failed write is tried again.

use std::time::Duration;

/// The wait after failures: `first`, doubled with each failure, up to `last`.
#[derive(Clone, Copy, Debug)]
pub struct BackOff {
    /// The wait after the first failure.
    pub first: Duration,
    /// The longest wait.
    pub last: Duration,
}

impl BackOff {
    /// The wait after this number of earlier failures.
    #[must_use]
    pub fn delay(self, failures: u32) -> Duration {
        self.first.saturating_mul(1 << failures.min(10)).min(self.last)
    }

    /// Half to one and a half times the wait. `random`: any number.
    #[must_use]
    pub fn jittered(self, failures: u32, random: u64) -> Duration {
        let delay = self.delay(failures);
        let part = u32::try_from(random % 1024).unwrap_or(0);
        delay / 2 + delay.saturating_mul(part) / 1024
    }
}

/// When the next write about an object may be sent, and how many have failed one after another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Retry {
    /// The next write may not be sent before this time.
    pub not_before: Duration,
    /// The number of failures since the last success.
    pub failures: u32,
}

impl Retry {
    /// Records a failed write: the next write waits.
    pub fn back_off(&mut self, now: Duration, policy: BackOff) {
        self.not_before = now + policy.delay(self.failures);
        self.failures = self.failures.saturating_add(1);
    }

    /// The time until which the next write has to wait; None: it may be sent now.
    #[must_use]
    pub fn waits(&self, now: Duration) -> Option<Duration> {
        (self.not_before > now).then_some(self.not_before)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POLICY: BackOff = BackOff { first: Duration::from_millis(50), last: Duration::from_secs(30) };

    #[test]
    fn each_failure_doubles_the_wait_up_to_a_limit() {
        let (mut retry, now) = (Retry::default(), Duration::from_secs(9));
        assert_eq!(retry.waits(now), None);
        for wait in [50, 100, 200, 400] {
            retry.back_off(now, POLICY);
            assert_eq!(retry.waits(now), Some(now + Duration::from_millis(wait)));
        }
        assert_eq!(POLICY.delay(u32::MAX), POLICY.last);
        for random in [0, 511, 1023, u64::MAX] {
            let wait = POLICY.jittered(3, random);
            assert!(POLICY.delay(3) / 2 <= wait && wait < POLICY.delay(3) * 3 / 2, "{wait:?}");
        }
    }
}
