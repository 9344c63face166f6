//! Where claims of two kinds may get the same address.
//!
//! The objects of a kind have one order, that of their watch. The objects of two kinds have none: an object that one watch shows
//! may be older or younger than one that the other watch has not shown yet. So here an allocator writes its object first, and
//! then looks: an object is bound only once a list of the *other* kind's objects has come that began after the object existed,
//! and that shows none with the same address. Of two such objects each is made before the list that the other waits for, or the
//! other way round: at least one allocator sees both, and each gives way to the other.

use std::sync::Arc;

use crate::names::{ClaimKind, PoolKind, PoolRef};
use crate::provider::Provider;

use super::super::flaws::{Flaw, planted};
use super::super::objects::Claim;
use super::super::registry::{Entry, Fate};
use super::Machine;
use super::pools::PoolSlot;

impl<P: Provider> Machine<P> {
    /// The kind of a claim.
    pub(super) fn kind_of(&self, slot: u32) -> ClaimKind {
        self.claims.get(slot).map_or(ClaimKind::ClusterApi, |known| known.claim.key.claim_kind())
    }

    /// Whether an object was compared with those of the other kind. If not, a list is asked for.
    pub(super) fn is_compared(&mut self, slot: u32, address: u32) -> bool {
        let Some(entry) = self.addresses.get(address) else { return false };
        if !self.meets_others(entry) || planted(Flaw::KindsNotCompared) {
            return true;
        }
        let (of, compared) = (entry.address.key.claim_kind().other(), entry.compared);
        if compared.is_some_and(|list| self.lists(of).ended >= Some(list)) {
            return true;
        }
        if compared.is_none() {
            let list = self.want_list_soon(of);
            if let Some(entry) = self.addresses.get_mut(address) {
                entry.compared = Some(list);
            }
        }
        self.lists(of).listeners.insert(slot);
        false
    }

    /// Whether the objects of a claim wait for no later list than this one.
    pub(super) fn is_list_enough(&self, slot: u32, asked: Option<u64>) -> bool {
        let Some(known) = self.claims.get(slot) else { return true };
        let own = self.addresses.named(&known.claim.key).iter().filter_map(|&a| self.addresses.get(a));
        own.filter_map(|entry| entry.compared).all(|list| Some(list) <= asked)
    }

    /// Whether a claim of the other kind may get the object's address. Claims of metal3's get theirs from its own pools alone.
    fn meets_others(&self, entry: &Entry) -> bool {
        let metal3 = |kind| kind == PoolKind::Metal3IPPool;
        let network = |pool: &PoolSlot| pool.pool.plan.as_ref().ok().map(|plan| plan.network.clone());
        let own = self.pools.get(&entry.address.pool).and_then(network);
        // Of a pool that cannot be read nobody knows the network.
        let shares = |pool: &PoolSlot| match (&own, network(pool)) {
            (Some(own), Some(other)) => own.sees(&other),
            _ => true,
        };
        // The pools are in the order of their kinds.
        let later = |(one, _): &(&Arc<PoolRef>, &PoolSlot)| one.kind > PoolKind::Metal3IPPool;
        let pools = self.pools.iter().rev().skip_while(later).take_while(|(one, _)| metal3(one.kind));
        metal3(entry.address.pool.kind) || pools.into_iter().any(|(_, pool)| shares(pool))
    }

    /// A claim is bound to this object. Another allocator may have made one for it too, of another name. Once that is void, it
    /// goes. Until then a bind to it may be under way, as far as is known here: it goes with its claim.
    pub(super) fn dispose_of_others(&mut self, claim: &Claim, bound: u32) {
        if claim.key.claim_kind() == ClaimKind::ClusterApi || planted(Flaw::SecondStays) {
            return;
        }
        for other in self.addresses.named(&claim.key).to_vec() {
            let made = |e: &Entry| e.is_void(claim) && e.fate == Fate::Stays;
            if other != bound && self.addresses.get(other).is_some_and(made) {
                self.dispose(other, false);
            }
        }
    }
}
