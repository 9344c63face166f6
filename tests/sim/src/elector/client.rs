//! A client on the segment, with its neighbour cache: whether the VIP answers is known by asking it.

use crate::clock::{MS, Nanos, SECOND};
use crate::elector::Elector;
use crate::queue::Item;
use crate::segment::What;
use crate::world::World;

/// Between two probes of the client.
pub const PING: Nanos = 100 * MS;
/// A neighbour that does not confirm is asked for again after this: 5 s of delay, 3 s of probes (Linux's defaults).
pub const UNCONFIRMED: Nanos = 8 * SECOND;
/// After everything was answered for so long, nothing is asked until something changes.
const SETTLED: Nanos = 300 * MS;

/// Of one VIP.
#[derive(Clone, Copy, Debug, Default)]
pub struct Entry {
    /// Which station has it, as far as the client knows.
    pub station: Option<usize>,
    /// When it last answered.
    pub confirmed: Nanos,
    /// Since when the VIP has not answered.
    pub silent: Option<Nanos>,
    /// The station carried the VIP without ever having had the Lease when the client came to believe it: its life then.
    pub provisional: Option<u32>,
}

/// What the client knows of each VIP's neighbour entry.
#[derive(Debug)]
pub struct NeighbourCache {
    /// By VIP.
    pub entries: Vec<Entry>,
    /// A probe is planned.
    pub planned: bool,
    /// When something last changed.
    pub touched: Nanos,
}

impl NeighbourCache {
    /// Of a client that has just come.
    #[must_use]
    pub fn new(vips: usize) -> Self {
        let never = Entry { silent: Some(0), ..Entry::default() };
        Self { entries: vec![never; vips], planned: false, touched: 0 }
    }
}

impl World<'_, Elector> {
    /// A station says that it has the VIP: an entry that is there is changed, none is made (`arp_accept` 0).
    pub fn client_heard(&mut self, vip: usize, station: usize) {
        let provisional = self.life_of_provisional(station);
        let entry = &mut self.checks.client.entries[vip];
        if entry.station.is_some() {
            (entry.station, entry.provisional) = (Some(station), provisional);
            self.touch_client();
        }
    }

    /// The client looks again soon.
    pub fn touch_client(&mut self) {
        self.checks.client.touched = self.now;
        if !self.checks.client.planned {
            self.checks.client.planned = true;
            let next = (self.now / PING + 1) * PING;
            self.queue.put(next, Item::Ping);
        }
    }

    /// The client asks each VIP.
    pub(super) fn own_ping(&mut self) {
        let now = self.now;
        self.checks.client.planned = false;
        let mut quiet = true;
        for vip in 0..self.checks.client.entries.len() {
            let served = self.ask_vip(vip);
            let entry = &mut self.checks.client.entries[vip];
            if served {
                entry.confirmed = now;
                let since = entry.silent.take();
                if let Some(since) = since {
                    self.served_again(vip, since);
                }
            } else {
                quiet = false;
                if entry.silent.is_none() {
                    entry.silent = Some(now);
                    self.note(|_| format!("the client has no answer from VIP {vip}"));
                }
                self.check_outage(vip);
            }
        }
        self.record_served(quiet);
        if !quiet || now < self.checks.client.touched + SETTLED {
            self.checks.client.planned = true;
            self.queue.put(now + PING, Item::Ping);
        }
    }

    fn ask_vip(&mut self, vip: usize) -> bool {
        let (client, now) = (self.client(), self.now);
        let mut entry = self.checks.client.entries[vip];
        if self.plan.settings.own.forgetful_client || now > entry.confirmed + UNCONFIRMED {
            entry.station = None;
        }
        if entry.station.is_none() {
            entry.station = self.resolve(vip);
            entry.provisional = entry.station.and_then(|station| self.life_of_provisional(station));
        }
        self.checks.client.entries[vip].station = entry.station;
        self.checks.client.entries[vip].provisional = entry.provisional;
        let Some(station) = entry.station else { return false };
        let there = self.frame(0, client, station).is_some() && self.answers(station, 0, What::Vip(vip));
        there && station < self.hosts.len() && self.frame(0, station, client).is_some()
    }

    /// The life of the process that carries the VIPs provisionally there, if one does.
    fn life_of_provisional(&self, station: usize) -> Option<u32> {
        let host = self.hosts.get(station)?;
        let provisional = host.agent.as_ref().is_some_and(|agent| agent.core.snapshot().role == "provisional");
        provisional.then_some(host.life)
    }

    /// Asks all hosts; the client believes the first answer.
    fn resolve(&mut self, vip: usize) -> Option<usize> {
        let client = self.client();
        if let Some((station, _)) = self.proxied(client, 0, What::Vip(vip)) {
            return Some(station);
        }
        let mut first: Option<(Nanos, usize)> = None;
        for station in (0..self.segment.stations).filter(|s| *s != client) {
            if !self.answers(station, 0, What::Vip(vip)) {
                continue;
            }
            let there = self.frame(0, client, station);
            let back = self.frame(0, station, client);
            if let (Some(there), Some(back)) = (there, back)
                && first.is_none_or(|(took, _)| there + back < took)
            {
                first = Some((there + back, station));
            }
        }
        first.map(|(_, station)| station)
    }
}
