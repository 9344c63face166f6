//! The segment: frames and what becomes of them, kernels that answer.

use std::net::IpAddr;

use mooring_core::mac::Mac;

use crate::clock::{MS, Nanos};
use crate::queue::Item;
use crate::settings;
use crate::world::World;

/// What a frame is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// A VIP.
    Vip(usize),
    /// A station's own address.
    Own(usize),
}

/// What happens to frames on one way from one station to another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Way {
    /// Of a thousand, so many are lost.
    pub lost: u16,
    /// Of a thousand, so many come twice.
    pub twice: u16,
    /// They take so much longer.
    pub delay: Nanos,
}

impl Way {
    /// Nothing passes.
    pub const CUT: Self = Self { lost: 1_000, twice: 0, delay: 0 };
}

/// See the module's text. Stations are the hosts, the gateway, the client, the foreign host.
#[derive(Debug)]
pub struct Segment {
    /// How many stations.
    pub stations: usize,
    ways: Vec<Way>,
    /// No frame is lost or held up between any two.
    pub clean: bool,
    /// A foreign host has the first VIP.
    pub foreign: bool,
}

impl Segment {
    /// Nothing is wrong with it.
    #[must_use]
    pub fn new(nodes: usize) -> Self {
        let stations = nodes + 3;
        Self { stations, ways: vec![Way::default(); stations * stations], clean: true, foreign: false }
    }

    /// The way from one to another.
    #[must_use]
    pub fn way(&self, from: usize, to: usize) -> Way {
        self.ways[from * self.stations + to]
    }

    /// Everything as it was before any fault.
    pub fn mend(&mut self) {
        self.ways.fill(Way::default());
        self.clean = true;
    }

    /// Makes a way worse.
    pub fn worsen(&mut self, from: usize, to: usize, by: Way) {
        let way = &mut self.ways[from * self.stations + to];
        way.lost = way.lost.max(by.lost);
        way.twice = way.twice.max(by.twice);
        way.delay = way.delay.max(by.delay);
        self.clean = false;
    }
}

impl World<'_> {
    /// The gateway.
    #[must_use]
    pub fn gateway(&self) -> usize {
        self.hosts.len()
    }

    /// The client.
    #[must_use]
    pub fn client_station(&self) -> usize {
        self.hosts.len() + 1
    }

    /// The foreign host.
    #[must_use]
    pub fn foreign_station(&self) -> usize {
        self.hosts.len() + 2
    }

    /// Whether a station's network card works.
    #[must_use]
    pub fn is_plugged(&self, station: usize) -> bool {
        self.hosts.get(station).is_none_or(|host| host.is_awake() && host.link)
    }

    /// Whether every frame between the two passes, both ways.
    #[must_use]
    pub fn hear_each_other(&self, a: usize, b: usize) -> bool {
        let clear = |way: Way| way.lost == 0 && way.delay <= 5 * MS;
        self.is_plugged(a)
            && self.is_plugged(b)
            && (self.segment.clean || clear(self.segment.way(a, b)) && clear(self.segment.way(b, a)))
    }

    /// Sends a frame: how long it takes, if it gets there.
    pub fn frame(&mut self, from: usize, to: usize) -> Option<Nanos> {
        if !self.is_plugged(from) || !self.is_plugged(to) {
            return None;
        }
        let (low, high) = self.plan.settings.wire;
        let wire = self.rng.between(low, high);
        if self.segment.clean {
            return Some(wire);
        }
        let way = self.segment.way(from, to);
        (!self.rng.chance(u32::from(way.lost))).then_some(wire + way.delay)
    }

    /// Whether a station's kernel answers for that address.
    #[must_use]
    pub fn answers(&self, station: usize, what: What) -> bool {
        match what {
            What::Vip(vip) => match self.hosts.get(station) {
                Some(host) => host.carries(vip),
                None => vip == 0 && self.segment.foreign && station == self.foreign_station(),
            },
            What::Own(of) => of == station && self.hosts.get(station).is_none_or(|host| host.up && host.own),
        }
    }

    /// What an address is.
    #[must_use]
    pub fn what(&self, address: IpAddr) -> Option<What> {
        let vip = self.plan.settings.vips.iter().position(|vip| *vip == address);
        vip.map(What::Vip).or_else(|| settings::owner(address).map(What::Own))
    }

    /// The address.
    #[must_use]
    pub fn address(&self, what: What) -> IpAddr {
        match what {
            What::Vip(vip) => self.plan.settings.vips[vip],
            What::Own(station) => settings::own(station),
        }
    }

    /// An agent asks for an address: one host, or everybody. A probe says nothing of who asks.
    pub fn probe(&mut self, by: usize, address: IpAddr, to: Option<Mac>) {
        let Some(what) = self.what(address) else { return };
        self.counts.probes += 1;
        match to {
            Some(mac) => self.ask(by, settings::station(mac), what),
            None => {
                for station in (0..self.segment.stations).filter(|s| *s != by) {
                    self.ask(by, station, what);
                }
            }
        }
    }

    fn ask(&mut self, by: usize, station: usize, what: What) {
        if station >= self.segment.stations || !self.plausible(station, what) {
            return;
        }
        let Some(way) = self.frame(by, station) else { return };
        if self.segment.clean {
            // Nothing can happen in so short a time that matters: the answer is as good as on its way.
            self.answer(way, station, what, by);
        } else {
            self.put(way, Item::Asked { to: station, what, by });
        }
    }

    /// Whether the station may have the address by the time it is asked: saves frames that nobody would answer.
    fn plausible(&self, station: usize, what: What) -> bool {
        match what {
            What::Vip(_) => station < self.hosts.len() || station == self.foreign_station(),
            What::Own(of) => of == station,
        }
    }

    /// A station's kernel was asked, and answers who asked.
    pub fn answer(&mut self, after: Nanos, station: usize, what: What, by: usize) {
        if !self.is_plugged(station) || !self.answers(station, what) {
            return;
        }
        let Some(way) = self.frame(station, by) else { return };
        self.hear(after + way, station, what, by);
        if !self.segment.clean && self.rng.chance(u32::from(self.segment.way(station, by).twice)) {
            self.hear(after + way + MS, station, what, by);
        }
    }

    fn hear(&mut self, after: Nanos, from: usize, what: What, to: usize) {
        if to < self.hosts.len() {
            self.put(after, Item::Heard { to, what, from });
        } else if to == self.client_station()
            && let What::Vip(vip) = what
        {
            self.client_heard(vip, from);
        }
    }

    /// A station tells everybody that it has a VIP.
    pub fn announce(&mut self, from: usize, vip: usize) {
        self.counts.announcements += 1;
        let gateway = self.gateway();
        for to in (0..self.segment.stations).filter(|to| *to != from && *to != gateway) {
            let Some(way) = self.frame(from, to) else { continue };
            self.hear(way, from, What::Vip(vip), to);
            if !self.segment.clean && self.rng.chance(u32::from(self.segment.way(from, to).twice)) {
                self.hear(way + 2 * MS, from, What::Vip(vip), to);
            }
        }
    }
}
