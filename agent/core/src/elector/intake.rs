//! Takes in each event: changes what is known. `advance` decides what to do about it.

use std::net::IpAddr;
use std::time::Duration;

use super::turns::Turns;
use super::{Elector, Role, Vip};
use crate::action::{Action, Report, Why};
use crate::core::NO_INTERFACE;
use crate::event::{Event, Failure, Node};
use crate::evidence::Form;
use crate::lease::LeaseView;
use crate::mac::Mac;
use crate::planted::planted;
use crate::time::Time;

/// During a hand-over, a host that no Lease names makes this node read the Lease, but no more often than this.
const LOOK_UP_AGAIN: Duration = Duration::from_millis(500);

impl Elector {
    pub(super) fn take_in(&mut self, event: Event) {
        let now = self.step.at.now;
        match event {
            Event::Node(node) => self.node_changed(node),
            Event::Vips(vips) => self.vips_changed(&vips),
            Event::LeftOver(addresses) => self.found_left_over(&addresses),
            Event::Seen(view) => {
                self.api.answered(self.step.at.now);
                self.see(view);
                self.shows_own_write();
            }
            Event::Tick => {}
            Event::WatchLost => {
                self.api.next_read = now;
                self.read();
            }
            Event::Read { id, result } => {
                if let Some(reading) = self.api.reading.take_if(|r| r.id == id) {
                    match result {
                        Ok(view) => self.was_read(view, reading.known.as_deref()),
                        Err(_) => self.read_failed(),
                    }
                }
            }
            Event::Wrote { id, result } => {
                if self.api.flight.as_ref().is_some_and(|f| f.id == id) {
                    match result {
                        Ok(view) => self.wrote(view),
                        Err(failure) => self.write_failed(failure),
                    }
                } else if let Ok(view) = result {
                    // A write that this node had given up took effect after all.
                    self.api.answered(self.step.at.now);
                    self.see(Some(view));
                    self.shows_own_write();
                } else if result == Err(Failure::Conflict) {
                    self.api.answered(self.step.at.now);
                }
            }
            Event::Health(verdict) => {
                self.service.judged(verdict);
            }
            Event::Peers { id, healthy } => {
                // The own service answers again, and its verdict will follow after some more results: no peer is better.
                let own = &self.node.participant;
                let is_own = |address: &IpAddr| own.addresses.contains(address) || own.api_servers.contains(address);
                let well = !self.process.is_ending() && healthy.iter().any(is_own);
                if let Some(asked) = self.service.asked.as_mut().filter(|asked| asked.id == id) {
                    asked.healthy = Some(if well { vec![] } else { healthy });
                }
            }
            Event::Heard { address, mac, form } => self.heard(address, mac, form),
            Event::Put { address } => self.was_put(address),
            Event::NotRefreshed { address } => self.not_refreshed(address),
            Event::PutFailed { address, reason } => self.put_failed(address, reason),
            Event::Gone { address } => self.gone(address),
            Event::Removed { address } => self.was_removed(address),
            Event::RemoveFailed { address, reason } => self.report(Report::CannotRemove { address, reason }),
            Event::NodeSilent { node } => self.suspect(&node),
            Event::Turn => self.has_turn(),
            Event::Asked { address, sender } => self.was_asked_in_turn(address, sender),
            Event::NodeHeard { node } => self.suspect_no_more(&node),
            Event::Link { up } => self.link_changed(up),
            Event::Unheard(addresses) => self.unheard_changed(addresses),
            Event::ClockJump(by) => self.late(by),
            Event::Withdraw { unwanted } => self.withdraw(unwanted),
            Event::Shutdown => self.process.end(),
        }
    }

    /// A read ended. `known`: the version that was known when the read was sent.
    fn was_read(&mut self, view: Option<LeaseView>, known: Option<&str>) {
        self.api.answered(self.step.at.now);
        // An older version is believed if nothing else was shown since the read was sent. Otherwise the next read tells.
        self.api.next_read = self.step.at.now + self.rules.retry_period / 2;
        if self.lease.version() == known {
            self.lease.see_anew(self.step.at.now, view, &self.rules);
            self.was_shown();
        } else {
            self.see(view);
        }
        self.shows_own_write();
    }

    /// The Lease was shown.
    pub(super) fn see(&mut self, view: Option<LeaseView>) {
        if !self.lease.see(self.step.at.now, view, &self.rules) {
            return;
        }
        self.was_shown();
    }

    /// Decides at once whether the VIPs that this node carries belong to another node.
    fn was_shown(&mut self) {
        self.step.again = true;
        self.recall.saw(self.lease.view(), &self.rules.node);
        // A node that comes while the Lease is handed over has never seen who hands it over.
        let holder = match self.lease.holder() {
            "" => self.lease.view().and_then(LeaseView::handover).map_or("", |handover| &handover.from),
            holder => holder,
        };
        let holder = holder.to_owned();
        if let Some(last) = self.candidacy.saw_holder(self.step.at.now, &holder) {
            // What was misjudged was the last holder's silence.
            self.candidacy.misjudged_until = Time::default();
            if last == self.rules.node {
                self.search_anew();
            }
        }
        if let Role::Holding(holding) = &mut self.role {
            holding.in_doubt = false;
            if self.lease.view().is_none() {
                // Somebody deleted the Lease, and with it the names of all nodes: without it this node looks like a foreign host.
                self.api.next_write = self.step.at.now;
            }
        }
        self.tell_of_twin();
        if !self.is_anothers() {
            return;
        }
        if self.was_taken_by_offer() {
            return;
        }
        match &self.role {
            Role::Holding(_) => self.let_go(Why::LeaseLost),
            Role::Unleased(_) => self.unleased_sees_holder(),
            Role::Following(_) | Role::Leaving(_) => {}
        }
    }

    fn heard(&mut self, address: IpAddr, mac: Mac, mut form: Form) {
        if self.node.macs.contains(&mac) || !mac.is_host() {
            return;
        }
        let now = self.step.at.now;
        // Whoever has many electors has judged by what all of them ask.
        if self.segment.turns == Turns::Alone {
            let is_vip = self.vips.contains_key(&address);
            form = self.segment.broadcasts.judge(now, NO_INTERFACE, (address, mac), form, is_vip);
        }
        if form.is_answer() && self.is_echo(address) {
            self.segment.echo.heard(now, address, form);
            self.is_heard();
        }
        let proxied = self.is_proxied(address, mac, form);
        if proxied && !self.vips.contains_key(&address) {
            return;
        }
        if !self.is_foreign_to_witness(address, mac) {
            self.segment.witness.heard(now, address, mac, form);
        }
        if !self.vips.contains_key(&address) {
            if form.is_answer() || planted!(ClaimsEntitle) {
                self.third_party_answered(address, mac, form);
            }
            return;
        }
        self.segment.witness.heard_for_another(mac, form);
        self.step.again = true;
        if proxied {
            return;
        }
        // A network may answer a broadcast for a holder that nobody hears.
        if form.is_alone() {
            self.offered_is_answered();
        }
        if form.is_to_all() && self.asks_who_is_named() {
            self.segment.named.name(now, NO_INTERFACE, address, mac);
            return;
        }
        if self.heard_while_searching(address, mac) {
            return;
        }
        let taken = self.is_peer(mac) || self.is_anothers();
        match &mut self.role {
            Role::Holding(_) => self.challenged(address, mac),
            Role::Unleased(_) if planted!(KeepsOnBesideOther) => {}
            Role::Unleased(_) => {
                self.candidacy.turns += 1;
                if self.is_holders(mac) {
                    self.has_misjudged();
                }
                self.let_go(Why::Yielded);
            }
            Role::Leaving(leaving) if taken => {
                leaving.heard.get_or_insert(now);
            }
            // A stranger is no successor, unless the Lease names it soon.
            Role::Leaving(leaving) => {
                // The watch may be broken: the Lease is read, to know whether it names that host.
                leaving.heard_unnamed = Some(now);
                if leaving.looked_up.is_none_or(|at| now.since(at) >= LOOK_UP_AGAIN) {
                    leaving.looked_up = Some(now);
                    self.read();
                }
            }
            Role::Following(_) => {}
        }
    }

    fn node_changed(&mut self, node: Node) {
        self.had.extend(node.participant.macs.iter().copied());
        self.node = node;
        self.tell_of_twin();
        self.candidacy.participate_at = None;
    }

    fn vips_changed(&mut self, wanted: &[IpAddr]) {
        let gone: Vec<IpAddr> = self.vips.keys().copied().filter(|a| !wanted.contains(a)).collect();
        for address in gone {
            let held_back = self.vips.remove(&address).is_some_and(|vip| vip.is_held_back());
            if self.is_carrying() && !held_back {
                self.act(Action::Drop { address });
                self.report(Report::LetGo(Why::NotWanted));
            }
        }
        for address in wanted {
            self.vips.entry(*address).or_insert_with(|| Vip::new(self.rules.announce_refresh));
        }
        if let Some(deadline) = self.deadline_to_restore() {
            self.carry(deadline);
        }
    }
}
