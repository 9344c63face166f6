//! What each event means, before anything is done about it.

use std::net::IpAddr;

use super::vip::{Basis, Hold, Vip};
use super::{Event, Fleet, Interface};
use crate::event::Failure;
use crate::mac::Mac;
use crate::rules::SHORT_FENCE;
use crate::session::{Shown, View};

impl Fleet {
    pub(super) fn take_in(&mut self, event: Event) {
        match event {
            Event::Tick => {}
            Event::Node { interfaces, macs } => self.node_changed(interfaces, macs),
            Event::Link { index, up } => self.link_changed(index, up),
            Event::Wanted(demands) => {
                let refresh = self.rules.announce_refresh;
                for demand in demands {
                    let address = demand.address;
                    let vip = self.vips.entry(address).or_insert_with(|| Box::new(Vip::new(address, refresh)));
                    vip.demand = Some(demand);
                    vip.unwanted = None;
                    self.dirty.insert(address);
                }
            }
            Event::Unwanted(address) => {
                if let Some(vip) = self.vips.get_mut(&address) {
                    vip.demand = None;
                    self.dirty.insert(address);
                }
            }
            Event::Standing { node, standing } => self.sessions.set_standing(node, standing),
            Event::Session(view) => {
                self.away_is_over();
                let own = view.node == self.rules.node;
                self.session_shown(view);
                if own {
                    self.own_shown();
                }
            }
            Event::SessionDeleted(node) if self.sessions.is_read_ahead(&node) => {
                // The watch is behind what was read: another read tells.
                self.calls.listing = None;
                self.list_sessions();
            }
            Event::SessionDeleted(node) => {
                if self.sessions.deleted(self.at.now, &node, &self.rules) {
                    self.session_changed(&node);
                }
                self.own_shown();
            }
            Event::Sessions { id, result } => match result {
                Ok(views) => self.listed(id, views),
                Err(_) if id.is_none() || self.calls.listing.is_some_and(|(one, _, _)| Some(one) == id) => {
                    self.listed_not();
                }
                Err(_) => {}
            },
            // While the API is away it breaks again and again; lists are tried as it is.
            Event::WatchLost if self.away.is_some() => {}
            Event::WatchLost => {
                self.calls.next_list = self.at.now;
                self.list_sessions();
            }
            Event::Address { listed, address, view } => self.address_watched(address, view, listed),
            Event::Addresses { id, result } => self.read_addresses(id, result),
            Event::WroteSession { id, result } => self.session_written(id, result),
            Event::WroteHolder { id, result } => self.holder_written(id, result),
            Event::Heard { index, address, mac } => self.heard(index, address, mac),
            Event::LeftOver(addresses) => self.found_left_over(&addresses),
            Event::Synced => {
                self.synced = true;
                self.dirty.extend(self.carried.iter().copied());
            }
            Event::Put(addresses) => self.were_put(&addresses),
            Event::PutFailed { address, reason } => self.put_failed(address, reason),
            Event::Gone(address) => self.gone(address),
            Event::ClockJump(by) => self.late(by),
            Event::Drain(drain) => {
                self.own.drained = drain;
                self.own.redeclare = true;
                self.own.next_write = self.at.now;
                self.dirty.extend(self.carried.iter().copied());
            }
            Event::Rebalance => {
                for address in &self.carried {
                    if let Some(vip) = self.vips.get_mut(address) {
                        vip.rebalance = true;
                    }
                }
                self.dirty.extend(self.carried.iter().copied());
            }
            Event::Shutdown => self.own.shutting_down = true,
        }
    }

    /// A session was shown, by whatever way.
    pub(super) fn session_shown(&mut self, view: View) {
        let node = view.node.clone();
        let shown = self.sessions.see(self.at.now, view, &self.rules);
        self.session_was_shown(&node, shown);
    }

    /// The answer to a write showed one.
    pub(super) fn session_answered(&mut self, view: View) {
        let node = view.node.clone();
        let shown = self.sessions.learn(self.at.now, view);
        self.session_was_shown(&node, shown);
    }

    fn session_was_shown(&mut self, node: &str, shown: Shown) {
        if let Some(at) = self.sessions.expires(node, &self.rules) {
            self.calls.first_expiry = self.calls.first_expiry.min(at);
        }
        match shown {
            Shown::Changed => self.session_changed(node),
            // A holder that was thought dead is alive: who carries its VIPs without the API lets them go.
            Shown::Renewed if !self.asking.provisional.is_empty() => {
                self.dirty.extend(self.asking.provisional.iter().copied());
            }
            Shown::Renewed | Shown::Nothing => {}
        }
    }

    fn session_written(&mut self, id: u64, result: Result<View, Failure>) {
        if self.is_own_flight(id) {
            match result {
                Ok(view) => {
                    self.session_answered(view);
                    self.own_shown();
                }
                Err(failure) => self.own_write_failed(failure),
            }
            return;
        }
        let node = self.calls.ends.iter().find(|(_, end)| end.id == id).map(|(node, _)| node.clone());
        if let Some(node) = node {
            self.end_written(&node, id, result);
        } else if let Ok(view) = result {
            // A write that was given up has taken effect after all.
            let own = view.node == self.rules.node;
            self.session_answered(view);
            if own {
                self.own_shown();
            }
        }
    }

    fn node_changed(&mut self, interfaces: Vec<Interface>, macs: Vec<Mac>) {
        let now = self.at.now;
        let known = std::mem::replace(&mut self.interfaces, interfaces);
        self.macs = macs;
        self.down.retain(|index, _| self.interfaces.iter().any(|i| i.index == *index));
        for interface in &self.interfaces {
            if interface.link.up {
                self.down.remove(&interface.index);
            } else {
                self.down.entry(interface.index).or_insert(now);
            }
        }
        if known != self.interfaces {
            self.declare_anew();
        }
    }

    fn link_changed(&mut self, index: u32, up: bool) {
        let now = self.at.now;
        let Some(interface) = self.interfaces.iter_mut().find(|i| i.index == index && i.link.up != up) else { return };
        interface.link.up = up;
        if up {
            self.down.remove(&index);
            self.forget_witnesses();
            for address in &self.carried {
                if let Some(vip) = self.vips.get_mut(address).filter(|v| v.put) {
                    vip.schedule.restart(now);
                }
            }
        } else {
            self.down.entry(index).or_insert(now);
        }
        self.declare_anew();
    }

    fn declare_anew(&mut self) {
        self.own.redeclare = true;
        self.own.next_write = self.at.now;
        self.rewatch = true;
        self.all_dirty();
    }

    /// An earlier run of this agent left these on the interfaces.
    fn found_left_over(&mut self, addresses: &[(IpAddr, u32)]) {
        let (now, refresh) = (self.at.now, self.rules.announce_refresh);
        for (address, index) in addresses {
            let vip = self.vips.entry(*address).or_insert_with(|| Box::new(Vip::new(*address, refresh)));
            if vip.hold.is_some() {
                continue;
            }
            let until = now + SHORT_FENCE;
            vip.hold = Some(Hold {
                basis: Basis::LeftOver,
                until,
                dropped: until,
                index: *index,
                returns_until: None,
                heard: None,
                named: None,
                other: None,
                consented: false,
            });
            vip.put = true;
            self.carried.insert(*address);
            self.dirty.insert(*address);
        }
    }
}
