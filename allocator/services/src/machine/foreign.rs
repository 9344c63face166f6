//! Services and claims of other allocators.
//!
//! Several allocators may handle Services of one cluster, each by a Lease of its own: of certain namespaces, or of certain
//! classes. An allocator sees the claims of all. It must not mistake a Service that it does not handle for one that is
//! gone: it would delete claims that carry traffic.

use std::collections::BTreeSet;
use std::time::Duration;

use mooring_allocator_core::names::Key;

use crate::objects::{Claim, GivenClass, Member, Service};
use crate::record;

use super::Machine;
use super::slots::{ClaimSlot, Held, Slot};

/// How long another allocator has to let go of a Service that is no load balancer any more, or to write that it has taken a claim over.
/// Perhaps it serves the Service already. But it may not run any more, or people have changed its classes.
const LET_GO_WITHIN: Duration = Duration::from_mins(1);

impl Machine {
    /// Whether the Service is of a class that another allocator may handle.
    fn of_another_class(&self, service: &Service) -> bool {
        service.load_balancer && !self.settings.classes.accept(service.class.as_deref())
    }

    /// Whether what is written on a Service may be another allocator's: its class is none of ours, and it neither has a claim here,
    /// nor was ours a moment ago.
    pub(super) fn of_another_allocator(&self, service: &Service) -> bool {
        let slot = self.services.get(&service.key);
        let holds = slot.is_some_and(|slot| slot.leaves || slot.held.iter().flat_map(Held::all).next().is_some());
        self.of_another_class(service) && !holds
    }

    /// Whether a Service that a claim names is another allocator's. A Service of a namespace that this allocator is not
    /// shown may exist or not: the other allocator knows.
    ///
    /// The class of a Service changes while it is of another type for a moment, and a watch may show only what came of it. So a
    /// claim says for which class each Service was given it. A class of ours: the Service had it, and has left us. Another class: another
    /// allocator gave the claim, or has taken it over, or people have changed our settings. That claim is not ours to take back.
    fn is_foreign(&self, claim: &Claim, member: &Member) -> bool {
        let (key, uid) = member;
        if !self.settings.scope.has_namespace(&key.namespace) {
            return true;
        }
        let Some(slot) = self.services.get(key).filter(|slot| slot.service.uid == *uid) else { return false };
        match claim.given_class(member) {
            Some(given) if self.serves(given) => false,
            Some(_) if !slot.service.load_balancer => self.is_lately_classed(slot),
            Some(_) => self.of_another_class(&slot.service),
            // By an earlier version of the allocator.
            None => self.of_another_allocator(&slot.service),
        }
    }

    fn is_lately_classed(&self, slot: &Slot) -> bool {
        self.work.now() < slot.classed_since + LET_GO_WITHIN
    }

    /// Whether a Service that went to another class names the address of a claim that is to be deleted: the allocator of that class has
    /// taken it over, and the claim may not say so yet.
    pub(super) fn is_in_use_elsewhere(&self, claim: &Claim) -> bool {
        let object =
            claim.bound.as_ref().map(|name| Key { namespace: claim.key.namespace.clone(), name: name.clone() });
        let names =
            |slot: &Slot| record::named(&slot.service.notes).iter().any(|(one, _)| Some(one) == object.as_ref());
        claim.members().iter().any(|(key, uid)| {
            let slot = self.services.get(key).filter(|slot| slot.service.uid == *uid);
            slot.is_some_and(|slot| self.of_another_class(&slot.service) && self.is_lately_classed(slot) && names(slot))
        })
    }

    /// When it is looked at again whether other allocators have let go of the Services of a claim, or have taken it over.
    pub(super) fn looks_again(&self, claim: &Claim) -> Option<Duration> {
        let slots = claim.members().iter().filter_map(|(key, _)| self.services.get(key));
        let slots = slots.filter(|slot| !self.accepts(&slot.service) && self.is_lately_classed(slot));
        slots.map(|slot| slot.classed_since + LET_GO_WITHIN).min()
    }

    /// Evaluates the claims again that name a Service.
    pub(super) fn enqueue_claims_of(&mut self, service: &Key) {
        let names = |slot: &ClaimSlot| {
            slot.seen.as_ref().is_some_and(|claim| claim.members().iter().any(|(member, _)| member == service))
        };
        let all = self.claims.iter().filter(|(_, slot)| names(slot)).map(|(key, _)| key.clone());
        for claim in all.collect::<Vec<_>>() {
            self.enqueue_claim(&claim);
        }
    }

    /// Whether this class, as a claim has it, is ours.
    fn serves(&self, given: &str) -> bool {
        self.settings.classes.accept(Some(given).filter(|class| !class.is_empty()))
    }

    /// The claims here of a Service that another allocator has taken over.
    pub(super) fn taken_over(&self, service: &Service) -> Vec<Key> {
        if !self.of_another_class(service) {
            return Vec::new();
        }
        let member = (service.key.clone(), service.uid.clone());
        let slot = self.services.get(&service.key);
        let held = slot.into_iter().flat_map(|slot| slot.held.iter().flat_map(Held::all)).cloned();
        let recorded = record::named(&service.notes).into_iter().map(|(object, _)| object);
        let all: BTreeSet<Key> = held.chain(recorded).collect();
        let taken = |claim: &Key| {
            let claim = self.claims.get(claim).and_then(|slot| slot.seen.as_ref());
            claim.and_then(|claim| claim.given_class(&member)) == Some(class_of(service))
        };
        all.into_iter().filter(taken).collect()
    }

    /// Whether a Service was given a claim by another allocator, whose Services have it still: no address is shared with those.
    pub(super) fn is_shared_elsewhere(&self, claim: &Claim, member: &Member) -> bool {
        claim.given_class(member).is_some_and(|given| !self.serves(given))
            && self.foreign_members(claim).next().is_some()
    }

    /// The class for which each of these Services is given a claim.
    pub(super) fn classes_of(&self, slot: &ClaimSlot, members: &[Member]) -> Vec<GivenClass> {
        let class = |member: &Member| {
            let service = self.services.get(&member.0).map(|slot| &slot.service);
            let ours = service.filter(|one| one.uid == member.1 && one.load_balancer && !self.of_another_class(one));
            let ours = ours.filter(|_| slot.members.contains_key(&member.0)).map(|service| class_of(service));
            ours.or_else(|| slot.seen.as_ref()?.given_class(member)).map(Box::from)
        };
        members.iter().map(class).collect()
    }

    /// The Services of a claim that another allocator handles, as the claim names them.
    pub(super) fn foreign_members<'a>(&'a self, claim: &'a Claim) -> impl Iterator<Item = &'a Member> {
        claim.members().iter().filter(|member| self.is_foreign(claim, member))
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

/// A Service's class, as a claim has it.
fn class_of(service: &Service) -> &str {
    service.class.as_deref().unwrap_or_default()
}
