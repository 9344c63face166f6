//! The writes about all objects of one thing that is evaluated, as a Cluster and its claims are: one under way for each object.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use crate::names::Version;

use super::answer::{Done, Failure};
use super::back_off::Retry;
use super::repeats::Repeatable;
use super::target::Target;
use super::writes::{RETRY, SHOWN_WITHIN, UNSHOWN, Writes};

/// A write about one of several objects.
pub trait ObjectWrite: Repeatable {
    /// Which of them.
    type Object: Clone + fmt::Debug + Ord;

    /// The object that the write is about.
    fn object(&self) -> Self::Object;

    /// The state of the object that was seen; None: the write creates the object.
    fn target(&self) -> Option<&Target>;

    /// The write in words; None: nobody need know.
    fn said(&self) -> Option<String>;
}

/// Whether a write may be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// It may be sent.
    Now,
    /// Not before this time.
    At(Duration),
    /// Not before the answer to another write, or a newer version of the object, has come.
    AfterAnother,
}

/// The writes about the objects of one thing.
#[derive(Clone, Debug)]
pub struct ObjectWrites<W: ObjectWrite> {
    writes: BTreeMap<W::Object, Writes<W>>,
    /// Objects that exist and are not shown.
    hidden: BTreeSet<W::Object>,
    /// Why the last request about an object was refused.
    refused: BTreeMap<W::Object, Box<str>>,
}

impl<W: ObjectWrite> Default for ObjectWrites<W> {
    fn default() -> Self {
        Self { writes: BTreeMap::new(), hidden: BTreeSet::new(), refused: BTreeMap::new() }
    }
}

impl<W: ObjectWrite> ObjectWrites<W> {
    /// The writes about each object.
    pub fn iter(&self) -> impl Iterator<Item = (&W::Object, &Writes<W>)> {
        self.writes.iter()
    }

    /// Whether the object exists and is not shown.
    pub fn is_hidden(&self, object: &W::Object) -> bool {
        self.hidden.contains(object)
    }

    /// Ends the waits for versions that should have been shown by now.
    pub fn freshen(&mut self, now: Duration) {
        self.writes.values_mut().for_each(|writes| writes.freshen(now));
    }

    /// An object that exists and is not shown may be gone by now: it is created again once its time has come.
    pub fn unhide(&mut self, now: Duration) {
        let writes = &self.writes;
        let waits = |object: &W::Object| {
            writes.get(object).is_some_and(|writes| writes.pending.is_some() || writes.retry.waits(now).is_some())
        };
        self.hidden.retain(waits);
    }

    /// Whether a write may be sent.
    pub fn start(&self, now: Duration, write: &W) -> Start {
        let Some(writes) = self.writes.get(&write.object()) else { return Start::Now };
        let version = write.target().map(|target| &target.version);
        if writes.pending.is_some() || (version.is_some() && writes.stale.as_ref() == version) {
            return Start::AfterAnother;
        }
        writes.waits(now, write).map_or(Start::Now, Start::At)
    }

    /// The write of this number was sent.
    pub fn started(&mut self, object: W::Object, id: u64) {
        self.writes.entry(object).or_default().pending = Some(id);
    }

    /// Whether the write of this number is under way.
    pub fn is_pending(&self, object: &W::Object, id: u64) -> bool {
        self.writes.get(object).is_some_and(|writes| writes.pending == Some(id))
    }

    /// A write ended. `shown`: the version that the watch shows; None: the object is not shown. Returns the time at which an object
    /// that was to be created, and is still not shown, is created again.
    pub fn ended(
        &mut self,
        (now, write): (Duration, &W),
        shown: Option<Version>,
        result: &Result<Done<Version>, Failure>,
    ) -> Option<Duration> {
        let object = write.object();
        match result {
            Err(Failure::Refused(why)) => self.refused(object.clone(), why),
            _ => self.accepted(&object),
        }
        let writes = self.writes.entry(object.clone()).or_default();
        if let Some(target) = write.target() {
            let known = shown.unwrap_or_else(|| target.version.clone());
            writes.ended((now, write), &target.version, &known, result);
            return None;
        }
        writes.pending = None;
        match result {
            Ok(_) | Err(Failure::Exists) if shown.is_some() => writes.retry = Retry::default(),
            Ok(_) => writes.retry = Retry { not_before: now + SHOWN_WITHIN, failures: 0 },
            Err(Failure::Exists) => writes.retry.back_off(now, UNSHOWN),
            Err(_) => writes.retry.back_off(now, RETRY),
        }
        let again = writes.retry.not_before;
        if matches!(result, Err(Failure::Exists)) && shown.is_none() {
            self.hidden.insert(object);
        } else {
            self.hidden.remove(&object);
        }
        shown.is_none().then_some(again)
    }

    /// The watch shows the object; `new`: for the first time.
    pub fn shown(&mut self, object: &W::Object, new: bool) {
        self.hidden.remove(object);
        if let Some(writes) = self.writes.get_mut(object).filter(|_| new) {
            writes.retry.not_before = Duration::ZERO;
        }
    }

    /// The object is not watched, but read: no newer version of it will be shown.
    pub fn is_read(&mut self, object: &W::Object) {
        if let Some(writes) = self.writes.get_mut(object) {
            writes.stale = None;
        }
    }

    /// A request about the object was refused.
    pub fn refused(&mut self, object: W::Object, why: &str) {
        self.refused.insert(object, why.into());
    }

    /// A request about the object was not refused.
    pub fn accepted(&mut self, object: &W::Object) {
        self.refused.remove(object);
    }

    /// Why one of these objects cannot be written: the API server refuses.
    #[must_use]
    pub fn refusal(&self, wanted: &BTreeSet<W::Object>) -> Option<String> {
        let why = wanted.iter().find_map(|object| self.refused.get(object))?;
        Some(format!("the API server refuses: {why}"))
    }

    /// What to say of a write that is needed although it was made more than twice.
    pub fn without_effect(&self, write: &W) -> Option<String> {
        if self.fresh(write)?.repeats.repeated(write) < 2 {
            return None;
        }
        Some(format!(
            "{} was written again and again, and does not stay: a webhook or another controller puts back what was there, or \
             the kind's CRD lacks the field",
            write.said()?
        ))
    }

    /// Whether an urgent write waits because it was undone faster than it may be made.
    pub fn is_outpaced(&self, now: Duration, write: &W) -> bool {
        self.fresh(write).is_some_and(|writes| writes.repeats.is_outpaced(now, write))
    }

    /// The writes about an object whose newest state was shown.
    fn fresh(&self, write: &W) -> Option<&Writes<W>> {
        let shown = write.target().map(|target| &target.version);
        self.writes.get(&write.object()).filter(|writes| writes.pending.is_none() && writes.stale.as_ref() != shown)
    }

    /// The objects that need no write, which are all but these, are as wanted.
    pub fn settled(&mut self, now: Duration, wanted: &BTreeSet<W::Object>) {
        for (_, writes) in self.writes.iter_mut().filter(|(object, _)| !wanted.contains(object)) {
            if writes.pending.is_none() {
                writes.repeats.settled_for_now(now);
            }
        }
        self.writes.retain(|object, writes| wanted.contains(object) || !writes.is_idle());
        self.refused.retain(|object, _| wanted.contains(object));
    }

    /// The thing is gone: what was said of its objects is forgotten. Writes under way still count.
    pub fn forget_what_was_said(&mut self) {
        self.hidden.clear();
        self.refused.clear();
    }

    /// Forgets that writes had no lasting effect.
    pub fn forget_repeats(&mut self) {
        self.writes.values_mut().for_each(|writes| writes.repeats.settled());
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use crate::names::{Key, Uid};

    use super::*;

    #[derive(Clone, Debug, PartialEq)]
    enum Write {
        Create(u8),
        Change(u8, Target),
    }

    impl Repeatable for Write {
        fn unversioned(&self) -> Self {
            match self {
                Self::Create(one) => Self::Create(*one),
                Self::Change(one, at) => Self::Change(*one, Target { version: Version::from(""), ..at.clone() }),
            }
        }
    }

    impl ObjectWrite for Write {
        type Object = u8;

        fn object(&self) -> u8 {
            let (Self::Create(one) | Self::Change(one, _)) = self;
            *one
        }

        fn target(&self) -> Option<&Target> {
            match self {
                Self::Create(_) => None,
                Self::Change(_, at) => Some(at),
            }
        }

        fn said(&self) -> Option<String> {
            Some("the field".to_owned())
        }
    }

    fn at(version: &str) -> Target {
        let key = Key { namespace: Arc::from("ns"), name: Arc::from("one") };
        Target { key, uid: Uid::from("u"), version: Version::from(version) }
    }

    #[test]
    fn one_write_for_each_object_at_a_time() {
        let (mut writes, now) = (ObjectWrites::default(), Duration::from_secs(9));
        assert_eq!(writes.start(now, &Write::Create(1)), Start::Now);
        writes.started(1, 7);
        assert_eq!(writes.start(now, &Write::Create(1)), Start::AfterAnother);
        assert_eq!(writes.start(now, &Write::Create(2)), Start::Now);
        assert!(writes.is_pending(&1, 7) && !writes.is_pending(&1, 8) && !writes.is_pending(&2, 7));
    }

    #[test]
    fn an_object_that_exists_and_is_not_shown_is_created_again_later() {
        let (mut writes, now) = (ObjectWrites::default(), Duration::from_secs(9));
        writes.started(1, 7);
        let again = writes.ended((now, &Write::Create(1)), None, &Err(Failure::Exists)).expect("it is not shown");
        assert!(again > now && writes.is_hidden(&1));
        assert_eq!(writes.start(now, &Write::Create(1)), Start::At(again));
        writes.unhide(now);
        assert!(writes.is_hidden(&1), "its time has not come");
        writes.unhide(again);
        assert!(!writes.is_hidden(&1));
        // The watch shows it: a write to it need not wait.
        writes.shown(&1, true);
        assert_eq!(writes.start(now, &Write::Change(1, at("1"))), Start::Now);
    }

    #[test]
    fn what_is_refused_or_does_not_stay_is_said_until_it_is_as_wanted() {
        let (mut writes, mut now) = (ObjectWrites::default(), Duration::from_secs(9));
        let wanted: BTreeSet<u8> = [1].into();
        let change = |version: u32| Write::Change(1, at(&version.to_string()));
        assert_eq!(writes.ended((now, &change(1)), None, &Err(Failure::Refused("no".to_owned()))), None);
        assert_eq!(writes.refusal(&wanted).as_deref(), Some("the API server refuses: no"));
        for version in 1..4 {
            assert_eq!(writes.without_effect(&change(version)), None, "{version}");
            writes.started(1, u64::from(version));
            let new = Version::from((version + 1).to_string().as_str());
            writes.ended((now, &change(version)), Some(new.clone()), &Ok(Done::There(new)));
            assert!(matches!(writes.start(now, &change(version + 1)), Start::At(_)), "{version}");
            now += Duration::from_secs(30);
        }
        assert_eq!(writes.refusal(&wanted), None);
        assert!(writes.without_effect(&change(4)).is_some_and(|said| said.starts_with("the field was written again")));
        writes.settled(now, &wanted);
        assert!(writes.without_effect(&change(4)).is_some());
        writes.settled(now + Duration::from_mins(5), &BTreeSet::new());
        assert_eq!((writes.without_effect(&change(4)), writes.iter().count()), (None, 0));
    }
}
