//! What each event means, before anything is done about it.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::time::Duration;

use super::{Keeper, Role, Vip};
use crate::action::{Action, Report, Why};
use crate::event::{Event, Failure, Node};
use crate::lease::LeaseView;
use crate::mac::Mac;
use crate::planted::planted;
use crate::schedule::Schedule;

/// A host that was heard while this node hands over, and that no Lease names, makes it read the Lease so often.
const LOOK_UP_AGAIN: Duration = Duration::from_millis(500);

impl Keeper {
    pub(super) fn take_in(&mut self, event: Event) {
        let now = self.at.now;
        match event {
            Event::Node(node) => self.node_changed(node),
            Event::Vips(vips) => self.vips_changed(&vips),
            Event::LeftOver(addresses) => self.found_left_over(&addresses),
            Event::Seen(view) => {
                self.answered();
                self.see(view);
                self.shows_own_write();
            }
            Event::Tick => {}
            Event::WatchLost => {
                self.next_read = now;
                self.read();
            }
            Event::Read { id, result } => {
                if let Some(reading) = self.reading.take_if(|r| r.id == id) {
                    match result {
                        Ok(view) => self.was_read(view, reading.known.as_deref()),
                        Err(_) => self.read_failed(),
                    }
                }
            }
            Event::Wrote { id, result } => {
                if self.flight.as_ref().is_some_and(|f| f.id == id) {
                    match result {
                        Ok(view) => self.wrote(view),
                        Err(failure) => self.write_failed(failure),
                    }
                } else if let Ok(view) = result {
                    // A write that was given up has taken effect after all.
                    self.answered();
                    self.see(Some(view));
                    self.shows_own_write();
                } else if result == Err(Failure::Conflict) {
                    self.answered();
                }
            }
            Event::Health(verdict) => {
                self.health = Some(verdict);
                self.nobody_was_better = false;
            }
            Event::Peers { id, healthy } => {
                // The own service answers again as well, only its verdict takes some answers more: nobody is better then.
                let own = &self.node.participant.addresses;
                let well = !self.shutting_down && healthy.iter().any(|address| own.contains(address));
                if let Some(asked) = self.asked.as_mut().filter(|asked| asked.id == id) {
                    asked.healthy = Some(if well { vec![] } else { healthy });
                }
            }
            Event::Heard { address, mac } => self.heard(address, mac),
            Event::Put { address } => self.was_put(address),
            Event::PutFailed { address, reason } => self.put_failed(address, reason),
            Event::Gone { address } => self.gone(address),
            Event::Link { up } => self.link_changed(up),
            Event::ClockJump(by) => self.late(by),
            Event::Shutdown => self.shutting_down = true,
        }
    }

    /// A read ended. `known`: the version that was known when it was sent.
    fn was_read(&mut self, view: Option<LeaseView>, known: Option<&str>) {
        self.answered();
        // What is older than known is believed if nothing else was shown since; else the next read will tell.
        self.next_read = self.at.now + self.rules.retry_period / 2;
        if self.seen.version() == known {
            self.seen.see_anew(self.at.now, view, &self.rules);
            self.was_shown();
        } else {
            self.see(view);
        }
        self.shows_own_write();
    }

    /// The Lease was shown.
    pub(super) fn see(&mut self, view: Option<LeaseView>) {
        if !self.seen.see(self.at.now, view, &self.rules) {
            return;
        }
        self.was_shown();
    }

    /// Decides at once whether what this node carries is another's.
    fn was_shown(&mut self) {
        self.again = true;
        let holder = self.seen.holder().to_owned();
        if !holder.is_empty() && holder != self.last_holder {
            if !self.last_holder.is_empty() {
                self.moves.record(self.at.now);
            }
            self.last_holder.clone_from(&holder);
        }
        if let Role::Holding(holding) = &mut self.role {
            holding.in_doubt = false;
        }
        if holder == self.rules.node || holder.is_empty() {
            return;
        }
        match &self.role {
            Role::Holding(_) => self.let_go(Why::LeaseLost),
            Role::Unleased(_) => self.unleased_sees_holder(),
            Role::Following | Role::Leaving(_) => {}
        }
    }

    fn heard(&mut self, address: IpAddr, mac: Mac) {
        if self.node.macs.contains(&mac) || !mac.is_host() {
            return;
        }
        let now = self.at.now;
        self.witness.heard(now, address, mac);
        if !self.vips.contains_key(&address) {
            // Only those that may be asked for: what the segment says of others does not fill the memory.
            if self.node.gateways.contains(&address) || self.peers().contains(&address) {
                self.third_heard.insert(address, now);
            }
            return;
        }
        self.again = true;
        let (peer, holder) = (self.is_peer(mac), self.seen.holder());
        let taken = peer || !holder.is_empty() && holder != self.rules.node;
        match &mut self.role {
            Role::Holding(_) => self.challenged(address, mac),
            Role::Unleased(_) if planted!(KeepsOnBesideOther) => {}
            Role::Unleased(_) => {
                self.turns += 1;
                self.let_go(Why::Yielded);
            }
            Role::Leaving(leaving) if taken => {
                leaving.heard.get_or_insert(now);
            }
            // A stranger is no successor, unless the Lease names one soon.
            Role::Leaving(leaving) => {
                // The watch may be away: the Lease is read, to know whether it names that one.
                leaving.heard_unnamed = Some(now);
                if leaving.looked_up.is_none_or(|at| now.since(at) >= LOOK_UP_AGAIN) {
                    leaving.looked_up = Some(now);
                    self.read();
                }
            }
            Role::Following => {}
        }
    }

    fn node_changed(&mut self, node: Node) {
        self.node = node;
        self.participate_at = None;
    }

    fn vips_changed(&mut self, wanted: &[IpAddr]) {
        let gone: Vec<IpAddr> = self.vips.keys().copied().filter(|a| !wanted.contains(a)).collect();
        for address in gone {
            self.vips.remove(&address);
            if !matches!(self.role, Role::Following) {
                self.act(Action::Drop { address });
                self.report(Report::LetGo(Why::NotWanted));
            }
        }
        for address in wanted {
            let schedule = Schedule::new(self.rules.announce_refresh);
            let vip = Vip { schedule, put: false, refused: false, defended: None, removed: VecDeque::new() };
            self.vips.entry(*address).or_insert(vip);
        }
        if let Some(until) = self.fence_to_restore() {
            self.carry(until);
        }
    }
}
