//! How objects go: released, withdrawn, orphaned, or put to rest.

use std::time::Duration;

use crate::names::Key;
use crate::provider::{Provider, Until};

use super::super::action::{Action, New, Purpose, Write};
use super::super::flaws::{Flaw, planted};
use super::super::objects::{Address, Claim, Hold, Rest};
use super::super::registry::Fate;
use super::claims::Unseen;
use super::{BEHIND, FOREIGN_AGAIN, Machine, READS, Who};
use crate::work::Failure;

/// An object without owner that nobody needs is removed so long after it was first shown: a restore takes minutes.
const SPARE_AFTER: Duration = Duration::from_mins(10);

impl Claim {
    /// Whether the claim is bound to the object of this name, or must be left alone.
    fn keeps(&self, object: &str) -> bool {
        self.is_bound_to(object) || self.hold != Hold::None
    }

    /// Whether the claim lets go of the object of this name to which it is bound: its machine is gone.
    fn leaves(&self, object: &str) -> bool {
        self.deleting && !self.others && self.hold == Hold::None && self.bound.as_deref() == Some(object)
    }
}

impl<P: Provider> Machine<P> {
    /// Handles a claim that is being deleted. The address is free only when the claim's other finalizers are gone,
    /// because the machine is gone only then. Both facts are final, so acting on them late does no harm.
    pub(super) fn release(&mut self, slot: u32, claim: &Claim) {
        self.leave(slot);
        // One that is restored may be deleted at once, because its owner has another uid now, and what uses the address is still there. It
        // may make another claim of the name when this one is gone.
        let keeps = self.keep_what_may_be_in_use(slot, claim);
        if claim.bound.is_none() && !keeps {
            self.give_up(slot);
        }
        self.pass_on(&claim.pool);
        if self.keep_what_is_lost(slot, claim) || keeps {
            self.wait(slot, Until::PoolChanges);
        }
        if (claim.others && !planted(Flaw::OthersIgnored)) || !claim.finalizer {
            return;
        }
        if let Some(known) = self.claims.get_mut(slot)
            && known.so_far().lost.is_some()
        {
            // Its object was taken away by force. One that was created since may not be shown yet: a list decides.
            let now = self.work.now();
            let progress = known.progress();
            progress.lost = None;
            let until = progress.unseen.map_or(now, |unseen| unseen.until);
            progress.unseen = Some(Unseen { until, list: None });
        }
        if !self.all_is_seen(slot) {
            // An object that may exist but was not shown must go too.
            return;
        }
        let key = claim.object_key();
        let own: Vec<u32> = self
            .addresses
            .named(&key)
            .iter()
            .copied()
            .filter(|&a| self.addresses.get(a).is_some_and(|e| !e.ended && e.goes_with(claim)))
            .collect();
        if own.is_empty() {
            if !self.claim_may_go(slot, claim) {
                return;
            }
            let Claim { key, uid, version, .. } = claim.clone();
            return self.claim_write(slot, Write::RemoveFinalizer(crate::work::Target { key, uid, version }));
        }
        let mut held = false;
        for address in own {
            let entry = self.addresses.get(address);
            held |= entry.is_some_and(|e| e.address.deleting && !e.address.finalizer);
            let conflict = entry.is_some_and(|e| e.address.conflict.is_some());
            if entry.is_some_and(|e| e.names_another(claim) && !matches!(e.fate, Fate::Goes { .. }))
                && !planted(Flaw::NextIsReleased)
            {
                // The API server is asked whose it is.
                if entry.is_some_and(|e| e.fate == Fate::Stays) {
                    self.doubt(address);
                }
                continue;
            }
            self.dispose(address, claim.bound.is_some() || conflict);
        }
        self.wait(slot, Until::PoolChanges);
        if held {
            let message =
                format!("IPAddress {key} is being deleted, but somebody else's finalizer holds it: see whose");
            self.set_condition_if_it_lasts(slot, claim, message);
        }
    }

    /// Marks an object for removal. `rest`: the address may have been used.
    pub(super) fn dispose(&mut self, address: u32, rest: bool) {
        if let Some(entry) = self.addresses.get_mut(address)
            && !matches!(entry.fate, Fate::Goes { .. })
        {
            entry.fate = Fate::Goes { rest };
        }
        self.work.mark(Who::Address(address));
    }

    /// Evaluates an object again.
    pub(super) fn look_at_address(&mut self, slot: u32) {
        let now = self.work.now();
        let Some(entry) = self.addresses.get_mut(slot) else { return };
        if entry.pending.is_some() || entry.ended {
            return;
        }
        if entry.retry.not_before > now {
            let at = entry.retry.not_before;
            return self.work.mark_at(at, Who::Address(slot));
        }
        match entry.fate {
            Fate::Goes { rest } => self.end(slot, rest),
            Fate::Stays | Fate::Doubtful(_) => self.judge(slot),
        }
    }

    /// Whether the object's claim still exists.
    fn judge(&mut self, slot: u32) {
        let now = self.work.now();
        let Some(entry) = self.addresses.get(slot) else { return };
        if let Some(rest) = &entry.address.rest {
            let pool = self.provider.describe(&entry.address.pool);
            let ends = pool.as_ref().is_some_and(|p| p.deleting);
            // The clock of the node that wrote the end may have been wrong: no rest is longer than the pool says.
            let longest = pool.map(|p| entry.since.saturating_add(p.quarantine.max(p.conflict_quarantine)));
            let wall = self.work.wall();
            let is_over = rest.until <= wall || longest.is_some_and(|end| end <= now);
            if ends || is_over {
                return self.dispose(slot, false);
            }
            // Clocks get corrected: check at least once an hour.
            let left = Duration::from_secs((rest.until - wall).min(3600));
            let at = now.saturating_add(left);
            return self.work.mark_at(longest.map_or(at, |end| end.min(at)), Who::Address(slot));
        }
        let key = entry.claim();
        if key.name != entry.address.key.name {
            // A person made this object, and its purpose is unknown.
            return;
        }
        let claim = self.claims.find(&key).and_then(|s| self.claims.get(s));
        let known = if let Some(owner) = &entry.address.owner {
            claim.is_some_and(|s| s.claim.uid == *owner || entry.heir.as_ref() == Some(&s.claim.uid))
        } else {
            // An object without owner waits for a claim of its name: people made it, or a backup brought it back before the
            // claim. It goes if it is being deleted and nobody else would let it go, or if its claim was seen to go: then the
            // garbage collector may have removed the owner reference.
            let doubtful = matches!(entry.fate, Fate::Doubtful(_));
            let spare = claim.is_none() && self.is_spare(slot);
            let goes = (doubtful || spare || entry.is_held_by_us_alone()) && !planted(Flaw::OwnerlessIsHeld);
            let paused = self.provider.describe(&entry.address.pool).is_some_and(|pool| pool.paused);
            let held = paused || claim.is_some_and(|s| s.claim.hold != Hold::None);
            let leaves = claim.is_some_and(|s| s.claim.leaves(&entry.address.key.name));
            if !goes || held || (self.is_bound(entry) && !leaves) {
                if claim.is_none() && entry.address.finalizer {
                    // Whether it is spare is asked now and then: there are few of these.
                    let first = entry.since.saturating_add(SPARE_AFTER);
                    self.work.mark_at(if first > now { first } else { now + SPARE_AFTER }, Who::Address(slot));
                }
                return;
            }
            false
        };
        match entry.fate {
            // The claim never owned the object, and the object cannot stay: the claim gets another one with the address.
            _ if known && entry.address.deleting && entry.heir.is_some() => self.dispose(slot, false),
            _ if known => {
                if let Some(entry) = self.addresses.get_mut(slot) {
                    entry.fate = Fate::Stays;
                }
            }
            Fate::Stays if planted(Flaw::OrphansUnasked) => self.dispose(slot, true),
            Fate::Stays => self.doubt(slot),
            Fate::Doubtful(at) if at > now => self.work.mark_at(at, Who::Address(slot)),
            Fate::Doubtful(_) if self.reads.len() >= READS => {
                self.reads_wait.insert(slot);
            }
            Fate::Doubtful(_) => {
                let owner = entry.in_doubt().clone();
                let id = self.work.id();
                self.reads.insert(id, (slot, owner.clone()));
                if let Some(entry) = self.addresses.get_mut(slot) {
                    entry.pending = Some(id);
                }
                self.work.act(Action::ReadClaim { id, key, owner });
            }
            Fate::Goes { .. } => {}
        }
    }

    /// Whether an object without owner is of no use to anybody: a claim is bound to another object with the address, in the same network.
    /// So it is where a backup brought the object back, and whoever had the address has it by a claim of another name. The claim of its
    /// own name may be restored for some minutes yet. What people make bears no finalizer of ours.
    fn is_spare(&self, slot: u32) -> bool {
        let Some(entry) = self.addresses.get(slot) else { return false };
        let Address { owner, finalizer, deleting, rest, conflict, .. } = &*entry.address;
        let idle = owner.is_none() && *finalizer && !*deleting && rest.is_none() && conflict.is_none();
        let old = self.work.now() >= entry.since.saturating_add(SPARE_AFTER);
        let bound = |rival: &u32| self.addresses.get(*rival).is_some_and(|rival| self.is_bound(rival));
        idle && old && self.provider.rivals(slot).iter().any(bound)
    }

    /// Handles the read of a claim that may own an object.
    pub(super) fn claim_read(&mut self, id: u64, result: Result<Option<Claim>, Failure>) {
        let Some((slot, owner)) = self.reads.remove(&id) else { return };
        let now = self.work.now();
        let failures = self.addresses.get(slot).map_or(0, |entry| entry.retry.failures);
        let wait = self.jitter(failures.max(4));
        let Some(entry) = self.addresses.get_mut(slot) else { return };
        entry.pending = None;
        entry.retry.failures = if result.is_ok() { 0 } else { failures + 1 };
        match result {
            // Meanwhile it was decided that the object goes, for the claim that it has now: that is final, and the claim that
            // was read may have gone since.
            _ if matches!(entry.fate, Fate::Goes { .. }) => self.work.mark(Who::Address(slot)),
            _ if *entry.in_doubt() != owner => {
                // Meanwhile another claim has the object: the answer no longer applies.
                entry.fate = Fate::Stays;
                self.work.mark(Who::Address(slot));
            }
            Ok(Some(claim)) if entry.address.owner.is_none() && claim.leaves(entry.address.name()) => {
                self.dispose(slot, true);
            }
            Ok(Some(claim)) if entry.address.owner.is_none() && claim.keeps(entry.address.name()) => {
                entry.fate = Fate::Stays;
                // The watch may be ahead of the read: what it showed since counts, and the claim may be gone by now.
                match self.claims.find(&claim.key) {
                    Some(known) => self.work.mark(Who::Claim(known)),
                    None => self.wait_for_watch(slot),
                }
            }
            // An object that we alone hold goes too, once the claim has declared it void.
            Ok(Some(claim)) if claim.uid == owner && (!entry.is_held_by_us_alone() || entry.may_be_bound(&claim)) => {
                entry.fate = Fate::Stays;
                match self.claims.find(&claim.key) {
                    Some(known) if entry.is_held_by_us_alone() => self.work.mark(Who::Claim(known)),
                    Some(_) => {}
                    None => self.wait_for_watch(slot),
                }
            }
            Ok(Some(claim)) if entry.inherits(&claim) => {
                entry.heir = Some(claim.uid.clone());
                if entry.address.deleting {
                    // The object cannot stay. The claim gets another one with the same address.
                    self.dispose(slot, false);
                } else {
                    entry.fate = Fate::Stays;
                }
                match self.claims.find(&claim.key) {
                    Some(known) => self.work.mark(Who::Claim(known)),
                    None => self.wait_for_watch(slot),
                }
            }
            // The address of a spare one is in use by another claim, and stays so.
            Ok(_) => {
                let rest = !self.is_spare(slot);
                self.dispose(slot, rest);
            }
            Err(failure) => {
                // The claim exists, and belongs to another provider.
                let at = now + if failure == Failure::Exists { FOREIGN_AGAIN } else { wait };
                entry.retry.not_before = at;
                self.work.mark_at(at, Who::Address(slot));
            }
        }
    }

    /// The claim of an object exists, and the watch has not shown it: the watch is behind the read, or already ahead of it. So
    /// the claim is not taken in from the read, and is read again later.
    fn wait_for_watch(&mut self, slot: u32) {
        let at = self.work.now() + BEHIND;
        if let Some(entry) = self.addresses.get_mut(slot)
            && !matches!(entry.fate, Fate::Goes { .. })
        {
            entry.fate = Fate::Doubtful(at);
            self.work.mark_at(at, Who::Address(slot));
        }
    }

    /// Removes an object: first the address rests, then the finalizer goes, then the object.
    fn end(&mut self, slot: u32, rest: bool) {
        let Some(entry) = self.addresses.get(slot) else { return };
        let pool = self.provider.describe(&entry.address.pool);
        if pool.is_some_and(|p| p.paused) && rest {
            return;
        }
        let conflict = entry.address.conflict.is_some();
        let rest = (rest || conflict) && !planted(Flaw::NoRest);
        let resting = pool.filter(|p| !p.deleting);
        let quarantine = resting.map(|p| p.quarantine.max(if conflict { p.conflict_quarantine } else { p.quarantine }));
        let quarantine = quarantine.unwrap_or_default();
        if let Some(block) = entry.block.filter(|_| rest && !entry.rested && !quarantine.is_zero()) {
            let uid = &entry.address.uid;
            let name = format!("rest-{uid}");
            let key = Key { namespace: entry.address.key.namespace.clone(), name: name.into() };
            if self.addresses.named(&key).is_empty() {
                let until = self.work.wall().saturating_add(quarantine.as_secs());
                let new = New {
                    key,
                    pool: entry.address.pool.clone(),
                    address: block.address(),
                    prefix: entry.address.prefix,
                    gateway: None,
                    purpose: Purpose::Rest(Rest { of: uid.clone(), until }),
                };
                return self.address_write(slot, Write::Create(Box::new(new)));
            }
        }
        if !self.address_may_go(slot) {
            return;
        }
        let Some(entry) = self.addresses.get(slot).filter(|entry| entry.pending.is_none()) else { return };
        let target = entry.target();
        if entry.address.finalizer {
            self.address_write(slot, Write::RemoveAddressFinalizer(target));
        } else if !entry.address.deleting {
            self.address_write(slot, Write::DeleteAddress(target));
        }
    }

    fn address_write(&mut self, slot: u32, write: Write) {
        let id = self.write(Who::Address(slot), write);
        if let Some(entry) = self.addresses.get_mut(slot) {
            entry.pending = Some(id);
        }
    }
}
