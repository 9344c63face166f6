//! Writes that have no lasting effect.
//!
//! An API server may drop a field that its CRD does not know, and an admission webhook or another controller may put the old
//! value back. Then a write succeeds, and is needed again at once. Such a write is repeated after a growing delay.

use std::mem::discriminant;
use std::time::Duration;

use mooring_allocator_core::names::Version;
use mooring_allocator_core::work::BackOff;

use super::Write;
use super::flaws::{Flaw, planted};

/// The delay before a write that had no lasting effect is repeated.
const REPEAT: BackOff = BackOff { first: Duration::from_secs(1), last: Duration::from_mins(10) };

/// A write that lasts this long has had its effect.
const REMEMBERED: Duration = Duration::from_mins(1);

/// The last writes about an object, until the object is as wanted.
#[derive(Clone, Debug, Default)]
pub(super) struct Repeats {
    /// The last successful write of each kind, and when it succeeded.
    last: Vec<(Write, Duration)>,
    /// How many writes were repeats.
    count: u32,
}

impl Repeats {
    /// The time before which a write may not be sent; None: it may be sent now.
    pub(super) fn waits(&self, now: Duration, write: &Write) -> Option<Duration> {
        let (_, at) = self.last.iter().find(|(last, _)| same(last, write))?;
        Some(*at + REPEAT.delay(self.count)).filter(|until| *until > now && !planted(Flaw::RepeatsAtOnce))
    }

    /// A write succeeded.
    pub(super) fn succeeded(&mut self, now: Duration, write: &Write) {
        let repeated = self.last.iter().any(|(last, _)| same(last, write));
        self.count = self.count.saturating_add(u32::from(repeated));
        self.last.retain(|(last, _)| discriminant(last) != discriminant(write));
        self.last.push((write.clone(), now));
    }

    /// The object is as wanted.
    pub(super) fn settled(&mut self) {
        *self = Self::default();
    }

    /// The object, which other allocators may write too, is as wanted. Another allocator that wants something else writes only
    /// after the watch has shown our value to it, and to us: so the writes are remembered for a while.
    pub(super) fn settled_for_now(&mut self, now: Duration) {
        if self.last.iter().all(|(_, at)| *at + REMEMBERED <= now) {
            self.settled();
        }
    }
}

/// Whether two writes have the same content for the same object, of whatever version.
fn same(one: &Write, other: &Write) -> bool {
    fn unversioned(write: &Write) -> Write {
        let mut write = write.clone();
        match &mut write {
            Write::UpdateClaim(target, ..)
            | Write::DeleteClaim(target)
            | Write::Exchange(target, _)
            | Write::Annotate(target, _)
            | Write::Status(target, _)
            | Write::RemoveCleanup(target) => target.version = Version::from(""),
            Write::UpdatePool(target, _) | Write::DeletePool(target) => target.version = Version::from(""),
            Write::CreateClaim(_) | Write::CreatePool(_) => {}
        }
        write
    }
    discriminant(one) == discriminant(other) && unversioned(one) == unversioned(other)
}
