//! Whether a machine's clocks agree about how much time has passed.
//!
//! `CLOCK_MONOTONIC` stands still while the machine is suspended, `CLOCK_BOOTTIME` does not. A stunned virtual machine may show
//! no gap on either, and its `CLOCK_REALTIME` is set right afterwards. So each pair of clocks may show a standstill.

use std::time::Duration;

use crate::time::{Time, WallTime};

/// A difference between the clocks' steps above this means that the machine may have stood still.
const JUMP: Duration = Duration::from_secs(1);

/// All clocks, read together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Clocks {
    /// `CLOCK_BOOTTIME`.
    pub boot: Time,
    /// `CLOCK_MONOTONIC`, in nanoseconds.
    pub monotonic: u64,
    /// `CLOCK_REALTIME`.
    pub wall: WallTime,
}

impl Clocks {
    /// By how much the clocks disagree about the time since `last`, if by more than a second. A wall clock that a person sets,
    /// forward or back, is such a jump too: the agent then only checks its state once.
    #[must_use]
    pub fn jump_since(&self, last: &Self) -> Option<Duration> {
        let step = |new: u64, old: u64| i128::from(new) - i128::from(old);
        let steps = [
            step(self.boot.as_nanos(), last.boot.as_nanos()),
            step(self.monotonic, last.monotonic),
            (i128::from(self.wall.0) - i128::from(last.wall.0)) * 1_000,
        ];
        let [first, second, third] = steps;
        let apart = first.max(second).max(third) - first.min(second).min(third);
        let apart = Duration::from_nanos(u64::try_from(apart).unwrap_or(u64::MAX));
        (apart > JUMP).then_some(apart)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_two_clocks_may_show_a_standstill() {
        let at = |boot_ms: u64, monotonic_ms: u64, wall_ms: i64| Clocks {
            boot: Time::from_nanos(boot_ms * 1_000_000),
            monotonic: monotonic_ms * 1_000_000,
            wall: WallTime(wall_ms * 1_000),
        };
        let last = at(60_000, 50_000, 1_800_000_000_000);
        let jump = |boot: u64, monotonic: u64, wall: i64| {
            let now = at(60_000 + boot, 50_000 + monotonic, 1_800_000_000_000 + wall);
            now.jump_since(&last).map(|jump| jump.as_millis())
        };
        assert_eq!(jump(100, 100, 900), None);
        assert_eq!(jump(100, 100, 40_100), Some(40_000), "stunned, and the wall clock was set right");
        assert_eq!(jump(40_100, 100, 40_100), Some(40_000), "suspended");
        assert_eq!(jump(40_100, 40_100, 100), Some(40_000), "the wall clock stood still");
        assert_eq!(jump(100, 100, -60_000), Some(60_100), "the wall clock was set back");
    }
}
