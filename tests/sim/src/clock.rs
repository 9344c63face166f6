//! A host's clocks. `CLOCK_BOOTTIME` runs a little fast or slow; the wall clock may be set; a suspended machine's boot time
//! goes on, a stunned virtual machine's stands still.

/// Nanoseconds of simulated time.
pub type Nanos = u64;

/// A millisecond.
pub const MS: Nanos = 1_000_000;
/// A second.
pub const SECOND: Nanos = 1_000 * MS;

/// The clocks of a host.
#[derive(Clone, Debug)]
pub struct Clock {
    /// Simulated time, and what the boot clock showed then.
    base: (Nanos, u64),
    /// Parts per million that it runs fast.
    ppm: i64,
    /// Microseconds that the wall clock is ahead of the boot clock.
    wall: i64,
    stopped: bool,
    /// How long the machine was suspended: the monotonic clock did not count that.
    suspended: u64,
}

impl Clock {
    /// Shows `boot` now, and the wall clock is `wall` microseconds ahead of it.
    #[must_use]
    pub fn new(now: Nanos, boot: u64, ppm: i64, wall: i64) -> Self {
        Self { base: (now, boot), ppm, wall, stopped: false, suspended: 0 }
    }

    /// What the boot clock shows.
    #[must_use]
    pub fn boot(&self, now: Nanos) -> u64 {
        if self.stopped {
            return self.base.1;
        }
        let gone = now.saturating_sub(self.base.0);
        let drift = i64::try_from(gone).unwrap_or(i64::MAX) / 1_000 * self.ppm / 1_000;
        (self.base.1 + gone).saturating_add_signed(drift)
    }

    /// What the monotonic clock shows.
    #[must_use]
    pub fn monotonic(&self, now: Nanos) -> u64 {
        self.boot(now).saturating_sub(self.suspended)
    }

    /// The machine was suspended for so long.
    pub fn was_suspended(&mut self, slept: Nanos) {
        self.suspended += slept;
    }

    /// What the wall clock shows, in microseconds.
    #[must_use]
    pub fn wall(&self, now: Nanos) -> i64 {
        i64::try_from(self.boot(now) / 1_000).unwrap_or(i64::MAX).saturating_add(self.wall)
    }

    /// When the boot clock will show (or showed) that.
    #[must_use]
    pub fn when(&self, boot: u64) -> Nanos {
        let left = boot.saturating_sub(self.base.1);
        let drift = i64::try_from(left).unwrap_or(i64::MAX) / 1_000 * self.ppm / (1_000 + self.ppm / 1_000);
        let mut at = (self.base.0 + left).saturating_add_signed(-drift);
        while self.boot(at) < boot {
            at += (boot - self.boot(at)).max(1);
        }
        at
    }

    /// When the boot clock last went on after it had stood still, or when the host began.
    #[must_use]
    pub fn went_on(&self) -> Nanos {
        self.base.0
    }

    /// The boot clock stands still.
    pub fn stop(&mut self, now: Nanos) {
        self.base = (now, self.boot(now));
        self.stopped = true;
    }

    /// It goes on. If the wall clock was set right meanwhile, it has run ahead.
    pub fn go_on(&mut self, now: Nanos, set_right: bool) {
        if self.stopped {
            self.stopped = false;
            if set_right {
                self.wall += i64::try_from((now - self.base.0) / 1_000).unwrap_or(0);
            }
            self.base.0 = now;
        }
    }

    /// Somebody sets the wall clock.
    pub fn set_wall(&mut self, by_micros: i64) {
        self.wall = self.wall.saturating_add(by_micros);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn when_is_the_first_moment_that_shows_it() {
        for ppm in [-500, -3, 0, 7, 500] {
            let clock = Clock::new(5 * SECOND, 1_000 * SECOND, ppm, 0);
            for after in [1, 999, MS + 1, 77 * SECOND] {
                let boot = 1_000 * SECOND + after;
                let at = clock.when(boot);
                assert!(clock.boot(at) >= boot && clock.boot(at) < boot + 2_000, "{ppm} {after}");
            }
        }
    }

    #[test]
    fn a_stun_shows_on_the_wall_clock_only() {
        let mut clock = Clock::new(0, SECOND, 0, 0);
        clock.stop(SECOND);
        assert_eq!(clock.boot(9 * SECOND), 2 * SECOND);
        clock.go_on(9 * SECOND, true);
        assert_eq!(clock.boot(9 * SECOND), 2 * SECOND);
        assert_eq!(clock.wall(9 * SECOND), 10_000_000);
    }
}
