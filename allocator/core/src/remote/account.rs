//! What is known and wanted about the entries of one claim in the outside system.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use crate::names::PoolRef;
use crate::protocol::flaws::{Flaw, planted};

use super::call::{Entry, Mark, What};

/// Who waits for an answer, by slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Waiter {
    /// A claim.
    Claim(u32),
    /// An `IPAddress`.
    Address(u32),
}

/// What is wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Goal {
    /// Nothing: the account is dropped once no call is under way.
    Rest,
    /// The claim has an entry.
    Obtain,
    /// The claim has no entry any more. Final: the claim is gone, or goes.
    Clear,
    /// The entry that people deleted is there again.
    PutBack,
    /// An entry bears the claim's mark.
    Rewrite(Entry),
}

/// The entries of one claim.
///
/// Invariant: at most one call about a claim is under way.
#[derive(Debug)]
pub(super) struct Account {
    pub(super) pool: Arc<PoolRef>,
    pub(super) mark: Mark,
    pub(super) goal: Goal,
    /// The address that the claim asks for.
    pub(super) wanted: Option<IpAddr>,
    /// The address that the claim says it had: of several entries of its own it gets that one.
    pub(super) prefers: Option<IpAddr>,
    /// The claim's entries, as far as a search or an answer has shown since nothing has been in doubt. None: a search must
    /// show them before anything else is done.
    pub(super) known: Option<Vec<Entry>>,
    pub(super) busy: Option<u64>,
    /// No call before this time.
    pub(super) not_before: Duration,
    /// Failures in a row: a claim whose calls fail must not stop those of others.
    pub(super) failures: u32,
    /// When a request that makes an entry got no answer, and nothing has shown what became of it: it may have its effect yet.
    pub(super) lost: Option<Duration>,
    /// Since when the goal stands.
    pub(super) since: Duration,
    /// Why this claim cannot have what it asks for.
    pub(super) unfit: Option<String>,
    /// Somebody else here has the address that was chosen.
    pub(super) held: bool,
    pub(super) waiters: BTreeSet<Waiter>,
    /// It has a place in the pool's queue.
    pub(super) queued: bool,
}

impl Account {
    pub(super) const fn new(pool: Arc<PoolRef>, mark: Mark, goal: Goal, now: Duration) -> Self {
        Self {
            pool,
            mark,
            goal,
            wanted: None,
            prefers: None,
            known: None,
            busy: None,
            not_before: Duration::ZERO,
            failures: 0,
            lost: None,
            since: now,
            unfit: None,
            held: false,
            waiters: BTreeSet::new(),
            queued: false,
        }
    }

    /// The entry that the claim gets: the address that it had, or else the lowest, so that all allocators choose the same.
    pub(super) fn chosen(&self) -> Option<&Entry> {
        let fits = |entry: &&Entry| self.wanted.is_none_or(|wanted| wanted == entry.address);
        let before = self.mark.address.or(self.prefers);
        let had = |entry: &&Entry| Some(entry.address) == before;
        let known = self.known.as_ref()?;
        known.iter().filter(fits).find(had).or_else(|| known.iter().filter(fits).min_by_key(|entry| entry.address))
    }

    /// Whether the claim surely has no entry.
    pub(super) fn is_clear(&self) -> bool {
        self.busy.is_none() && self.known.as_ref().is_some_and(Vec::is_empty)
    }

    /// The next call; None: the goal is reached, or a call is under way.
    pub(super) fn next(&self) -> Option<What> {
        if self.busy.is_some() || (self.unfit.is_some() && self.known.is_some()) {
            return None;
        }
        match (&self.goal, &self.known) {
            (Goal::Rest, _) => None,
            (Goal::Obtain, None) if planted(Flaw::NoSearch) => Some(What::Allocate(self.mark.clone(), self.wanted)),
            (Goal::Obtain | Goal::Clear, None) => Some(What::Find(self.mark.clone())),
            (Goal::Obtain, Some(_)) if self.chosen().is_some() => None,
            (Goal::Obtain, Some(_)) => Some(What::Allocate(self.mark.clone(), self.wanted)),
            (Goal::Clear, Some(known)) => known.first().cloned().map(What::Release),
            (Goal::PutBack, _) => Some(What::PutBack(self.mark.clone())),
            (Goal::Rewrite(entry), _) => Some(What::Rewrite(entry.clone(), self.mark.clone())),
        }
    }
}
