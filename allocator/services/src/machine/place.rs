//! Which claim a Service is to have for a family.

use std::net::IpAddr;
use std::sync::Arc;

use mooring_allocator_core::block::{Block, Family};
use mooring_allocator_core::names::{Key, PoolRef};
use mooring_allocator_core::pool::Standing;

use crate::families::place;
use crate::objects::{Address, Made, Reserved, Scope, Service, Source};
use crate::reason::Reason;
use crate::request::shows;
use crate::sharing::{self, Join};

use super::Machine;
use super::join::Trouble;
use super::slots::Topic;

/// What a Service wants of a family.
#[derive(Clone, Copy, Debug)]
pub(super) struct Want {
    pub(super) family: Family,
    /// This address and no other.
    pub(super) requested: Option<IpAddr>,
}

impl Machine {
    /// The `IPAddress` of a bound claim.
    pub(super) fn address_of(&self, claim: &Key) -> Option<&Address> {
        let seen = self.claims.get(claim)?.seen.as_ref()?;
        let name = seen.bound.clone()?;
        self.addresses.named(&Key { namespace: claim.namespace.clone(), name })
    }

    /// Sees to it that a Service has the claim it wants. What it has stays until what it is to have instead is advertised.
    pub(super) fn settle(&mut self, service: &Arc<Service>, want: Want) -> Result<(), Trouble> {
        let at = place(want.family);
        let held = self.services.get(&service.key).map(|slot| slot.held[at].clone()).unwrap_or_default();
        if let Some(current) = &held.current
            && self.satisfies(service, want, current)?
        {
            if let Some(next) = &held.next {
                self.detach(next, &service.key);
            }
            return Ok(());
        }
        if let Some(next) = &held.next {
            if self.satisfies(service, want, next)? {
                return Ok(());
            }
            self.detach(next, &service.key);
        }
        let found = self.obtain(service, want);
        // What has no address yet is nothing to keep.
        let keeps = held.current.as_ref().is_some_and(|claim| self.address_of(claim).is_some());
        if let Some(current) = held.current.filter(|current| !keeps && found.as_ref() != Ok(current)) {
            self.detach(&current, &service.key);
        }
        let claim = found?;
        if let Some(slot) = self.services.get_mut(&service.key) {
            let held = &mut slot.held[at];
            // It goes back to what it had.
            held.old.retain(|old| *old != claim);
            *(if keeps { &mut held.next } else { &mut held.current }) = Some(claim);
        }
        Ok(())
    }

    /// Whether a claim is what a Service wants. A pool that is edited, or a new default, is no reason to move: only what people
    /// say of this Service is.
    fn satisfies(&self, service: &Arc<Service>, want: Want, claim: &Key) -> Result<bool, Trouble> {
        let Some(slot) = self.claims.get(claim).filter(|slot| !slot.going()) else { return Ok(false) };
        let ip = self.address_of(claim).and_then(|address| address.address);
        let mut others = self.others(service, claim).peekable();
        let alone = others.peek().is_none();
        if !others.all(|other| self.may_stay(service, other, ip)) {
            return Ok(false);
        }
        if let Some(requested) = want.requested {
            return Ok(ip.or(slot.requested) == Some(requested));
        }
        if ip.is_none() && slot.requested.is_some() && alone {
            return Ok(false);
        }
        let asks = service.notes.pool.is_some() || service.notes.reallocate;
        if asks || ip.is_none() {
            let chosen = self.choose(service, want.family)?;
            let listed = ip.is_none_or(|ip| self.pools.get(&slot.pool).is_some_and(|pool| pool.lists(ip)));
            if chosen != slot.pool || (service.notes.reallocate && !listed) {
                return Ok(false);
            }
        }
        // A key that was given later: it is alone, and there are others.
        match sharing::key(service, &self.config).filter(|key| key.join == Join::Must && alone) {
            None => Ok(true),
            Some(key) => {
                let mut group = self.group(&key.text, want.family);
                match group.find(|other| {
                    *other != claim && self.within_reach(service, other, std::slice::from_ref(&slot.pool))
                }) {
                    None => Ok(true),
                    // It stays where it is if it cannot; and says why.
                    Some(other) => self.may_join(service, other).map(|()| false),
                }
            }
        }
    }

    /// Whether two that share may go on. What traffic comes in by is taken from nobody because a key was taken off, or the
    /// `ConfigMap` changed; only where people have given both a key, and not the same.
    fn may_stay(&self, one: &Service, other: &Service, ip: Option<IpAddr>) -> bool {
        let explicit =
            |service| sharing::key(service, &self.config).filter(|key| key.join != Join::May).map(|key| key.text);
        let parted = matches!((explicit(one), explicit(other)), (Some(one), Some(other)) if one != other);
        self.agree(one, other, ip) || (!parted && ip.is_some_and(|ip| shows(one, ip) && shows(other, ip)))
    }

    /// Whether a claim is one that a Service could share, or does: of such a pool, where its own would be, and others have it.
    fn within_reach(&self, service: &Service, claim: &Key, pools: &[Arc<PoolRef>]) -> bool {
        let slot = self.claims.get(claim);
        slot.is_some_and(|slot| pools.contains(&slot.pool) && slot.members.keys().any(|key| *key != service.key))
            && claim.namespace == self.namespace(service).0
    }

    /// Where the claim of a Service is.
    fn namespace(&self, service: &Service) -> (Arc<str>, bool) {
        let across = sharing::key(service, &self.config).is_some_and(|key| key.across);
        (if across { self.settings.home.clone() } else { service.key.namespace.clone() }, across)
    }

    fn choose(&self, service: &Service, family: Family) -> Result<Arc<PoolRef>, Trouble> {
        let (namespace, _) = self.namespace(service);
        let chosen = self.pools.choose(service, &namespace, family, &self.config);
        chosen.map_err(|(reason, message)| Trouble::new(reason, message, [Topic::Pools]))
    }

    /// A claim that gives a Service what it wants: one to share, or one of its own.
    fn obtain(&mut self, service: &Arc<Service>, want: Want) -> Result<Key, Trouble> {
        let from_before = want.requested.is_some_and(|ip| shows(service, ip));
        if !from_before && !self.unsettled.is_empty() {
            let message = "it waits until the Services that had an address before have claimed theirs";
            return Err(Trouble::new(Reason::Allocating, message, [Topic::Settled]));
        }
        let found = match want.requested {
            Some(ip) => self.that_one(service, ip, from_before)?,
            None => self.any_one(service, want.family)?,
        };
        let pool = match found {
            Found::Join(claim) => {
                self.attach(&claim, &service.key);
                return Ok(claim);
            }
            Found::Pool(pool) => pool,
        };
        let (_, across) = self.namespace(service);
        let member = (service.key.clone(), service.uid.clone());
        Ok(self.own_claim(&member, want, &pool, across))
    }

    /// A particular address.
    fn that_one(&mut self, service: &Arc<Service>, ip: IpAddr, from_before: bool) -> Result<Found, Trouble> {
        if !from_before && let Some(trouble) = self.reserved_for(ip) {
            return Err(trouble);
        }
        let asking = self.by_request.get(&ip).into_iter().flatten().cloned();
        let mut claims: Vec<Key> = asking.collect();
        for address in self.addresses.at(ip) {
            let claim = Key { namespace: address.key.namespace.clone(), name: address.claim.clone() };
            if !self.claims.contains_key(&claim) {
                let message = format!("the claim {claim} has {ip}: ask for another address, or delete that claim");
                return Err(Trouble::new(Reason::AddressTaken, message, [Topic::Ip(ip)]));
            }
            claims.insert(0, claim);
        }
        let mut own = None;
        for claim in claims {
            let Some(slot) = self.claims.get(&claim) else { continue };
            // One that asks and has something else, or was taken over to be exchanged, is not in the way.
            let has = self.address_of(&claim).and_then(|address| address.address);
            if has.is_some_and(|has| has != ip) || (slot.members.is_empty() && has.is_none()) {
                continue;
            }
            if slot.members.len() == 1 && slot.members.contains_key(&service.key) {
                own = Some(claim);
                continue;
            }
            if slot.going() || slot.members.is_empty() {
                let message = format!("{ip} is still being released by the claim {claim}");
                return Err(Trouble::new(Reason::AddressTaken, message, [Topic::Ip(ip), Topic::Claim(claim)]));
            }
            self.may_join(service, &claim)?;
            let (namespace, _) = self.namespace(service);
            if claim.namespace != namespace {
                let message = format!(
                    "{ip} belongs to the claim {claim}, which another namespace cannot share: give all \
                     Services that share it the same annotation {}=NAMESPACE/KEY",
                    crate::words::SHARING_KEY
                );
                return Err(Trouble::new(Reason::AddressTaken, message, [Topic::Claim(claim)]));
            }
            return Ok(Found::Join(claim));
        }
        // It has it, by the claim of another address or pool: there is nothing better to be had.
        if let Some(own) = own.filter(|own| self.claims.get(own).is_some_and(|slot| !slot.going())) {
            return Ok(Found::Join(own));
        }
        let (namespace, _) = self.namespace(service);
        match self.pools.listing(service, &namespace, ip, &self.config) {
            Ok(pool) => Ok(Found::Pool(pool)),
            Err((Reason::AddressNotInPool, _)) if self.coming(ip, &namespace) => {
                let message = format!("the pool that has {ip} is being made from the ConfigMap");
                Err(Trouble::new(Reason::Allocating, message, [Topic::Pools]))
            }
            Err((Reason::AddressNotInPool, _)) if from_before => {
                if self.kept.entry(ip).or_default().insert(service.key.clone()) {
                    self.dirty.insert(super::Who::Pools);
                }
                let message = format!("{ip} is in no pool: one is made for it, because the Service had it before");
                Err(Trouble::new(Reason::Allocating, message, [Topic::Pools]))
            }
            Err((reason, message)) => Err(Trouble::new(reason, message, [Topic::Pools])),
        }
    }

    /// Whether a pool with this address is being made, or edited so that it has it.
    fn coming(&self, ip: IpAddr, namespace: &Arc<str>) -> bool {
        let mut wanted = self.wanted_pools.iter().filter(|(source, made)| match &source.scope {
            Scope::Global => self.config.scope(namespace) == Some(Scope::Global),
            Scope::Namespace(name) => name == namespace,
            Scope::Kept => false,
        } && self.made(source) != Some(*made));
        wanted.any(|(_, made)| {
            let plan = made.spec.plan();
            plan.is_ok_and(|plan| plan.standing(Block::host(ip)) == Standing::Usable)
        })
    }

    /// What the pool for this is made from now.
    fn made(&self, source: &Source) -> Option<&Made> {
        self.pools.get(self.pools.made.get(source)?)?.made.as_ref()
    }

    /// Any address of its pool; first one to share.
    fn any_one(&self, service: &Arc<Service>, family: Family) -> Result<Found, Trouble> {
        let pool = self.choose(service, family)?;
        let Some(key) = sharing::key(service, &self.config).filter(|key| key.join != Join::IfAsked) else {
            return Ok(Found::Pool(pool));
        };
        if key.join == Join::May && self.full(service, &key.text, family) {
            return Ok(Found::Pool(pool));
        }
        let mut trouble = None;
        // One to share may well be of a pool that has no other left.
        let (namespace, _) = self.namespace(service);
        let pools = self.pools.alike(service, &namespace, &pool, &self.config);
        for claim in self.group(&key.text, family) {
            let has_it = self.claims.get(claim).is_some_and(|slot| slot.members.contains_key(&service.key));
            if has_it || !self.within_reach(service, claim, &pools) {
                continue;
            }
            match self.may_join(service, claim) {
                Ok(()) => return Ok(Found::Join(claim.clone())),
                Err(why) => trouble = Some(why),
            }
        }
        match trouble {
            Some(trouble) if key.join == Join::Must => Err(trouble),
            _ => Ok(Found::Pool(pool)),
        }
    }

    /// Why an address that nobody claims is not for Services.
    pub(super) fn reserved_for(&self, ip: IpAddr) -> Option<Trouble> {
        let (reason, message) = match self.reserved.get(&ip)? {
            Reserved::Node(node) => (
                Reason::AddressOfNode,
                format!("{ip} is an address of node {node}: ask for another, or exclude it from its pool"),
            ),
            Reserved::ControlPlane => (
                Reason::AddressOfControlPlane,
                format!("{ip} is the control plane's: ask for another, or exclude it from its pool"),
            ),
        };
        Some(Trouble::new(reason, message, [Topic::Ip(ip)]))
    }
}

/// Where an address is to come from.
enum Found {
    Join(Key),
    Pool(Arc<PoolRef>),
}
