//! Takes in each event: what is known afterwards, and which VIPs are to be considered.

use super::hold::{Basis, Hold};
use super::questions::Question;
use super::vip::Vip;
use super::{Event, Input, Report, SessionVips};
use crate::core::{Interface, Vip as OnInterface};
use crate::event::Failure;
use crate::mac::Mac;
use crate::rules::SHORT_FENCE;
use crate::session::{Shown, View};

impl SessionVips {
    pub(super) fn take_in(&mut self, event: Event) {
        match event {
            Event::Tick => {}
            Event::Node { interfaces, macs } => self.node_changed(interfaces, macs),
            Event::Link { interface: index, up } => self.link_changed(index, up),
            Event::Heard { interface: index, address, mac, form } => self.heard(index, address, mac, form),
            Event::LeftOver(found) => self.found_left_over(&found),
            Event::Ensured(addresses) => self.were_put(&addresses),
            Event::NotRefreshed(addresses) => self.not_refreshed(&addresses),
            Event::EnsureFailed { address, reason } => self.put_failed(address, reason),
            Event::Gone(address) => self.gone(address),
            Event::Removed(addresses) => self.were_removed(&addresses),
            Event::RemoveFailed { address, reason } => self.report(Report::CannotRemove { address, reason }),
            Event::ClockJump(by) => self.late(by),
            Event::Shutdown => self.own.end(),
            Event::Input(input) => self.take_input(input),
        }
    }

    fn take_input(&mut self, input: Input) {
        match input {
            Input::Wanted(demands) => {
                let refresh = self.rules.announce_refresh;
                for demand in demands {
                    self.selector_shown(&demand);
                    let address = demand.address;
                    let vip = self.vips.entry(address).or_insert_with(|| Box::new(Vip::new(address, refresh)));
                    vip.demand = Some(demand);
                    vip.unwanted = None;
                    self.index.dirty.insert(address);
                }
            }
            Input::Unwanted(address) => {
                if let Some(vip) = self.vips.get_mut(&address) {
                    vip.demand = None;
                    self.index.dirty.insert(address);
                }
            }
            Input::Node { standing, labels } => self.node_shown(standing, labels),
            Input::Session(view) => {
                self.api_answered();
                let own = view.node == self.rules.node;
                if !view.published {
                    self.ask_no_more(&view.node, Question::NotUnpublished);
                }
                self.session_shown(view);
                if own {
                    self.own_shown();
                }
            }
            Input::SessionDeleted(node) if self.sessions.is_read_ahead(&node) => {
                // The watch may be behind what was read: another list tells.
                self.list_anew();
            }
            Input::SessionDeleted(node) => self.lease_deleted(&node),
            Input::Followed { node, view } => self.followed(&node, view),
            Input::NotUnpublished(node) => self.ask_later(&node, Question::NotUnpublished),
            Input::Member(member) => self.member_shown(member),
            Input::MemberDeleted(node) => self.member_deleted(&node),
            Input::Members(members) => self.members_listed(members),
            Input::Published { id, result } => self.was_published(id, result),
            Input::Sessions { id, result } => match result {
                Ok(views) => self.listed(id, views),
                Err(_) if id.is_none() || self.calls.listing.is_some_and(|listing| Some(listing.id) == id) => {
                    self.list_failed();
                }
                Err(_) => {}
            },
            // While the API is away the watch breaks again and again, and lists are tried anyway.
            Input::WatchLost if self.api.away.is_some() => {}
            Input::WatchLost => self.list_after_loss(),
            Input::Address { listed, address, view } => self.address_watched(address, view, listed),
            Input::Addresses { id, result } => self.read_addresses(id, result),
            Input::WroteSession { id, result } => self.session_written(id, result),
            Input::WroteHolder { id, result } => self.holder_written(id, result),
            Input::Synced => {
                self.synced = true;
                self.index.dirty.extend(self.index.carried.iter().copied());
            }
            Input::Drain(drain) => {
                self.own.drained = drain;
                self.own.redeclare = true;
                self.own.calls.next_write = self.step.at.now;
                self.index.dirty.extend(self.index.carried.iter().copied());
            }
            Input::Reserved(reserved) => {
                if self.owned.reserve(reserved) {
                    self.declare_anew();
                }
            }
            Input::Rebalance => {
                for address in &self.index.carried {
                    if let Some(hold) = self.vips.get_mut(address).and_then(|vip| vip.hold.as_mut()) {
                        hold.rebalance = true;
                    }
                }
                self.index.dirty.extend(self.index.carried.iter().copied());
            }
        }
    }

    /// A watch event showed a session.
    pub(super) fn session_shown(&mut self, view: View) {
        let node = view.node.clone();
        let shown = self.sessions.see(self.step.at.now, view, &self.rules);
        self.session_was_shown(&node, shown);
    }

    /// The answer to a write showed a session.
    pub(super) fn session_answered(&mut self, view: View) {
        let node = view.node.clone();
        let shown = self.sessions.learn(self.step.at.now, view);
        self.session_was_shown(&node, shown);
    }

    fn lease_deleted(&mut self, node: &str) {
        if let Some(peer) = self.sessions.get(node) {
            self.publishing.lease_was_deleted(&peer.view, true);
        }
        if self.sessions.deleted(self.step.at.now, node, &self.rules) {
            self.session_changed(node);
        }
        self.own_shown();
    }

    /// The watch of one Lease has begun.
    fn followed(&mut self, node: &str, view: Option<View>) {
        self.api_answered();
        // Another node is followed by now, and nothing more will come of this watch.
        if !self.following.asked.contains(node) {
            return;
        }
        self.sessions.follow(self.step.at.now, node);
        let me = node == self.rules.node;
        self.following.looked_up |= me;
        match view {
            Some(view) => {
                let shown = self.sessions.see_listed(self.step.at.now, view, &self.rules);
                self.session_was_shown(node, shown);
                if me {
                    self.own_shown();
                }
            }
            None if self.sessions.is_read_ahead(node) => self.list_anew(),
            None => self.lease_deleted(node),
        }
        self.step.again = true;
    }

    pub(super) fn session_was_shown(&mut self, node: &str, shown: Shown) {
        self.publishing.look_at(node);
        if node == self.rules.node {
            self.own_note_was_shown();
        } else {
            self.note_was_shown(node);
        }
        if let Some(at) = self.sessions.expires(node, &self.rules) {
            self.calls.first_expiry = self.calls.first_expiry.min(at);
        }
        match shown {
            Shown::Changed => self.session_changed(node),
            // A holder that was thought dead is alive: a node that carries its VIPs provisionally lets them go.
            Shown::Renewed if !self.asking.provisional.is_empty() => {
                self.index.dirty.extend(self.asking.provisional.iter().copied());
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
            // A write that this node had given up took effect after all.
            let own = view.node == self.rules.node;
            self.session_answered(view);
            if own {
                self.own_shown();
            }
        }
    }

    fn node_changed(&mut self, interfaces: Vec<Interface>, macs: Vec<Mac>) {
        let now = self.step.at.now;
        // The neighbours still know the VIPs at the MAC address that the interface had before.
        let before = |index: u32| self.node.interfaces.iter().find(|one| one.index == index);
        let moved =
            |one: &&Interface| before(one.index).is_some_and(|old| old.link.macs.first() != one.link.macs.first());
        let moved: Vec<u32> = interfaces.iter().filter(moved).map(|one| one.index).collect();
        if self.node.looked_at(now, interfaces, macs) {
            self.declare_anew();
        }
        self.look_for_twin();
        self.announce_again(|index| moved.contains(&index));
        if self.node.came_up.values().any(|at| *at == now) {
            self.link_came_up();
        }
    }

    /// The VIPs on these interfaces are announced again from now on.
    pub(super) fn announce_again(&mut self, on: impl Fn(u32) -> bool) {
        let now = self.step.at.now;
        for address in &self.index.carried {
            let Some(vip) = self.vips.get_mut(address) else { continue };
            if vip.hold.is_some_and(|hold| hold.put && on(hold.interface)) {
                vip.schedule.restart(now);
            }
        }
    }

    fn link_changed(&mut self, index: u32, up: bool) {
        let now = self.step.at.now;
        if !self.node.link_is(now, index, up) {
            return;
        }
        if up {
            self.link_came_up();
        }
        self.declare_anew();
    }

    fn declare_anew(&mut self) {
        let now = self.step.at.now;
        for vip in self.vips.values_mut() {
            vip.refusal.lift(now);
        }
        self.owned.changed();
        self.own.redeclare = true;
        self.own.calls.next_write = self.step.at.now;
        self.rewatch = true;
        self.all_dirty();
    }

    /// An earlier run of this agent left these VIPs on the interfaces.
    fn found_left_over(&mut self, found: &[OnInterface]) {
        let (now, refresh) = (self.step.at.now, self.rules.announce_refresh);
        for OnInterface { address, interface } in found {
            let vip = self.vips.entry(*address).or_insert_with(|| Box::new(Vip::new(*address, refresh)));
            if vip.hold.is_some() {
                continue;
            }
            vip.hold = Some(Hold { put: true, ..Hold::new(Basis::LeftOver, *interface, now + SHORT_FENCE) });
            self.index.carried.insert(*address);
            self.index.dirty.insert(*address);
        }
    }
}
