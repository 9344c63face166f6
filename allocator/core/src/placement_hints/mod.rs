//! Placement hints: a pool's texts about interface and nodes are copied onto the addresses that agents advertise.
//!
//! The machine is level-triggered, like the allocation protocol. An event changes the known state and marks the
//! addresses that it concerns. The machine then evaluates each of these again. Each has at most one write under way. An
//! edited pool concerns all its addresses: only a few writes are under way at a time, and a write is sent only if it
//! changes something.
//!
//! Texts that people write on an address stay. So each address also carries a record of the copied texts: a text that
//! differs from the record was written by people.

mod hint;
mod objects;

#[cfg(test)]
mod tests;

pub use hint::{HINTS, Hint, HintError, Texts};
pub use objects::{Action, Change, Event, Facts, HintedAddress, Hints, Write};

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use crate::names::{Key, PoolRef, Uid, Version};
use crate::work::{BackOff, Failure, Moment, Retry, Target, WorkQueue};

use self::objects::changes;

/// At most this many writes are under way: claims come first.
pub const UNDER_WAY: usize = 16;
/// After a write or a conflict, the watch shows another version within this delay; otherwise the write is tried again.
const SHOWN_WITHIN: Duration = Duration::from_secs(10);
/// Delay before a failed write is tried again.
const RETRY: BackOff = BackOff { first: Duration::from_millis(500), last: Duration::from_mins(1) };
/// After this time without a reason to advertise an address, the node that held the address has released it or is gone.
pub const LET_GO: Duration = Duration::from_secs(5);

#[derive(Debug)]
struct Slot {
    address: HintedAddress,
    pending: bool,
    /// No state newer than the write is known: wait until this time.
    stale: Option<(Version, Duration)>,
    retry: Retry,
    /// Since when the address has a holder although no node should advertise it.
    unwanted: Option<Duration>,
}

/// The placement hints of pools, and the addresses that they concern.
///
/// Invariants: an address is filed under its pool and its claim for as long as it is known; `under_way` counts the
/// addresses that have a write under way, and is at most [`UNDER_WAY`].
#[derive(Debug, Default)]
pub struct PlacementHints {
    work: WorkQueue<BTreeSet<Uid>, (), Action>,
    pools: BTreeMap<Arc<PoolRef>, Hints>,
    reported: BTreeSet<Arc<PoolRef>>,
    addresses: HashMap<Uid, Slot>,
    by_pool: BTreeMap<Arc<PoolRef>, BTreeSet<Uid>>,
    by_claim: HashMap<Key, BTreeSet<Uid>>,
    going: HashSet<Key>,
    under_way: usize,
}

impl PlacementHints {
    /// The latest time for an [`Event::Tick`]; None: no tick is needed.
    #[must_use]
    pub fn next_tick(&self) -> Option<Duration> {
        self.work.next_tick()
    }

    /// Processes an event and returns the actions to take.
    pub fn step(&mut self, now: Duration, event: Event) -> Vec<Action> {
        self.work.begin(Moment { now, wall: 0 });
        self.take_in(event);
        self.work.wake_due();
        if self.work.leading() {
            self.report_invalid();
            while self.under_way < UNDER_WAY {
                let Some(uid) = self.work.next_marked() else { break };
                self.look(&uid);
            }
        }
        debug_assert!(
            self.addresses.len() > crate::work::FEW
                || self.under_way == self.addresses.values().filter(|slot| slot.pending).count()
        );
        self.work.end()
    }

    fn take_in(&mut self, event: Event) {
        match event {
            Event::Tick => {}
            Event::Leading(until) => self.work.lead(until),
            Event::Pools(all) => {
                let there: BTreeSet<Arc<PoolRef>> = all.iter().map(|(reference, _)| reference.clone()).collect();
                self.pools.retain(|reference, _| there.contains(reference));
                self.reported.retain(|reference| there.contains(reference));
                for (reference, hints) in all {
                    self.pool(reference, hints);
                }
            }
            Event::Pool(reference, hints) => self.pool(reference, hints),
            Event::PoolGone(reference) => {
                self.pools.remove(&reference);
                self.reported.remove(&reference);
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

    fn pool(&mut self, reference: Arc<PoolRef>, hints: Hints) {
        if self.pools.get(&reference) == Some(&hints) {
            return;
        }
        self.work.mark_all(self.by_pool.get(&reference).into_iter().flatten().cloned());
        self.reported.remove(&reference);
        self.pools.insert(reference, hints);
    }

    fn address(&mut self, address: HintedAddress) {
        let uid = address.uid.clone();
        let before = self.take_out(&uid);
        self.by_pool.entry(address.pool.clone()).or_default().insert(uid.clone());
        self.by_claim.entry(claim_of(&address)).or_default().insert(uid.clone());
        let slot = match before {
            Some(before) => {
                let stale = before.stale.filter(|(version, _)| *version == address.version);
                Slot { address, stale, ..before }
            }
            None => Slot {
                address,
                pending: false,
                stale: None,
                retry: Retry { not_before: self.work.now(), failures: 0 },
                unwanted: None,
            },
        };
        self.addresses.insert(uid.clone(), slot);
        self.work.mark(uid);
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
        // The answer to the write will find no address.
        self.under_way -= usize::from(slot.is_some_and(|slot| slot.pending));
        self.work.unmark(uid);
    }

    fn claim_moved(&mut self, key: &Key) {
        self.work.mark_all(self.by_claim.get(key).into_iter().flatten().cloned());
    }

    fn answered(&mut self, uid: &Uid, result: &Result<(), Failure>) {
        let Some(slot) = self.addresses.get_mut(uid).filter(|slot| slot.pending) else { return };
        slot.pending = false;
        self.under_way -= 1;
        if let Err(Failure::Refused(_) | Failure::Unknown) = result {
            slot.retry.back_off(self.work.now(), RETRY);
            slot.stale = None;
        } else {
            slot.retry.failures = 0;
        }
        self.work.mark(uid.clone());
    }

    /// Reports invalid texts, once.
    fn report_invalid(&mut self) {
        for (reference, hints) in &self.pools {
            if self.reported.contains(reference) {
                continue;
            }
            for (hint, error) in hints.wrong() {
                self.work.act(Action::Wrong(reference.clone(), hint, error));
            }
            self.reported.insert(reference.clone());
        }
    }

    fn look(&mut self, uid: &Uid) {
        let now = self.work.now();
        let Some(slot) = self.addresses.get_mut(uid) else { return };
        let address = &slot.address;
        if slot.pending || address.facts.deleting {
            return;
        }
        let facts = &address.facts;
        let wanted = facts.by_label || (facts.for_service && !self.going.contains(&claim_of(address)));
        slot.unwanted = (facts.held && !wanted).then(|| slot.unwanted.unwrap_or(now));
        let let_go = slot.unwanted.map(|since| since + LET_GO);
        let waits =
            [slot.stale.as_ref().map(|(_, until)| *until), Some(slot.retry.not_before), let_go.filter(|_| !wanted)];
        let at = waits.into_iter().flatten().filter(|at| *at > now).max();
        if let Some(at) = at {
            self.work.mark_at(at, uid.clone());
            return;
        }
        let (texts, given) = match self.pools.get(&address.pool) {
            Some(hints) if wanted => changes(hints, facts),
            _ => (Vec::new(), None),
        };
        let let_go = let_go.is_some();
        if texts.is_empty() && given.is_none() && !let_go {
            return;
        }
        let HintedAddress { key, uid, version, .. } = address;
        let target = Target { key: key.clone(), uid: uid.clone(), version: version.clone() };
        slot.pending = true;
        slot.stale = Some((version.clone(), now + SHOWN_WITHIN));
        self.under_way += 1;
        self.work.act(Action::Write(Write { target, texts, given, let_go }));
    }
}

fn claim_of(address: &HintedAddress) -> Key {
    Key { namespace: address.key.namespace.clone(), name: address.claim.clone() }
}
