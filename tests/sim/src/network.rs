//! What the network of a run is like, all the time: settings, not faults. Most runs have a plain one.
//!
//! - Who talks unasked: gateways and other kernels send requests of their own, which speak for the sender's address.
//! - A filter by ARP sender drops probes with the sender 0.0.0.0 (OpenStack's port security, Dynamic ARP Inspection). Requests from
//!   an address that the port has, and announcements, pass. It does not concern IPv6.
//! - A proxy (ARP suppression) answers broadcasts for whoever announced an address last, also for a host that is gone.
//! - Local proxy ARP: the gateway answers any request that names a sender, for every address; it leaves probes from 0.0.0.0 to owners.
//! - Isolated ports: nodes do not hear each other. All hear the gateway and the client, and these hear all.

use std::collections::BTreeMap;
use std::net::IpAddr;

use mooring_agent_core::evidence::{Form, Sender};
use mooring_agent_core::mac::Mac;

use crate::clock::{MS, Nanos, SECOND};
use crate::queue::Item;
use crate::rng::Rng;
use crate::segment::{Frame, What};
use crate::subject::Subject;
use crate::world::World;

/// What a network is like.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Network {
    /// The gateway and each host speak for their own addresses unasked, so far apart on average. None: never.
    pub talk: Option<Nanos>,
    /// Probes with the sender 0.0.0.0 never arrive.
    pub filters: bool,
    /// Switches answer broadcasts for others. They forget an address that was not heard for so long.
    pub proxy: Option<Nanos>,
    /// The gateway answers for every address whoever names a sender: broadcasts up to so much later, as Linux does.
    pub local_proxy: Option<Nanos>,
    /// Nodes do not hear each other.
    pub isolated: bool,
}

impl Network {
    /// Draws one that is not plain.
    #[must_use]
    pub fn draw(rng: &mut Rng) -> Self {
        let (filters, proxy, isolated) = match rng.below(10) {
            0..3 => (true, false, false),
            3..6 => (false, true, false),
            6 => (true, true, false),
            7 => (false, false, true),
            _ => (false, false, false),
        };
        // From one frame in 20 s to 20 frames in a second.
        let apart = rng.pick(&[20_000, 5_000, 1_000, 1_000, 200, 50]) * MS;
        let age = rng.pick(&[60, 120, 300]) * SECOND;
        Self {
            talk: rng.chance(700).then_some(apart),
            filters,
            proxy: proxy.then_some(age),
            local_proxy: None,
            isolated,
        }
    }

    /// Whether the agents need some seconds to find out how they can ask.
    #[must_use]
    pub const fn is_odd(&self) -> bool {
        self.filters || self.proxy.is_some() || self.local_proxy.is_some()
    }
}

/// What a host's port lets out no longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mute {
    /// No frame. The host hears everything.
    Frames,
    /// No probe of its agent's. Answers and announcements leave.
    Probes,
}

/// Which hosts are mute, on which segment (None: on all), with what. One entry for each fault.
#[derive(Clone, Debug, Default)]
pub struct Mutes(Vec<(usize, Option<usize>, Mute)>);

impl Mutes {
    /// A fault begins.
    pub fn begin(&mut self, host: usize, segment: Option<usize>, what: Mute) {
        self.0.push((host, segment, what));
    }

    /// It ends.
    pub fn end(&mut self, host: usize, segment: Option<usize>, what: Mute) {
        if let Some(at) = self.0.iter().position(|one| *one == (host, segment, what)) {
            self.0.swap_remove(at);
        }
    }

    /// What of that host's does not leave on that segment.
    #[must_use]
    pub fn of(&self, host: usize, segment: usize) -> Option<Mute> {
        let here = |(of, on, _): &&(usize, Option<usize>, Mute)| *of == host && on.is_none_or(|on| on == segment);
        let mut all = self.0.iter().filter(here).map(|(_, _, what)| *what);
        let first = all.next()?;
        Some(if first == Mute::Frames || all.any(|what| what == Mute::Frames) { Mute::Frames } else { Mute::Probes })
    }

    /// Whether nothing of a host's leaves on that segment.
    #[must_use]
    pub fn is_all(&self, host: usize, segment: usize) -> bool {
        self.of(host, segment) == Some(Mute::Frames)
    }
}

/// Whom a proxy answers for.
#[derive(Clone, Copy, Debug)]
struct Entry {
    station: usize,
    mac: Mac,
    heard: Nanos,
}

/// What the switches know, by segment and address.
#[derive(Clone, Debug, Default)]
pub struct Proxies(BTreeMap<(usize, What), Entry>);

impl<S: Subject> World<'_, S> {
    /// Those who talk begin.
    pub fn begin_talk(&mut self) {
        if let Some(apart) = self.plan.settings.network.talk {
            for station in 0..=self.gateway() {
                let first = self.rng.below(2 * apart);
                self.put(first, Item::Talk(station));
            }
        }
    }

    /// A station's kernel asks for something, and speaks for its own address.
    pub fn talk(&mut self, station: usize) {
        let Some(apart) = self.plan.settings.network.talk else { return };
        for segment in 0..self.plan.settings.segments {
            let what = What::Own(station);
            if self.answers(station, segment, what) && self.is_plugged(station, segment) {
                self.claim(station, segment, what, self.hosts.len());
            }
        }
        let next = self.rng.between(apart / 2, apart * 3 / 2);
        self.put(next, Item::Talk(station));
    }

    /// A frame for an address leaves a station: switches that answer for others remember it. An announcement takes the address from
    /// whoever had it; an answer only confirms what is known.
    pub fn proxies_learn(&mut self, station: usize, segment: usize, what: What, form: Form) {
        let Some(age) = self.plan.settings.network.proxy else { return };
        if !self.is_plugged(station, segment) || self.segment.mutes.is_all(station, segment) {
            return;
        }
        let (now, mac) = (self.now, self.mac(station));
        let known = self.segment.proxies.0.get(&(segment, what));
        let another = known.is_some_and(|known| known.station != station && now < known.heard + age);
        if !another || form == Form::Claim {
            self.segment.proxies.0.insert((segment, what), Entry { station, mac, heard: now });
        }
    }

    /// A bond that takes another port says so for each address that it has.
    pub(crate) fn proxies_learn_port(&mut self, host: usize) {
        for segment in 0..self.plan.settings.segments {
            let vips = (0..self.vips).map(What::Vip);
            for what in vips.chain([What::Own(host)]) {
                if self.answers(host, segment, what) {
                    self.proxies_learn(host, segment, what, Form::Claim);
                }
            }
        }
    }

    /// Whom a proxy names to somebody who asks everybody for an address: another station than the one that asks.
    #[must_use]
    pub fn proxied(&self, by: usize, segment: usize, what: What) -> Option<(usize, Mac)> {
        let age = self.plan.settings.network.proxy?;
        let entry = self.segment.proxies.0.get(&(segment, what))?;
        (entry.station != by && self.now < entry.heard + age).then_some((entry.station, entry.mac))
    }

    /// Whether a switch names another host than `station` to somebody who asks everybody.
    #[must_use]
    pub fn hides(&self, by: usize, segment: usize, what: What, station: usize) -> bool {
        self.proxied(by, segment, what).is_some_and(|(named, _)| named != station)
    }

    /// A switch next to the one who asks answers for another. Nobody else is asked.
    pub(crate) fn proxy_answers(&mut self, by: usize, segment: usize, what: What, sender: Sender) -> bool {
        if !self.is_plugged(by, segment) {
            return false;
        }
        let Some((from, mac)) = self.proxied(by, segment, what) else { return false };
        let (low, high) = self.plan.settings.frame;
        let took = 2 * self.rng.between(low, high);
        let form = Form::Answer(sender);
        self.reach(took, Frame { to: by, segment, what, from, mac, form, proxied: true });
        true
    }

    /// A gateway with local proxy ARP answers for another.
    pub(crate) fn gateway_answers(&mut self, (by, sender): (usize, Sender), segment: usize, what: What, alone: bool) {
        let Some(most) = self.plan.settings.network.local_proxy else { return };
        let gateway = self.gateway();
        let others = what != What::Own(gateway) && what != What::Own(by);
        if sender != Sender::Own || !others || !self.address(segment, what).is_ipv4() {
            return;
        }
        let Some(way) = self.frame(segment, by, gateway) else { return };
        let later = if alone || most == 0 { 0 } else { self.rng.below(most) };
        let (mac, form) = (self.mac(gateway), Form::Answer(sender));
        self.send(way + later, Frame { to: by, segment, what, from: gateway, mac, form, proxied: true }, MS);
    }

    /// Whether a probe gets out of its host and past the filter.
    pub(crate) fn passes(&self, by: usize, segment: usize, address: IpAddr, sender: Sender) -> bool {
        let filtered = self.plan.settings.network.filters && address.is_ipv4() && sender == Sender::Unspecified;
        !filtered && self.segment.mutes.of(by, segment).is_none()
    }
}
