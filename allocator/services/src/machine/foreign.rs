//! Services and claims of other allocators.
//!
//! Several allocators may handle Services of one cluster, each by a Lease of its own: of certain namespaces, or of certain
//! classes. An allocator sees the claims of all. It must not mistake a Service that it does not handle for one that is
//! gone: it would delete claims that carry traffic.

use std::collections::BTreeSet;

use mooring_allocator_core::names::Key;

use crate::objects::{Claim, Member, Service};

use super::Machine;
use super::slots::{ClaimSlot, Held};

impl Machine {
    /// Whether another allocator may handle the Service: its class is none of ours, and it has no claim here. The class of a
    /// Service of type `LoadBalancer` cannot change, so the Service was never ours, or people have changed our settings.
    /// Either way its addresses are not ours to take back.
    pub(super) fn of_another_allocator(&self, service: &Service) -> bool {
        let slot = self.services.get(&service.key);
        let holds = slot.is_some_and(|slot| slot.held.iter().flat_map(Held::all).next().is_some());
        service.load_balancer && !self.settings.classes.accept(service.class.as_deref()) && !holds
    }

    /// Whether a Service that a claim names is another allocator's. A Service of a namespace that this allocator is not
    /// shown may exist or not: the other allocator knows.
    fn is_foreign(&self, (key, uid): &Member) -> bool {
        if !self.settings.scope.has_namespace(&key.namespace) {
            return true;
        }
        let slot = self.services.get(key).filter(|slot| slot.service.uid == *uid);
        slot.is_some_and(|slot| self.of_another_allocator(&slot.service))
    }

    /// The Services of a claim that another allocator handles, as the claim names them.
    pub(super) fn foreign_members<'a>(&'a self, claim: &'a Claim) -> impl Iterator<Item = &'a Member> {
        claim.members().iter().filter(|member| self.is_foreign(member))
    }

    /// Whether a claim names a Service that was not shown.
    pub(super) fn names_a_stranger(&self, claim: &Claim) -> bool {
        let known = |(key, uid): &Member| self.services.get(key).is_some_and(|slot| slot.service.uid == *uid);
        !claim.members().iter().all(known)
    }

    /// The Services that a claim is to name: those that have it here, and those of other allocators.
    pub(super) fn members_to_name(&self, slot: &ClaimSlot) -> Vec<Member> {
        let foreign = slot.seen.iter().flat_map(|claim| self.foreign_members(claim).cloned());
        let all: BTreeSet<Member> = slot.wanted_members().into_iter().chain(foreign).collect();
        all.into_iter().collect()
    }

    /// Why a claim is for another allocator to change, for the people of a namespace: a Service of that allocator, or its
    /// namespace or label.
    pub(super) fn of_whom(&self, claim: &Key, namespace: &str) -> Option<String> {
        let claim = self.claims.get(claim)?.seen.as_ref()?;
        if claim.retained.elsewhere {
            return Some("another allocator".to_owned());
        }
        let (key, _) = self.foreign_members(claim).next()?;
        Some(format!("{}, which another allocator handles,", key.told_in(namespace, "Service")))
    }
}
