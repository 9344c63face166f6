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
use crate::objects::{Claim, Service};
use crate::reason::Reason;
use crate::record;
use crate::request::shows;

use super::{Machine, Who};

/// How long a Service waits for the address of its record, while the claim that had it is being released.
const COMES_BACK_WITHIN: Duration = Duration::from_secs(30);

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
        let asks = slot.seen.as_ref().is_none_or(|claim| claim.requested == Some(ip));
        let refused = slot.seen.as_ref().and_then(Claim::refused);
        let refused = slot.refused.is_some() || refused.is_some_and(|(why, _)| why == Reason::AllocationFailed.name());
        slot.requested == Some(ip) && asks && !refused
    }

    /// Whether a Service without a claim for this address had the address: its status shows it, or its record names it.
    pub(super) fn had(&self, service: &Service, ip: IpAddr) -> bool {
        shows(service, ip) || self.recorded(service, Family::of(ip)) == Some(ip)
    }

    /// Notes whether the Service waits for the address of a family in its record. The wait ends.
    pub(super) fn note_coming_back(&mut self, key: &Key, family: Family, waits: bool) {
        let now = self.work.now();
        let Some(slot) = self.services.get_mut(key) else { return };
        let by = &mut slot.comes_back_by[place(family)];
        if waits {
            let by = *by.get_or_insert(now + COMES_BACK_WITHIN);
            self.work.mark_at(by, Who::Service(key.clone()));
        } else if slot.held[place(family)].current.is_some() {
            *by = None;
        }
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
        let Some(name) = &claim.bound else { return false };
        let object = Key { namespace: claim.key.namespace.clone(), name: name.clone() };
        let ip = self.seen.addresses.named(&object).and_then(|address| address.address);
        let lines = record::read(service.notes.record.as_deref());
        ip.is_some_and(|ip| lines.contains(&(object, ip)))
    }
}
