//! What is not there yet, and may never come.
//!
//! In a restore, the claim by which a Service is to have its address again is made a moment after the Service, and what lets Services
//! share may come minutes after them. "Not yet" is not "no": a Service waits for such things. But no Service waits for ever for what
//! somebody else is to bring, whoever that is and whatever he writes: its wait is one, from its beginning on.

use std::net::IpAddr;
use std::time::Duration;

use mooring_allocator_core::block::Family;
use mooring_allocator_core::names::{Key, PoolRef};
use mooring_allocator_core::protocol::Hold;

use crate::families::place;
use crate::invitations::{Answer, Named};
use crate::objects::Service;
use crate::reason::Reason;
use crate::{naming, record, words};

use super::join::Trouble;
use super::slots::{ClaimSlot, Topic};
use super::{Machine, Who};

/// How long a Service waits for what is not there yet: a restore takes minutes.
pub(super) const NOT_YET: Duration = Duration::from_mins(5);

impl Machine {
    /// Whether a Service goes on waiting for what is not there yet. The wait begins with the first call, and ends when the Service has
    /// what it wants.
    pub(super) fn waits_on(&mut self, key: &Key) -> bool {
        let now = self.work.now();
        let Some(slot) = self.services.get_mut(key) else { return false };
        let until = *slot.not_yet.get_or_insert(now) + NOT_YET;
        if until > now {
            self.work.mark_at(until, Who::Service(key.clone()));
        }
        until > now
    }

    /// Why a Service waits for the address of its record, which it shared: nothing lets it share that yet, and nobody has said no. What
    /// people write on the Services of the key's namespace, or into the `ConfigMap`, may be restored later.
    pub(super) fn not_allowed_yet(&self, service: &Service, ip: IpAddr) -> Option<Trouble> {
        let now = self.work.now();
        let slot = self.services.get(&service.key)?;
        if service.notes.reallocate || slot.not_yet.is_some_and(|since| since + NOT_YET <= now) {
            return None;
        }
        let object = record::object(&service.notes, ip)?;
        let across = object.namespace != service.key.namespace;
        // Its own claim is its own, unless one with which it shared was restored before it, and has the claim.
        let own = || naming::is_claim_of(&service.key, false, Family::of(ip), &object.name);
        let others = || self.claims.get(&object).is_some_and(|slot| slot.members.keys().any(|key| *key != service.key));
        if !across && own() && !others() {
            return None;
        }
        let nothing_said = || !self.seen.has_config;
        let answer = |named: &Named| self.seen.invited.answer(named, service, &self.seen.config);
        if service.notes.sharing_key.is_some() {
            let waits = match answer(&Named::by_key(service).filter(|_| across)?) {
                Answer::Yes => false,
                Answer::Nobody => true,
                Answer::No => nothing_said(),
            };
            return self.uninvited(service).filter(|_| waits);
        }
        let key = self.sharing_key(service);
        if key.as_ref().is_some_and(|key| key.across || !across) {
            return None;
        }
        let (what, until) = match Named::by_lease(service) {
            Some(named) if answer(&named) == Answer::Nobody => {
                let (home, namespace) = (&named.home, &service.key.namespace);
                let what = format!(
                    "a Service of namespace {home} with the same {} and the annotation {}={namespace}",
                    words::LEASE_NAME,
                    words::SHARING_NAMESPACES
                );
                (what, vec![Topic::Group(named.text)])
            }
            None if nothing_said() => ("the ConfigMap kubevip".to_owned(), Vec::new()),
            Some(_) | None => return None,
        };
        let message = format!(
            "the Service shared {ip}, and nothing lets it share that yet: it waits for {what}, {} minutes at most; to have any other \
             address, set the annotation {}",
            NOT_YET.as_secs() / 60,
            words::REALLOCATE
        );
        Some(Trouble::new(Reason::Allocating, message, until))
    }

    /// Whether two Services shared an address, and what lets one of them is only not there yet.
    pub(super) fn shared_before(&self, one: &Service, other: &Service, ip: IpAddr) -> bool {
        record::shared(&one.notes, &other.notes, ip) && self.not_allowed_yet(one, ip).is_some()
    }

    /// A Service that has what it wants has waited.
    pub(super) fn end_wait(&mut self, key: &Key, troubles: &[Trouble]) {
        if let Some(slot) = self.services.get_mut(key).filter(|_| troubles.is_empty()) {
            slot.not_yet = None;
        }
    }

    /// Why a Service waits for the claim of an `IPAddress` that its record names: the claim is named after another Service, with which
    /// this one shared the address, and that one makes it when it is restored.
    pub(super) fn claim_is_to_come(&mut self, service: &Service, ip: IpAddr, object: &Key) -> Option<Trouble> {
        record::object(&service.notes, ip).filter(|one| one == object)?;
        let claim = object.told_in(&service.key.namespace, "claim");
        let message = format!("the Service shared {ip}, whose claim is not there yet: it waits for {claim}");
        let trouble = Trouble::new(Reason::Allocating, message, [Topic::Claim(object.clone())]);
        self.waits_on(&service.key).then_some(trouble)
    }

    /// Why a Service does not make the claim for the address of its record yet: the claim of before, whose name the new one is to have,
    /// is being deleted. The `IPAddress` of that name may be restored later, and would stay for ever without a claim of its name.
    pub(super) fn name_is_going(&mut self, service: &Service, ip: IpAddr) -> Option<Trouble> {
        let claim = self.object_of_record(service, ip)?;
        let goes = |slot: &&ClaimSlot| slot.going() || (slot.members.is_empty() && slot.writes.pending.is_some());
        self.claims.get(&claim).filter(goes)?;
        let whose = claim.told_in(&service.key.namespace, "claim");
        let message = format!(
            "{whose}, by which the Service had {ip}, is being deleted: the Service makes one of the same name then"
        );
        let trouble = Trouble::new(Reason::Allocating, message, [Topic::Claim(claim)]);
        self.waits_on(&service.key).then_some(trouble)
    }

    /// Why a Service gets no address of this pool by chance for the moment.
    pub(super) fn gives_way(&mut self, service: &Service, pool: &PoolRef) -> Option<Trouble> {
        let (ip, other) = self.awaited_of(pool, &service.key)?;
        let other = other.told_in(&service.key.namespace, "Service");
        let message = format!("it waits until {other} has claimed {ip}, which it had before");
        let trouble = Trouble::new(Reason::Allocating, message, [Topic::Ip(ip)]);
        self.waits_on(&service.key).then_some(trouble)
    }

    /// An address of this pool that another Service is about to have again. Nobody gets an address by chance there before that one has
    /// claimed its own.
    fn awaited_of(&self, pool: &PoolRef, except: &Key) -> Option<(IpAddr, &Key)> {
        let listed = self.seen.pools.get(pool)?;
        let recorded = |key: &Key, ip| self.recorded(&self.services.get(key)?.service, Family::of(ip));
        let awaits = |key: &&Key, ip| {
            *key != except
                && self.only_awaits(key, ip)
                && recorded(key, ip) == Some(ip)
                && self.is_about_to_come(key, ip, pool)
        };
        let mut all = self.takeover.unclaimed.iter().filter(|(ip, _)| listed.lists(**ip));
        all.find_map(|(ip, keys)| Some((*ip, keys.iter().find(|key| awaits(key, *ip))?)))
    }

    /// Whether nothing but time is between a Service and the address that it is to have again: its claim can be made, and is neither
    /// held nor refused. A pool that cannot hand out addresses refuses all alike, so others lose nothing there.
    fn is_about_to_come(&self, key: &Key, ip: IpAddr, pool: &PoolRef) -> bool {
        let Some(slot) = self.services.get(key) else { return false };
        let claim = slot.held[place(Family::of(ip))].current.as_ref().and_then(|claim| self.claims.get(claim));
        // Without a claim: the pool that has the address came a moment ago, or what lets the Service share is not there.
        let Some(claim) = claim else { return self.not_allowed_yet(&slot.service, ip).is_none() };
        let Some(seen) = &claim.seen else { return claim.refused.is_none() };
        let refuses_all = |reason| Reason::of_claim(reason) == Reason::PoolNotReady && *claim.pool == *pool;
        seen.hold == Hold::None && seen.refused().is_none_or(|(reason, _)| refuses_all(reason))
    }

    /// A claim of these Services has changed: those that give way to them look again.
    pub(super) fn wake_those_behind(&mut self, services: &[Key]) {
        let slots = services.iter().filter_map(|key| self.services.get(key));
        let awaited: Vec<IpAddr> = slots.flat_map(|slot| slot.unclaimed.iter().copied()).collect();
        for ip in awaited {
            self.wake(&Topic::Ip(ip));
        }
    }
}
