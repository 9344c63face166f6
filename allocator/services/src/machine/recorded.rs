//! Addresses that a Service has by its record, and by no claim.
//!
//! The record on a Service outlives the Service's claims: a Service that is restored from a backup, or applied again from
//! exported YAML, has the annotations of before and a new uid. People may delete a claim by hand. Nobody asked for the
//! address; but clients and DNS know it, so the Service gets the same address again if nobody else has it.

use std::net::IpAddr;
use std::time::Duration;

use mooring_allocator_core::block::Family;
use mooring_allocator_core::names::Key;

use crate::families::place;
use crate::naming;
use crate::objects::{Claim, Service};
use crate::reason::Reason;
use crate::record;
use crate::request::shows;

use super::join::Trouble;
use super::slots::{ClaimSlot, Topic};
use super::{Machine, Who};

/// How long a Service waits for the address of its record, while the claim that had it is being released: somebody's finalizer may
/// hold that claim.
const COMES_BACK_WITHIN: Duration = Duration::from_secs(30);

/// What a Service waits for that is to get the address of its record again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ComesBack {
    /// It does not wait.
    No,
    /// For the claim that had the address to be released: not for ever.
    WhenReleased(IpAddr),
    /// For a pool that has the address, or for its claim, as long as it takes: after a restore, pools and namespaces may come later than
    /// Services. Or for what lets it share the address; see [`super::not_yet`].
    WhenGiven(IpAddr),
}

impl Reason {
    /// Whether an address that a Service had may still come back to it: nobody else has it, and what would give it may not be there
    /// yet.
    pub(super) const fn is_not_yet(self) -> bool {
        let shared = matches!(self, Self::PortConflict | Self::NoCommonNode | Self::SharingNotAllowed);
        !shared && !matches!(self, Self::AddressTaken | Self::AddressOfNode | Self::AddressOfControlPlane)
    }
}

impl ComesBack {
    /// What a Service waits for that had this address, and now has this trouble.
    fn after(trouble: Option<&Trouble>, ip: IpAddr) -> Self {
        match trouble {
            Some(trouble) if !trouble.reason.is_not_yet() => Self::No,
            Some(trouble) if trouble.until.contains(&Topic::Ip(ip)) => Self::WhenReleased(ip),
            _ => Self::WhenGiven(ip),
        }
    }
}

impl Machine {
    /// The address of a family that a Service has by its record, and by no claim; or that its claim is on the way to get
    /// again.
    pub(super) fn recorded(&self, service: &Service, family: Family) -> Option<IpAddr> {
        let lines = record::read(service.notes.record.as_deref());
        let ip = lines.iter().map(|(_, ip)| *ip).find(|ip| Family::of(*ip) == family)?;
        let slot = self.services.get(&service.key)?;
        if service.notes.reallocate || slot.comes_back_by[place(family)].is_some_and(|by| by <= self.work.now()) {
            return None;
        }
        let held = &slot.held[place(family)];
        let comes = match &held.current {
            Some(claim) => self.comes_back(service, claim, ip),
            None => held.all().all(|claim| self.address_of(claim).is_none_or(|address| address.address != Some(ip))),
        };
        comes.then_some(ip)
    }

    /// Whether a Service's claim was made to bring this address back, or is about to name the Service, and is not done.
    fn comes_back(&self, service: &Service, claim: &Key, ip: IpAddr) -> bool {
        let Some(slot) = self.claims.get(claim) else { return false };
        if let Some(address) = self.address_of(claim) {
            return address.address == Some(ip) && !slot.belongs_to(&(service.key.clone(), service.uid.clone()));
        }
        let asks = slot.seen.as_ref().is_none_or(|claim| claim.requested == Some(ip)) && slot.requested == Some(ip);
        // One that was restored before its `IPAddress` asks for nothing, and gets what it had.
        let had = record::read(service.notes.record.as_deref()).contains(&(claim.clone(), ip));
        // A claim may be refused because its pool, or the right to it, is not there yet, or because a webhook is away.
        let refused = slot.seen.as_ref().and_then(Claim::refused).is_some();
        (asks || had) && !(refused && self.is_of_another(ip, claim))
    }

    /// Whether another claim has the address, and keeps it. A claim that no Service has any more, of before a restore, is about to be
    /// deleted.
    fn is_of_another(&self, ip: IpAddr, claim: &Key) -> bool {
        self.seen.addresses.at(ip).any(|address| {
            let holder = address.claim_key();
            let nobodys = |slot: &ClaimSlot| slot.members.is_empty() && self.of_whom(&holder, "").is_none();
            let goes = self.claims.get(&holder).is_some_and(|slot| slot.going() || nobodys(slot));
            holder != *claim && !goes
        })
    }

    /// Whether a Service without a claim for this address had the address: its status shows it, or its record names it.
    pub(super) fn had(&self, service: &Service, ip: IpAddr) -> bool {
        shows(service, ip) || self.recorded(service, Family::of(ip)) == Some(ip)
    }

    /// What the Service waits for to get the address of a family in its record, unless it asks for another one. The troubles: with
    /// settling it, and of the claim that it has.
    pub(super) fn coming_back(
        &self,
        service: &Service,
        family: Family,
        asked: Option<IpAddr>,
        [settled, state]: [Option<&Trouble>; 2],
    ) -> ComesBack {
        let ip = self.recorded(service, family).filter(|ip| asked.is_none_or(|asked| asked == *ip));
        let ip = ip.filter(|_| state.is_none_or(|trouble| trouble.reason.is_not_yet()));
        ip.map_or(ComesBack::No, |ip| match settled {
            Some(_) if self.not_allowed_yet(service, ip).is_some() => ComesBack::WhenGiven(ip),
            _ => ComesBack::after(settled, ip),
        })
    }

    /// Notes what the Service waits for to get the address of a family in its record.
    pub(super) fn note_coming_back(&mut self, key: &Key, family: Family, comes: ComesBack) {
        let now = self.work.now();
        if let ComesBack::WhenReleased(ip) | ComesBack::WhenGiven(ip) = comes {
            // Whoever gets it first, or gives it back.
            self.wait(key, Topic::Ip(ip));
        }
        let Some(slot) = self.services.get_mut(key) else { return };
        let by = &mut slot.comes_back_by[place(family)];
        match comes {
            ComesBack::WhenReleased(_) => {
                let by = *by.get_or_insert(now + COMES_BACK_WITHIN);
                self.work.mark_at(by, Who::Service(key.clone()));
            }
            ComesBack::WhenGiven(_) => *by = None,
            ComesBack::No if slot.held[place(family)].current.is_some() => *by = None,
            ComesBack::No => {}
        }
    }

    /// The address of a family that a Service waits for to come back, and that nobody else is to get meanwhile: no pool has the
    /// address yet, or the claim for it is on its way, or nothing lets the Service share it yet.
    pub(super) fn awaited(&self, service: &Service, family: Family) -> Option<IpAddr> {
        let ip = self.recorded(service, family)?;
        let claim = self.services.get(&service.key)?.held[place(family)].current.as_ref();
        let on_its_way = |claim: &Key| self.claims.get(claim).is_some_and(|slot| self.may_come(service, claim, slot));
        let claims = claim.is_some_and(on_its_way);
        let may_have = || {
            let (namespace, _) = self.namespace(service);
            self.seen.pools.listing(service, &namespace, ip, &self.seen.config).is_ok()
        };
        let shares = || self.not_allowed_yet(service, ip).is_some() && may_have();
        (claims || shares() || !self.seen.pools.iter().any(|pool| pool.lists(ip))).then_some(ip)
    }

    /// The claim that gave a Service this address before the Service was restored, if it was restored too, and is nobody's yet.
    pub(super) fn claim_of_before(&self, service: &Service, ip: IpAddr) -> Option<Key> {
        let key = self.object_of_record(service, ip)?;
        // One that is about to be deleted is not taken back.
        let is_free = |slot: &&ClaimSlot| !slot.going() && slot.members.is_empty() && slot.writes.pending.is_none();
        let slot = self.claims.get(&key).filter(is_free)?;
        let member = (service.key.clone(), service.uid.clone());
        let names_it = |claim: &&Claim| {
            claim.members().iter().any(|(member, _)| *member == service.key)
                && !self.is_shared_elsewhere(claim, &member)
        };
        slot.seen.as_ref().filter(names_it).filter(|claim| self.is_of_record(service, claim)).map(|_| key)
    }

    /// The `IPAddress` of this address in a Service's record, which has the name of its claim: in the namespace of the Service's
    /// claims, and named as such claims are. In the Service's own namespace it may be named after another Service, with which this one
    /// shared it.
    pub(super) fn object_of_record(&self, service: &Service, ip: IpAddr) -> Option<Key> {
        let (namespace, across) = self.namespace(service);
        let object = record::object(&service.notes, ip)?;
        let named = if across {
            naming::is_claim_of(&service.key, across, Family::of(ip), &object.name)
        } else {
            naming::is_claim(Family::of(ip), &object.name)
        };
        (object.namespace == namespace && named).then_some(object)
    }

    /// The Service cannot have the address of its record: it gets any other one.
    pub(super) fn comes_back_no_more(&mut self, key: &Key, family: Family) {
        if let Some(slot) = self.services.get_mut(key) {
            slot.comes_back_by[place(family)] = Some(Duration::ZERO);
        }
    }

    /// Whether a claim that names another Service of this name, of before, has an address of the Service's record: the
    /// Service was restored together with its claim.
    pub(super) fn is_of_record(&self, service: &Service, claim: &Claim) -> bool {
        let lines = record::read(service.notes.record.as_deref());
        // Without status, the claim has the name of its object, and gets the address that it had. Nor may the object be shown yet: the
        // watch of claims may be ahead.
        let name = claim.bound.clone().unwrap_or_else(|| claim.key.name.clone());
        let object = Key { namespace: claim.key.namespace.clone(), name };
        let shown = self.seen.addresses.named(&object).filter(|_| claim.bound.is_some());
        shown.map_or_else(
            || lines.iter().any(|(one, _)| *one == object),
            |address| address.address.is_some_and(|ip| lines.contains(&(object.clone(), ip))),
        )
    }

    /// The claim of the name in a Service's record, where it is other Services' and neither has nor asks for an address yet: it was
    /// restored without status, and gets this address.
    pub(super) fn is_to_get(&self, service: &Service, ip: IpAddr) -> Option<Key> {
        // Across namespaces it is named after another Service. Whether this one may join is asked of both.
        let (namespace, _) = self.namespace(service);
        let key = record::object(&service.notes, ip).filter(|object| object.namespace == namespace)?;
        let blank = |slot: &&ClaimSlot| !slot.going() && !slot.members.is_empty() && slot.requested.is_none();
        self.claims.get(&key).filter(blank).filter(|_| self.address_of(&key).is_none())?;
        Some(key)
    }
}
