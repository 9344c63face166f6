//! Decides the next step for a claim.

use std::sync::Arc;
use std::time::Duration;

use crate::block::Block;
use crate::provider::{Ask, HeldBy, Provider, Refusal, Until};

use super::super::action::{New, Purpose, Report, Write};
use super::super::flaws::{Flaw, planted};
use super::super::objects::{Attempt, Claim, Condition, Hold, Reason};
use super::super::registry::Fate;
use super::super::times::moment_text;
use super::claims::{Said, Slot};
use super::{Machine, PATIENCE, Who};
use crate::work::Target;

impl Slot {
    pub(super) fn target(&self) -> Target {
        let Claim { key, uid, version, .. } = &*self.claim;
        Target { key: key.clone(), uid: uid.clone(), version: version.clone() }
    }
}

impl<P: Provider> Machine<P> {
    /// Evaluates a claim again.
    pub(super) fn look_at_claim(&mut self, slot: u32) {
        let now = self.work.now();
        let Some(known) = self.claims.get(slot) else { return };
        if known.pending.is_some() {
            return;
        }
        let at = known.so_far().retry.not_before;
        if at > now {
            return self.work.mark_at(at, Who::Claim(slot));
        }
        let claim = known.claim.clone();
        let paused = self.provider.describe(&claim.pool).is_some_and(|d| d.paused);
        if claim.hold == Hold::Paused || paused {
            self.leave(slot);
            if claim.bound.is_none() && !self.keep_what_may_be_in_use(slot, &claim) {
                self.give_up(slot);
            }
            self.pass_on(&claim.pool);
            self.wait(slot, Until::PoolChanges);
            self.keep_what_is_lost(slot, &claim);
            if claim.bound.is_some() {
                self.note_duplicates_of(&claim);
            }
            // The allocator leaves a paused claim alone. Claims of a paused pool may still be informed.
            if claim.hold == Hold::None && !claim.deleting && claim.bound.is_none() {
                let why = self.pool(&claim.pool).and_then(|pool| pool.paused.as_ref()).map(ToString::to_string);
                let message = format!("{} {}", claim.pool, why.as_deref().unwrap_or("is paused"));
                self.set_condition(slot, &claim, Reason::PoolNotReady, message);
            }
            return;
        }
        if claim.deleting {
            return self.release(slot, &claim);
        }
        if let Hold::NoCluster(name) = &claim.hold {
            self.leave(slot);
            if claim.bound.is_some() {
                if self.keep_what_is_lost(slot, &claim) {
                    self.wait(slot, Until::PoolChanges);
                }
                return;
            }
            if self.keep_what_may_be_in_use(slot, &claim) {
                self.wait(slot, Until::PoolChanges);
            } else {
                self.give_up(slot);
            }
            self.pass_on(&claim.pool);
            let message = format!("Cluster {name} does not exist: create it, or make a claim that does not name it");
            return self.set_condition(slot, &claim, Reason::AllocationFailed, message);
        }
        if claim.bound.is_some() { self.settle(slot, &claim) } else { self.obtain(slot, &claim) }
    }

    pub(super) fn claim_write(&mut self, slot: u32, write: Write) {
        let id = self.write(Who::Claim(slot), write);
        if let Some(known) = self.claims.get_mut(slot) {
            known.pending = Some(id);
        }
    }

    pub(super) fn target(&self, slot: u32) -> Option<Target> {
        self.claims.get(slot).map(Slot::target)
    }

    /// Declares the claim's objects void, by attempt number, so that nobody can bind them any more.
    pub(super) fn void(&mut self, slot: u32, claim: &Claim) {
        let number = |address: &u32| Some(self.addresses.get(*address)?.attempt(&claim.uid)?.number);
        let highest = self.addresses.named(&claim.object_key()).iter().filter_map(number).max();
        let count = highest.unwrap_or_default().max(claim.voided).saturating_add(1);
        if let Some(target) = self.target(slot) {
            self.claim_write(slot, Write::Void(target, count));
        }
    }

    /// Puts our finalizer on a claim, and which address it is given.
    pub(super) fn add_finalizer(&mut self, slot: u32, given: Option<Block>) {
        let Some(known) = self.claims.get_mut(slot) else { return };
        if known.claim.bound.is_none() && given.is_some() && given != known.claim.had.as_deref().copied() {
            known.progress().tried = given;
        }
        let target = known.target();
        self.claim_write(slot, Write::AddFinalizer(target, given));
    }

    /// Sets a claim's condition, unless the claim shows this condition already.
    pub(super) fn set_condition(&mut self, slot: u32, claim: &Claim, reason: Reason, message: String) {
        let ready = reason == Reason::AddressAllocated;
        let condition = Condition { ready, reason, message };
        if claim.condition.as_ref() == Some(&condition) {
            return;
        }
        let now = self.work.now();
        let Some(known) = self.claims.get_mut(slot) else { return };
        let said = known.so_far().said;
        if let Some(at) = said.and_then(|said| said.waits(&condition, now))
            && !planted(Flaw::ConditionsAtOnce)
        {
            return self.work.mark_at(at, Who::Claim(slot));
        }
        known.progress().said = Some(Said::now(&condition, now, said));
        let target = known.target();
        if !ready {
            self.report(Report::Failed { claim: claim.key.clone(), reason });
        }
        self.claim_write(slot, Write::Condition(target, condition));
    }

    /// Reports what a claim waits for, but only after a long wait: most waits are too short to report.
    pub(super) fn set_condition_if_it_lasts(&mut self, slot: u32, claim: &Claim, message: String) {
        let now = self.work.now();
        let Some(known) = self.claims.get_mut(slot) else { return };
        let since = *known.progress().waits_since.get_or_insert(now);
        if since + PATIENCE > now {
            return self.work.mark_at(since + PATIENCE, Who::Claim(slot));
        }
        self.set_condition(slot, claim, Reason::AllocationFailed, message);
    }

    /// Handles a claim without an address.
    fn obtain(&mut self, slot: u32, claim: &Claim) {
        let named = self.addresses.named(&claim.key).to_vec();
        if named.is_empty() {
            if let Some(known) = self.claims.get_mut(slot) {
                known.progress().waits_since = None;
            }
            return self.create(slot, claim);
        }
        let mut held = false;
        for address in named {
            let Some(entry) = self.addresses.get(address) else { continue };
            let goes = entry.ended || matches!(entry.fate, Fate::Goes { .. });
            match &entry.address.owner {
                // The name becomes free.
                _ if goes => held |= entry.address.deleting && !entry.address.finalizer && !entry.ended,
                // The object belongs to another claim of the same name, most likely an earlier one, which handles the
                // object itself.
                Some(_) if !entry.is_free_for(&claim.uid) => {
                    self.work.mark(Who::Address(address));
                    held = true;
                }
                _ => return self.pass(slot, claim, address),
            }
        }
        if held {
            let message = format!(
                "IPAddress {} of an earlier claim still exists: wait until it is gone, or see what finalizers hold it",
                claim.key
            );
            self.set_condition_if_it_lasts(slot, claim, message);
        }
    }

    fn create(&mut self, slot: u32, claim: &Claim) {
        if !self.all_is_seen(slot) {
            return;
        }
        let progress = self.claims.get(slot).map(Slot::so_far).unwrap_or_default();
        if progress.lost.is_some_and(|number| claim.voided <= number) {
            // The watch showed the object, and then the object vanished. A bind that is still under way must not meet
            // the next object.
            return self.void(slot, claim);
        }
        let outside = claim.pool.kind.is_remote() && !planted(Flaw::AskedBeforeRecorded);
        if outside && !claim.finalizer && self.provider.describe(&claim.pool).is_some_and(|pool| !pool.deleting) {
            // The intent is recorded before an outside system is asked.
            return self.add_finalizer(slot, None);
        }
        if let Some(known) = self.claims.get_mut(slot).filter(|_| progress.fresh) {
            known.progress().fresh = false;
        }
        let seed = self.random();
        let requested = claim.requested.as_deref();
        let ask = Ask {
            claim: &claim.key,
            uid: &claim.uid,
            fresh: progress.fresh,
            slot,
            pool: &claim.pool,
            requested,
            before: progress.before(claim),
            seed,
        };
        let offer = match self.provider.ensure(&ask) {
            Ok(offer) => offer,
            Err(Refusal { reason, message, until, held_by }) => {
                self.leave(slot);
                self.wait(slot, until);
                if matches!(until, Until::Answered(_)) {
                    return self.tell_wait(slot, claim, Refusal { reason, message, until, held_by });
                }
                let message = self.by_whom(&claim.key.namespace, message, held_by);
                return self.set_condition(slot, claim, reason, message);
            }
        };
        self.leave(slot);
        self.pass_on(&claim.pool);
        let given = if claim.pool.kind.of_prefixes() {
            Block::prefix(offer.address, offer.prefix)
        } else {
            Some(Block::host(offer.address))
        };
        self.tell_if_another(slot, claim, given);
        // Outside systems know by our mark what a claim had.
        let says = outside || claim.had.as_deref().copied() == given || progress.given == given;
        if !claim.finalizer || !says {
            return self.add_finalizer(slot, given);
        }
        let mark = Attempt { claim: claim.uid.clone(), number: claim.voided, adopted: false };
        let new = New {
            key: claim.key.clone(),
            pool: Arc::clone(&claim.pool),
            address: offer.address,
            prefix: offer.prefix,
            gateway: offer.gateway,
            purpose: Purpose::Claim(mark),
        };
        self.claim_write(slot, Write::Create(Box::new(new)));
    }

    /// Reports that a claim gets another address than its metadata says that it had: what points to that one must be changed.
    pub(super) fn tell_if_another(&mut self, slot: u32, claim: &Claim, given: Option<Block>) {
        let (Some(had), Some(given)) = (claim.had.as_deref().copied(), given) else { return };
        let asks = claim.requested.as_deref().is_some_and(|text| !text.is_empty());
        // Outside systems know by our mark what a claim had.
        if had == given || asks || claim.pool.kind.is_remote() || self.provider.keeps(&claim.pool, &claim.key, given) {
            return;
        }
        let Some(known) = self.claims.get_mut(slot) else { return };
        if [known.so_far().tried, known.so_far().missed].contains(&Some(had)) {
            return;
        }
        known.progress().missed = Some(had);
        self.report(Report::AnotherAddress { claim: claim.key.clone(), had, given });
    }

    /// Adds to a refusal who has the address, and what can be done. The condition is for the people of a namespace.
    fn by_whom(&self, namespace: &str, what: String, held_by: Option<HeldBy>) -> String {
        let claim = match held_by {
            None => return what,
            Some(HeldBy::Claim(slot)) => {
                let vanished = || self.vanished.values().find(|one| one.slot == slot).map(|one| one.claim.key.clone());
                self.claims.get(slot).map(|s| s.claim.key.clone()).or_else(vanished)
            }
            Some(HeldBy::Object(slot)) => {
                let Some(entry) = self.addresses.get(slot) else { return what };
                if let Some(rest) = &entry.address.rest {
                    return format!("{what} rests until {}: wait, or ask for another", moment_text(rest.until));
                }
                Some(entry.claim())
            }
        };
        let claim = claim.as_ref().map_or_else(|| "claim".to_owned(), |claim| claim.told_in(namespace, "claim"));
        format!("{what} is taken by {claim}: delete that one, or ask for another")
    }

    /// Evaluates a claim again after one second.
    pub(super) fn look_again(&mut self, slot: u32) {
        let at = self.work.now() + Duration::from_secs(1);
        self.work.mark_at(at, Who::Claim(slot));
    }
}
