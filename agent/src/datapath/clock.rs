//! Reading the clocks. The core never does.

use std::time::SystemTime;

use nix::time::{ClockId, clock_gettime};

use crate::core::time::{Time, WallTime};

/// Now, by the clock of all deadlines. A kernel without `CLOCK_BOOTTIME` (older than 2.6.39) is told the end of time:
/// every deadline has passed, and nothing is held.
#[must_use]
pub fn boottime() -> Time {
    let read = clock_gettime(ClockId::CLOCK_BOOTTIME).ok().and_then(|spec| {
        let secs = u64::try_from(spec.tv_sec()).ok()?;
        let nanos = u64::try_from(spec.tv_nsec()).ok()?;
        secs.checked_mul(1_000_000_000)?.checked_add(nanos)
    });
    Time::from_nanos(read.unwrap_or(u64::MAX))
}

/// The wall clock, in microseconds since 1970, for people and Lease records.
#[must_use]
pub fn realtime() -> WallTime {
    let micros = |d: std::time::Duration| i64::try_from(d.as_micros()).unwrap_or(i64::MAX);
    WallTime(match SystemTime::now().duration_since(SystemTime::UNIX_EPOCH) {
        Ok(since) => micros(since),
        Err(before) => -micros(before.duration()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_clocks_run() {
        let first = boottime();
        assert!(first > Time::default() && first < Time::from_nanos(u64::MAX));
        assert!(boottime() >= first);
        assert!(realtime().0 > 1_600_000_000_000_000);
    }
}
