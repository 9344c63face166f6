//! What time it is.

use std::time::{Duration, SystemTime};

use mooring_allocator_core::protocol::Moment;
use nix::time::{ClockId, clock_gettime};

/// `CLOCK_BOOTTIME`, which goes on while the machine is suspended: all deadlines are judged by it.
#[must_use]
pub fn now() -> Duration {
    // It fails for clocks only that the kernel does not know, and this one is older than anything we run on.
    clock_gettime(ClockId::CLOCK_BOOTTIME).map(Duration::from).unwrap_or_default()
}

/// Both clocks of the protocol.
#[must_use]
pub fn moment() -> Moment {
    let wall = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs());
    Moment { now: now(), wall }
}
