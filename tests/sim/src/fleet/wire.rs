//! The segments: frames and what becomes of them, kernels that answer.

use std::net::IpAddr;

use mooring_core::mac::Mac;

use super::queue::Item;
use super::settings;
use super::world::World;
use crate::clock::{MS, Nanos};
use crate::segment::Way;

/// What a frame is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// A VIP.
    Vip(usize),
    /// A station's own address.
    Own(usize),
}

/// See the module's text. Stations are the hosts, the foreign host, the gateway, the client.
#[derive(Debug)]
pub struct Wire {
    stations: usize,
    ways: Vec<Way>,
    /// No frame is lost or held up anywhere.
    pub clean: bool,
    /// A foreign host has the first VIP.
    pub foreign: bool,
}

impl Wire {
    /// Nothing is wrong with it.
    #[must_use]
    pub fn new(nodes: usize, segments: usize) -> Self {
        let stations = nodes + 3;
        Self { stations, ways: vec![Way::default(); stations * stations * segments], clean: true, foreign: false }
    }

    /// Everything as it was before any fault.
    pub fn mend(&mut self) {
        self.ways.fill(Way::default());
        self.clean = true;
    }

    /// The way from one to another.
    #[must_use]
    pub fn way(&self, segment: usize, from: usize, to: usize) -> Way {
        self.ways[(segment * self.stations + from) * self.stations + to]
    }

    /// Makes a way worse.
    pub fn worsen(&mut self, segment: usize, from: usize, to: usize, by: Way) {
        let way = &mut self.ways[(segment * self.stations + from) * self.stations + to];
        way.lost = way.lost.max(by.lost);
        way.delay = way.delay.max(by.delay);
        self.clean = false;
    }

    /// How many there are.
    #[must_use]
    pub fn stations(&self) -> usize {
        self.stations
    }
}

impl World<'_> {
    /// The foreign host.
    #[must_use]
    pub fn foreign(&self) -> usize {
        self.hosts.len()
    }

    /// The gateway.
    #[must_use]
    pub fn gateway(&self) -> usize {
        self.hosts.len() + 1
    }

    /// The client.
    #[must_use]
    pub fn client(&self) -> usize {
        self.hosts.len() + 2
    }

    /// Whether a station is on a segment, and its network card there works.
    #[must_use]
    pub fn is_plugged(&self, station: usize, segment: usize) -> bool {
        let works = |h: &super::host::Host| h.is_awake() && h.plugged[segment];
        self.plan.settings.is_on(station, segment) && self.hosts.get(station).is_none_or(works)
    }

    /// Whether every frame between the two passes, both ways.
    #[must_use]
    pub fn hear_each_other(&self, segment: usize, a: usize, b: usize) -> bool {
        let clear = |way: Way| way.lost == 0 && way.delay <= 5 * MS;
        let ways = || clear(self.wire.way(segment, a, b)) && clear(self.wire.way(segment, b, a));
        self.is_plugged(a, segment) && self.is_plugged(b, segment) && (self.wire.clean || ways())
    }

    /// How long a frame takes; None: it is lost.
    fn frame(&mut self, segment: usize, from: usize, to: usize) -> Option<Nanos> {
        if !self.is_plugged(from, segment) || !self.is_plugged(to, segment) {
            return None;
        }
        let (low, high) = self.plan.settings.wire;
        let took = self.rng.between(low, high);
        if self.wire.clean {
            return Some(took);
        }
        let way = self.wire.way(segment, from, to);
        let lost = self.rng.chance(u32::from(way.lost));
        (!lost).then_some(took + way.delay)
    }

    fn answers(&self, station: usize, segment: usize, what: What) -> bool {
        match what {
            What::Vip(vip) => {
                self.plan.settings.segment_of(vip) == segment
                    && match self.hosts.get(station) {
                        Some(host) => host.up && host.vips[vip].is_some(),
                        None => vip == 0 && self.wire.foreign && station == self.foreign(),
                    }
            }
            What::Own(of) => of == station && self.hosts.get(station).is_none_or(|host| host.up),
        }
    }

    /// The VIP of an address.
    #[must_use]
    pub fn vip_of(&self, address: IpAddr) -> Option<usize> {
        let IpAddr::V4(ip) = address else { return None };
        let [_, _, high, low] = ip.octets();
        let vip = usize::from(u16::from_be_bytes([high.checked_sub(128)?, low]));
        (vip < self.most).then_some(vip)
    }

    fn what(&self, address: IpAddr) -> Option<What> {
        if let Some(vip) = self.vip_of(address) {
            return Some(What::Vip(vip));
        }
        let IpAddr::V4(ip) = address else { return None };
        let [_, _, high, low] = ip.octets();
        usize::from(u16::from_be_bytes([high, low])).checked_sub(1).map(What::Own)
    }

    /// The address, on a segment.
    #[must_use]
    pub fn address(&self, segment: usize, what: What) -> IpAddr {
        match what {
            What::Vip(vip) => self.plan.settings.vip(vip),
            What::Own(station) => settings::own(station, segment),
        }
    }

    /// An agent asks for an address: one host, or everybody.
    pub fn probe(&mut self, by: usize, segment: usize, address: IpAddr, to: Option<Mac>) {
        let Some(what) = self.what(address) else { return };
        self.counts.probes += 1;
        match to {
            Some(mac) => self.ask(by, segment, settings::station(mac), what),
            None => {
                for station in (0..self.wire.stations()).filter(|s| *s != by) {
                    self.ask(by, segment, station, what);
                }
            }
        }
    }

    fn ask(&mut self, by: usize, segment: usize, station: usize, what: What) {
        let plausible = match what {
            What::Vip(_) => station <= self.foreign(),
            What::Own(of) => of == station,
        };
        if station >= self.wire.stations() || !plausible {
            return;
        }
        // Whether it has the address when the frame comes matters only when that may change meanwhile: see `Asked`.
        if let Some(way) = self.frame(segment, by, station) {
            if way < MS {
                self.asked(way, station, segment, what, by);
            } else {
                self.put(way, Item::Asked { to: station, segment, what, by });
            }
        }
    }

    /// A station's kernel was asked, and answers who asked.
    pub fn asked(&mut self, after: Nanos, station: usize, segment: usize, what: What, by: usize) {
        if !self.answers(station, segment, what) {
            return;
        }
        if let Some(way) = self.frame(segment, station, by) {
            self.put(after + way, Item::Heard { to: by, segment, what, from: station });
        }
    }

    /// A host tells everybody that it has a VIP.
    pub fn announce(&mut self, from: usize, segment: usize, vip: usize) {
        self.counts.announcements += 1;
        for to in (0..self.hosts.len()).filter(|to| *to != from) {
            if let Some(way) = self.frame(segment, from, to) {
                self.put(way, Item::Heard { to, segment, what: What::Vip(vip), from });
            }
        }
    }

    /// Whether a host may serve a VIP, as far as endpoints go: without one of its own, it drops what comes for that.
    #[must_use]
    pub fn has_endpoint(&self, host: usize, vip: usize) -> bool {
        !self.plan.settings.local.contains(&vip) || self.endpoints.contains(&host)
    }

    /// Which host answers the client for a VIP, if any does.
    #[must_use]
    pub fn serves_client(&self, vip: usize) -> Option<usize> {
        let (segment, client) = (self.plan.settings.segment_of(vip), self.client());
        let passes = |a: usize, b: usize| self.wire.clean || self.wire.way(segment, a, b).lost < 1_000;
        (0..self.hosts.len()).find(|h| {
            self.hosts[*h].vips[vip].is_some()
                && self.has_endpoint(*h, vip)
                && self.is_plugged(*h, segment)
                && passes(*h, client)
                && passes(client, *h)
        })
    }
}
