//! Pools of outside systems: the calls to them, and what must be asked before a claim or an object is let go.

use std::collections::HashSet;

use crate::names::Uid;
use crate::provider::{Leaving, Provider, Refusal, Until};
use crate::remote::{Answer, Failure, Waiter};

use super::super::action::{Action, Report};
use super::super::flaws::{Flaw, planted};
use super::super::objects::{Claim, Hold};
use super::{Machine, PATIENCE, Who};
use crate::work;

impl<P: Provider> Machine<P> {
    /// The end of a step: the calls to outside systems.
    pub(super) fn call_outside(&mut self) {
        for (pool, note) in self.provider.notes() {
            self.report(Report::Remote { pool, note });
        }
        for doubt in self.provider.doubts() {
            let id = self.work.id();
            self.work.act(Action::ReadClaim { id, key: doubt.key.clone(), owner: doubt.claim.clone() });
            self.doubts.insert(id, doubt);
        }
        if self.listed == [true; 3] {
            for call in self.provider.calls() {
                self.work.act(Action::Remote(call));
            }
        }
    }

    pub(super) fn outside_answered(&mut self, id: u64, result: Result<Answer, Failure>) {
        let claims = &self.claims;
        let uids = || -> HashSet<Uid> {
            claims.slots().filter_map(|slot| Some(claims.get(slot)?.claim.uid.clone())).collect()
        };
        self.provider.answered(id, result, &uids);
    }

    /// Handles the read of a claim that an entry of an outside system names. Returns whether the read was for that.
    pub(super) fn doubt_read(&mut self, id: u64, result: &Result<Option<Claim>, work::Failure>) -> bool {
        let Some(doubt) = self.doubts.remove(&id) else { return false };
        let gone = match result {
            Ok(None) => true,
            Ok(Some(claim)) => claim.uid != doubt.claim,
            Err(_) => false,
        };
        if gone {
            self.provider.claim_is_gone(doubt);
        }
        true
    }

    /// Whether an outside pool has let go of a claim that is being deleted, and whose machine is gone.
    pub(super) fn claim_may_go(&mut self, slot: u32, claim: &Claim) -> bool {
        let (waiter, pool) = (Waiter::Claim(slot), &claim.pool);
        let leaving = Leaving { waiter, pool, claim: &claim.uid, name: &claim.key, address: None };
        if planted(Flaw::LetGoUnasked) {
            return true;
        }
        let Err(refusal) = self.provider.let_go(&leaving) else { return true };
        self.tell_wait(slot, claim, refusal);
        false
    }

    /// Whether an outside pool has let go of an object's address. What its claim goes on having stays.
    pub(super) fn address_may_go(&mut self, slot: u32) -> bool {
        let Some(entry) = self.addresses.get(slot) else { return false };
        if !entry.address.pool.kind.is_remote() || planted(Flaw::LetGoUnasked) {
            return true;
        }
        let name = entry.claim();
        let known = self.claims.find(&name).and_then(|claim| Some((claim, self.claims.get(claim)?.claim.clone())));
        let its = known.filter(|(_, claim)| entry.is_of(&claim.uid) || entry.heir.as_ref() == Some(&claim.uid));
        if its.as_ref().is_some_and(|(_, claim)| !claim.deleting || claim.others) {
            return true;
        }
        let (uid, pool) = (entry.in_doubt().clone(), entry.address.pool.clone());
        let leaving = Leaving {
            waiter: Waiter::Address(slot),
            pool: &pool,
            claim: &uid,
            name: &name,
            address: entry.address.address,
        };
        let Err(refusal) = self.provider.let_go(&leaving) else { return true };
        if let Some((claim, known)) = its {
            self.tell_wait(claim, &known, refusal);
        }
        false
    }

    /// A claim waits for an outside system.
    pub(super) fn tell_wait(&mut self, slot: u32, claim: &Claim, refusal: Refusal) {
        if let Until::Answered(since) = refusal.until
            && since + PATIENCE > self.work.now()
        {
            return self.work.mark_at(since + PATIENCE, Who::Claim(slot));
        }
        if claim.hold == Hold::None && self.claims.get(slot).is_some_and(|known| known.pending.is_none()) {
            self.set_condition(slot, claim, refusal.reason, refusal.message);
        }
    }
}
