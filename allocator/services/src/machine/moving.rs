//! A Service moves to another address: it has both until the next one serves.
//!
//! Agents advertise what a Service names, and nodes pass on the traffic of what its status shows. So each step is written, and
//! seen, before the one after it: the Service names the next address in [`crate::words::MOVING`]; a node advertises it; the record
//! names it, and the old one is in [`crate::words::MOVING`]; the status shows the new one alone; the old one is named no more;
//! its claim goes. At each of these moments clients reach the address that the status shows.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use mooring_allocator_core::block::Family;
use mooring_allocator_core::names::Key;

use crate::families::place;
use crate::objects::{Address, Service};
use crate::record;
use crate::request::shows;

use super::decide::Line;
use super::slots::Topic;
use super::{Machine, Who};

/// If no node advertises the next address within this time, people are told; and a Service that no node can serve moves.
const ADVERTISED_WITHIN: Duration = Duration::from_secs(30);

impl Machine {
    /// The next claim replaces the current claim as soon as nobody loses anything by that.
    pub(super) fn switch(&mut self, service: &Arc<Service>, family: Family) {
        let at = place(family);
        let now = self.work.now();
        let Some(slot) = self.services.get_mut(&service.key) else { return };
        let (current, next) = (slot.held[at].current.clone(), slot.held[at].next.clone());
        let Some(next) = next else {
            slot.moves[at] = None;
            return;
        };
        let (_, since) =
            slot.moves[at].take().filter(|(claim, _)| *claim == next).unwrap_or_else(|| (next.clone(), now));
        slot.moves[at] = Some((next.clone(), since));
        let late = since + ADVERTISED_WITHIN <= now;
        let has = current.as_ref().and_then(|claim| self.address_of(claim));
        let ready = self.next_address(service, &next).is_some_and(|(address, ip)| {
            // Agents that see no `IPAddress` objects write the status instead.
            let advertised = address.holder.is_some() || shows(service, ip);
            let serves = has.and_then(|has| has.address).is_some_and(|ip| shows(service, ip));
            advertised || !serves || (late && self.has_no_endpoint(service))
        });
        if !ready && has.is_some() {
            self.wait(&service.key, Topic::Claim(next));
            if service.local {
                self.seen.endpoints.wanted = true;
                self.wait(&service.key, Topic::Endpoints);
            }
            if !late {
                self.work.mark_at(since + ADVERTISED_WITHIN, Who::Service(service.key.clone()));
            }
            return;
        }
        if let Some(slot) = self.services.get_mut(&service.key) {
            slot.held[at].next = None;
            slot.moves[at] = None;
        }
        self.retire(&service.key, family);
        if let Some(slot) = self.services.get_mut(&service.key) {
            slot.held[at].current = Some(next);
        }
    }

    /// The address that a Service moves to, once the Service may name it.
    fn next_address(&self, service: &Service, next: &Key) -> Option<(&Address, IpAddr)> {
        let member = (service.key.clone(), service.uid.clone());
        let address =
            self.address_of(next).filter(|_| self.claims.get(next).is_some_and(|slot| slot.belongs_to(&member)))?;
        Some((address, address.address?))
    }

    /// Whether no node can advertise an address of the Service: it has `externalTrafficPolicy: Local`, and no ready endpoint.
    fn has_no_endpoint(&self, service: &Service) -> bool {
        let endpoints = &self.seen.endpoints;
        service.local && endpoints.listed && !endpoints.nodes.contains_key(&service.key)
    }

    /// What the Service is to name in [`crate::words::MOVING`]. `lines`: what it has.
    pub(super) fn moving_lines(&self, service: &Service, lines: &[&Line]) -> Vec<record::Line> {
        let Some(slot) = self.services.get(&service.key) else { return Vec::new() };
        let mut all: Vec<record::Line> = Vec::new();
        for line in lines {
            let held = &slot.held[place(Family::of(line.ip))];
            let next = held.next.as_ref().and_then(|next| self.next_address(service, next));
            // An address that somebody else has is not advertised.
            let next = next.filter(|(address, ip)| {
                self.is_of_holder(*ip, address.holder.as_deref()) || self.reserved_for(service, *ip).is_none()
            });
            let old = held.old.iter().filter_map(|claim| self.address_of(claim));
            let old = old.filter_map(|address| Some((address, address.address.filter(|ip| shows(service, *ip))?)));
            let moving = next.into_iter().chain(old).filter(|(address, _)| address.key != line.object);
            all.extend(moving.map(|(address, ip)| (address.key.clone(), ip)));
        }
        all
    }

    /// What keeps a Service from moving; empty: nothing, or it has only begun.
    pub(super) fn held_up(&self, service: &Service) -> Vec<String> {
        let Some(slot) = self.services.get(&service.key) else { return Vec::new() };
        let moves = slot.moves.iter().flatten().filter_map(|(next, since)| {
            let late = since.saturating_add(ADVERTISED_WITHIN) <= self.work.now();
            let why = match self.state_of(service, next) {
                Ok(line) if late => self.not_advertised(&line, false),
                Err(trouble) if late || !trouble.reason.passes() => trouble.message,
                _ => return None,
            };
            Some(format!("{why}; until then it keeps the address that it has"))
        });
        moves.collect()
    }

    /// Why no node advertises an address, as far as this is known here. `shown`: the Service's status shows the address.
    pub(super) fn not_advertised(&self, line: &Line, shown: bool) -> String {
        let address = self.seen.addresses.named(&line.object);
        if let Some(whose) = address.and_then(|address| address.conflict.as_deref()) {
            return format!(
                "no node advertises {}, because somebody else has it ({whose}): ask for another address, or take it from them",
                line.ip
            );
        }
        let when = if shown { "now" } else { "yet" };
        format!("no node advertises {} {when}: see mooring-agent status on the nodes", line.ip)
    }
}
