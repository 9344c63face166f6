//! Writes that have no lasting effect.
//!
//! An API server may drop a field that its CRD does not know, and an admission webhook or another controller may put the old
//! value back. Then a write succeeds, and is needed again at once. Such a write is repeated after a growing delay.

use std::mem::discriminant;
use std::time::Duration;

use super::back_off::BackOff;

/// The delay before a write that had no lasting effect is repeated.
const REPEAT: BackOff = BackOff { first: Duration::from_secs(1), last: Duration::from_mins(10) };

/// A write that lasts this long has had its effect.
const REMEMBERED: Duration = Duration::from_mins(1);

/// A write that can be compared with another one.
pub trait Repeatable: Clone + PartialEq {
    /// The write without the version of its object: two that are equal have the same content for the same object.
    #[must_use]
    fn unversioned(&self) -> Self;
}

/// The last writes about an object, until the object is as wanted.
#[derive(Clone, Debug)]
pub struct Repeats<W> {
    /// The last successful write of each kind, and when it succeeded.
    last: Vec<(W, Duration)>,
    /// How many writes were repeats.
    count: u32,
}

impl<W> Default for Repeats<W> {
    fn default() -> Self {
        Self { last: Vec::new(), count: 0 }
    }
}

impl<W: Repeatable> Repeats<W> {
    /// Whether no write is remembered.
    #[must_use]
    pub const fn is_settled(&self) -> bool {
        self.last.is_empty()
    }

    /// How often a write was repeated that was made already, and not since the object was as wanted.
    pub fn repeated(&self, write: &W) -> u32 {
        if self.last.iter().any(|(last, _)| same(last, write)) { self.count } else { 0 }
    }

    /// The time before which a write may not be sent; None: it may be sent now.
    pub fn waits(&self, now: Duration, write: &W) -> Option<Duration> {
        let (_, at) = self.last.iter().find(|(last, _)| same(last, write))?;
        Some(*at + REPEAT.delay(self.count)).filter(|until| *until > now)
    }

    /// A write succeeded.
    pub fn succeeded(&mut self, now: Duration, write: &W) {
        let repeated = self.last.iter().any(|(last, _)| same(last, write));
        self.count = self.count.saturating_add(u32::from(repeated));
        self.last.retain(|(last, _)| discriminant(last) != discriminant(write));
        self.last.push((write.clone(), now));
    }

    /// The object is as wanted.
    pub fn settled(&mut self) {
        *self = Self::default();
    }

    /// The object, which other allocators may write too, is as wanted. Another allocator that wants something else writes only
    /// after the watch has shown our value to it, and to us: so the writes are remembered for a while.
    pub fn settled_for_now(&mut self, now: Duration) {
        if self.last.iter().all(|(_, at)| *at + REMEMBERED <= now) {
            self.settled();
        }
    }
}

/// Whether two writes have the same content for the same object, of whatever version.
fn same<W: Repeatable>(one: &W, other: &W) -> bool {
    discriminant(one) == discriminant(other) && one.unversioned() == other.unversioned()
}
