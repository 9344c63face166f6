//! The one clock of the lab.

use mooring_agent::core::time::Time;
use nix::time::{ClockId, clock_gettime};

/// Now, on `CLOCK_BOOTTIME`: the clock of the agent, of every fault and of every observer.
#[must_use]
pub fn now() -> Time {
    // The clock always exists on Linux; a kernel without it would make all times zero, not wrong by a little.
    clock_gettime(ClockId::CLOCK_BOOTTIME).map_or_else(
        |_| Time::default(),
        |at| {
            let nanos = std::time::Duration::from(at).as_nanos();
            Time::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
        },
    )
}
