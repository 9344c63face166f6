//! The segments: frames and what becomes of them, kernels that answer.

use std::net::IpAddr;

use mooring_agent_core::evidence::{Form, Sender};
use mooring_agent_core::mac::Mac;

use crate::clock::{MS, Nanos};
use crate::host::Host;
use crate::network::{Mutes, Proxies};
use crate::queue::Item;
use crate::settings;
use crate::subject::{Subject, what_of};
use crate::world::World;

/// What a frame is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum What {
    /// A VIP.
    Vip(usize),
    /// A station's own address.
    Own(usize),
}

/// A frame that speaks for an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    /// The host that it reaches.
    pub to: usize,
    /// The segment.
    pub segment: usize,
    /// The address.
    pub what: What,
    /// The sender.
    pub from: usize,
    /// The Ethernet address that it was sent from.
    pub mac: Mac,
    /// Whether it answers a probe.
    pub form: Form,
    /// A switch sent it, on behalf of the sender.
    pub proxied: bool,
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

    /// Every frame passes, and soon.
    #[must_use]
    pub fn is_clear(self) -> bool {
        self.lost == 0 && self.delay <= 5 * MS
    }
}

/// The segments. Stations are the hosts, the gateway, the client, the foreign host.
#[derive(Debug)]
pub struct Segment {
    /// How many stations.
    pub stations: usize,
    ways: Vec<Way>,
    /// No frame is lost or held up between any two.
    pub clean: bool,
    /// A foreign host has a VIP.
    pub foreign: bool,
    /// Which one: the first, if nothing else is said.
    pub foreign_vip: usize,
    /// Hosts whose frames are lost on their way out.
    pub mutes: Mutes,
    /// What switches answer for others.
    pub proxies: Proxies,
}

impl Segment {
    /// Nothing is wrong with them.
    #[must_use]
    pub fn new(nodes: usize, segments: usize) -> Self {
        let stations = nodes + 3;
        let ways = vec![Way::default(); stations * stations * segments];
        Self {
            stations,
            ways,
            clean: true,
            foreign: false,
            foreign_vip: 0,
            mutes: Mutes::default(),
            proxies: Proxies::default(),
        }
    }

    /// The way from one to another.
    #[must_use]
    pub fn way(&self, segment: usize, from: usize, to: usize) -> Way {
        self.ways[(segment * self.stations + from) * self.stations + to]
    }

    /// Everything as it was before any fault.
    pub fn mend(&mut self) {
        self.ways.fill(Way::default());
        self.clean = true;
    }

    /// Makes a way worse.
    pub fn worsen(&mut self, segment: usize, from: usize, to: usize, by: Way) {
        let way = &mut self.ways[(segment * self.stations + from) * self.stations + to];
        way.lost = way.lost.max(by.lost);
        way.twice = way.twice.max(by.twice);
        way.delay = way.delay.max(by.delay);
        self.clean = false;
    }
}

impl<S: Subject> World<'_, S> {
    /// The gateway.
    #[must_use]
    pub fn gateway(&self) -> usize {
        self.hosts.len()
    }

    /// The client.
    #[must_use]
    pub fn client(&self) -> usize {
        self.hosts.len() + 1
    }

    /// The foreign host.
    #[must_use]
    pub fn foreign(&self) -> usize {
        self.hosts.len() + 2
    }

    /// Whether a station is on a segment, and its network card there works.
    #[must_use]
    pub fn is_plugged(&self, station: usize, segment: usize) -> bool {
        let works = |host: &Host<S>| host.is_awake() && host.plugged[segment];
        self.plan.settings.is_on(station, segment) && self.hosts.get(station).is_none_or(works)
    }

    /// Whether every frame between the two passes, both ways.
    #[must_use]
    pub fn hear_each_other(&self, segment: usize, a: usize, b: usize) -> bool {
        let ways = || self.segment.way(segment, a, b).is_clear() && self.segment.way(segment, b, a).is_clear();
        let passes = |a: usize, b: usize| !self.is_cut(segment, a, b);
        self.is_plugged(a, segment)
            && self.is_plugged(b, segment)
            && passes(a, b)
            && passes(b, a)
            && (self.segment.clean || ways())
    }

    /// Whether no frame gets from one to the other, by what the network is like, or because the first one is mute.
    #[must_use]
    pub fn is_cut(&self, segment: usize, from: usize, to: usize) -> bool {
        let nodes = self.hosts.len();
        self.plan.settings.network.isolated && from < nodes && to < nodes || self.segment.mutes.is_all(from, segment)
    }

    /// Sends a frame: how long it takes, if it gets there.
    pub fn frame(&mut self, segment: usize, from: usize, to: usize) -> Option<Nanos> {
        if !self.is_plugged(from, segment) || !self.is_plugged(to, segment) || self.is_cut(segment, from, to) {
            return None;
        }
        let (low, high) = self.plan.settings.frame;
        let took = self.rng.between(low, high);
        if self.segment.clean {
            return Some(took);
        }
        let way = self.segment.way(segment, from, to);
        (!self.rng.chance(u32::from(way.lost))).then_some(took + way.delay)
    }

    /// Whether a station's kernel answers for that address on that segment.
    #[must_use]
    pub fn answers(&self, station: usize, segment: usize, what: What) -> bool {
        match what {
            What::Vip(vip) => {
                S::segment_of(&self.plan.settings, vip) == segment
                    && match self.hosts.get(station) {
                        Some(host) => {
                            let own = || S::owns(&self.plan.settings, station, vip);
                            host.carries(vip) || host.up && host.own_address && own()
                        }
                        None => vip == self.segment.foreign_vip && self.segment.foreign && station == self.foreign(),
                    }
            }
            What::Own(of) => of == station && self.hosts.get(station).is_none_or(|host| host.up && host.own_address),
        }
    }

    /// The VIP of an address.
    #[must_use]
    pub fn vip_of(&self, address: IpAddr) -> Option<usize> {
        S::vip_of(&self.plan.settings, address)
    }

    /// The address, on a segment.
    #[must_use]
    pub fn address(&self, segment: usize, what: What) -> IpAddr {
        match what {
            What::Vip(vip) => S::vip(&self.plan.settings, vip),
            What::Own(station) => settings::own(station, segment),
        }
    }

    /// An agent asks for an address: one host, or all hosts. A probe does not name the asking host.
    pub fn probe(&mut self, by: usize, segment: usize, address: IpAddr, (to, sender): (Option<Mac>, Sender)) {
        self.counts.probes(self.now, by, segment);
        let Some(what) = what_of(&self.plan.settings, address) else { return };
        if !self.passes(by, segment, address, sender) {
            return;
        }
        match to {
            Some(mac) => {
                let station = settings::station(mac);
                if self.mac(station) == mac {
                    self.ask((by, sender), segment, station, what);
                    if station == self.gateway() {
                        self.gateway_answers((by, sender), segment, what, true);
                    }
                }
            }
            None if self.proxy_answers(by, segment, what, sender) => {}
            None => {
                for station in (0..self.segment.stations).filter(|s| *s != by) {
                    self.ask((by, sender), segment, station, what);
                }
                self.gateway_answers((by, sender), segment, what, false);
            }
        }
    }

    fn ask(&mut self, (by, sender): (usize, Sender), segment: usize, station: usize, what: What) {
        if station >= self.segment.stations || !self.is_plausible(station, what) {
            return;
        }
        let Some(way) = self.frame(segment, by, station) else { return };
        // Nothing can happen in so short a time that matters: the answer is as good as on its way.
        if self.segment.clean || way < S::ANSWERED_AT_ONCE {
            self.answer(way, station, segment, what, (by, sender));
        } else {
            self.put(way, Item::Asked { to: station, segment, what, by, sender });
        }
    }

    /// Whether the station may have the address by the time it is asked: saves frames that nobody would answer.
    fn is_plausible(&self, station: usize, what: What) -> bool {
        match what {
            What::Vip(_) => station < self.hosts.len() || station == self.foreign(),
            What::Own(of) => of == station,
        }
    }

    /// A station's kernel answers a probe, if it has the address.
    pub fn answer(&mut self, after: Nanos, station: usize, segment: usize, what: What, (by, sender): (usize, Sender)) {
        if self.answers(station, segment, what) {
            let form = Form::Answer(sender);
            self.proxies_learn(station, segment, what, form);
            let frame = Frame { to: by, segment, what, from: station, mac: self.mac(station), form, proxied: false };
            self.send(after, frame, MS);
        }
    }

    /// A station tells everybody that it has a VIP.
    pub fn announce(&mut self, from: usize, segment: usize, vip: usize) {
        self.counts.announcements += 1;
        let listeners = if S::CLIENT_LEARNS { self.segment.stations } else { self.hosts.len() };
        self.claim(from, segment, What::Vip(vip), listeners);
    }

    /// A station speaks for an address unasked, to the first `listeners` stations.
    pub(crate) fn claim(&mut self, from: usize, segment: usize, what: What, listeners: usize) {
        let (gateway, mac, form) = (self.gateway(), self.mac(from), Form::Claim);
        self.proxies_learn(from, segment, what, form);
        for to in (0..listeners).filter(|to| *to != from && *to != gateway) {
            self.send(0, Frame { to, segment, what, from, mac, form, proxied: false }, 2 * MS);
        }
    }

    /// A frame is sent after so long; if it comes twice, so much later.
    pub(crate) fn send(&mut self, after: Nanos, frame: Frame, again: Nanos) {
        let Some(way) = self.frame(frame.segment, frame.from, frame.to) else { return };
        self.reach(after + way, frame);
        let twice = self.segment.way(frame.segment, frame.from, frame.to).twice;
        if !self.segment.clean && self.rng.chance(u32::from(twice)) {
            self.reach(after + way + again, frame);
        }
    }

    /// A frame reaches a station after so long.
    pub(crate) fn reach(&mut self, after: Nanos, frame: Frame) {
        if frame.to < self.hosts.len() {
            self.put(after, Item::Heard(frame));
        } else if frame.to == self.client()
            && let What::Vip(vip) = frame.what
        {
            S::client_hears(self, vip, frame.from);
        }
    }
}
