//! The current time.

use std::time::{Duration, SystemTime};

use mooring_allocator_core::protocol::Moment;
use mooring_common::clock;

/// Now, by the clock of all deadlines; see [`clock::boottime`].
#[must_use]
pub fn now() -> Duration {
    Duration::from_nanos(clock::boottime().as_nanos())
}

/// Both clocks of the protocol.
#[must_use]
pub fn moment() -> Moment {
    let wall = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs());
    Moment { now: now(), wall }
}
