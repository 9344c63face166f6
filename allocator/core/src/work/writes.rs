//! Writes about one object: one at a time, each on a version that was seen.

use std::time::Duration;

use crate::names::Version;

use super::answer::{Done, Failure};
use super::back_off::{BackOff, Retry};
use super::repeats::{Repeatable, Repeats};

/// After this delay without being shown, a created object is created again.
pub const SHOWN_WITHIN: Duration = Duration::from_secs(3);
/// After a conflict, the watch shows the conflicting change within this delay; otherwise the write is tried again.
pub const STALE_WITHIN: Duration = Duration::from_secs(10);
/// Delay before an object is created again that exists and is not shown.
pub const UNSHOWN: BackOff = BackOff { first: SHOWN_WITHIN, last: Duration::from_mins(1) };
/// Delay before a failed write is tried again.
pub const RETRY: BackOff = BackOff { first: Duration::from_millis(50), last: Duration::from_secs(30) };

/// The writes about one object.
#[derive(Clone, Debug)]
pub struct Writes<W> {
    /// The number of the write under way.
    pub pending: Option<u64>,
    /// A write at this version has taken effect or met a conflict: the watch will show a newer version.
    pub stale: Option<Version>,
    /// End of the wait for the newer version, if only an answer reported the conflict.
    stale_until: Option<Duration>,
    /// When the next write may be sent after failures.
    pub retry: Retry,
    /// Writes that had no lasting effect.
    pub repeats: Repeats<W>,
}

impl<W> Default for Writes<W> {
    fn default() -> Self {
        Self { pending: None, stale: None, stale_until: None, retry: Retry::default(), repeats: Repeats::default() }
    }
}

impl<W: Repeatable> Writes<W> {
    /// The time before which a write may not be sent; None: it may be sent now.
    pub fn waits(&self, now: Duration, write: &W) -> Option<Duration> {
        self.retry.waits(now).max(self.repeats.waits(now, write))
    }

    /// Whether this version, which is the one shown last, has the effects of all writes so far.
    #[must_use]
    pub fn knows(&self, version: &Version) -> bool {
        self.pending.is_none() && self.stale.as_ref() != Some(version)
    }

    /// The object is as wanted, as far as the shown version tells.
    pub fn settled(&mut self, version: &Version) {
        if self.knows(version) {
            self.repeats.settled();
        }
    }

    /// Whether there is nothing to remember.
    #[must_use]
    pub const fn is_idle(&self) -> bool {
        self.pending.is_none() && self.stale.is_none() && self.retry.failures == 0 && self.repeats.is_settled()
    }

    /// Ends the wait for a version that should have been shown by now.
    pub fn freshen(&mut self, now: Duration) {
        if self.stale_until.is_some_and(|until| until <= now) {
            self.stale = None;
            self.stale_until = None;
        }
    }

    /// The write at `version` ended; `known`: the version that the watch shows.
    pub fn ended(
        &mut self,
        (now, write): (Duration, &W),
        version: &Version,
        known: &Version,
        result: &Result<Done<Version>, Failure>,
    ) {
        self.pending = None;
        if let Ok(done) = result {
            let changed = !matches!(done, Done::There(new) if new == version);
            self.repeats.succeeded(now, write, changed);
        }
        let conflict = matches!(result, Err(Failure::Conflict | Failure::NotFound));
        self.stale_until = conflict.then_some(now + STALE_WITHIN);
        match result {
            Ok(Done::There(new)) => {
                self.retry.failures = 0;
                // The watch will show the new version. (A write that changed nothing left the version unchanged.)
                self.stale = (known == version && new != version).then(|| version.clone());
            }
            Ok(Done::Gone) | Err(Failure::Conflict | Failure::NotFound) => {
                self.retry.failures = 0;
                self.stale = (known == version).then(|| version.clone());
            }
            Err(Failure::Exists | Failure::Refused(_) | Failure::Unknown) => self.retry.back_off(now, RETRY),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Debug, PartialEq)]
    struct Write;

    impl Repeatable for Write {
        fn unversioned(&self) -> Self {
            Self
        }
    }

    #[test]
    fn a_failed_write_waits_longer_each_time_and_a_conflict_for_the_watch() {
        let (mut writes, now) = (Writes::default(), Duration::from_secs(9));
        let (old, new) = (Version::from("1"), Version::from("2"));
        writes.ended((now, &Write), &old, &old, &Err(Failure::Unknown));
        assert_eq!((writes.retry.not_before, writes.stale.clone()), (now + RETRY.first, None));
        writes.ended((now, &Write), &old, &old, &Err(Failure::Unknown));
        assert_eq!(writes.retry.not_before, now + RETRY.first * 2);
        writes.ended((now, &Write), &old, &old, &Err(Failure::Conflict));
        assert_eq!((writes.stale.clone(), writes.retry.failures), (Some(old.clone()), 0));
        writes.freshen(now + STALE_WITHIN / 2);
        assert!(writes.stale.is_some());
        writes.freshen(now + STALE_WITHIN);
        assert_eq!(writes.stale, None, "nor for ever");
        writes.ended((now, &Write), &old, &new, &Err(Failure::Conflict));
        assert_eq!(writes.stale, None);
        writes.ended((now, &Write), &old, &old, &Ok(Done::There(old.clone())));
        assert_eq!(writes.stale, None, "a write that changes nothing is not waited for");
    }
}
