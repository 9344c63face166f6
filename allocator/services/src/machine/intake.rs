//! Events change the known state, and mark the affected objects.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::net::IpAddr;
use std::sync::Arc;

use mooring_allocator_core::names::{Key, PoolRef, Uid};

use crate::configmap::Config;
use crate::objects::{Address, Claim, Pool, Reserved, Service};

use super::slots::{ClaimSlot, Slot, Topic};
use super::{Action, Event, Kind, Machine, Report, SHOWN_WITHIN, Who};

impl Machine {
    pub(super) fn take_in(&mut self, event: Event) {
        match event {
            Event::Tick => {}
            Event::Leading(until) => {
                let led = self.work.leading();
                self.work.lead(until);
                if !led && self.work.leading() {
                    // Another allocator has led in the meantime and made changes: list everything, and read from the
                    // claims again which Service has what.
                    self.takeover.restored = false;
                    self.seen.unlisted = Kind::ALL.into();
                    self.seen.asked += 1;
                    self.work.act(Action::List(self.seen.asked));
                }
            }
            Event::Listed(kind, asked) => {
                if asked == self.seen.asked {
                    self.seen.unlisted.remove(&kind);
                }
            }
            Event::Services(list) => {
                let listed: HashSet<&Key> = list.iter().map(|service| &service.key).collect();
                let gone = self.services.iter().filter(|(key, _)| !listed.contains(key));
                let gone: Vec<(Key, Uid)> = gone.map(|(key, slot)| (key.clone(), slot.service.uid.clone())).collect();
                for (key, uid) in &gone {
                    self.service_gone(key, uid);
                }
                for service in list {
                    self.service(service);
                }
            }
            Event::Service(service) => self.service(*service),
            Event::ServiceGone(key, uid) => self.service_gone(&key, &uid),
            Event::Claims(list) => {
                let listed: HashSet<&Uid> = list.iter().map(|claim| &claim.uid).collect();
                let seen = self.claims.values().filter_map(|slot| slot.seen.as_ref());
                let gone = seen
                    .filter(|claim| !listed.contains(&claim.uid))
                    .map(|claim| (claim.key.clone(), claim.uid.clone()));
                let gone: Vec<(Key, Uid)> = gone.collect();
                for (key, uid) in &gone {
                    self.claim_gone(key, uid);
                }
                for claim in list {
                    self.claim(claim);
                }
            }
            Event::Claim(claim) => self.claim(*claim),
            Event::ClaimGone(key, uid) => self.claim_gone(&key, &uid),
            Event::Addresses(list) => {
                let listed: HashSet<&Uid> = list.iter().map(|address| &address.uid).collect();
                let gone: Vec<Uid> =
                    self.seen.addresses.uids().into_iter().filter(|uid| !listed.contains(uid)).collect();
                for uid in &gone {
                    self.address_gone(uid);
                }
                for address in list {
                    self.address(address);
                }
            }
            Event::Address(address) => self.address(address),
            Event::AddressGone(uid) => self.address_gone(&uid),
            Event::Pools(list) => {
                let listed: BTreeSet<&Arc<PoolRef>> = list.iter().map(|pool| &pool.reference).collect();
                let gone = self.seen.pools.iter().filter(|pool| !listed.contains(&pool.reference));
                let gone: Vec<(Arc<PoolRef>, Uid)> =
                    gone.map(|pool| (pool.reference.clone(), pool.uid.clone())).collect();
                for (reference, uid) in &gone {
                    self.pool_gone(reference, uid);
                }
                for pool in list {
                    self.pool(pool);
                }
            }
            Event::Pool(pool) => self.pool(*pool),
            Event::PoolGone(reference, uid) => self.pool_gone(&reference, &uid),
            Event::Config(data) => self.configured(data.as_ref()),
            Event::Reserved(all) => self.reserve(all),
            Event::AllEndpoints(all) => {
                let gone: Vec<Key> =
                    self.seen.endpoints.nodes.keys().filter(|key| !all.contains_key(key)).cloned().collect();
                for key in &gone {
                    self.endpoints_of(key, &BTreeSet::new());
                }
                for (key, nodes) in &all {
                    self.endpoints_of(key, nodes);
                }
                self.seen.endpoints.listed = true;
                self.wake(&Topic::Endpoints);
            }
            Event::Endpoints(key, nodes) => self.endpoints_of(&key, &nodes),
            Event::Answer { id, result } => self.answer(id, result),
        }
    }

    fn service(&mut self, service: Service) {
        let key = service.key.clone();
        if let Some(slot) = self.services.get(&key) {
            if slot.service.uid == service.uid {
                return self.service_changed(service);
            }
            let uid = slot.service.uid.clone();
            self.service_gone(&key, &uid);
        }
        let changed = self.seen.invited.note(None, Some(&service));
        self.services.insert(key.clone(), Slot::new(service, self.work.now()));
        self.answers_changed(&changed);
        self.work.mark(Who::Service(key));
    }

    fn service_changed(&mut self, service: Service) {
        let key = service.key.clone();
        let time = self.work.now();
        let Some(slot) = self.services.get_mut(&key) else { return };
        let class = |service: &Service| (service.load_balancer, service.class.clone());
        if class(&slot.service) != class(&service) {
            slot.classed_since = time;
        }
        let before = std::mem::replace(&mut slot.service, Arc::new(service));
        let now = slot.service.clone();
        let answers = self.seen.invited.note(Some(&before), Some(&now));
        if slot.writes.stale.as_ref() != Some(&now.version) {
            slot.writes.stale = None;
        }
        let held: Vec<Key> = slot.held.iter().flat_map(super::slots::Held::all).cloned().collect();
        if !slot.unclaimed.is_empty() {
            // Whether the Service wants these addresses may have changed.
            self.work.mark(Who::Pools);
        }
        self.enqueue_service(&key);
        self.answers_changed(&answers);
        let (was, is) = (self.accepts(&before), self.accepts(&now));
        if was != is {
            if let Some(slot) = self.services.get_mut(&key) {
                slot.leaves = was;
            }
            if is && self.takeover.restored {
                self.take_over_claims(&key);
            }
        }
        if before.load_balancer && !now.load_balancer {
            self.enqueue_claims_of(&key);
        }
        let shares = |s: &Service| {
            (s.ports.clone(), s.local, s.notes.sharing_key.clone(), s.notes.lease_name.clone(), s.load_balancer)
        };
        if shares(&before) != shares(&now) {
            for claim in held {
                let members: Vec<Key> =
                    self.claims.get(&claim).into_iter().flat_map(|slot| slot.members.keys().cloned()).collect();
                for member in &members {
                    // Their ports may clash now.
                    self.enqueue_service(member);
                }
                self.regroup(&claim);
                self.wake(&Topic::Claim(claim));
            }
        }
    }

    fn service_gone(&mut self, key: &Key, uid: &Uid) {
        if self.services.get(key).is_none_or(|slot| slot.service.uid != *uid) {
            return;
        }
        self.let_go(key);
        self.forget_wishes(key);
        self.set_unclaimed(key, &BTreeSet::new());
        self.wait_no_more(key);
        let gone = self.services.remove(key);
        let changed = self.seen.invited.note(gone.as_ref().map(|slot| &*slot.service), None);
        self.answers_changed(&changed);
        self.work.unmark(&Who::Service(key.clone()));
    }

    fn claim(&mut self, claim: Claim) {
        let key = claim.key.clone();
        let members: Vec<Key> = claim.members().iter().map(|(key, _)| key.clone()).collect();
        if let Some(slot) = self.claims.get_mut(&key) {
            if slot.seen.as_ref().is_some_and(|seen| seen.uid != claim.uid) {
                slot.doomed = false;
                slot.writes.stale = None;
            }
            if slot.writes.stale.as_ref() != Some(&claim.version) {
                slot.writes.stale = None;
            }
            if slot.seen.is_none() {
                slot.writes.retry.not_before = std::time::Duration::ZERO;
            }
            slot.seen = Some(claim);
        } else {
            let mut slot = ClaimSlot::of(claim, &self.settings.home);
            if self.takeover.restored {
                slot.doubtful_until = self.work.now() + SHOWN_WITHIN;
            }
            self.claims.insert(&key, slot);
        }
        self.claim_moved(&key);
        for key in &members {
            self.enqueue_service(key);
        }
    }

    fn claim_gone(&mut self, key: &Key, uid: &Uid) {
        let seen = self.claims.get(key).and_then(|slot| slot.seen.as_ref());
        if seen.is_some_and(|claim| claim.uid == *uid) {
            self.drop_claim(key);
        }
    }

    fn address(&mut self, address: Arc<Address>) {
        let (ip, claim) = (address.address, address.claim_key());
        let before = self.seen.addresses.set(address);
        if before.as_ref().and_then(|b| b.address) != ip {
            for ip in [before.and_then(|b| b.address), ip].into_iter().flatten() {
                self.wake(&Topic::Ip(ip));
            }
        }
        self.claim_moved(&claim);
    }

    fn address_gone(&mut self, uid: &Uid) {
        let Some(address) = self.seen.addresses.remove(uid) else { return };
        if let Some(ip) = address.address {
            self.wake(&Topic::Ip(ip));
        }
        self.claim_moved(&address.claim_key());
    }

    /// A claim or its address has changed.
    fn claim_moved(&mut self, claim: &Key) {
        let Some(slot) = self.claims.get(claim) else { return };
        let members: Vec<Key> = slot.members.keys().cloned().collect();
        for key in &members {
            self.enqueue_service(key);
        }
        self.wake_those_behind(&members);
        self.regroup(claim);
        self.enqueue_claim(claim);
        self.wake(&Topic::Claim(claim.clone()));
    }

    fn pool(&mut self, pool: Pool) {
        let reference = pool.reference.clone();
        let look = |p: &Pool| {
            let state = (p.default, p.exhausted, p.deleting);
            (p.uid.clone(), p.generation, state, p.class.clone(), p.made.clone())
        };
        let changed = self.seen.pools.get(&reference).is_none_or(|before| look(before) != look(&pool));
        if let Some(writes) = self.made.writes.get_mut(&reference) {
            writes.shown(&pool.version);
        }
        self.seen.pools.set(pool);
        if changed {
            self.pool_moved(&reference);
        }
    }

    fn pool_gone(&mut self, reference: &Arc<PoolRef>, uid: &Uid) {
        if self.seen.pools.get(reference).is_some_and(|pool| pool.uid == *uid) {
            self.seen.pools.remove(reference);
            self.made.writes.remove(reference);
            self.pool_moved(reference);
        }
    }

    fn pool_moved(&mut self, reference: &Arc<PoolRef>) {
        self.work.mark(Who::Pools);
        self.wake(&Topic::Pools);
        let claims: Vec<Key> = self.claims.by_pool.get(reference).into_iter().flatten().cloned().collect();
        for claim in &claims {
            self.claim_moved(claim);
        }
    }

    fn configured(&mut self, data: Option<&BTreeMap<String, String>>) {
        let config = data.map(Config::read).unwrap_or_default();
        if config == self.seen.config && data.is_some() == self.seen.has_config {
            return;
        }
        self.seen.has_config = data.is_some();
        let before = std::mem::replace(&mut self.seen.config, config);
        let new: Vec<_> = self.seen.config.problems.iter().filter(|p| !before.problems.contains(p)).cloned().collect();
        for problem in new {
            self.report(Report::Problem(problem));
        }
        let claims: Vec<Key> = self.claims.keys().cloned().collect();
        for claim in &claims {
            self.regroup(claim);
        }
        self.work.mark_all(self.services.keys().cloned().map(Who::Service));
        self.work.mark(Who::Pools);
    }

    fn reserve(&mut self, all: BTreeMap<IpAddr, Reserved>) {
        let before = std::mem::replace(&mut self.seen.reserved, all);
        let ips: BTreeSet<IpAddr> = before.keys().chain(self.seen.reserved.keys()).copied().collect();
        let changed = ips.into_iter().filter(|ip| before.get(ip) != self.seen.reserved.get(ip));
        for ip in changed.collect::<Vec<_>>() {
            self.wake(&Topic::Ip(ip));
            self.work.mark(Who::Pools);
        }
    }

    fn endpoints_of(&mut self, key: &Key, nodes: &BTreeSet<Arc<str>>) {
        let before = if nodes.is_empty() {
            self.seen.endpoints.nodes.remove(key)
        } else {
            self.seen.endpoints.nodes.insert(key.clone(), nodes.clone())
        };
        let Some(slot) = self.services.get(key).filter(|_| before.unwrap_or_default() != *nodes) else { return };
        let held: Vec<Key> = slot.held.iter().flat_map(super::slots::Held::all).cloned().collect();
        self.enqueue_service(key);
        for claim in held {
            self.wake(&Topic::Claim(claim));
        }
    }
}
