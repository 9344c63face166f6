//! What the world does with an elector's actions.

use std::time::Duration;

use super::{Api, Item, World, ms};
use crate::action::Action;
use crate::event::{Event, Failure};

impl World {
    pub(super) fn act(&mut self, n: usize, action: Action) {
        match action {
            Action::Read { id, within } => {
                self.call(n, within, Event::Read { id, result: Err(Failure::Away) }, Item::Read(n, id));
            }
            Action::Write { id, base, record, notes, within } => {
                self.hosts[n].writes += 1;
                let lost = self.hosts[n].api == Api::Lossy;
                let failed = Event::Wrote { id, result: Err(Failure::Away) };
                self.call(n, within, failed, Item::Write(n, id, base, record, notes, lost));
            }
            Action::AskPeers { id, within } => {
                let found = |(m, h): &(usize, &super::Host)| h.up && h.ready && (*m != n || !h.own_probe_fails);
                let peers = self.hosts.iter().enumerate().filter(found).map(|(_, h)| h);
                let at =
                    |h: &super::Host| if h.api_servers.is_empty() { vec![h.address] } else { h.api_servers.clone() };
                let healthy = peers.flat_map(at).chain(self.external.clone()).collect();
                self.put(within.min(ms(5)), Item::To(n, Event::Peers { id, healthy }));
            }
            Action::Carry { address, deadline } => self.carry(n, address, deadline),
            Action::Drop { address } => self.drop(n, address),
            Action::Announce { address } => self.announce(n, address),
            Action::Probe { address, to, sender } => self.probe(n, address, to, sender),
            Action::Report(report) => self.hosts[n].reports.push((self.now, report)),
            Action::Exit => self.hosts[n].running = false,
        }
        self.note_owners();
    }

    fn call(&mut self, n: usize, within: Duration, failed: Event, call: Item) {
        self.hosts[n].calls += 1;
        if self.read_only && self.hosts[n].api == Api::Up && matches!(failed, Event::Wrote { .. }) {
            return self.put(self.hosts[n].delay, Item::To(n, failed));
        }
        match self.hosts[n].api {
            Api::Up | Api::Lossy => self.put(self.hosts[n].delay, call),
            Api::Refused => self.put(ms(1), Item::To(n, failed)),
            Api::Hanging => self.put(within, Item::To(n, failed)),
        }
    }
}
