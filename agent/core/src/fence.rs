//! The kernel as dead man's switch: how long an address may live without us.
//!
//! The kernel counts an address's `valid_lft` in whole seconds from the moment it handles the message, and drops the
//! address up to [`KERNEL_LATE`] after that (measured on Linux 6.18: the check does not run more than once a second).
//! So the lifetime ends [`LIFETIME_MARGIN`] before the deadline: one second for the kernel, half a second for the way to the
//! kernel. [`covers`] checks after the kernel's answer whether that half second was enough.
//!
//! One quantity has one name from the renewal to here. *Deadline*: when the address must be gone, which is the end of the
//! Lease (when its last renewal was sent, plus its duration) or of a short fence. *Lifetime*: whole seconds that are left
//! until then, in the kernel's unit (`ifa_valid`).

use std::time::Duration;

use super::planted::planted;
use super::time::Time;

/// How late the kernel drops an address, at most.
pub const KERNEL_LATE: Duration = Duration::from_secs(1);

/// The time between the end of the lifetime and the deadline.
pub const LIFETIME_MARGIN: Duration = Duration::from_millis(1500);

/// The `valid_lft` in whole seconds of an address that must be gone at the deadline. `None`: less than one second would be
/// left, and the address must not be there at all.
#[must_use]
pub fn lifetime(now: Time, deadline: Time) -> Option<u32> {
    if planted!(NoFence) {
        return Some(100_000);
    }
    let margin = if planted!(FenceWithoutMargin) { Duration::ZERO } else { LIFETIME_MARGIN };
    let left = deadline.since(now).checked_sub(margin)?;
    match u32::try_from(left.as_secs()) {
        Ok(0) => None,
        // u32::MAX means "for ever" to the kernel.
        Ok(u32::MAX) | Err(_) => Some(u32::MAX - 1),
        Ok(secs) => Some(secs),
    }
}

/// Whether an address that was given `lifetime` seconds at `after` or before is surely gone at the deadline.
#[must_use]
pub fn covers(after: Time, lifetime: u32, deadline: Time) -> bool {
    if planted!(NoFence) {
        return true;
    }
    planted!(FenceWithoutMargin) || after + Duration::from_secs(u64::from(lifetime)) + KERNEL_LATE <= deadline
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, proptest};

    use super::*;

    fn at(millis: u64) -> Time {
        Time::from_nanos(millis * 1_000_000)
    }

    #[test]
    fn whole_seconds_and_a_margin() {
        assert_eq!(lifetime(at(1000), at(16_000)), Some(13));
        assert_eq!(lifetime(at(1000), at(3500)), Some(1));
        assert_eq!(lifetime(at(1000), at(3499)), None);
        assert_eq!(lifetime(at(1000), at(1000)), None);
        assert_eq!(lifetime(at(9000), at(1000)), None);
        assert_eq!(lifetime(at(0), Time::from_nanos(u64::MAX)), Some(u32::MAX - 1));
    }

    #[test]
    fn half_a_second_on_the_way_is_too_long() {
        let secs = lifetime(at(0), at(15_500)).unwrap();
        assert!(covers(at(500), secs, at(15_500)));
        assert!(!covers(at(501), secs, at(15_500)));
    }

    proptest! {
        #[test]
        fn gone_before_the_deadlines(now in any::<u32>(), left in any::<u32>(), way in 0_u64..=500) {
            let (now, end) = (at(u64::from(now)), at(u64::from(now) + u64::from(left)));
            if let Some(secs) = lifetime(now, end) {
                assert!(covers(now + Duration::from_millis(way), secs, end));
            }
        }
    }
}
