//! The fence in force: the last request to the kernel.

use std::time::Duration;

use crate::fence;
use crate::time::Time;

/// The time that a request may take to reach the kernel.
const ON_THE_WAY: Duration = Duration::from_millis(50);

/// The last [`crate::action::Action::Carry`] of all VIPs. Before the first, all times are zero.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Ensured {
    /// When the request was made.
    pub(super) at: Time,
    /// The deadline of the request.
    pub(super) deadline: Time,
    /// When the kernel drops the VIPs, by the lifetime that follows from the deadline.
    pub(super) dropped_at: Time,
    /// The kernel has not given all VIPs that lifetime: the request is repeated then. Until then the fence in force is an earlier
    /// one, which ends no later.
    pub(super) again: Option<Time>,
}

impl Ensured {
    /// The fence that follows from a deadline. None: so little time is left that no lifetime fits.
    pub(super) fn until(now: Time, deadline: Time) -> Option<Self> {
        let lifetime = fence::lifetime(now + ON_THE_WAY, deadline)?;
        Some(Self { at: now, deadline, dropped_at: now + Duration::from_secs(u64::from(lifetime)), again: None })
    }
}
