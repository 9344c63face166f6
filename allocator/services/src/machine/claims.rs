//! Claims: the Services that have them, and the writes to them.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use mooring_allocator_core::block::number;
use mooring_allocator_core::names::{Key, PoolRef};

use crate::families::place;
use crate::objects::{Claim, Member, Reserved, Scope, Service};
use crate::ports::Port;
use crate::request::{self, Origin};
use crate::{naming, record};

use super::contest::Contest;
use super::flaws::{Flaw, planted};
use super::place::Want;
use super::slots::{ClaimSlot, Held, Topic, Writes, waits};
use super::{Machine, NewClaim, Target, Who, Write};

impl Machine {
    /// Removes a claim: its Services have no claim now.
    pub(super) fn drop_claim(&mut self, key: &Key) {
        let members: Vec<Key> =
            self.claims.get(key).into_iter().flat_map(|slot| slot.members.keys().cloned()).collect();
        for member in &members {
            self.detach(key, member);
            self.enqueue_service(member);
        }
        let Some(slot) = self.claims.remove(key) else { return };
        if let Some(keys) = self.claims.by_pool.get_mut(&slot.pool) {
            keys.remove(key);
            if keys.is_empty() {
                self.claims.by_pool.remove(&slot.pool);
            }
            // A pool that the `ConfigMap` no longer has may go now. The same applies to an address that was in no other
            // pool.
            let made = self.seen.pools.get(&slot.pool).and_then(|pool| pool.made.as_ref());
            if made.is_some_and(|made| {
                self.seen.pools.made.get(&made.source) != Some(&slot.pool) || made.source.scope == Scope::Kept
            }) {
                self.work.mark(Who::Pools);
            }
        }
        if let Some(ip) = slot.requested {
            if let Some(keys) = self.claims.by_request.get_mut(&ip) {
                keys.remove(key);
                if keys.is_empty() {
                    self.claims.by_request.remove(&ip);
                }
            }
            self.wake(&Topic::Ip(ip));
        }
        self.wake(&Topic::Claim(key.clone()));
    }

    /// Gives a Service this claim, alone or shared.
    pub(super) fn attach(&mut self, claim: &Key, service: &Key) {
        let Some(uid) = self.services.get(service).map(|slot| slot.service.uid.clone()) else { return };
        let Some(slot) = self.claims.get_mut(claim) else { return };
        if slot.members.insert(service.clone(), uid).is_none() {
            self.regroup(claim);
            self.enqueue_claim(claim);
            self.wake(&Topic::Claim(claim.clone()));
        }
    }

    /// Takes a claim from a Service.
    pub(super) fn detach(&mut self, claim: &Key, service: &Key) {
        if let Some(slot) = self.services.get_mut(service) {
            for held in &mut slot.held {
                for place in [&mut held.current, &mut held.next] {
                    if place.as_ref() == Some(claim) {
                        *place = None;
                    }
                }
                held.old.retain(|old| old != claim);
            }
        }
        let Some(slot) = self.claims.get_mut(claim) else { return };
        let requested = slot.requested;
        if slot.members.remove(service).is_some() {
            self.regroup(claim);
            self.enqueue_claim(claim);
            self.wake(&Topic::Claim(claim.clone()));
            if let Some(ip) = requested {
                self.wake(&Topic::Ip(ip));
            }
        }
    }

    /// Takes all claims from a Service.
    pub(super) fn let_go(&mut self, service: &Key) {
        let Some(slot) = self.services.get(service) else { return };
        let held: Vec<Key> = slot.held.iter().flat_map(Held::all).cloned().collect();
        for claim in &held {
            self.detach(claim, service);
        }
    }

    /// The sharing key of a claim: the one by which its Services came to share, as long as one of them has it; or else the one that
    /// most of those have that may use theirs, and of as many, that of the Service after which the claim is named. A Service whose key is
    /// edited changes nothing for the others.
    fn key_of(&self, claim: &Key, slot: &ClaimSlot, known: Option<&Arc<str>>) -> Option<Arc<str>> {
        let members = slot.members.keys().filter_map(|key| self.services.get(key));
        let keyed = members.filter_map(|slot| Some((&*slot.service, self.sharing_key(&slot.service)?.text)));
        let keyed: Vec<(&Service, Arc<str>)> = keyed.collect();
        if let Some(known) = known.filter(|known| keyed.iter().any(|(_, text)| text == *known)) {
            return Some(known.clone());
        }
        let may_use = |(service, _): &&(&Service, Arc<str>)| self.uninvited(service).is_none();
        let count = |text: &Arc<str>| keyed.iter().filter(may_use).filter(|(_, one)| one == text).count();
        let named = |service: &Service| naming::is_claim_of(&service.key, slot.across, slot.family, &claim.name);
        keyed.iter().max_by_key(|(service, text)| (count(text), named(service))).map(|(_, text)| text.clone())
    }

    /// Files a claim under its sharing key.
    pub(super) fn regroup(&mut self, claim: &Key) {
        let slot = self.claims.all.get(claim);
        let group = slot.and_then(|slot| self.key_of(claim, slot, slot.group.as_ref()));
        self.file_under(claim, group);
    }

    fn file_under(&mut self, claim: &Key, group: Option<Arc<str>>) {
        let Some(slot) = self.claims.all.get(claim) else { return };
        let family = slot.family;
        let rank = self.address_of(claim).and_then(|address| address.address).map_or(u128::MAX, number);
        let members = slot.members.keys().filter_map(|key| self.services.get(key));
        let ports: BTreeSet<Port> = members.flat_map(|slot| slot.service.ports.iter().copied()).collect();
        if group == slot.group && rank == slot.rank && ports == slot.ports {
            return;
        }
        if let Some(before) = slot.group.clone() {
            for port in &slot.ports {
                less(&mut self.claims.by_port, &(before.clone(), family, *port));
            }
            if let Some(keys) = self.claims.by_group.get_mut(&(before.clone(), family)) {
                keys.remove(&(slot.rank, claim.clone()));
                if keys.is_empty() {
                    self.claims.by_group.remove(&(before, family));
                }
            }
        }
        if let Some(group) = &group {
            self.claims.by_group.entry((group.clone(), family)).or_default().insert((rank, claim.clone()));
            for port in &ports {
                *self.claims.by_port.entry((group.clone(), family, *port)).or_default() += 1;
            }
        }
        if let Some(slot) = self.claims.get_mut(claim) {
            let before = std::mem::replace(&mut slot.group, group.clone());
            (slot.rank, slot.ports) = (rank, ports);
            if let Some(group) = group.filter(|group| before.as_ref() != Some(group)) {
                self.wake(&Topic::Group(group));
            }
        }
    }

    /// Reads from the claims which Service has what: at start, and after another allocator has led.
    pub(super) fn restore(&mut self) {
        self.takeover.restored = true;
        self.waiting.clear();
        self.claims.by_group.clear();
        self.claims.by_port.clear();
        self.takeover.kept.clear();
        self.takeover.unsettled.clear();
        self.takeover.asking.clear();
        // An allocator that leads again starts a new wait for the addresses that Services had before.
        self.takeover.settles_by = None;
        let unseen = self.claims.iter().filter(|(_, slot)| slot.seen.is_none()).map(|(key, _)| key.clone());
        for key in unseen.collect::<Vec<_>>() {
            self.drop_claim(&key);
        }
        for slot in self.services.values_mut() {
            slot.held = [Held::default(), Held::default()];
            slot.waits.clear();
            slot.not_yet = None;
            slot.leaves = false;
            // The mark on the Service tells whether it was left to another controller.
            slot.contest = Contest::default();
        }
        let mut keys: Vec<Key> = self.claims.keys().cloned().collect();
        keys.sort();
        for key in &keys {
            self.restore_claim(key);
            // By which key its Services came to share is not known any more.
            let group = self.claims.get(key).and_then(|slot| self.key_of(key, slot, None));
            self.file_under(key, group);
        }
        let of = |live: bool| {
            let services = self.services.values().map(|slot| &slot.service);
            services.filter(|service| self.is_from_before(service) == Some(live)).map(|s| s.key.clone()).collect()
        };
        (self.takeover.unsettled, self.takeover.asking) = (of(true), of(false));
        self.takeover.recorded.clear();
        for key in &self.takeover.unsettled {
            let recorded = self.services.get(key).map(|slot| record::read(slot.service.notes.record.as_deref()));
            for (_, ip) in recorded.into_iter().flatten() {
                self.takeover.recorded.entry(ip).or_default().insert(key.clone());
            }
        }
        if planted(Flaw::AskingDoesNotCount) {
            self.takeover.asking.clear();
        }
        for service in self.services.values().map(|slot| slot.service.clone()).collect::<Vec<_>>() {
            self.note_unclaimed(&service);
        }
        self.work.mark_all(self.services.keys().cloned().map(Who::Service));
        self.work.mark_all(keys.into_iter().map(Who::Claim));
        self.work.mark(Who::Pools);
    }

    /// Whether a claim that names a Service counts as the Service's. Whoever may write claims in one namespace has no say about
    /// the Services of another: those are named by claims in the allocator's own, or name the claim's object themselves.
    fn may_name(&self, claim: &Key, service: &Service, object: Option<&Key>) -> bool {
        let near = claim.namespace == service.key.namespace || claim.namespace == self.settings.home;
        near || names(service, object)
    }

    fn restore_claim(&mut self, key: &Key) {
        let Some(slot) = self.claims.get_mut(key) else { return };
        slot.members.clear();
        slot.group = None;
        let Some(claim) = slot.seen.clone().filter(|claim| !claim.deleting) else { return };
        let foreign: Vec<Member> = self.foreign_members(&claim).cloned().collect();
        for member in claim.members().iter().filter(|member| !foreign.contains(member)) {
            self.restore_member(key, &claim, member);
        }
    }

    /// A Service has a claim that names it.
    fn restore_member(&mut self, key: &Key, claim: &Claim, (member, uid): &Member) {
        let family = place(claim.family);
        let address = claim.bound.as_ref().map(|name| Key { namespace: key.namespace.clone(), name: name.clone() });
        let Some(slot) = self.services.get_mut(member) else { return };
        let service = slot.service.clone();
        if !self.may_name(key, &service, address.as_ref())
            || self.is_shared_elsewhere(claim, &(member.clone(), uid.clone()))
        {
            return;
        }
        if service.uid != *uid && !(self.ours(&service) && self.is_of_record(&service, claim)) {
            return;
        }
        let live = self.live(&service, claim).is_some();
        let recorded = live || names(&service, address.as_ref());
        let Some(slot) = self.services.get_mut(member) else { return };
        let held = &mut slot.held[family];
        // The claim in the Service's record comes first. A claim for another address in the status is old, and any
        // other claim is the next one.
        let before = if recorded { held.current.replace(key.clone()) } else { Some(key.clone()) };
        if let Some(claim) = before {
            let shown = self.address_of(&claim).and_then(|address| address.address);
            let shown = shown.is_some_and(|ip| request::shows(&service, ip));
            let Some(slot) = self.services.get_mut(member) else { return };
            let held = &mut slot.held[family];
            if held.current.is_none() {
                held.current = Some(claim);
            } else if held.next.is_none() && !shown {
                held.next = Some(claim);
            } else {
                held.old.push(claim);
            }
        }
        let accepted = self.accepts(&service);
        if let Some(slot) = self.services.get_mut(member) {
            slot.leaves |= !accepted;
        }
        self.attach(key, member);
    }

    /// A Service has become ours: it has the claims that name it, whoever gave it them.
    pub(super) fn take_over_claims(&mut self, service: &Key) {
        let Some(uid) = self.services.get(service).map(|slot| slot.service.uid.clone()) else { return };
        let member = (service.clone(), uid);
        // One that is about to be deleted, or to name other Services, is not taken back.
        let free =
            |slot: &ClaimSlot| !slot.going() && slot.writes.pending.is_none() && !slot.members.contains_key(service);
        let named = |slot: &ClaimSlot| {
            let seen = slot.seen.as_ref().filter(|claim| free(slot) && !claim.retained.elsewhere);
            seen.filter(|claim| claim.members().contains(&member)).cloned()
        };
        let mut all: Vec<(Key, Claim)> =
            self.claims.iter().filter_map(|(key, slot)| Some((key.clone(), named(slot)?))).collect();
        all.sort_by(|(one, _), (other, _)| one.cmp(other));
        for (key, claim) in &all {
            self.restore_member(key, claim, &member);
        }
    }

    /// Whether a Service had an address that it wants and has no claim for: its status shows the address, or its record names
    /// it (Some(true)). Some(false): it asks for an address that it did not have. None: it wants no particular address, or has
    /// it.
    fn is_from_before(&self, service: &Service) -> Option<bool> {
        if !self.ours(service) || service.deleting {
            return None;
        }
        let wish = self.wish(service).ok().or_else(|| self.had_before(service));
        let recorded = crate::families::wanted(service).families.into_iter().filter_map(|family| {
            let ip = self.recorded(service, family)?;
            wish.as_ref()
                .is_some_and(|wish| wish.addresses[place(family)].is_none_or(|asked| asked == ip))
                .then_some(ip)
        });
        if recorded.count() > 0 {
            return Some(true);
        }
        if service.notes.record.is_some() {
            return None;
        }
        let mut wanted = wish?.addresses.into_iter().flatten().peekable();
        wanted.peek()?;
        Some(wanted.any(|ip| request::shows(service, ip)))
    }

    /// The claim that a Service makes for itself.
    pub(super) fn own_claim(&mut self, service: &Service, want: Want, pool: &Arc<PoolRef>, across: bool) -> Key {
        let Want { family, requested, .. } = want;
        let home = across.then_some(&self.settings.home);
        let name = |attempt| naming::claim(&service.key, &service.uid, family, pool, requested, home, attempt);
        // A backup may bring back the claim of before and its `IPAddress`: they are these, then.
        let before = want.again().and_then(|ip| self.object_of_record(service, ip));
        // Skip names that are taken: a claim of the same name is going, is shared by others, or has another address.
        let names = before.into_iter().chain((0..=u32::MAX).map(name));
        let key = names.into_iter().find(|key| !self.claims.contains_key(key)).unwrap_or_else(|| name(0));
        let slot = ClaimSlot {
            family,
            pool: pool.clone(),
            requested,
            across,
            members: BTreeMap::new(),
            group: None,
            rank: u128::MAX,
            ports: BTreeSet::new(),
            seen: None,
            writes: Writes::default(),
            doomed: false,
            refused: None,
            exchanged: None,
            exchanges: 0,
            doubtful_until: std::time::Duration::ZERO,
        };
        self.claims.insert(&key, slot);
        self.attach(&key, &service.key);
        key
    }

    /// Evaluates a claim again.
    pub(super) fn look_at_claim(&mut self, key: &Key) {
        let now = self.work.now();
        if let Some(slot) = self.claims.get_mut(key) {
            slot.writes.freshen(now);
        }
        let Some(slot) = self.claims.get(key) else { return };
        if slot.writes.pending.is_some() {
            return;
        }
        if slot.writes.retry.not_before > now {
            let at = slot.writes.retry.not_before;
            return self.work.mark_at(at, Who::Claim(key.clone()));
        }
        let Some(claim) = slot.seen.clone() else {
            if slot.members.is_empty() {
                return self.drop_claim(key);
            }
            let members = slot.wanted_members();
            let classes = self.classes_of(slot, &members);
            let (pool, owned) = (slot.pool.clone(), !slot.across);
            let (family, requested) = (slot.family, slot.requested);
            let new = NewClaim { key: key.clone(), family, pool, requested, members, classes, owned };
            return self.claim_write(key, Write::CreateClaim(Box::new(new)));
        };
        if slot.going() {
            let members: Vec<Key> = slot.members.keys().cloned().collect();
            for member in &members {
                self.detach(key, member);
                self.enqueue_service(member);
            }
            return;
        }
        if slot.writes.stale.as_ref() == Some(&claim.version) {
            return;
        }
        if claim.retained.elsewhere {
            return;
        }
        if slot.members.is_empty() && slot.doubtful_until > now && self.names_a_stranger(&claim) {
            let at = slot.doubtful_until;
            return self.work.mark_at(at, Who::Claim(key.clone()));
        }
        let target = Target { key: key.clone(), uid: claim.uid.clone(), version: claim.version.clone() };
        let members = self.members_to_name(slot);
        let waits = members.is_empty() && self.is_in_use_elsewhere(&claim);
        if members.is_empty() && !waits {
            return self.claim_write(key, Write::DeleteClaim(target));
        }
        if let Some(at) = self.looks_again(&claim) {
            self.work.mark_at(at, Who::Claim(key.clone()));
        }
        if waits {
            return;
        }
        if !slot.members.is_empty()
            && let Some(write) = self.exchange(key, slot)
        {
            return self.claim_write(key, write);
        }
        // Whether a Service of another allocator asks for the address is not known here.
        let shared = members.len() > slot.members.len();
        let requested = if shared { claim.requested } else { self.asked(key, slot) };
        let classes = self.classes_of(slot, &members);
        if members != claim.members() || classes != claim.given_classes() || requested != claim.requested {
            self.claim_write(key, Write::UpdateClaim(target, members, classes, requested));
        } else if let Some(slot) = self.claims.get_mut(key) {
            slot.writes.settled(&claim.version);
        }
    }

    /// Handles an address that a claim got by chance and that is in use without a claim, for example by a node. The
    /// allocator cannot know about this use. Once told of the other owner, the allocator gives the claim another
    /// address and lets this address rest.
    fn exchange(&self, key: &Key, slot: &ClaimSlot) -> Option<Write> {
        let address = self.address_of(key)?;
        let ip = address.address?;
        let said = slot.exchanged.as_ref().is_some_and(|(uid, version)| {
            *uid == address.uid && version.as_ref().is_none_or(|version| *version == address.version)
        });
        if said || !self.by_chance(key, ip) {
            return None;
        }
        let target = Target { key: address.key.clone(), uid: address.uid.clone(), version: address.version.clone() };
        let owner = match self.seen.reserved.get(&ip) {
            Some(Reserved::Node(node)) => format!("it is an address of node {node}"),
            Some(Reserved::ControlPlane) => "it is the control plane's".to_owned(),
            None => {
                let may = |other: &Key| {
                    let other = self.services.get(other);
                    other.is_some_and(|other| self.may_name(key, &other.service, Some(&address.key)))
                };
                let named = |other: &Key| {
                    let seen = slot.seen.as_ref().map_or(&[][..], |claim| claim.members());
                    slot.members.contains_key(other) || (seen.iter().any(|(key, _)| key == other) && may(other))
                };
                // Who only waits for the address does not use it. Those who had this object before, by their records, do not give way
                // to that one; and nobody does so for ever, since anybody may write a record.
                let had = || {
                    let mut members = slot.members.keys().filter_map(|member| self.services.get(member));
                    members.any(|member| record::object(&member.service.notes, ip).as_ref() == Some(&address.key))
                };
                let stays = |other: &Key| self.only_awaits(other, ip) && (slot.has_given_way() || had());
                let other = self.shown_by(ip, |other| named(other) || stays(other))?;
                // All whose claim it is read this.
                let all = slot.members.keys().all(|member| member.namespace == key.namespace);
                let other = other.told_in(if all { &key.namespace } else { "" }, "Service");
                format!("{other} has it by its status or its record")
            }
        };
        Some(Write::Exchange(target, owner))
    }

    /// Whether nobody asked for the claim's address, and no Service shows the address yet. A holder alone is no reason to
    /// keep the address: agents may take it before the watch of Nodes shows whose it is.
    pub(super) fn by_chance(&self, key: &Key, ip: IpAddr) -> bool {
        let Some(slot) = self.claims.get(key) else { return false };
        let mut members = slot.members.keys().filter_map(|member| self.services.get(member));
        slot.requested.is_none()
            && slot.seen.as_ref().is_none_or(|claim| claim.requested.is_none())
            && self.asked(key, slot).is_none()
            && self.address_of(key).is_some_and(|address| !self.is_of_holder(ip, address.holder.as_deref()))
            && !members.any(|member| request::shows(&member.service, ip))
    }

    /// Whether the node that reports an address as its own is the VIP's holder: the address is on its interface because it
    /// holds the VIP for us.
    pub(super) fn is_of_holder(&self, ip: IpAddr, holder: Option<&str>) -> bool {
        matches!(self.seen.reserved.get(&ip), Some(Reserved::Node(node)) if holder == Some(&**node))
    }

    /// The address that a claim is to ask for. Once the claim is bound, only an address that people asked for counts,
    /// so that an address that was only taken over can be exchanged when another host turns out to have it.
    fn asked(&self, key: &Key, slot: &ClaimSlot) -> Option<IpAddr> {
        let Some(address) = self.address_of(key) else { return slot.requested };
        let has = address.address;
        slot.members.keys().find_map(|member| {
            let service = &self.services.get(member)?.service;
            let wish = self.wish(service).ok()?;
            wish.addresses[place(slot.family)].filter(|ip| wish.origin != Origin::TakenOver && Some(*ip) == has)
        })
    }

    fn claim_write(&mut self, key: &Key, write: Write) {
        let now = self.work.now();
        if let Some(at) = self.claims.get(key).and_then(|slot| waits(&slot.writes, now, &write)) {
            return self.work.mark_at(at, Who::Claim(key.clone()));
        }
        let id = self.write(Who::Claim(key.clone()), write);
        if let Some(slot) = self.claims.get_mut(key) {
            slot.writes.pending = Some(id);
        }
    }
}

/// Whether a Service's record names an object.
fn names(service: &Service, object: Option<&Key>) -> bool {
    record::read(service.notes.record.as_deref()).iter().any(|(one, _)| Some(one) == object)
}

/// Decreases a count by one.
fn less<K: std::hash::Hash + Eq>(counts: &mut std::collections::HashMap<K, usize>, key: &K) {
    if let Some(count) = counts.get_mut(key) {
        *count = count.saturating_sub(1);
        if *count == 0 {
            counts.remove(key);
        }
    }
}
