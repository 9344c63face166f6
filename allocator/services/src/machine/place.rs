//! The claim that a Service should have for a family.

use std::net::IpAddr;
use std::sync::Arc;

use mooring_allocator_core::block::{Block, Family};
use mooring_allocator_core::names::{Key, PoolRef};
use mooring_allocator_core::pool::Standing;

use crate::families::place;
use crate::objects::{Address, Made, Reserved, Scope, Service, Source};
use crate::reason::Reason;
use crate::record;
use crate::request::shows;
use crate::sharing::{self, Join};

use super::Machine;
use super::join::Trouble;
use super::slots::Topic;

/// What a Service wants of a family.
#[derive(Clone, Copy, Debug)]
pub(super) struct Want {
    pub(super) family: Family,
    /// The only acceptable address.
    pub(super) requested: Option<IpAddr>,
}

impl Machine {
    /// The `IPAddress` of a bound claim.
    pub(super) fn address_of(&self, claim: &Key) -> Option<&Address> {
        let seen = self.claims.get(claim)?.seen.as_ref()?;
        let name = seen.bound.clone()?;
        self.seen.addresses.named(&Key { namespace: claim.namespace.clone(), name })
    }

    /// Makes sure that a Service has the claim it wants. The current claim stays until the next address is advertised.
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
        // A current claim without an address is not worth keeping.
        let keeps = held.current.as_ref().is_some_and(|claim| self.address_of(claim).is_some());
        if let Some(current) = held.current.filter(|current| !keeps && found.as_ref() != Ok(current)) {
            self.detach(&current, &service.key);
        }
        let claim = found?;
        if let Some(slot) = self.services.get_mut(&service.key) {
            let held = &mut slot.held[at];
            // The Service goes back to a claim that it had.
            held.old.retain(|old| *old != claim);
            *(if keeps { &mut held.next } else { &mut held.current }) = Some(claim);
        }
        Ok(())
    }

    /// Whether a claim is what a Service wants. An edited pool or a new default is no reason to move: only the settings
    /// of this Service are.
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
            let listed = ip.is_none_or(|ip| self.seen.pools.get(&slot.pool).is_some_and(|pool| pool.lists(ip)));
            if chosen != slot.pool || (service.notes.reallocate && !listed) {
                return Ok(false);
            }
        }
        // The Service got its key later: it is alone, and others have the key.
        match sharing::key(service, &self.seen.config).filter(|key| key.join == Join::Must && alone) {
            None => Ok(true),
            Some(key) => {
                let mut group = self.group(&key.text, want.family);
                match group.find(|other| {
                    *other != claim && self.within_reach(service, other, std::slice::from_ref(&slot.pool))
                }) {
                    None => Ok(true),
                    // If the Service cannot join, it stays where it is and reports the reason.
                    Some(other) => self.may_join(service, other).map(|()| false),
                }
            }
        }
    }

    /// Whether two sharing Services may go on sharing. No Service loses an address that carries its traffic because a
    /// key was removed or the `ConfigMap` changed. Sharing ends only where people gave the two Services different keys.
    fn may_stay(&self, one: &Service, other: &Service, ip: Option<IpAddr>) -> bool {
        let explicit =
            |service| sharing::key(service, &self.seen.config).filter(|key| key.join != Join::May).map(|key| key.text);
        let parted = matches!((explicit(one), explicit(other)), (Some(one), Some(other)) if one != other);
        self.agree(one, other, ip) || (!parted && ip.is_some_and(|ip| shows(one, ip) && shows(other, ip)))
    }

    /// Whether a Service could share a claim, or shares it: the claim is of one of these pools, is in the namespace of
    /// the Service's own claims, and other Services have it.
    fn within_reach(&self, service: &Service, claim: &Key, pools: &[Arc<PoolRef>]) -> bool {
        let slot = self.claims.get(claim);
        slot.is_some_and(|slot| pools.contains(&slot.pool) && slot.members.keys().any(|key| *key != service.key))
            && claim.namespace == self.namespace(service).0
    }

    /// The namespace of a Service's claim.
    pub(super) fn namespace(&self, service: &Service) -> (Arc<str>, bool) {
        let across = sharing::key(service, &self.seen.config).is_some_and(|key| key.across);
        (if across { self.settings.home.clone() } else { service.key.namespace.clone() }, across)
    }

    fn choose(&self, service: &Service, family: Family) -> Result<Arc<PoolRef>, Trouble> {
        let (namespace, _) = self.namespace(service);
        let chosen = self.seen.pools.choose(service, &namespace, family, &self.seen.config);
        chosen.map_err(|(reason, message)| Trouble::new(reason, message, [Topic::Pools]))
    }

    /// A claim that gives a Service what it wants: a claim to share, or an own claim.
    fn obtain(&mut self, service: &Arc<Service>, want: Want) -> Result<Key, Trouble> {
        let from_before = want.requested.is_some_and(|ip| shows(service, ip));
        let first =
            !self.takeover.unsettled.is_empty() || (want.requested.is_none() && !self.takeover.asking.is_empty());
        if !from_before && first {
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

    /// Finds a particular address.
    fn that_one(&mut self, service: &Arc<Service>, ip: IpAddr, from_before: bool) -> Result<Found, Trouble> {
        if !from_before && let Some(trouble) = self.reserved_for(service, ip) {
            return Err(trouble);
        }
        let asking = self.claims.by_request.get(&ip).into_iter().flatten().cloned();
        let mut claims: Vec<Key> = asking.collect();
        for address in self.seen.addresses.at(ip) {
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
            // A claim that asks for this address is not in the way if it has another address, or if it was taken over
            // to be exchanged.
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
        // The Service has the address by a claim of another address or pool: nothing better is available.
        if let Some(own) = own.filter(|own| self.claims.get(own).is_some_and(|slot| !slot.going())) {
            return Ok(Found::Join(own));
        }
        let (namespace, _) = self.namespace(service);
        match self.seen.pools.listing(service, &namespace, ip, &self.seen.config) {
            Ok(pool) => Ok(Found::Pool(pool)),
            Err((Reason::AddressNotInPool, _)) if self.coming(ip, &namespace) => {
                let message = format!("the pool that has {ip} is being made from the ConfigMap");
                Err(Trouble::new(Reason::Allocating, message, [Topic::Pools]))
            }
            Err((Reason::AddressNotInPool, _)) if from_before => {
                if self.takeover.kept.entry(ip).or_default().insert(service.key.clone()) {
                    self.work.mark(super::Who::Pools);
                }
                let message = format!("{ip} is in no pool: one is made for it, because the Service had it before");
                Err(Trouble::new(Reason::Allocating, message, [Topic::Pools]))
            }
            Err((reason, message)) => Err(Trouble::new(reason, message, [Topic::Pools])),
        }
    }

    /// Whether a pool with this address is being made, or is being edited to include this address.
    pub(super) fn coming(&self, ip: IpAddr, namespace: &Arc<str>) -> bool {
        let mut wanted = self.made.wanted.iter().filter(|(source, made)| match &source.scope {
            Scope::Global => self.seen.config.scope(namespace) == Some(Scope::Global),
            Scope::Namespace(name) => name == namespace,
            Scope::Kept => false,
        } && self.made(source) != Some(*made));
        wanted.any(|(_, made)| {
            let plan = made.spec.plan();
            plan.is_ok_and(|plan| plan.standing(Block::host(ip)) == Standing::Usable)
        })
    }

    /// The data from which the pool of this source is made now.
    fn made(&self, source: &Source) -> Option<&Made> {
        self.seen.pools.get(self.seen.pools.made.get(source)?)?.made.as_ref()
    }

    /// Finds any address of the Service's pool; an address to share comes first.
    fn any_one(&self, service: &Arc<Service>, family: Family) -> Result<Found, Trouble> {
        let pool = self.choose(service, family)?;
        let Some(key) = sharing::key(service, &self.seen.config).filter(|key| key.join != Join::IfAsked) else {
            return Ok(Found::Pool(pool));
        };
        if key.join == Join::May && self.full(service, &key.text, family) {
            return Ok(Found::Pool(pool));
        }
        let mut trouble = None;
        // A claim to share may be of another pool when this pool has no free address.
        let (namespace, _) = self.namespace(service);
        let pools = self.seen.pools.alike(service, &namespace, &pool, &self.seen.config);
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

    /// Why an address without a claim is not for this Service.
    pub(super) fn reserved_for(&self, service: &Service, ip: IpAddr) -> Option<Trouble> {
        let (reason, message) = match self.seen.reserved.get(&ip) {
            Some(Reserved::Node(node)) => (
                Reason::AddressOfNode,
                format!("{ip} is an address of node {node}: ask for another, or exclude it from its pool"),
            ),
            Some(Reserved::ControlPlane) => (
                Reason::AddressOfControlPlane,
                format!("{ip} is the control plane's: ask for another, or exclude it from its pool"),
            ),
            None => {
                // What the Service has already stays, whatever others show.
                let recorded = record::read(service.notes.record.as_deref()).iter().any(|(_, one)| *one == ip);
                let other = self.shown_by(ip, |other| recorded || *other == service.key)?;
                (Reason::AddressTaken, format!("the status of Service {other} shows {ip}: ask for another address"))
            }
        };
        Some(Trouble::new(reason, message, [Topic::Ip(ip)]))
    }
}

/// The origin of an address.
enum Found {
    Join(Key),
    Pool(Arc<PoolRef>),
}
