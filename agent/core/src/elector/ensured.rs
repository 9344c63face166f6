//! What the kernel was asked for last: the fence that is in force.

use std::time::Duration;

use crate::fence;
use crate::time::Time;

/// What the way to the kernel may take.
const ON_THE_WAY: Duration = Duration::from_millis(50);

/// The last [`crate::action::Action::Carry`] of all VIPs. Before the first, all times are zero.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Ensured {
    /// When it was asked for.
    pub(super) at: Time,
    /// The deadline that was asked for.
    pub(super) deadline: Time,
    /// When the kernel drops the VIPs, by the lifetime that follows from the deadline.
    pub(super) dropped_at: Time,
}

impl Ensured {
    /// What follows when VIPs are to be gone at that deadline; None when so little is left that there is no lifetime for them.
    pub(super) fn until(now: Time, deadline: Time) -> Option<Self> {
        let lifetime = fence::lifetime(now + ON_THE_WAY, deadline)?;
        Some(Self { at: now, deadline, dropped_at: now + Duration::from_secs(u64::from(lifetime)) })
    }
}
