//! Releasing the claims of a machine that is gone.

use std::collections::BTreeSet;
use std::time::Duration;

use mooring_allocator_core::names::{Key, Uid};
use mooring_allocator_core::work::ObjectWrite as _;

use crate::objects::Claim;

use super::decide::target;
use super::flaws::{Flaw, planted};
use super::slots::{Known, Object};
use super::{Action, Failure, Machine, Write};

/// A machine that exists and is not shown is read again after this time. A change of a claim of it has it read at once.
const RECHECK: Duration = Duration::from_mins(5);
/// A read that failed is repeated after this time.
const AGAIN: Duration = Duration::from_secs(2);

impl Machine {
    /// Releases the claims whose machine the API server does not have any more: the watch of machines may be behind the watch of
    /// claims, so it is asked. The garbage collector would delete these claims too; and a claim without a machine keeps its
    /// address from others.
    pub(super) fn release(&mut self, key: &Key, written: &mut BTreeSet<Object>) {
        let now = self.work.now();
        let Some(slot) = self.slots.get(key) else { return };
        let machine = slot.machine.as_deref();
        let left = |claim: &&Claim| !machine.is_some_and(|machine| claim.is_of(machine));
        let left: Vec<Claim> = slot.claims.values().filter(left).cloned().collect();
        // One of another namespace or label is another allocator's. What belongs to a paused Cluster is left alone.
        let ours: Vec<Claim> = left.into_iter().filter(|one| !one.retained.elsewhere && !self.is_paused(one)).collect();
        if ours.is_empty() {
            return;
        }
        let Some(known) = slot.known.clone() else {
            if planted(Flaw::ReleasesUnasked) {
                return ours.iter().for_each(|claim| self.end(key, claim, written));
            }
            return self.ask(key);
        };
        let is_there = |claim: &&Claim| match (claim.owner(), &known.uid) {
            (_, None) => false,
            (Some(owner), Some(uid)) => owner.uid == *uid,
            (None, Some(_)) => true,
        };
        let (there, gone): (Vec<&Claim>, Vec<&Claim>) = ours.iter().partition(is_there);
        let Some(slot) = self.slots.get_mut(key) else { return };
        if gone.is_empty() {
            slot.ownerless.owner_is_there();
        } else {
            let orphaned = slot.ownerless.end(known.at);
            let over = known.at >= orphaned || planted(Flaw::ReleasesTheRestored);
            let may_be_restored = |claim: &&Claim| {
                !over
                    && (claim.bound.is_some() || claim.has_or_had().is_some())
                    && !slot.ownerless.outlived_its_owner(&claim.uid)
            };
            let (wait, go): (Vec<&Claim>, Vec<&Claim>) = gone.into_iter().partition(may_be_restored);
            for claim in go {
                self.end(key, claim, written);
            }
            if !wait.is_empty() {
                if orphaned > now { self.work.mark_at(orphaned, key.clone()) } else { self.ask(key) }
            }
        }
        if !there.is_empty() {
            // The watch will show the machine.
            let again = known.at + RECHECK;
            if again > now { self.work.mark_at(again, key.clone()) } else { self.ask(key) }
        }
    }

    fn is_paused(&self, claim: &Claim) -> bool {
        let Some(name) = claim.retained.cluster.clone() else { return false };
        let cluster = Key { namespace: claim.key.namespace.clone(), name };
        let paused = claim.retained.paused || self.clusters.get(&cluster).is_some_and(|cluster| cluster.paused);
        paused && !planted(Flaw::ActsWhilePaused)
    }

    /// The next write to the end of a claim.
    fn end(&mut self, key: &Key, claim: &Claim, written: &mut BTreeSet<Object>) {
        let write = if !claim.deleting {
            Write::DeleteClaim(target(claim))
        } else if claim.in_use() {
            Write::ReleaseClaim(target(claim))
        } else {
            return;
        };
        written.insert(write.object());
        self.write(key, write);
    }

    /// Reads whether the machine exists, unless that is being read.
    fn ask(&mut self, key: &Key) {
        let id = self.work.id();
        let Some(slot) = self.slots.get_mut(key).filter(|slot| slot.reading.is_none()) else { return };
        slot.reading = Some(id);
        self.reads.insert(id, key.clone());
        self.work.act(Action::Read { id, machine: key.clone() });
    }

    /// The result of a read.
    pub(super) fn read(&mut self, id: u64, result: Result<Option<Uid>, Failure>) {
        let now = self.work.now();
        let Some(key) = self.reads.remove(&id) else { return };
        let slot = self.slots.get_mut(&key).filter(|slot| slot.reading == Some(id));
        // Otherwise something has happened since that makes it worthless.
        let Some(slot) = slot else { return };
        slot.reading = None;
        match result {
            Ok(uid) => {
                slot.known = Some(Known { uid, at: now });
                self.work.mark(key);
            }
            Err(_) => self.work.mark_at(now + AGAIN, key),
        }
    }
}
