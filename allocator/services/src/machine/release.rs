//! Releasing: a Service that Mooring does not handle (any more), a family it no longer wants, an address it has
//! changed.

use std::net::IpAddr;
use std::sync::Arc;

use mooring_allocator_core::block::Family;
use mooring_allocator_core::names::Key;

use crate::families::{place, wanted};
use crate::objects::Service;
use crate::request::{Origin, Wish, shows};
use crate::{record, words};

use super::slots::{Topic, waits};
use super::{Machine, Notice, Report, Status, Target, Who, Write};

/// After this many refused writes to a Service, its old address is released anyway: otherwise the Service could keep it
/// for ever.
const PATIENCE: u32 = 8;

impl Machine {
    /// Retires a Service's current claim of a family: the claim is released as soon as the Service no longer shows its
    /// address. The next claim is released at once.
    pub(super) fn retire(&mut self, key: &Key, family: Family) {
        let Some(slot) = self.services.get_mut(key) else { return };
        let held = &mut slot.held[place(family)];
        let (current, next) = (held.current.take(), held.next.take());
        held.old.extend(current);
        if let Some(next) = next {
            self.detach(&next, key);
        }
    }

    /// Releases the retired claims.
    pub(super) fn retire_old(&mut self, service: &Service) {
        let Some(slot) = self.services.get(&service.key) else { return };
        if !slot.writes.knows(&service.version) {
            // The Service's content after our own write is not known yet.
            return;
        }
        let patient = slot.writes.retry.failures < PATIENCE;
        let old: Vec<Key> = slot.held.iter().flat_map(|held| held.old.iter().cloned()).collect();
        let says = record::named(&service.notes);
        for claim in old {
            let address = self.address_of(&claim);
            let said = address.filter(|_| !says.is_empty()).is_some_and(|address| {
                let shown = service.load_balancer && address.address.is_some_and(|ip| shows(service, ip));
                shown || says.iter().any(|(object, _)| *object == address.key)
            });
            if !(said && patient) {
                self.detach(&claim, &service.key);
            }
        }
    }

    /// Releases claims without an address at once.
    pub(super) fn drop_unbound(&mut self, key: &Key) {
        let Some(slot) = self.services.get(key) else { return };
        let held: Vec<Key> = slot.held.iter().flat_map(super::slots::Held::all).cloned().collect();
        for claim in held.iter().filter(|claim| self.address_of(claim).is_none()).cloned().collect::<Vec<_>>() {
            self.detach(&claim, key);
        }
    }

    /// Stops all waiting on behalf of a Service.
    pub(super) fn forget_wishes(&mut self, key: &Key) {
        self.forget_kept(key, None);
        if self.takeover.settle(key) {
            self.wake(&Topic::Settled);
            self.work.mark(Who::Pools);
        }
    }

    /// Stops keeping addresses that are in no pool for a Service, except addresses that the Service asks for.
    pub(super) fn forget_kept(&mut self, key: &Key, wish: Option<&Wish>) {
        if self.takeover.kept.is_empty() {
            return;
        }
        let wants = |ip: &IpAddr| wish.is_some_and(|wish| wish.addresses.contains(&Some(*ip)));
        let mut changed = false;
        self.takeover.kept.retain(|ip, keys| {
            if !wants(ip) {
                changed |= keys.remove(key);
            }
            !keys.is_empty()
        });
        if changed {
            self.work.mark(Who::Pools);
        }
    }

    /// Handles a Service that is not ours: takes back everything that Mooring wrote, and touches nothing else.
    pub(super) fn release(&mut self, service: &Arc<Service>) {
        let key = &service.key;
        self.forget_wishes(key);
        let taken = self.taken_over(service);
        for claim in &taken {
            self.detach(claim, key);
        }
        if !taken.is_empty()
            && let Some(slot) = self.services.get_mut(key)
        {
            slot.leaves = false;
        }
        for family in [Family::V4, Family::V6] {
            self.retire(key, family);
        }
        self.retire_old(service);
        let Some(slot) = self.services.get_mut(key) else { return };
        slot.verdict = None;
        slot.reported = None;
        if let Some(at) = slot.contest.looks_again() {
            self.work.mark_at(at, Who::Service(key.clone()));
        }
        let notes = &service.notes;
        // What another allocator wrote stays.
        let foreign = self.of_another_allocator(service);
        let had = record::named(notes);
        let mark = self.left_mark(service);
        if (notes.record.is_none() && notes.moving.is_none() && mark.is_none()) || foreign {
            if service.condition.is_some() && !foreign {
                let status = Status { ingress: None, condition: None, host: None };
                self.service_write(service, |target| Write::Status(target, Box::new(status)));
            } else if self.seen.has_config
                && service.cleanup
                && (service.implementation || notes.left)
                && (service.deleting || !service.load_balancer)
            {
                // The finalizer of kube-vip's cloud provider, which used to remove it itself; with the finalizer, the
                // Service would never go.
                self.service_write(service, Write::RemoveCleanup);
            } else {
                self.has_left_nothing(service);
                self.service_settled(service);
            }
            return;
        }
        let addresses = record::addresses(&record::read(notes.record.as_deref()));
        // The status comes first, because nodes follow the status.
        // An address that the Service was moving away from, or to, may be in the status without being in the record.
        let held = self.held_addresses(key);
        let ours = |ip: IpAddr| held.contains(&ip) || had.iter().any(|(_, one)| *one == ip);
        let left: Vec<_> = service.ingress.iter().filter(|i| !ours(i.ip)).copied().collect();
        if service.condition.is_some() || left.len() < service.ingress.len() {
            let status = Status { ingress: Some(left), condition: None, host: None };
            self.service_write(service, |target| Write::Status(target, Box::new(status)));
            return;
        }
        if !service.load_balancer && self.may_strip(service) {
            return self.service_write(service, Write::RemoveCleanup);
        }
        let untouched = crate::request::untouched(service);
        let annotations =
            [words::RECORD, words::MOVING, words::REQUESTED, words::VIP_HOST, words::GIVEN_INTERFACE].into_iter();
        let given = notes.interface.is_some() && notes.interface == notes.given_interface;
        let annotations = annotations.chain(given.then_some(words::INTERFACE)).map(|name| (name, None));
        // What people asked for stays.
        let requested = still_asked(service);
        let annotations = annotations.chain(untouched.then_some((words::ADDRESSES, requested)));
        let annotations =
            annotations.filter(|(name, text)| notes.written(name) != text.as_deref()).chain(mark).collect();
        let implementation = service.implementation.then_some(false);
        let notice = Notice { annotations, implementation, clear_ip: false };
        if self.service_write_done(service, |target| Write::Annotate(target, Box::new(notice))) && !addresses.is_empty()
        {
            self.report(Report::Released { service: key.clone(), addresses });
        }
    }

    /// Nothing of what was written is on the Service any more.
    fn has_left_nothing(&mut self, service: &Service) {
        if let Some(slot) = self.services.get_mut(&service.key) {
            slot.leaves &= !slot.writes.knows(&service.version);
        }
    }

    /// The change of the mark on a Service that is left to another controller; None: the Service bears the right one.
    fn left_mark(&self, service: &Service) -> Option<(&'static str, Option<String>)> {
        let slot = self.services.get(&service.key)?;
        let left = self.accepts(service) && slot.contest.is_left(self.work.now());
        (left != service.notes.left).then(|| (words::LEFT, left.then(|| "true".to_owned())))
    }

    /// Handles a Service that is being deleted: removes the finalizer that kube-vip's cloud provider left, because the
    /// Service would stay otherwise.
    pub(super) fn clean_up(&mut self, service: &Arc<Service>) {
        if self.may_strip(service) {
            self.service_write(service, Write::RemoveCleanup);
        }
    }

    pub(super) fn service_write(&mut self, service: &Arc<Service>, write: impl FnOnce(Target) -> Write) {
        self.service_write_done(service, write);
    }

    /// Writes, unless a write is under way or the known version is stale. Returns whether it wrote.
    pub(super) fn service_write_done(&mut self, service: &Arc<Service>, write: impl FnOnce(Target) -> Write) -> bool {
        let now = self.work.now();
        let Some(slot) = self.services.get(&service.key) else { return false };
        if !slot.writes.knows(&service.version) {
            return false;
        }
        let Service { key, uid, version, .. } = &**service;
        let write = write(Target { key: key.clone(), uid: uid.clone(), version: version.clone() });
        if let Some(at) = waits(&slot.writes, now, &write) {
            self.work.mark_at(at, Who::Service(service.key.clone()));
            return false;
        }
        let id = self.write(Who::Service(key.clone()), write);
        if let Some(slot) = self.services.get_mut(key) {
            slot.writes.pending = Some(id);
        }
        true
    }

    /// Nothing needs to be written on the Service.
    pub(super) fn service_settled(&mut self, service: &Service) {
        if let Some(slot) = self.services.get_mut(&service.key) {
            slot.writes.settled(&service.version);
        }
    }

    /// Whether kube-vip's cloud provider wrote the address into `spec.loadBalancerIP`.
    pub(super) fn wrote_field(service: &Service, wish: &Wish) -> bool {
        wish.origin == Origin::TakenOver && service.load_balancer_ip.is_some()
    }
}

/// What people asked for, of the families that the Service has now.
fn still_asked(service: &Service) -> Option<String> {
    let families = wanted(service).families;
    let asked = service.notes.requested.as_deref()?.split(',').map(str::trim);
    let fits = |text: &&str| text.parse::<IpAddr>().is_ok_and(|ip| families.contains(&Family::of(ip)));
    let asked: Vec<&str> = asked.filter(fits).collect();
    (!asked.is_empty()).then(|| asked.join(","))
}
