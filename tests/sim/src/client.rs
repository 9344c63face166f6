//! A client on the segment, with its neighbour cache: whether the VIP answers is known by asking it.

use crate::clock::{MS, Nanos, SECOND};
use crate::queue::Item;
use crate::segment::What;
use crate::world::World;

/// Between two probes of the client.
pub const PING: Nanos = 100 * MS;
/// A neighbour that does not confirm is asked for again after this: 5 s of delay, 3 s of probes (Linux's defaults).
const UNCONFIRMED: Nanos = 8 * SECOND;
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
}

/// See the module's text.
#[derive(Debug)]
pub struct NeighbourCache {
    /// By VIP.
    pub entries: Vec<Entry>,
    /// A probe is planned.
    pub planned: bool,
    /// When something last changed.
    pub touched: Nanos,
    /// When probes of the first VIP began to be answered, or not to be, for the drawing.
    pub log: Vec<(Nanos, bool)>,
}

impl NeighbourCache {
    /// Of a client that has just come.
    #[must_use]
    pub fn new(vips: usize) -> Self {
        let never = Entry { silent: Some(0), ..Entry::default() };
        Self { entries: vec![never; vips], planned: false, touched: 0, log: vec![] }
    }
}

impl World<'_> {
    /// A station says that it has the VIP: an entry that is there is changed, none is made (`arp_accept` 0).
    pub fn client_heard(&mut self, vip: usize, station: usize) {
        let entry = &mut self.client.entries[vip];
        if entry.station.is_some() {
            entry.station = Some(station);
            self.touch_client();
        }
    }

    /// The client looks again soon.
    pub fn touch_client(&mut self) {
        self.client.touched = self.now;
        if !self.client.planned {
            self.client.planned = true;
            let next = (self.now / PING + 1) * PING;
            self.queue.put(next, Item::Ping);
        }
    }

    /// The client asks each VIP.
    pub fn ping(&mut self) {
        let now = self.now;
        self.client.planned = false;
        let mut quiet = true;
        for vip in 0..self.client.entries.len() {
            let served = self.ask_vip(vip);
            let entry = &mut self.client.entries[vip];
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
                    self.say(|_| format!("the client has no answer from VIP {}", vip + 1));
                }
                self.check_outage(vip);
            }
            if vip == 0 && self.client.log.last().is_none_or(|(_, last)| *last != served) {
                self.client.log.push((now, served));
            }
        }
        if !quiet || now < self.client.touched + SETTLED {
            self.client.planned = true;
            self.queue.put(now + PING, Item::Ping);
        }
    }

    fn ask_vip(&mut self, vip: usize) -> bool {
        let (client, now) = (self.client_station(), self.now);
        let mut entry = self.client.entries[vip];
        if self.plan.settings.forgetful_client || now > entry.confirmed + UNCONFIRMED {
            entry.station = None;
        }
        if entry.station.is_none() {
            entry.station = self.resolve(vip);
        }
        self.client.entries[vip].station = entry.station;
        let Some(station) = entry.station else { return false };
        let there = self.frame(client, station).is_some() && self.answers(station, What::Vip(vip));
        there && station < self.hosts.len() && self.frame(station, client).is_some()
    }

    /// Asks everybody; who answers first is believed.
    fn resolve(&mut self, vip: usize) -> Option<usize> {
        let client = self.client_station();
        let mut first: Option<(Nanos, usize)> = None;
        for station in (0..self.segment.stations).filter(|s| *s != client) {
            if !self.answers(station, What::Vip(vip)) {
                continue;
            }
            let there = self.frame(client, station);
            let back = self.frame(station, client);
            if let (Some(there), Some(back)) = (there, back)
                && first.is_none_or(|(took, _)| there + back < took)
            {
                first = Some((there + back, station));
            }
        }
        first.map(|(_, station)| station)
    }
}
