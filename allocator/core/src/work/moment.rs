//! The time of an event.

use std::time::Duration;

/// The time of an event, on both clocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moment {
    /// On a clock that only goes forward, from any start: used for deadlines.
    pub now: Duration,
    /// Seconds since 1970: used for times that must outlive the process.
    pub wall: u64,
}
