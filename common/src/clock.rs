//! Reads the clocks. The cores never do.

use std::time::SystemTime;

use nix::time::{ClockId, clock_gettime};

use mooring_lease::time::{Time, WallTime};

/// Now, by the clock of all deadlines: `CLOCK_BOOTTIME`, which goes on while the machine is suspended.
///
/// If the kernel refuses to give the time (the clock was added in 2.6.39), the answer is the end of time. Every
/// deadline has passed then, so no fence counts as valid, no node counts as leader, and no node takes a Lease
/// ([`Time::END`]). The beginning of time would be the opposite: nothing would ever end.
#[must_use]
pub fn boottime() -> Time {
    nanos(ClockId::CLOCK_BOOTTIME).map_or(Time::END, Time::from_nanos)
}

/// `CLOCK_MONOTONIC` in nanoseconds: it stands still while the machine is suspended. Only for comparison with the other clocks.
#[must_use]
pub fn monotonic() -> u64 {
    nanos(ClockId::CLOCK_MONOTONIC).unwrap_or_default()
}

fn nanos(clock: ClockId) -> Option<u64> {
    let spec = clock_gettime(clock).ok()?;
    let secs = u64::try_from(spec.tv_sec()).ok()?;
    let nanos = u64::try_from(spec.tv_nsec()).ok()?;
    secs.checked_mul(1_000_000_000)?.checked_add(nanos)
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
        assert!(first > Time::default() && first < Time::END);
        assert!(boottime() >= first);
        let first = monotonic();
        assert!(first > 0 && monotonic() >= first);
        assert!(realtime().0 > 1_600_000_000_000_000);
    }
}
