//! Invariants of the state after each step. Every simulated run checks them.

use crate::provider::Provider;
use crate::work::FEW;

use super::waiting::Waiting;
use super::{Machine, Who};

impl<P: Provider> Machine<P> {
    /// Checks the invariants that the types state.
    pub(super) fn check(&self) {
        if self.claims.count() + self.addresses.count() > FEW {
            return;
        }
        for slot in self.claims.slots() {
            let pending = self.claims.get(slot).and_then(|claim| claim.pending);
            assert!(self.is_under_way(pending, &Who::Claim(slot)), "claim {slot} waits for nothing");
        }
        for slot in self.addresses.slots() {
            let pending = self.addresses.get(slot).and_then(|entry| entry.pending);
            let read = pending.is_some_and(|id| self.reads.contains_key(&id));
            assert!(read || self.is_under_way(pending, &Who::Address(slot)), "address {slot} waits for nothing");
        }
        for (reference, pool) in &self.pools {
            assert!(self.is_under_way(pool.pending, &Who::Pool(reference.clone())), "{reference} waits for nothing");
        }
        for (id, (slot, _)) in &self.reads {
            assert_eq!(self.addresses.get(*slot).and_then(|entry| entry.pending), Some(*id), "nobody waits for a read");
        }
        for id in &self.records {
            assert!(
                matches!(self.work.on_behalf_of(*id), Some(Who::Claim(_))),
                "a record that is not under way counts"
            );
        }
        for lists in [&self.lists, &self.metal3_lists] {
            assert!(lists.under_way.is_some() || !lists.again, "a list is wanted after none");
            assert!(lists.listeners.iter().all(|&slot| self.claims.get(slot).is_some()));
        }
        for (key, one) in &self.vanished {
            assert!(self.claims.find(key).is_none() && self.claims.get(one.slot).is_none(), "{key} is there again");
        }
        let known = |slot| self.addresses.get(slot).is_some();
        assert!(self.duplicates.iter().all(|&(one, other)| one < other && known(one) && known(other)));
        self.waiting.values().for_each(Waiting::check);
    }

    fn is_under_way(&self, pending: Option<u64>, who: &Who) -> bool {
        pending.is_none_or(|id| self.work.on_behalf_of(id) == Some(who))
    }
}

impl Waiting {
    fn check(&self) {
        assert!(self.line.iter().all(|(_, slot)| self.held.contains_key(slot)), "{self:?}");
        let asks = |(block, slot): &(_, u32)| self.held.get(slot) == Some(&Some(*block));
        assert!(self.asking.iter().all(asks), "{self:?}");
    }
}
