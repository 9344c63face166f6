//! Events and actions of the placement hints, and what changes on an address.

use std::sync::Arc;
use std::time::Duration;

use super::hint::{HINTS, Hint, HintError, Texts};
use crate::names::{Key, PoolRef, Uid, Version};
use crate::work::{Failure, Target};

/// A new text; None: none any more.
pub type Change = (Hint, Option<Box<str>>);

/// What a pool says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hints(pub Texts);

impl Hints {
    /// What makes sense of it, for an address that is made now.
    #[must_use]
    pub fn sound(&self) -> Texts {
        HINTS.map(|hint| self.0[hint.place()].clone().filter(|text| hint.check(text).is_ok()))
    }

    /// What makes none.
    pub fn wrong(&self) -> impl Iterator<Item = (Hint, HintError)> + '_ {
        HINTS.into_iter().filter_map(|hint| Some((hint, hint.check(self.0[hint.place()].as_deref()?).err()?)))
    }
}

/// An `IPAddress`, as far as the placement hints depend on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HintedAddress {
    /// Its namespace and name.
    pub key: Key,
    /// Its uid.
    pub uid: Uid,
    /// Its resource version.
    pub version: Version,
    /// Its pool.
    pub pool: Arc<PoolRef>,
    /// The claim it is made for, in its namespace.
    pub claim: Arc<str>,
    /// The rest.
    pub facts: Facts,
}

/// What stands on an `IPAddress`.
#[expect(clippy::struct_excessive_bools, reason = "as its object has them")]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// It is labelled to be advertised, whoever it is for.
    pub by_label: bool,
    /// It is labelled to be advertised as long as a Service has it.
    pub for_service: bool,
    /// A node is recorded as its holder.
    pub held: bool,
    /// It has a deletion timestamp.
    pub deleting: bool,
    /// What it says.
    pub texts: Texts,
    /// What was copied onto it.
    pub given: Texts,
}

impl Facts {
    /// Whether the placement hints depend on it.
    #[must_use]
    pub const fn matters(&self) -> bool {
        self.by_label || self.for_service || self.held
    }
}

/// Something happened.
#[derive(Clone, Debug)]
pub enum Event {
    /// Nothing but time has passed.
    Tick,
    /// This allocator leads, surely until then; None: it does not.
    Leading(Option<Duration>),
    /// All pools: those that are not there are gone.
    Pools(Vec<(Arc<PoolRef>, Hints)>),
    /// A pool was made or changed.
    Pool(Arc<PoolRef>, Hints),
    /// A pool is gone.
    PoolGone(Arc<PoolRef>),
    /// All addresses that matter ([`Facts::matters`]).
    Addresses(Vec<HintedAddress>),
    /// An address was made or changed.
    Address(Box<HintedAddress>),
    /// An address is gone, or does not matter any more.
    AddressGone(Uid),
    /// All claims that are being deleted.
    Going(Vec<Key>),
    /// A claim is being deleted; or it is not, or is gone.
    ClaimGoing(Key, bool),
    /// A write ended.
    Answer {
        /// Of which address.
        uid: Uid,
        /// What came of it.
        result: Result<(), Failure>,
    },
}

/// Something to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Write on an address; [`Event::Answer`] tells.
    Write(Write),
    /// A pool says something that makes no sense: it is left out.
    Wrong(Arc<PoolRef>, Hint, HintError),
}

/// What changes on an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Write {
    /// Which.
    pub target: Target,
    /// What it is to say; None: nothing.
    pub texts: Vec<Change>,
    /// The new record of what was copied; None: it stays.
    pub given: Option<Texts>,
    /// The record of its holder is taken off.
    pub let_go: bool,
}

/// What is to change on an address of a pool that says this; the new record, if it is another.
pub(super) fn changes(hints: &Hints, facts: &Facts) -> (Vec<Change>, Option<Texts>) {
    let mut texts = Vec::new();
    let mut given = facts.given.clone();
    for hint in HINTS {
        let place = hint.place();
        let (wish, has, had) = (&hints.0[place], &facts.texts[place], &facts.given[place]);
        if wish.as_ref().is_some_and(|text| hint.check(text).is_err()) {
            // What was right before stays.
            continue;
        }
        if has.is_some() && has != had {
            // Somebody's own.
            given[place] = None;
            continue;
        }
        if has != wish {
            texts.push((hint, wish.clone()));
        }
        given[place].clone_from(wish);
    }
    let changed = given != facts.given;
    (texts, changed.then_some(given))
}
