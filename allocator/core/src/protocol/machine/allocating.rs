//! What a claim needs next.

use std::sync::Arc;
use std::time::Duration;

use crate::names::Key;
use crate::provider::{Ask, HeldBy, Provider, Refusal, Until};

use super::super::action::{New, Purpose, Report, Target, Write};
use super::super::objects::{Claim, Condition, Hold, Mark, Reason};
use super::super::registry::Fate;
use super::super::times::moment_text;
use super::claims::Slot;
use super::{Machine, PATIENCE, Who};

impl Slot {
    pub(super) fn target(&self) -> Target {
        let Claim { key, uid, version, .. } = &self.claim;
        Target { key: key.clone(), uid: uid.clone(), version: version.clone() }
    }
}

impl<P: Provider> Machine<P> {
    /// Looks at a claim anew.
    pub(super) fn look_at_claim(&mut self, slot: u32) {
        let now = self.moment.now;
        let Some(known) = self.claims.get(slot) else { return };
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
            if claim.bound.is_none() {
                self.give_up(slot);
            }
            self.pass_on(&claim.pool);
            self.wait(slot, Until::PoolChanges);
            if claim.bound.is_some() {
                self.note_duplicates_of(&claim);
            }
            // A paused claim is left alone. Of a paused pool its claims may learn.
            if claim.hold == Hold::None && !claim.deleting && claim.bound.is_none() {
                let message = format!("{} is paused: it goes on when its annotation is taken off", claim.pool);
                self.tell(slot, &claim, Reason::PoolNotReady, message);
            }
            return;
        }
        if claim.deleting {
            return self.release(slot, &claim);
        }
        if let Hold::NoCluster(name) = &claim.hold {
            if claim.bound.is_some() {
                return;
            }
            self.leave(slot);
            self.give_up(slot);
            self.pass_on(&claim.pool);
            let message = format!("Cluster {name} does not exist: create it, or make a claim that does not name it");
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

    pub(super) fn target(&self, slot: u32) -> Option<Target> {
        self.claims.get(slot).map(Slot::target)
    }

    /// Declares void what the claim has, by number, so that nobody can bind it any more.
    pub(super) fn void(&mut self, slot: u32, claim: &Claim) {
        if let Some(target) = self.target(slot) {
            self.claim_write(slot, Write::Void(target, claim.voided.saturating_add(1)));
        }
    }

    pub(super) fn add_finalizer(&mut self, slot: u32) {
        if let Some(target) = self.target(slot) {
            self.claim_write(slot, Write::AddFinalizer(target));
        }
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

    /// Tells what a claim waits for, if it waits for long: as a rule it need not be told.
    pub(super) fn tell_in_time(&mut self, slot: u32, claim: &Claim, message: String) {
        let now = self.moment.now;
        let Some(known) = self.claims.get_mut(slot) else { return };
        let since = *known.progress().waits_since.get_or_insert(now);
        if since + PATIENCE > now {
            return self.later(since + PATIENCE, Who::Claim(slot));
        }
        self.tell(slot, claim, Reason::AllocationFailed, message);
    }

    /// A claim without an address.
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
                // Its name comes free.
                _ if goes => held |= entry.address.deleting && !entry.address.finalizer && !entry.ended,
                // Another claim's of the same name, an earlier one most likely: that is its own affair.
                Some(owner) if *owner != claim.uid => {
                    self.mark(Who::Address(address));
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
            self.tell_in_time(slot, claim, message);
        }
    }

    fn create(&mut self, slot: u32, claim: &Claim) {
        if !self.all_is_seen(slot) {
            return;
        }
        let progress = self.claims.get(slot).map(Slot::so_far).unwrap_or_default();
        if progress.lost.is_some_and(|number| claim.voided <= number) {
            // Its object vanished under our eyes. A bind that is still under way must not meet the next one.
            return self.void(slot, claim);
        }
        let seed = self.random();
        let requested = claim.requested.as_deref();
        let ask = Ask { claim: &claim.key, slot, pool: &claim.pool, requested, before: progress.before, seed };
        let offer = match self.provider.ensure(&ask) {
            Ok(offer) => offer,
            Err(Refusal { reason, message, until, held_by }) => {
                self.leave(slot);
                self.wait(slot, until);
                let message = self.by_whom(message, held_by);
                return self.tell(slot, claim, reason, message);
            }
        };
        self.leave(slot);
        self.pass_on(&claim.pool);
        if !claim.finalizer {
            return self.add_finalizer(slot);
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

    /// Who has what is refused, and what can be done.
    fn by_whom(&self, what: String, held_by: Option<HeldBy>) -> String {
        let claim = match held_by {
            None => return what,
            Some(HeldBy::Claim(slot)) => self.claims.get(slot).map(|s| s.claim.key.clone()),
            Some(HeldBy::Object(slot)) => {
                let Some(entry) = self.addresses.get(slot) else { return what };
                if let Some(rest) = &entry.address.rest {
                    return format!("{what} rests until {}: wait, or ask for another", moment_text(rest.until));
                }
                Some(entry.claim())
            }
        };
        let claim = claim.as_ref().map_or_else(String::new, Key::to_string);
        format!("{what} is taken by claim {claim}: delete that one, or ask for another")
    }

    /// Waits a second, then looks at a claim again.
    pub(super) fn look_again(&mut self, slot: u32) {
        let at = self.moment.now + Duration::from_secs(1);
        self.later(at, Who::Claim(slot));
    }
}
