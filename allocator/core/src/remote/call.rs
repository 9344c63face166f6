//! The calls to an outside address system, and its answers: what every back end does, each in its own way.

use std::net::IpAddr;
use std::sync::Arc;

use crate::names::{Key, PoolRef, Uid};

/// A call. Its answer comes back with its number, exactly once: a call that gets no answer ends at its deadline as
/// [`Failure::Lost`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// Repeated in the answer.
    pub id: u64,
    /// The pool, which names the system.
    pub pool: Arc<PoolRef>,
    /// What to do there.
    pub what: What,
}

/// For whom an entry of the outside system is. The uid is written into the entry, in the request that makes it; that is the
/// key by which an entry is found again. The name is written beside it, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    /// The claim's uid.
    pub claim: Uid,
    /// The claim.
    pub name: Key,
    /// The address of the claim's `IPAddress`, if it has or had one; never one that only the claim names. An entry of this address
    /// that bears the claim's name is the claim's, whatever uid is written into it: after a move the claim has another one, and
    /// another provider wrote none.
    pub address: Option<IpAddr>,
}

impl Mark {
    /// The host name of the claim's entry, as other providers write it: `<claim>.<namespace>`.
    #[must_use]
    pub fn host(&self) -> String {
        format!("{}.{}", self.name.name, self.name.namespace)
    }
}

/// What to do in the outside system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// Find all entries that may be the mark's: those with its uid, and the one at its address.
    /// Answer: [`Answer::Entries`]; none is an answer, not a failure.
    Find(Mark),
    /// Make an entry with this mark, of any free address, or of this one. Answer: [`Answer::Entry`]. The call is made only
    /// where a search has found no entry.
    Allocate(Mark, Option<IpAddr>),
    /// Delete an entry. It is read again before: people may have used it for something else since it was found. Answer:
    /// [`Answer::Done`], also if there is none; [`Failure::Unfit`] if its number is another entry's by now, or its mark another.
    Release(Entry),
    /// Make an entry of this mark's address again, which people deleted. Answer: [`Answer::Done`].
    PutBack(Mark),
    /// Write this mark into an entry, which is read again before, too. Answer: [`Answer::Done`].
    Rewrite(Entry, Mark),
    /// All entries of the pool's subnets, other people's too. Answer: [`Answer::Listing`].
    List,
}

/// An entry of the outside system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The system's own number of it, never used again for another entry.
    pub id: Box<str>,
    /// The address.
    pub address: IpAddr,
    /// The length of its subnet's prefix.
    pub prefix: u8,
    /// The gateway of its subnet.
    pub gateway: Option<IpAddr>,
    /// The claim's uid that is written into it; None: it bears no mark of this program.
    pub claim: Option<Uid>,
    /// The mark in it is of the asking pool, and not of another pool or cluster that uses the same subnet.
    pub ours: bool,
    /// Its host name.
    pub host: Box<str>,
}

impl Entry {
    /// Whether the entry is the mark's, so that it may be used and deleted for it. An entry that another pool or cluster has
    /// marked is not, whatever name it bears.
    #[must_use]
    pub fn is_for(&self, mark: &Mark) -> bool {
        self.claim.as_ref() == Some(&mark.claim) || (self.is_named(mark) && (self.claim.is_none() || self.ours))
    }

    /// Whether the entry has the mark's address and bears its name.
    #[must_use]
    pub fn is_named(&self, mark: &Mark) -> bool {
        Some(self.address) == mark.address && self.host.eq_ignore_ascii_case(&mark.host())
    }

    /// The claim that the host name names.
    #[must_use]
    pub fn names(&self) -> Option<Key> {
        // A namespace has no dot.
        let (name, namespace) = self.host.rsplit_once('.')?;
        (!name.is_empty() && !namespace.is_empty()).then(|| Key::new(namespace, name))
    }
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// What a search found.
    Entries(Vec<Entry>),
    /// The new entry.
    Entry(Entry),
    /// Done.
    Done,
    /// All entries of the pool's subnets, and how many addresses these have; None: unknown, or too many to count.
    Listing(Vec<Entry>, Option<u64>),
}

/// Why a call did not succeed. The texts are what the system said: short, on one line, without a secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// The pool has no free address.
    #[error("{0}")]
    Full(String),
    /// This claim cannot have what it asks for; others can.
    #[error("{0}")]
    Unfit(String),
    /// The system refuses, and has done nothing.
    #[error("{0}")]
    Refused(String),
    /// No useful answer: the call may have had its effect, or may have it later.
    #[error("{0}")]
    Lost(String),
    /// The call was not made: this allocator does not lead any more.
    #[error("it was not asked: this allocator does not lead any more")]
    NotSent,
}

/// What a pool of an outside system says about its use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoteSpec {
    /// How many calls may be under way at a time, 1 or more.
    pub calls: usize,
    /// What to do with an entry of ours that belongs to no claim here.
    pub orphans: Orphans,
    /// What to do about an entry that people deleted or changed.
    pub drift: Drift,
    /// What people should know and correct, though the pool works; empty: nothing.
    pub warning: String,
}

/// What to do with an entry of ours that belongs to no claim here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Orphans {
    /// It is reported.
    #[default]
    Report,
    /// It is reported, and deleted when its claim is surely gone.
    Release,
}

/// What to do about an entry of a bound claim that people deleted, or whose mark they removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Drift {
    /// It is put back, and reported.
    #[default]
    PutBack,
    /// It is reported.
    Report,
}

/// A report about an outside system, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Note {
    /// An entry of ours belongs to no claim and no `IPAddress` here.
    Orphan(Entry),
    /// That entry was deleted.
    OrphanReleased(Entry),
    /// The entry of a claim's address is gone, or somebody else's by now; what is done about it.
    Missing(Key, IpAddr, Drift),
    /// The entry of a claim's address was put back.
    PutBack(Key, IpAddr),
    /// The entry of a claim's address could not be put back, and why.
    NotPutBack(Key, IpAddr, String),
    /// A claim or an address is let go although the system could not be asked: its pool was removed by force.
    NotAsked(Key, Option<IpAddr>),
}
