//! What a claim needs next.

use std::sync::Arc;
use std::time::Duration;

use crate::names::{Key, Uid};
use crate::provider::{Ask, Provider, Refusal, Until};

use super::super::action::{New, Purpose, Report, Target, Write};
use super::super::flaws::{Flaw, planted};
use super::super::objects::{Claim, Condition, Hold, Mark, Reason};
use super::super::registry::{Entry, Fate};
use super::claims::{Missing, Slot};
use super::{Machine, Who};

impl Slot {
    fn target(&self) -> Target {
        let Claim { key, uid, version, .. } = &self.claim;
        Target { key: key.clone(), uid: uid.clone(), version: version.clone() }
    }
}

impl Entry {
    pub(super) fn target(&self) -> Target {
        let address = &self.address;
        Target { key: address.key.clone(), uid: address.uid.clone(), version: address.version.clone() }
    }

    /// Which attempt of this claim the object is; None: it was not made (or adopted) for it.
    fn attempt(&self, claim: &Uid) -> Option<&Mark> {
        self.address.mark.as_ref().filter(|m| m.claim == *claim && self.address.owner.as_ref() == Some(claim))
    }
}

impl<P: Provider> Machine<P> {
    /// Looks at a claim anew.
    pub(super) fn look_at_claim(&mut self, slot: u32) {
        let now = self.moment.now;
        let Some(known) = self.claims.get_mut(slot) else { return };
        if known.pending.is_some() {
            return;
        }
        let at = known.so_far().not_before;
        if at > now {
            return self.later(at, Who::Claim(slot));
        }
        let claim = known.claim.clone();
        let paused = self.provider.describe(&claim.pool).is_some_and(|d| d.paused);
        if claim.hold == Hold::Paused || paused {
            self.leave(slot);
            self.give_up(slot);
            self.pass_on(&claim.pool);
            return self.wait(slot, Until::PoolChanges);
        }
        if claim.deleting {
            return self.release(slot, &claim);
        }
        if let Hold::NoCluster(name) = &claim.hold {
            let message = format!("Cluster {name} does not exist: create it, or take it out of the claim");
            return self.tell(slot, &claim, Reason::AllocationFailed, message);
        }
        if claim.bound.is_some() { self.settle(slot, &claim) } else { self.obtain(slot, &claim) }
    }

    pub(super) fn claim_write(&mut self, slot: u32, write: Write) {
        let id = self.write(Who::Claim(slot), write);
        if let Some(known) = self.claims.get_mut(slot) {
            known.pending = Some(id);
        }
    }

    fn target(&self, slot: u32) -> Option<Target> {
        self.claims.get(slot).map(Slot::target)
    }

    /// Sets a claim's condition, unless that is what it says.
    pub(super) fn tell(&mut self, slot: u32, claim: &Claim, reason: Reason, message: String) {
        let ready = reason == Reason::AddressAllocated;
        let condition = Condition { ready, reason, message };
        if claim.condition.as_ref() == Some(&condition) {
            return;
        }
        let Some(target) = self.target(slot) else { return };
        if !ready {
            self.report(Report::Failed { claim: claim.key.clone(), reason });
        }
        self.claim_write(slot, Write::Condition(target, condition));
    }

    /// A bound claim: its object must be there, and be ours.
    fn settle(&mut self, slot: u32, claim: &Claim) {
        self.leave(slot);
        self.provider.release(slot);
        let name = claim.bound.clone().unwrap_or_else(|| claim.key.name.clone());
        let key = Key { namespace: claim.key.namespace.clone(), name };
        let there = self.addresses.named(&key).iter().copied().filter(|&a| {
            let entry = self.addresses.get(a);
            entry.is_some_and(|e| !e.ended && e.address.owner.as_ref().is_none_or(|o| *o == claim.uid))
        });
        let Some(address) = there.max() else { return self.find_missing(slot, claim) };
        let Some(entry) = self.addresses.get(address) else { return };
        let (target, block) = (entry.target(), entry.block);
        let dressed = entry.address.deleting || (entry.address.owner.is_some() && entry.address.finalizer);
        if !claim.finalizer {
            if let Some(target) = self.target(slot) {
                self.claim_write(slot, Write::AddFinalizer(target));
            }
            return;
        }
        if !dressed {
            let adopted = entry.attempt(&claim.uid).is_none_or(|m| m.adopted);
            let mark = Mark { claim: claim.uid.clone(), number: claim.voided, adopted };
            return self.claim_write(slot, Write::Adopt(target, mark));
        }
        if planted(Flaw::BoundWithdraws) && !self.earlier(address).is_empty() {
            return self.dispose(address, false);
        }
        self.tell_of_duplicates(slot, address);
        let message = block.map_or_else(String::new, |b| b.to_string());
        if !claim.condition.as_ref().is_some_and(|c| c.ready) {
            self.tell(slot, claim, Reason::AddressAllocated, message);
        } else if let Some(known) = self.claims.get_mut(slot) {
            known.rest();
        }
    }

    /// A bound claim's object is not there. Perhaps it was only not shown yet: a list decides. If it is really gone, what
    /// stood under its name must never be bound again: void, unbind, and start anew.
    fn find_missing(&mut self, slot: u32, claim: &Claim) {
        let missing = self.claims.get(slot).map_or(Missing::No, |s| s.so_far().missing);
        let Some(target) = self.target(slot) else { return };
        match missing {
            Missing::Asked(_) => {}
            Missing::No => {
                let id = self.want_list();
                self.listeners.insert(slot);
                if let Some(known) = self.claims.get_mut(slot) {
                    known.progress().missing = Missing::Asked(id);
                }
            }
            Missing::Gone(count) if claim.voided <= count => {
                self.claim_write(slot, Write::Void(target, claim.voided.saturating_add(1)));
            }
            Missing::Gone(_) => {
                let message = "its IPAddress was deleted; it gets one again".to_owned();
                let condition = Condition { ready: false, reason: Reason::AllocationFailed, message };
                self.claim_write(slot, Write::Unbind(target, condition));
            }
        }
    }

    /// A claim without an address.
    fn obtain(&mut self, slot: u32, claim: &Claim) {
        if let Some(known) = self.claims.get_mut(slot) {
            known.progress().missing = Missing::No;
        }
        let named = self.addresses.named(&claim.key).to_vec();
        if named.is_empty() {
            return self.create(slot, claim);
        }
        for address in named {
            let Some(entry) = self.addresses.get(address) else { continue };
            if entry.ended || matches!(entry.fate, Fate::Goes { .. }) {
                // Its name comes free.
                continue;
            }
            match &entry.address.owner {
                // Another claim's of the same name, an earlier one most likely: that is its own affair.
                Some(owner) if *owner != claim.uid => self.mark(Who::Address(address)),
                _ => return self.pass(slot, claim, address),
            }
        }
    }

    /// The gate: an object that is, or would become, the claim's.
    fn pass(&mut self, slot: u32, claim: &Claim, address: u32) {
        let Some(entry) = self.addresses.get(address) else { return };
        let name = entry.address.key.name.clone();
        let attempt = entry.attempt(&claim.uid).cloned();
        if let Some(mark) = attempt.as_ref().filter(|m| !m.adopted) {
            if mark.number < claim.voided && !planted(Flaw::VoidIsBound) {
                // Declared void: nobody can bind it any more.
                return self.dispose(address, false);
            }
            if mark.number > claim.voided {
                // The claim's own news is under way.
                return;
            }
        }
        if entry.address.pool != claim.pool {
            let message =
                format!("IPAddress {name} exists, but is of {}: delete it, or claim from there", entry.address.pool);
            return self.tell(slot, claim, Reason::AllocationFailed, message);
        }
        let Some(block) = entry.block else {
            let message = format!("IPAddress {name} exists, but its address cannot be read: delete it");
            return self.tell(slot, claim, Reason::AllocationFailed, message);
        };
        let earlier = self.earlier(address);
        if let Some(&rival) = earlier.first() {
            if attempt.is_some_and(|m| !m.adopted) {
                return self.withdraw(slot, claim, address, &earlier);
            }
            // Somebody else made it, and may be using it: it is not ours to withdraw.
            let other = self.addresses.get(rival).map_or_else(String::new, |e| e.address.key.to_string());
            let message = format!("IPAddress {name} has {block}, which IPAddress {other} has too: delete one of them");
            return self.tell(slot, claim, Reason::AllocationFailed, message);
        }
        let target = entry.target();
        let number = |m: &Mark| m.number == claim.voided || planted(Flaw::VoidIsBound);
        let current = attempt.as_ref().is_some_and(number) && entry.address.finalizer;
        if !claim.finalizer {
            if let Some(target) = self.target(slot) {
                self.claim_write(slot, Write::AddFinalizer(target));
            }
            return;
        }
        if !current && !entry.address.deleting {
            let adopted = attempt.is_none_or(|m| m.adopted);
            let mark = Mark { claim: claim.uid.clone(), number: claim.voided, adopted };
            return self.claim_write(slot, Write::Adopt(target, mark));
        }
        if !current {
            let message = format!("IPAddress {name} is being deleted: wait until it is gone");
            return self.tell(slot, claim, Reason::AllocationFailed, message);
        }
        self.leave(slot);
        let condition = Condition { ready: true, reason: Reason::AddressAllocated, message: block.to_string() };
        if let Some(target) = self.target(slot) {
            self.claim_write(slot, Write::Bind(target, name, condition));
        }
    }

    /// The objects with an address in common that count as earlier.
    fn earlier(&self, address: u32) -> Vec<u32> {
        let Some(entry) = self.addresses.get(address) else { return Vec::new() };
        let mut rivals = self.provider.rivals(address);
        rivals.retain(|&r| {
            self.addresses.get(r).is_some_and(|rival| {
                let resting_of_it = rival.address.rest.as_ref().is_some_and(|rest| rest.of == entry.address.uid);
                let earlier =
                    rival.rank < entry.rank || (rival.rank == entry.rank && !planted(Flaw::ListCountsAsLater));
                let counts = !planted(Flaw::UnboundDoNotCount) || self.is_bound(rival);
                earlier && !resting_of_it && counts
            })
        });
        rivals
    }

    /// An earlier object has the address: this one goes. Of two that one list has shown, one is enough.
    fn withdraw(&mut self, slot: u32, claim: &Claim, address: u32, earlier: &[u32]) {
        let Some(entry) = self.addresses.get(address) else { return };
        if earlier.iter().all(|&rival| self.will_withdraw(rival, entry)) {
            let at = self.moment.now + Duration::from_secs(1);
            return self.later(at, Who::Claim(slot));
        }
        self.report(Report::Withdrawn { claim: claim.key.clone(), block: entry.block });
        if planted(Flaw::NoVoid) {
            return self.dispose(address, false);
        }
        if let Some(target) = self.target(slot) {
            self.claim_write(slot, Write::Void(target, claim.voided.saturating_add(1)));
        }
    }

    /// Whether an object's claim is bound to it, as far as is seen.
    fn is_bound(&self, entry: &Entry) -> bool {
        let key = Key { namespace: entry.address.key.namespace.clone(), name: entry.address.claim.clone() };
        let claim = self.claims.find(&key).and_then(|s| self.claims.get(s));
        claim.is_some_and(|s| s.claim.bound.as_ref() == Some(&entry.address.key.name))
    }

    /// Whether a rival is about to be withdrawn by the same rule: then this one may wait.
    fn will_withdraw(&self, rival: u32, than: &Entry) -> bool {
        let Some(entry) = self.addresses.get(rival) else { return true };
        let key = Key { namespace: entry.address.key.namespace.clone(), name: entry.address.claim.clone() };
        let claim = self.claims.find(&key).and_then(|s| self.claims.get(s)).map(|s| &s.claim);
        entry.rank == than.rank
            && entry.address.uid > than.address.uid
            && claim.is_some_and(|c| {
                let held = c.hold != Hold::None || self.provider.describe(&c.pool).is_none_or(|d| d.paused);
                let mark = entry.attempt(&c.uid);
                c.bound.is_none() && !c.deleting && !held && mark.is_some_and(|m| !m.adopted && m.number == c.voided)
            })
    }

    fn create(&mut self, slot: u32, claim: &Claim) {
        let now = self.moment.now;
        let known = self.claims.get(slot);
        if let Some(unseen) = known.and_then(|s| s.so_far().unseen) {
            if unseen.list.is_some() {
                return;
            }
            if unseen.until > now {
                return self.later(unseen.until, Who::Claim(slot));
            }
            let list = Some(self.want_list());
            self.listeners.insert(slot);
            if let Some(known) = self.claims.get_mut(slot) {
                known.progress().unseen = Some(super::claims::Unseen { list, ..unseen });
            }
            return;
        }
        let before = known.and_then(|s| s.so_far().before);
        let seed = self.random();
        let requested = claim.requested.as_deref();
        let ask = Ask { claim: &claim.key, slot, pool: &claim.pool, requested, before, seed };
        let offer = match self.provider.ensure(&ask) {
            Ok(offer) => offer,
            Err(Refusal { reason, message, until }) => {
                self.leave(slot);
                self.wait(slot, until);
                return self.tell(slot, claim, reason, message);
            }
        };
        self.leave(slot);
        self.pass_on(&claim.pool);
        if !claim.finalizer {
            if let Some(target) = self.target(slot) {
                self.claim_write(slot, Write::AddFinalizer(target));
            }
            return;
        }
        let mark = Mark { claim: claim.uid.clone(), number: claim.voided, adopted: false };
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

    /// Two bound objects with an address in common: told once.
    fn tell_of_duplicates(&mut self, slot: u32, address: u32) {
        if self.claims.get(slot).is_none_or(|s| s.told) {
            return;
        }
        let Some(entry) = self.addresses.get(address) else { return };
        let mine = entry.address.key.clone();
        let others = self.provider.rivals(address).into_iter().filter_map(|r| self.addresses.get(r));
        let keys: Vec<Key> = others.filter(|e| self.is_bound(e)).map(|e| e.address.key.clone()).collect();
        for other in keys {
            self.report(Report::Duplicate { address: mine.clone(), other });
            if let Some(known) = self.claims.get_mut(slot) {
                known.told = true;
            }
        }
    }
}
