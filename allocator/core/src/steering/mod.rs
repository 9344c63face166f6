//! Pools steer the agents: what a pool says of interface and nodes is copied onto the addresses that agents advertise.
//!
//! Level-triggered, like the allocation protocol: an event changes what is known and marks the addresses it concerns, each of
//! which is then looked at anew and has at most one write under way. A pool that is edited concerns all its addresses: only a
//! few writes are under way at a time, and a write is made only where it changes something.
//!
//! What people write on an address themselves stays. So beside what is copied stands a record of it: a text that is not the
//! recorded one is somebody's own.

mod objects;
mod words;

#[cfg(test)]
mod tests;

pub use objects::{Action, Change, Event, Facts, Said, Steered, Write};
pub use words::{Texts, WORDS, Word, WordError};

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use crate::names::{Key, PoolRef, Uid, Version};
use crate::protocol::{Failure, Target};

use self::objects::changes;

/// So many writes are under way at most: claims come first.
pub const UNDER_WAY: usize = 16;
/// After a write, or a conflict, the watch shows another version within this; else it is tried again.
const SHOWN_WITHIN: Duration = Duration::from_secs(10);
/// A failed write is tried again after this, doubled each time, up to [`RETRY_LAST`].
const RETRY_FIRST: Duration = Duration::from_millis(500);
const RETRY_LAST: Duration = Duration::from_mins(1);
/// Nobody is to advertise it for so long: then the node that had it has let go, or is gone.
pub const LET_GO: Duration = Duration::from_secs(5);

#[derive(Debug)]
struct Slot {
    address: Steered,
    pending: bool,
    /// Nothing is known of it that is newer than what was written: not before then.
    stale: Option<(Version, Duration)>,
    not_before: Duration,
    failures: u32,
    /// It is held, and to be advertised no more: since when.
    unwanted: Option<Duration>,
}

/// See the module's text.
#[derive(Debug, Default)]
pub struct Steering {
    now: Duration,
    leads: Option<Duration>,
    pools: BTreeMap<Arc<PoolRef>, Said>,
    told: BTreeSet<Arc<PoolRef>>,
    addresses: HashMap<Uid, Slot>,
    by_pool: BTreeMap<Arc<PoolRef>, BTreeSet<Uid>>,
    by_claim: HashMap<Key, BTreeSet<Uid>>,
    going: HashSet<Key>,
    dirty: BTreeSet<Uid>,
    timers: BTreeSet<(Duration, Uid)>,
    under_way: usize,
    actions: Vec<Action>,
}

impl Steering {
    /// When an [`Event::Tick`] is wanted at the latest; None: none is.
    #[must_use]
    pub fn next_tick(&self) -> Option<Duration> {
        self.timers.first().map(|(at, _)| *at)
    }

    /// Something happened: what is to be done?
    pub fn step(&mut self, now: Duration, event: Event) -> Vec<Action> {
        self.now = now;
        self.take_in(event);
        while self.timers.first().is_some_and(|(at, _)| *at <= now) {
            if let Some((_, uid)) = self.timers.pop_first() {
                self.dirty.insert(uid);
            }
        }
        if self.leads.is_some_and(|until| now < until) {
            self.tell_wrong();
            while self.under_way < UNDER_WAY {
                let Some(uid) = self.dirty.pop_first() else { break };
                self.look(&uid);
            }
        }
        std::mem::take(&mut self.actions)
    }

    fn take_in(&mut self, event: Event) {
        match event {
            Event::Tick => {}
            Event::Leading(until) => self.leads = until,
            Event::Pools(all) => {
                let there: BTreeSet<Arc<PoolRef>> = all.iter().map(|(reference, _)| reference.clone()).collect();
                self.pools.retain(|reference, _| there.contains(reference));
                self.told.retain(|reference| there.contains(reference));
                for (reference, said) in all {
                    self.pool(reference, said);
                }
            }
            Event::Pool(reference, said) => self.pool(reference, said),
            Event::PoolGone(reference) => {
                self.pools.remove(&reference);
                self.told.remove(&reference);
            }
            Event::Addresses(all) => {
                let there: HashSet<&Uid> = all.iter().map(|one| &one.uid).collect();
                let gone: Vec<Uid> = self.addresses.keys().filter(|uid| !there.contains(uid)).cloned().collect();
                for uid in &gone {
                    self.forget(uid);
                }
                for one in all {
                    self.address(one);
                }
            }
            Event::Address(one) => self.address(*one),
            Event::AddressGone(uid) => self.forget(&uid),
            Event::Going(all) => {
                let now: HashSet<Key> = all.into_iter().collect();
                let changed: Vec<Key> = self.going.symmetric_difference(&now).cloned().collect();
                self.going = now;
                for key in &changed {
                    self.claim_moved(key);
                }
            }
            Event::ClaimGoing(key, going) => {
                let changed = if going { self.going.insert(key.clone()) } else { self.going.remove(&key) };
                if changed {
                    self.claim_moved(&key);
                }
            }
            Event::Answer { uid, result } => self.answered(&uid, &result),
        }
    }

    fn pool(&mut self, reference: Arc<PoolRef>, said: Said) {
        if self.pools.get(&reference) == Some(&said) {
            return;
        }
        self.dirty.extend(self.by_pool.get(&reference).into_iter().flatten().cloned());
        self.told.remove(&reference);
        self.pools.insert(reference, said);
    }

    fn address(&mut self, address: Steered) {
        let uid = address.uid.clone();
        let before = self.take_out(&uid);
        self.by_pool.entry(address.pool.clone()).or_default().insert(uid.clone());
        self.by_claim.entry(claim_of(&address)).or_default().insert(uid.clone());
        let slot = match before {
            Some(before) => {
                let stale = before.stale.filter(|(version, _)| *version == address.version);
                Slot { address, stale, ..before }
            }
            None => Slot { address, pending: false, stale: None, not_before: self.now, failures: 0, unwanted: None },
        };
        self.addresses.insert(uid.clone(), slot);
        self.dirty.insert(uid);
    }

    fn take_out(&mut self, uid: &Uid) -> Option<Slot> {
        let slot = self.addresses.remove(uid)?;
        if let Some(all) = self.by_pool.get_mut(&slot.address.pool) {
            all.remove(uid);
            if all.is_empty() {
                self.by_pool.remove(&slot.address.pool);
            }
        }
        let claim = claim_of(&slot.address);
        if let Some(all) = self.by_claim.get_mut(&claim) {
            all.remove(uid);
            if all.is_empty() {
                self.by_claim.remove(&claim);
            }
        }
        Some(slot)
    }

    fn forget(&mut self, uid: &Uid) {
        let slot = self.take_out(uid);
        // Its answer will find nobody.
        self.under_way -= usize::from(slot.is_some_and(|slot| slot.pending));
        self.dirty.remove(uid);
    }

    fn claim_moved(&mut self, key: &Key) {
        self.dirty.extend(self.by_claim.get(key).into_iter().flatten().cloned());
    }

    fn answered(&mut self, uid: &Uid, result: &Result<(), Failure>) {
        let Some(slot) = self.addresses.get_mut(uid).filter(|slot| slot.pending) else { return };
        slot.pending = false;
        self.under_way -= 1;
        if let Err(Failure::Refused(_) | Failure::Unknown) = result {
            let wait = RETRY_FIRST.saturating_mul(1 << slot.failures.min(10)).min(RETRY_LAST);
            slot.failures += 1;
            slot.not_before = self.now + wait;
            slot.stale = None;
        } else {
            slot.failures = 0;
        }
        self.dirty.insert(uid.clone());
    }

    /// Tells what makes no sense, once.
    fn tell_wrong(&mut self) {
        for (reference, said) in &self.pools {
            if self.told.contains(reference) {
                continue;
            }
            self.actions.extend(said.wrong().map(|(word, error)| Action::Wrong(reference.clone(), word, error)));
            self.told.insert(reference.clone());
        }
    }

    fn look(&mut self, uid: &Uid) {
        let now = self.now;
        let Some(slot) = self.addresses.get_mut(uid) else { return };
        let address = &slot.address;
        if slot.pending || address.facts.deleting {
            return;
        }
        let facts = &address.facts;
        let wanted = facts.by_label || (facts.for_service && !self.going.contains(&claim_of(address)));
        slot.unwanted = (facts.held && !wanted).then(|| slot.unwanted.unwrap_or(now));
        let let_go = slot.unwanted.map(|since| since + LET_GO);
        let waits = [slot.stale.as_ref().map(|(_, until)| *until), Some(slot.not_before), let_go.filter(|_| !wanted)];
        let at = waits.into_iter().flatten().filter(|at| *at > now).max();
        if let Some(at) = at {
            self.timers.insert((at, uid.clone()));
            return;
        }
        let (texts, given) = match self.pools.get(&address.pool) {
            Some(said) if wanted => changes(said, facts),
            _ => (Vec::new(), None),
        };
        let let_go = let_go.is_some();
        if texts.is_empty() && given.is_none() && !let_go {
            return;
        }
        let Steered { key, uid, version, .. } = address;
        let target = Target { key: key.clone(), uid: uid.clone(), version: version.clone() };
        slot.pending = true;
        slot.stale = Some((version.clone(), now + SHOWN_WITHIN));
        self.under_way += 1;
        self.actions.push(Action::Write(Write { target, texts, given, let_go }));
    }
}

fn claim_of(address: &Steered) -> Key {
    Key { namespace: address.key.namespace.clone(), name: address.claim.clone() }
}
