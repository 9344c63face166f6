//! Bound claims: the object of each must exist, must belong to the claim, and must belong to nobody else.

use crate::block::Block;
use crate::provider::{Provider, Told};

use super::super::action::{Report, Write};
use super::super::flaws::{Flaw, planted};
use super::super::objects::{Attempt, Claim, Condition, Hold, Reason};
use super::super::registry::{Entry, Fate};
use super::claims::{Missing, Said};
use super::{Machine, RECORDS, RETRY, Who};
use crate::work::Retry;

impl<P: Provider> Machine<P> {
    /// Checks a bound claim: its object must exist and must be ours.
    pub(super) fn settle(&mut self, slot: u32, claim: &Claim) {
        if self.leave(slot) {
            self.pass_on(&claim.pool);
        }
        let Some(address) = self.bound_to(claim) else { return self.find_missing(slot, claim) };
        self.provider.release(slot);
        self.dispose_of_others(claim, address);
        let Some(entry) = self.addresses.get(address) else { return };
        if entry.is_void(claim) {
            // The object came late, under the name of a removed object, or must not be used: the claim is not bound to
            // this object.
            let what = entry.block.map_or_else(String::new, |b| b.to_string());
            let message = match &entry.address.conflict {
                Some(heard) => format!("{what} is somebody else's on the wire ({heard}); it gets another address"),
                None => format!("its IPAddress, with {what}, was made again out of turn; it gets another one"),
            };
            return self.unbind(slot, claim, &message);
        }
        let lost = self.claims.get(slot).and_then(|s| s.so_far().lost);
        if lost.is_some_and(|n| claim.voided <= n) && entry.attempt(&claim.uid).is_some_and(|m| !m.adopted) {
            return self.void(slot, claim);
        }
        let (target, block) = (entry.target(), entry.block);
        let owned = entry.address.owner.as_ref() == Some(&claim.uid) && entry.address.finalizer;
        let dressed = entry.address.deleting || (owned && self.is_linked(entry));
        let conflict = entry.address.conflict.clone();
        if !claim.finalizer {
            return self.add_finalizer(slot, block);
        }
        if !dressed {
            let adopted = entry.attempt(&claim.uid).is_none_or(|m| m.adopted);
            let mark = Attempt { claim: claim.uid.clone(), number: claim.voided, adopted };
            return self.claim_write(slot, Write::Adopt(target, mark));
        }
        if planted(Flaw::BoundWithdraws) && !self.earlier(address).is_empty() {
            return self.dispose(address, false);
        }
        if let (Some(heard), Some(block)) = (conflict, block) {
            return self.conflict(slot, claim, address, block, &heard);
        }
        self.note_duplicates(address);
        let message = block.map_or_else(String::new, |b| b.to_string());
        if !claim.condition.as_ref().is_some_and(|c| c.ready) {
            self.set_condition(slot, claim, Reason::AddressAllocated, message);
        } else if let Some(block) = block.filter(|block| self.lacks_record(slot, claim, *block)) {
            self.record(slot, block);
        } else if let Some(known) = self.claims.get_mut(slot) {
            let Retry { not_before, failures } = known.so_far().retry;
            let retried = (failures > 0).then_some(not_before + RETRY.last);
            let at = retried.max(known.so_far().said.map(Said::over)).filter(|at| *at > self.work.now());
            if let Some(at) = at {
                // Somebody may undo what was just written: the next write must not forget that it is not the first.
                return self.work.mark_at(at, Who::Claim(slot));
            }
            known.rest();
        }
    }

    /// Whether a bound claim's metadata does not say which address it has. Backups have no status.
    fn lacks_record(&self, slot: u32, claim: &Claim, block: Block) -> bool {
        let written = self.claims.get(slot).is_some_and(|known| known.so_far().given == Some(block));
        // Outside systems know by our mark what a claim had.
        !written && claim.had.as_deref() != Some(&block) && !claim.pool.kind.is_remote()
    }

    /// Writes into a bound claim's metadata which address it has. So it is with claims whose addresses another provider gave, which
    /// had the finalizer before. There may be thousands, and nobody waits for this: a few at a time.
    fn record(&mut self, slot: u32, block: Block) {
        if self.records.len() >= RECORDS {
            self.records_wait.insert(slot);
            return;
        }
        self.add_finalizer(slot, Some(block));
        self.records.extend(self.claims.get(slot).and_then(|known| known.pending));
    }

    /// The object to which a bound claim is bound.
    fn bound_to(&self, claim: &Claim) -> Option<u32> {
        let there = self.addresses.named(&claim.object_key()).iter().copied().filter(|&a| {
            let entry = self.addresses.get(a);
            // An object that a person made for somebody else has the claim's name, but is not the claim's own.
            let for_it = |e: &Entry| {
                let bound = claim.bound.is_none() || claim.is_bound_to(e.address.name());
                bound && e.address.claim == claim.key.name && e.address.rest.is_none()
            };
            entry.is_some_and(|e| !e.ended && for_it(e) && e.is_free_for(&claim.uid))
        });
        there.max()
    }

    /// Whether the object's owner references are as they should be. The garbage collector, and the deletion of pools, go by
    /// them.
    fn is_linked(&self, entry: &Entry) -> bool {
        let links = &entry.address.links;
        let pool = self.pools.get(&entry.address.pool).map(|slot| &slot.pool).filter(|pool| !pool.deleting);
        pool.is_none_or(|pool| links.pool.as_ref() == Some(&pool.uid) && !links.outdated)
    }

    /// A bound claim that must be left alone, or that belongs to another allocator, may still have somebody else's
    /// address.
    pub(super) fn note_duplicates_of(&mut self, claim: &Claim) {
        if let Some(address) = self.bound_to(claim) {
            self.note_duplicates(address);
        }
    }

    fn unbind(&mut self, slot: u32, claim: &Claim, message: &str) {
        let condition = Condition { ready: false, reason: Reason::AllocationFailed, message: message.to_owned() };
        self.report(Report::Failed { claim: claim.key.clone(), reason: condition.reason });
        if let Some(target) = self.target(slot) {
            self.claim_write(slot, Write::Unbind(target, condition));
        }
    }

    /// Reserves for a bound claim whose object is missing the address that the claim's condition names: the claim should get
    /// the same address again.
    pub(super) fn keep_what_is_missing(&mut self, slot: u32) {
        if self.waits_for_kind(&Who::Claim(slot)) {
            return;
        }
        let Some(claim) = self.claims.get(slot).map(|s| s.claim.clone()) else { return };
        let is_held = claim.hold != Hold::None || claim.deleting;
        if is_held && self.keep_what_may_be_in_use(slot, &claim) {
            return;
        }
        if claim.bound.is_none() || self.bound_to(&claim).is_some() {
            return;
        }
        let ready = claim.condition.as_ref().filter(|c| c.ready);
        let Some(block) = ready.and_then(|condition| Block::read(&condition.message)) else { return };
        let Some(known) = self.claims.get_mut(slot) else { return };
        match known.so_far().before {
            Some((before, _)) if before != block => return,
            Some(_) => {}
            None => known.progress().before = Some((block, Told::ByStatus)),
        }
        self.provider.reserve_again(slot, &claim.key, &claim.pool, block, Told::ByStatus);
    }

    /// As [`Self::keep_what_is_missing`], for a claim that is left alone or is being deleted: nobody makes its object again meanwhile, and what
    /// it names may be in use. False: its object is there, or it is bound to none.
    pub(super) fn keep_what_is_lost(&mut self, slot: u32, claim: &Claim) -> bool {
        let lost = claim.bound.is_some() && self.bound_to(claim).is_none();
        if lost {
            self.keep_what_is_missing(slot);
        }
        lost
    }

    /// Reserves for a claim without an address what it had, if it is a restored one, for a Cluster or a machine that may still have the
    /// address. False: it is none.
    pub(super) fn keep_what_may_be_in_use(&mut self, slot: u32, claim: &Claim) -> bool {
        let had = self.may_be_in_use(slot).filter(|_| claim.bound.is_none());
        had.map(|(had, told)| self.provider.reserve_again(slot, &claim.key, &claim.pool, had, told)).is_some()
    }

    /// Handles a bound claim whose object is missing. Perhaps the object was only not shown yet: a list decides. If the
    /// object is really gone, an object of its name from then must never be bound again: declare it void, unbind, and
    /// start again.
    fn find_missing(&mut self, slot: u32, claim: &Claim) {
        let undecided = self.addresses.named(&claim.object_key()).iter().copied().filter(|&a| {
            let of_name = |e: &Entry| {
                e.address.claim == claim.key.name
                    && claim.is_bound_to(e.address.name())
                    && e.address.rest.is_none()
                    && e.address.owner.is_some()
                    && !e.ended
                    && !matches!(e.fate, Fate::Goes { .. })
            };
            self.addresses.get(a).is_some_and(of_name)
        });
        let undecided: Vec<u32> = undecided.collect();
        if !undecided.is_empty() {
            // An object names another owner. Whether the owner still exists is being found out.
            return self.work.mark_all(undecided.into_iter().map(Who::Address));
        }
        self.keep_what_is_missing(slot);
        let Some(known) = self.claims.get(slot) else { return };
        match known.so_far().missing {
            Missing::Asked(_) => {}
            Missing::No => {
                let kind = claim.key.claim_kind();
                let id = self.want_list(kind);
                self.lists(kind).listeners.insert(slot);
                if let Some(known) = self.claims.get_mut(slot) {
                    known.progress().missing = Missing::Asked(id);
                }
            }
            Missing::Gone(count) if claim.voided <= count => self.void(slot, claim),
            Missing::Gone(_) => self.unbind(slot, claim, "its IPAddress was deleted; it gets one again"),
        }
    }

    /// A node has heard another host that has the claim's address. A claim that asked for the address (by annotation,
    /// in the pool, or by an `IPAddress` made beforehand) keeps the address and gets a report. Every other claim gets
    /// another address, and the old address rests.
    pub(super) fn conflict(&mut self, slot: u32, claim: &Claim, address: u32, block: Block, heard: &str) {
        let adopted = self.addresses.get(address).is_some_and(|e| e.attempt(&claim.uid).is_none_or(|m| m.adopted));
        let kept = adopted
            || claim.requested.as_deref().is_some_and(|r| !r.is_empty())
            || self.provider.keeps(&claim.pool, &claim.key, block);
        let report = Report::Conflict { claim: claim.key.clone(), block, heard: heard.into(), kept };
        if !kept {
            self.report(report);
            if let Some(known) = self.claims.get_mut(slot) {
                // It does not wait for this one, also where its pool does not have it any more.
                known.progress().tried = Some(block);
            }
            return self.void(slot, claim);
        }
        let message = format!(
            "{block}, which was asked for, is somebody else's on the wire ({heard}): take it away from there and delete the annotation mooring.dev/conflict of its IPAddress, or make a claim for another"
        );
        if claim.condition.as_ref().is_none_or(|c| c.message != message) {
            self.report(report);
        }
        self.set_condition(slot, claim, Reason::AllocationFailed, message);
    }

    /// Notes a bound object that shares an address with this object; each pair is reported once. One pair is enough for
    /// each object: all pairs of a thousand objects with one address would be half a million.
    fn note_duplicates(&mut self, address: u32) {
        let rivals = self.provider.rivals(address).into_iter();
        let bound = rivals.filter(|&r| self.addresses.get(r).is_some_and(|e| self.is_bound(e)));
        let Some(other) = bound.min() else { return };
        if !self.duplicates.insert((address.min(other), address.max(other))) {
            return;
        }
        let entries = (self.addresses.get(address), self.addresses.get(other));
        if let (Some(mine), Some(theirs)) = entries {
            let pools = [mine.address.pool.clone(), theirs.address.pool.clone()];
            let (address, other) = (mine.address.own_key(), theirs.address.own_key());
            self.report(Report::Duplicate { address, other });
            self.work.mark_all(pools.map(Who::Pool));
        }
    }

    /// Drops the pairs that include an object.
    pub(super) fn forget_duplicates(&mut self, address: u32) {
        let gone: Vec<_> = self.duplicates.iter().copied().filter(|&(a, b)| a == address || b == address).collect();
        for pair in gone {
            self.duplicates.remove(&pair);
            let pools = [pair.0, pair.1].map(|s| self.addresses.get(s).map(|e| e.address.pool.clone()));
            self.work.mark_all(pools.into_iter().flatten().map(Who::Pool));
        }
    }

    /// The pools of all pairs that concern a pool describe their duplicates again.
    pub(super) fn tell_duplicates_again(&mut self, pool: &crate::names::PoolRef) {
        let of = |slot| self.addresses.get(slot).map(|entry| entry.address.pool.clone());
        let pairs = self.duplicates.iter().map(|&(a, b)| [of(a), of(b)]);
        let concerned = pairs.filter(|pair| pair.iter().flatten().any(|one| **one == *pool));
        let pools: Vec<_> = concerned.flatten().flatten().collect();
        self.work.mark_all(pools.into_iter().map(Who::Pool));
    }

    /// Describes the duplicates of a pool.
    pub(super) fn duplicates_of(&self, pool: &crate::names::PoolRef) -> String {
        let told = self.duplicates.iter().filter_map(|&(a, b)| {
            let (one, other) = (self.addresses.get(a)?, self.addresses.get(b)?);
            let concerned = *one.address.pool == *pool || *other.address.pool == *pool;
            let (first, second) = (&one.address.key, &other.address.key);
            let pair = if first <= second { (first, second, a, b) } else { (second, first, b, a) };
            // The pools may be of different networks by now.
            let rivals = || self.provider.rivals(a).contains(&b) || self.provider.rivals(b).contains(&a);
            (concerned && self.is_bound(one) && self.is_bound(other) && rivals()).then_some(pair)
        });
        // Every allocator uses this order: otherwise two allocators would overwrite each other for ever.
        let mut told: Vec<_> = told.collect();
        told.sort_unstable();
        told.iter().take(10).map(|&(.., a, b)| self.of_two(a, b, &pool.namespace)).collect::<Vec<_>>().join("; ")
    }
}
