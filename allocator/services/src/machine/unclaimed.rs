//! Addresses that Services show without a claim: another controller gave them, or they are from before and cannot be
//! claimed. They carry traffic, so no other Service gets them. Nor does another Service get what a restored one waits for.

use std::collections::BTreeSet;
use std::net::IpAddr;

use mooring_allocator_core::names::Key;

use crate::families;
use crate::objects::Service;
use crate::{record, request};

use super::flaws::{Flaw, planted};
use super::slots::{Held, Topic};
use super::{Machine, Who};

impl Machine {
    /// Notes the addresses that a Service shows, or is to have again, without a claim.
    pub(super) fn note_unclaimed(&mut self, service: &Service) {
        let claimed = self.held_addresses(&service.key);
        let awaited = families::wanted(service).families.into_iter().filter_map(|family| self.awaited(service, family));
        let awaited: Vec<IpAddr> = if self.ours(service) { awaited.collect() } else { Vec::new() };
        let shown = service.ingress.iter().map(|one| one.ip).chain(awaited).filter(|ip| !claimed.contains(ip));
        let shown = if service.load_balancer { shown.collect() } else { BTreeSet::new() };
        self.set_unclaimed(&service.key, &shown);
    }

    /// The addresses of all claims that a Service holds, the former ones too.
    pub(super) fn held_addresses(&self, key: &Key) -> Vec<IpAddr> {
        let slot = self.services.get(key);
        let held = slot.into_iter().flat_map(|slot| slot.held.iter().flat_map(Held::all));
        held.filter_map(|claim| self.address_of(claim)?.address).collect()
    }

    /// These are the addresses that a Service shows, or is to have again, without a claim.
    pub(super) fn set_unclaimed(&mut self, key: &Key, shown: &BTreeSet<IpAddr>) {
        let Some(slot) = self.services.get_mut(key) else { return };
        if slot.unclaimed == *shown {
            return;
        }
        let before = std::mem::replace(&mut slot.unclaimed, shown.clone());
        for ip in before.difference(shown) {
            if let Some(keys) = self.takeover.unclaimed.get_mut(ip) {
                keys.remove(key);
                if keys.is_empty() {
                    self.takeover.unclaimed.remove(ip);
                }
            }
        }
        for ip in shown.difference(&before) {
            self.takeover.unclaimed.entry(*ip).or_default().insert(key.clone());
        }
        for ip in before.symmetric_difference(shown) {
            self.wake(&Topic::Ip(*ip));
            let claims = self.seen.addresses.at(*ip);
            let claims: Vec<Key> = claims.map(|address| address.claim_key()).collect();
            for claim in claims {
                self.enqueue_claim(&claim);
            }
        }
        self.work.mark(Who::Pools);
    }

    /// Whether a Service is to have an address again, and does not show it.
    pub(super) fn only_awaits(&self, key: &Key, ip: IpAddr) -> bool {
        self.services.get(key).is_some_and(|slot| !request::shows(&slot.service, ip))
    }

    /// Whether those without a claim for an address only wait for it, and it is nobody's on the network.
    pub(super) fn is_only_awaited(&self, ip: IpAddr) -> bool {
        let mut all = self.takeover.unclaimed.get(&ip).into_iter().flatten();
        !self.seen.reserved.contains_key(&ip) && all.all(|key| self.only_awaits(key, ip))
    }

    /// A Service that shows an address, or is to have it again, without a claim. `except`: Services that do not count.
    pub(super) fn shown_by(&self, ip: IpAddr, except: impl Fn(&Key) -> bool) -> Option<&Key> {
        let showing = self.takeover.unclaimed.get(&ip).filter(|_| !planted(Flaw::UnclaimedIsFree))?;
        showing.iter().find(|key| !except(key))
    }

    /// The addresses that Services show and neither have nor want from Mooring: pools made from the `ConfigMap` leave them
    /// out.
    pub(super) fn left_out(&self) -> impl Iterator<Item = IpAddr> {
        let foreign = |ip: IpAddr, key: &Key| {
            self.services.get(key).is_some_and(|slot| {
                let service = &slot.service;
                let has = || record::names(&service.notes, ip);
                let wish = || self.wish(service).ok().or_else(|| self.had_before(service));
                let wants = || wish().is_some_and(|wish| wish.addresses.contains(&Some(ip)));
                !self.ours(service) || !(has() || wants())
            })
        };
        let all = self.takeover.unclaimed.iter();
        all.filter(move |(ip, keys)| keys.iter().any(|key| foreign(**ip, key))).map(|(ip, _)| *ip)
    }
}
