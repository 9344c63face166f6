//! The claim that a Service should have for a family.

use std::net::IpAddr;
use std::sync::Arc;

use mooring_allocator_core::block::{Block, Family};
use mooring_allocator_core::names::{Key, PoolRef};
use mooring_allocator_core::pool::{Network, Plan, Standing};

use crate::families::place;
use crate::objects::{Address, Claim, Made, Pool, Reserved, Scope, Service, Source};
use crate::reason::Reason;
use crate::record;
use crate::request::shows;
use crate::sharing::Join;
use crate::utc::utc;

use super::Machine;
use super::join::Trouble;
use super::slots::{ClaimSlot, Topic};

/// What a Service wants of a family.
#[derive(Clone, Copy, Debug)]
pub(super) struct Want {
    pub(super) family: Family,
    /// The only acceptable address.
    pub(super) requested: Option<IpAddr>,
    /// The address to take if nobody else has it, where none is requested.
    pub(super) recorded: Option<IpAddr>,
}

impl Want {
    /// The address of its record, where that is what it asks for.
    pub(super) fn again(&self) -> Option<IpAddr> {
        self.requested.filter(|ip| self.recorded == Some(*ip))
    }
}

impl Machine {
    /// The `IPAddress` of a bound claim.
    pub(super) fn address_of(&self, claim: &Key) -> Option<&Address> {
        let slot = self.claims.get(claim)?;
        let seen = slot.seen.as_ref()?;
        let Some(name) = seen.bound.clone() else {
            let mut members = slot.members.keys().filter_map(|member| self.services.get(member));
            return members.find_map(|member| self.live(&member.service, seen));
        };
        self.seen.addresses.named(&Key { namespace: claim.namespace.clone(), name })
    }

    /// The `IPAddress` of a claim that is shown without one, if the record and the status of a Service name it. A claim that
    /// lost an address gets another one, perhaps under the same name, and the watch of claims may be behind all others: it
    /// shows the claim without an address when the new one is in the status already. No Service loses an address that
    /// carries its traffic because a watch is late.
    pub(super) fn live(&self, service: &Service, claim: &Claim) -> Option<&Address> {
        if claim.bound.is_some() {
            return None;
        }
        let lines = record::read(service.notes.record.as_deref());
        lines.into_iter().filter(|(_, ip)| shows(service, *ip)).find_map(|(object, ip)| {
            let address = self.seen.addresses.named(&object)?;
            let of_it = object.namespace == claim.key.namespace && address.claim == claim.key.name;
            let attempt = address.attempt.as_ref().filter(|attempt| attempt.claim == claim.uid);
            let void = attempt.is_some_and(|attempt| attempt.number < claim.voided);
            let leaves = address.deleting || address.rest.is_some() || address.conflict.is_some() || void;
            (of_it && address.address == Some(ip) && !leaves).then_some(address)
        })
    }

    /// Makes sure that a Service has the claim it wants. The current claim stays until the next address is advertised.
    pub(super) fn settle(&mut self, service: &Arc<Service>, want: Want) -> Result<(), Trouble> {
        let at = place(want.family);
        let held = self.services.get(&service.key).map(|slot| slot.held[at].clone()).unwrap_or_default();
        let uninvited = self.uninvited(service);
        if let Some(current) = &held.current
            && (uninvited.is_none() || self.claims.get(current).is_some_and(|slot| slot.across))
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
        let not_yet = want.requested.or(want.recorded).and_then(|ip| self.not_allowed_yet(service, ip));
        let not_yet = not_yet.filter(|_| self.waits_on(&service.key));
        let returns = not_yet.is_some();
        let found = uninvited.or(not_yet).map_or_else(|| self.obtain(service, want), Err);
        // A current claim without an address is not worth keeping.
        let keeps = held.current.as_ref().is_some_and(|claim| self.address_of(claim).is_some());
        // But one that is to bring an address back is, while there is no better one: its pool may come later.
        let waits =
            returns || (want.recorded.is_some() && found.as_ref().is_err_and(|trouble| trouble.reason.is_not_yet()));
        if let Some(current) = held.current.filter(|current| !keeps && !waits && found.as_ref() != Ok(current)) {
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
        if !others.all(|other| self.may_stay(service, other, ip, slot.group.as_deref())) {
            return Ok(false);
        }
        let in_vain = ip.is_none() && slot.requested.is_some() && !self.may_come(service, claim, slot);
        if let Some(requested) = want.requested {
            return Ok(ip.or(slot.requested) == Some(requested) && !in_vain);
        }
        if ip.is_none() && slot.requested.is_some() && want.recorded == slot.requested {
            return Ok(!in_vain);
        }
        if ip.is_none() && slot.requested.is_some() && alone {
            return Ok(false);
        }
        // An address from before stays, although the Service names another pool.
        let keeps = ip.is_some() && self.seen.pools.get(&slot.pool).is_some_and(Pool::keeps);
        let asks = (service.notes.pool.is_some() && !keeps) || service.notes.reallocate;
        if asks || ip.is_none() {
            let chosen = self.choose(service, want.family)?;
            let listed = ip.is_none_or(|ip| self.seen.pools.get(&slot.pool).is_some_and(|pool| pool.lists(ip)));
            if chosen != slot.pool || (service.notes.reallocate && !listed) {
                return Ok(false);
            }
        }
        // The Service got its key later: it is alone, and others have the key. An address that is no longer in its pool
        // stays until people ask, and draws nobody who has another.
        let joins = alone && !self.is_stray(claim);
        match self.sharing_key(service).filter(|key| key.join == Join::Must && joins) {
            None => Ok(true),
            Some(key) => {
                let mut group = self.group(&key.text, want.family);
                match group.find(|other| {
                    let is_another = *other != claim && !self.is_stray(other);
                    is_another && self.within_reach(service, other, std::slice::from_ref(&slot.pool))
                }) {
                    None => Ok(true),
                    // If the Service cannot join, it stays where it is and reports the reason.
                    Some(other) => self.may_join(service, other).map(|()| false),
                }
            }
        }
    }

    /// Whether a claim can no longer get the address it asks for, as far as its pool tells. It waits for a pool that has become
    /// invalid; people can delete a pool, or take addresses out of it, while a claim waits.
    fn is_hopeless(&self, slot: &ClaimSlot) -> bool {
        let bound = slot.seen.as_ref().is_some_and(|claim| claim.bound.is_some());
        let gives =
            |pool: &Pool| !pool.deleting && (pool.plan.is_err() || slot.requested.is_none_or(|ip| pool.lists(ip)));
        !bound && !self.seen.pools.get(&slot.pool).is_some_and(gives)
    }

    /// Whether a Service may still get the address of a claim that asks for one.
    pub(super) fn may_come(&self, service: &Service, claim: &Key, slot: &ClaimSlot) -> bool {
        let pool = self.seen.pools.get(&slot.pool);
        !self.is_hopeless(slot) && pool.is_some_and(|pool| pool.serves_both(service, &claim.namespace))
    }

    /// Whether a claim names a Service, as far as this allocator wants it.
    fn has(&self, service: &Service, claim: &Key) -> bool {
        self.claims.get(claim).is_some_and(|slot| slot.members.contains_key(&service.key))
    }

    /// Whether a claim has an address that its pool no longer has.
    fn is_stray(&self, claim: &Key) -> bool {
        let ip = self.address_of(claim).and_then(|address| address.address);
        let pool = self.claims.get(claim).and_then(|slot| self.seen.pools.get(&slot.pool));
        ip.zip(pool).is_some_and(|(ip, pool)| pool.plan.is_ok() && !pool.lists(ip))
    }

    /// Whether a Service may go on sharing with another one. No Service loses an address that carries its traffic because a
    /// key was removed or the `ConfigMap` changed: if the other one does not show the address yet, the other one leaves.
    /// Where both show it, sharing ends only if people gave the two Services different keys: then the one leaves that has not the
    /// claim's own.
    fn may_stay(&self, one: &Service, other: &Service, ip: Option<IpAddr>, own: Option<&str>) -> bool {
        let explicit = |service| self.sharing_key(service).filter(|key| key.join != Join::May).map(|key| key.text);
        let (key, others) = (explicit(one), explicit(other));
        let parted = key.is_some() && others.is_some() && key != others;
        let leaves = parted && key.as_deref() != own;
        self.agree(one, other, ip)
            || ip.is_some_and(|ip| shows(one, ip) && !(leaves && shows(other, ip)))
            || ip.is_some_and(|ip| self.shared_before(one, other, ip))
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
        let across = self.sharing_key(service).is_some_and(|key| key.across);
        (if across { self.settings.home.clone() } else { service.key.namespace.clone() }, across)
    }

    fn choose(&self, service: &Service, family: Family) -> Result<Arc<PoolRef>, Trouble> {
        let (namespace, _) = self.namespace(service);
        let chosen = self.seen.pools.choose(service, &namespace, family, &self.seen.config);
        chosen.map_err(|(reason, message)| Trouble::new(reason, message, [Topic::Pools]))
    }

    /// A claim that gives a Service what it wants: a claim to share, or an own claim.
    fn obtain(&mut self, service: &Arc<Service>, want: Want) -> Result<Key, Trouble> {
        // One that had an address waits for nobody.
        let later = || {
            let message = "it waits until the Services that had an address before have claimed theirs";
            Trouble::new(Reason::Allocating, message, [Topic::Settled])
        };
        let had_one = want.requested.or(want.recorded).is_some_and(|ip| self.had(service, ip));
        let first =
            !self.takeover.unsettled.is_empty() || (want.requested.is_none() && !self.takeover.asking.is_empty());
        if !had_one && first {
            return Err(later());
        }
        let mut want = want;
        let ip = want.requested.or(want.recorded);
        if let Some(claim) = ip.and_then(|ip| self.claim_of_before(service, ip)) {
            self.attach(&claim, &service.key);
            return Ok(claim);
        }
        let found = match (want.requested, want.recorded) {
            (Some(ip), _) => self.that_one(service, ip)?,
            (None, Some(ip)) => match self.that_one(service, ip) {
                Err(Trouble { reason, message, until }) if reason.is_not_yet() && reason != Reason::Allocating => {
                    let message = format!(
                        "the Service had {ip}, and waits for it; {message}; to have any other address, set the annotation {}",
                        crate::words::REALLOCATE
                    );
                    return Err(Trouble { reason, message, until });
                }
                // Somebody else has it now.
                Err(trouble) if trouble.reason != Reason::Allocating => {
                    self.comes_back_no_more(&service.key, want.family);
                    if self.takeover.unsettled.iter().any(|key| *key != service.key) {
                        return Err(later());
                    }
                    self.any_one(service, want.family)?
                }
                found => {
                    want.requested = Some(ip);
                    found?
                }
            },
            (None, None) => self.any_one(service, want.family)?,
        };
        let pool = match found {
            Found::Join(claim) => {
                self.attach(&claim, &service.key);
                return Ok(claim);
            }
            Found::Pool(pool) => pool,
        };
        if want.requested.is_none()
            && let Some(trouble) = self.gives_way(service, &pool)
        {
            return Err(trouble);
        }
        if let Some(ip) = want.again()
            && let Some(trouble) = self.name_is_going(service, ip)
        {
            return Err(trouble);
        }
        let (_, across) = self.namespace(service);
        Ok(self.own_claim(service, want, &pool, across))
    }

    /// Whether a Service shows an address that it had before Mooring came. An address that Mooring has refused to give is not from
    /// before: kube-vip, or an agent with its placement, carries whatever a Service asks for, and shows it. Nor is the control
    /// plane's.
    fn had_before_us(&self, service: &Service, ip: IpAddr) -> bool {
        let of_control_plane = matches!(self.seen.reserved.get(&ip), Some(Reserved::ControlPlane));
        let verdict =
            self.services.get(&service.key).and_then(|slot| slot.verdict.as_ref()).map(|(verdict, _)| verdict);
        let refused = || {
            let said = verdict.or(service.condition.as_ref()).filter(|condition| !condition.ready);
            said.is_some_and(|condition| crate::reason::is_not_for_services(&condition.reason))
        };
        shows(service, ip) && !of_control_plane && !refused()
    }

    /// Finds a particular address.
    fn that_one(&mut self, service: &Arc<Service>, ip: IpAddr) -> Result<Found, Trouble> {
        let from_before = self.had_before_us(service, ip);
        if !from_before && let Some(trouble) = self.reserved_for(service, ip) {
            return Err(trouble);
        }
        let asking = self.claims.by_request.get(&ip).into_iter().flatten().cloned();
        let mut claims: Vec<Key> = asking.chain(self.is_to_get(service, ip)).collect();
        let there: Vec<Arc<Address>> = self.seen.addresses.at(ip).cloned().collect();
        for address in there {
            let claim = address.claim_key();
            if let Some(rest) = &address.rest {
                let until = utc(rest.until).map_or_else(String::new, |until| format!(" until {until}"));
                let message = format!(
                    "{ip} rests{until}, because it was given back or another host was heard to have it: wait, or ask for \
                     another address"
                );
                return Err(Trouble::new(Reason::AddressTaken, message, [Topic::Ip(ip)]));
            }
            if !self.claims.contains_key(&claim) {
                // What the Service had before a restore: the claim that it makes now has that name, and gets it.
                let of_record = || self.object_of_record(service, ip).as_ref() == Some(&address.key);
                if of_record() || self.is_of_another_network(service, ip, &address.pool) {
                    continue;
                }
                if let Some(trouble) = self.claim_is_to_come(service, ip, &address.key) {
                    return Err(trouble);
                }
                let claim = claim.told_in(&service.key.namespace, "claim");
                let message = format!("{claim} has {ip}: ask for another address, or delete that claim");
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
                if has.is_some() || self.may_come(service, &claim, slot) {
                    own = Some(claim);
                }
                continue;
            }
            if has.is_none() && !slot.going() && !slot.members.is_empty() && self.is_hopeless(slot) {
                continue;
            }
            if slot.members.is_empty() && self.of_whom(&claim, &service.key.namespace).is_some() {
                // The refusal says whose the claim is.
                self.may_join(service, &claim)?;
            }
            if slot.going() || slot.members.is_empty() {
                let whose = claim.told_in(&service.key.namespace, "claim");
                let message = format!("{ip} is still being released by {whose}");
                return Err(Trouble::new(Reason::Allocating, message, [Topic::Ip(ip), Topic::Claim(claim)]));
            }
            self.may_join(service, &claim)?;
            let (namespace, _) = self.namespace(service);
            let pool = self.claims.get(&claim).and_then(|slot| self.seen.pools.get(&slot.pool));
            if let Some(pool) = pool.filter(|pool| !from_before && !pool.admits(&service.key.namespace)) {
                let namespace = &service.key.namespace;
                let pool = pool.reference.told_in(namespace);
                let message = format!("{ip} is of {pool}, which does not serve namespace {namespace}");
                return Err(Trouble::new(Reason::PoolNotUsable, message, [Topic::Pools, Topic::Claim(claim)]));
            }
            if claim.namespace != namespace {
                let whose = claim.told_in(&service.key.namespace, "claim");
                let message = format!(
                    "{ip} belongs to {whose}, which another namespace cannot share: give all Services that share it the same \
                     annotation {}=NAMESPACE/KEY",
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
            // By its record, a pool gave it the address: that pool may be restored later.
            Err((Reason::AddressNotInPool, _))
                if (from_before && !record::names(&service.notes, ip)) || self.may_be_outside(service, ip) =>
            {
                if let Some(pool) = self.seen.pools.keeping(service, &namespace, ip) {
                    return Ok(Found::Pool(pool));
                }
                if self.takeover.kept.entry(ip).or_default().insert(service.key.clone()) {
                    self.work.mark(super::Who::Pools);
                }
                let why = if from_before { "had it before" } else { "asks for it" };
                let message = format!("no pool of the Service has {ip}: one is made for it, because the Service {why}");
                Err(Trouble::new(Reason::Allocating, message, [Topic::Pools]))
            }
            Err((reason, message)) => Err(Trouble::new(reason, message, [Topic::Pools])),
        }
    }

    /// Whether a Service may have an address that it asks for although no pool has it. What a pool has, excludes or keeps as its
    /// gateway is for those that the pool serves; and who names a pool gets nothing from elsewhere.
    fn may_be_outside(&self, service: &Service, ip: IpAddr) -> bool {
        let is_of = |plan: &Plan| !matches!(plan.standing(Block::host(ip)), Standing::Outside);
        // While its spec makes no sense, a pool has what it had before.
        let plan = |pool: &Pool| pool.plan.as_ref().ok().or(pool.before.as_ref()).cloned();
        let of_pool = |pool: &Pool| !pool.keeps() && plan(pool).is_some_and(|plan| is_of(&plan));
        let of_made = |(source, made): (&Source, &Made)| {
            source.scope != Scope::Kept && made.spec.plan().is_ok_and(|plan| is_of(&plan))
        };
        self.settings.outside_pools
            && service.notes.pool.is_none()
            && !self.seen.pools.iter().any(of_pool)
            && !self.made.wanted.iter().any(of_made)
    }

    /// Whether an address of this pool is of another network than the pool from which the Service would get the address: then
    /// the two are different addresses, for example of two tenants.
    fn is_of_another_network(&self, service: &Service, ip: IpAddr, pool: &PoolRef) -> bool {
        let (namespace, _) = self.namespace(service);
        let network = |pool: &PoolRef| Some(&self.seen.pools.get(pool)?.plan.as_ref().ok()?.network);
        let chosen = self.seen.pools.listing(service, &namespace, ip, &self.seen.config).ok();
        let ours = chosen.as_ref().and_then(|pool| network(pool)).unwrap_or(&Network::Common);
        network(pool).is_some_and(|theirs| !ours.sees(theirs))
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
        let Some(key) = self.sharing_key(service).filter(|key| key.join != Join::IfAsked) else {
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
            let leaves = self.has(service, claim) || (service.notes.reallocate && self.is_stray(claim));
            if leaves || !self.within_reach(service, claim, &pools) {
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

    /// Whether a Service that shows an address shared it with this one, by the records of both, and may do so still. Their status may
    /// have been restored, too.
    fn had_it_with(&self, service: &Service, other: &Key, ip: IpAddr) -> bool {
        let Some(other) = self.services.get(other).map(|slot| &slot.service) else { return false };
        let together = service.key.namespace == other.key.namespace || self.agree(service, other, Some(ip));
        together && record::shared(&service.notes, &other.notes, ip)
    }

    /// An older Service that has a record of an address, too, and has not claimed it yet since this allocator leads: whoever may make a
    /// Service can write a record of what a restored one had, and only later.
    fn older_of_record(&self, service: &Service, ip: IpAddr) -> Option<&Key> {
        let created = |key: &Key| self.services.get(key).map(|slot| slot.service.created);
        let all = self.takeover.recorded.get(&ip)?.iter().filter(|key| self.takeover.unsettled.contains(*key));
        let mut older = all.filter(|key| created(key).is_some_and(|at| at < service.created));
        older.find(|key| !self.had_it_with(service, key, ip))
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
                // The Service's own record does not count: whoever may edit the Service can write one. Of Services with one record, of
                // which none shows the address yet, none waits for the others, unless the other is older, and about to get what it had.
                let recorded = record::names(&service.notes, ip);
                let as_much =
                    |other: &Key| recorded && (self.only_awaits(other, ip) || self.had_it_with(service, other, ip));
                let older = self.older_of_record(service, ip).filter(|_| recorded);
                let other = older.or_else(|| self.shown_by(ip, |other| *other == service.key || as_much(other)))?;
                let other = other.told_in(&service.key.namespace, "Service");
                let message = format!("{other} has {ip} by its status or its record: ask for another address");
                (Reason::AddressTaken, message)
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
