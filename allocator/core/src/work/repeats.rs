//! Writes that have no lasting effect.
//!
//! An API server may drop a field that its CRD does not know, and an admission webhook or another controller may put the old
//! value back. Then a write succeeds, and is needed again at once. Such a write is repeated after a growing delay.
//!
//! A write that may not wait so long, since harm is done until it is repeated, has a budget instead, as long as it changes its object:
//! who applies the same text each minute is answered at once, and who fights costs about one write a second.

use std::mem::discriminant;
use std::time::Duration;

use super::back_off::BackOff;

/// The delay before a write that had no lasting effect is repeated.
const REPEAT: BackOff = BackOff { first: Duration::from_secs(1), last: Duration::from_mins(10) };

/// So often a write that may not wait long is made at once.
const AT_ONCE: u32 = 5;
/// Afterwards it is made once in this time.
const PACE: Duration = Duration::from_secs(1);

/// A write that lasts this long has had its effect.
const REMEMBERED: Duration = Duration::from_mins(1);

/// A write that can be compared with another one.
pub trait Repeatable: Clone + PartialEq {
    /// The write without the version of its object: two that are equal have the same content for the same object.
    #[must_use]
    fn unversioned(&self) -> Self;

    /// Whether harm is done while the write waits: it is repeated soon, whoever undoes it, as long as it has an effect.
    #[must_use]
    fn is_urgent(&self) -> bool {
        false
    }
}

/// The last successful write of a kind.
#[derive(Clone, Debug)]
struct Last<W> {
    write: W,
    /// When it succeeded.
    at: Duration,
    /// It was urgent, and changed its object.
    paced: bool,
    /// When the budget of urgent writes is whole again.
    whole: Duration,
}

impl<W: Repeatable> Last<W> {
    /// The time before which a write of this kind may not be sent. `count`: how many were repeats.
    fn until(&self, write: &W, count: u32) -> Option<Duration> {
        if write.is_urgent() && self.paced {
            return Some(self.whole.saturating_sub(PACE * (AT_ONCE - 1)));
        }
        same(&self.write, write).then(|| self.at + REPEAT.delay(count))
    }
}

/// The last writes about an object, until the object is as wanted.
#[derive(Clone, Debug)]
pub struct Repeats<W> {
    /// The last successful write of each kind.
    last: Vec<Last<W>>,
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
        if self.last.iter().any(|last| same(&last.write, write)) { self.count } else { 0 }
    }

    /// The time before which a write may not be sent; None: it may be sent now.
    pub fn waits(&self, now: Duration, write: &W) -> Option<Duration> {
        self.of_kind(write)?.until(write, self.count).filter(|until| *until > now)
    }

    /// Whether an urgent write waits because it was undone faster than it may be made.
    pub fn is_outpaced(&self, now: Duration, write: &W) -> bool {
        write.is_urgent() && self.of_kind(write).is_some_and(|last| last.paced) && self.waits(now, write).is_some()
    }

    /// A write succeeded. `changed`: its object is not as before.
    pub fn succeeded(&mut self, now: Duration, write: &W, changed: bool) {
        let paced = write.is_urgent() && changed;
        let before = self.of_kind(write);
        let repeated = before.is_some_and(|last| same(&last.write, write));
        let spent = before.map_or(now, |last| last.whole.max(now));
        let whole = if paced { spent + PACE } else { spent };
        self.count = if paced { 0 } else { self.count.saturating_add(u32::from(repeated)) };
        self.last.retain(|last| discriminant(&last.write) != discriminant(write));
        self.last.push(Last { write: write.clone(), at: now, paced, whole });
    }

    fn of_kind(&self, write: &W) -> Option<&Last<W>> {
        self.last.iter().find(|last| discriminant(&last.write) == discriminant(write))
    }

    /// The object is as wanted.
    pub fn settled(&mut self) {
        *self = Self::default();
    }

    /// The object, which other allocators may write too, is as wanted. Another allocator that wants something else writes only
    /// after the watch has shown our value to it, and to us: so the writes are remembered for a while.
    pub fn settled_for_now(&mut self, now: Duration) {
        if self.last.iter().all(|last| last.at + REMEMBERED <= now) {
            self.settled();
        }
    }
}

/// Whether two writes have the same content for the same object, of whatever version.
fn same<W: Repeatable>(one: &W, other: &W) -> bool {
    discriminant(one) == discriminant(other) && one.unversioned() == other.unversioned()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether it is urgent, and its content.
    #[derive(Clone, Debug, PartialEq)]
    enum Write {
        Urgent(u8),
        Other(u8),
    }

    impl Repeatable for Write {
        fn unversioned(&self) -> Self {
            self.clone()
        }

        fn is_urgent(&self) -> bool {
            matches!(self, Self::Urgent(_))
        }
    }

    /// How many writes there are in an hour if each is needed again after `period`, and the longest wait.
    fn hour(period: Duration, changed: bool, write: impl Fn(u32) -> Write) -> (u32, Duration) {
        let (mut repeats, mut now, mut count, mut longest) =
            (Repeats::default(), Duration::from_secs(9), 0, Duration::ZERO);
        while now < Duration::from_hours(1) {
            let write = write(count);
            let until = repeats.waits(now, &write).unwrap_or(now);
            longest = longest.max(until.saturating_sub(now));
            now = until;
            repeats.succeeded(now, &write, changed);
            repeats.settled_for_now(now);
            count += 1;
            now += period;
        }
        (count, longest)
    }

    #[test]
    fn what_is_urgent_and_has_an_effect_is_repeated_soon_and_at_a_pace() {
        for period in [1, 5, 20, 45, 90] {
            let (count, longest) = hour(Duration::from_secs(period), true, |_| Write::Urgent(1));
            assert_eq!(longest, Duration::ZERO, "{count} writes with a period of {period} s");
        }
        // Whoever fights may put something else back each time.
        for write in [|_| Write::Urgent(1), |count: u32| Write::Urgent(count.to_le_bytes()[0])] {
            let (count, longest) = hour(Duration::from_millis(3), true, write);
            assert!((3_500..3_610).contains(&count) && longest <= PACE, "{count} writes, {longest:?}");
        }
    }

    #[test]
    fn anything_else_is_repeated_ever_more_slowly() {
        for (changed, write) in [(true, Write::Other(1)), (false, Write::Other(1)), (false, Write::Urgent(1))] {
            let (count, longest) = hour(Duration::from_millis(3), changed, |_| write.clone());
            assert!(count < 20 && longest > Duration::from_mins(9), "{count} writes, {longest:?}");
        }
    }
}
