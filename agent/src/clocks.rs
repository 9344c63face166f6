//! The clocks, and whether they agree about how much time has passed.

use std::time::Duration;

use crate::core::event::Moment;
use crate::core::time::{Time, WallTime};
use crate::datapath::clock;

/// A difference between the clocks' steps above this means that the machine stood still.
const JUMP: Duration = Duration::from_secs(1);

/// Reads `CLOCK_BOOTTIME` and `CLOCK_REALTIME` together. On a stunned virtual machine the first clock may show no gap
/// while the second is corrected afterwards. If a person sets the clock by hand, the agent only checks its state once.
#[derive(Debug)]
pub struct Clocks {
    last: (Time, WallTime),
}

impl Clocks {
    /// Begins with the clocks as they are now.
    #[must_use]
    pub fn new() -> Self {
        Self { last: (clock::boottime(), clock::realtime()) }
    }

    /// The time now, and by how much the wall clock has run ahead since the last call, if by more than a second.
    pub fn read(&mut self) -> (Moment, Option<Duration>) {
        let (now, wall) = (clock::boottime(), clock::realtime());
        let jump = jump(self.last, (now, wall));
        self.last = (now, wall);
        (Moment { now, wall }, jump)
    }
}

impl Default for Clocks {
    fn default() -> Self {
        Self::new()
    }
}

fn jump(last: (Time, WallTime), now: (Time, WallTime)) -> Option<Duration> {
    let boot = now.0.since(last.0);
    let wall = Duration::from_micros(u64::try_from(now.1.0.saturating_sub(last.1.0)).unwrap_or(0));
    wall.checked_sub(boot).filter(|ahead| *ahead > JUMP)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_wall_clock_that_ran_ahead_is_a_jump() {
        let at = |boot_ms: u64, wall_ms: i64| (Time::from_nanos(boot_ms * 1_000_000), WallTime(wall_ms * 1_000));
        assert_eq!(jump(at(0, 0), at(100, 40_100)), Some(Duration::from_secs(40)));
        assert_eq!(jump(at(0, 0), at(100, 900)), None);
        assert_eq!(jump(at(0, 60_000), at(100, 0)), None, "set back");
    }
}
