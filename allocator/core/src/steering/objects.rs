//! What steering is told, what it answers with, and what is to change on an address.

use std::sync::Arc;
use std::time::Duration;

use super::words::{Texts, WORDS, Word, WordError};
use crate::names::{Key, PoolRef, Uid, Version};
use crate::protocol::{Failure, Target};

/// A new text; None: none any more.
pub type Change = (Word, Option<Box<str>>);

/// What a pool says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Said(pub Texts);

impl Said {
    /// What makes sense of it, for an address that is made now.
    #[must_use]
    pub fn sound(&self) -> Texts {
        WORDS.map(|word| self.0[word.place()].clone().filter(|text| word.check(text).is_ok()))
    }

    /// What makes none.
    pub fn wrong(&self) -> impl Iterator<Item = (Word, WordError)> + '_ {
        WORDS.into_iter().filter_map(|word| Some((word, word.check(self.0[word.place()].as_deref()?).err()?)))
    }
}

/// An `IPAddress`, as far as steering goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Steered {
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
    /// Whether it is anything to steering.
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
    Pools(Vec<(Arc<PoolRef>, Said)>),
    /// A pool was made or changed.
    Pool(Arc<PoolRef>, Said),
    /// A pool is gone.
    PoolGone(Arc<PoolRef>),
    /// All addresses that matter ([`Facts::matters`]).
    Addresses(Vec<Steered>),
    /// An address was made or changed.
    Address(Box<Steered>),
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
    Wrong(Arc<PoolRef>, Word, WordError),
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
pub(super) fn changes(said: &Said, facts: &Facts) -> (Vec<Change>, Option<Texts>) {
    let mut texts = Vec::new();
    let mut given = facts.given.clone();
    for word in WORDS {
        let place = word.place();
        let (wish, has, had) = (&said.0[place], &facts.texts[place], &facts.given[place]);
        if wish.as_ref().is_some_and(|text| word.check(text).is_err()) {
            // What was right before stays.
            continue;
        }
        if has.is_some() && has != had {
            // Somebody's own.
            given[place] = None;
            continue;
        }
        if has != wish {
            texts.push((word, wish.clone()));
        }
        given[place].clone_from(wish);
    }
    let changed = given != facts.given;
    (texts, changed.then_some(given))
}
