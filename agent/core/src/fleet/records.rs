//! The holder's record on the `IPAddress`: read, and written by compare-and-swap.

use std::net::IpAddr;
use std::time::Duration;

use super::calls::WRITES;
use super::vip::{About, Basis, Flight, Vip};
use super::{Action, Fleet, Report};
use crate::event::Failure;
use crate::planted::planted;
use crate::rules::MARGIN;
use crate::session::{AddressView, Holder};
use crate::time::Time;

/// How long a write may go unanswered.
const WITHIN: Duration = Duration::from_secs(1);
/// After a lost race nothing is written for so long: the watch, or a read, tells how it is.
const LOST: Duration = Duration::from_millis(100);

impl Fleet {
    /// The watch showed the `IPAddress` of a VIP. `listed`: by the list that it begins with; it may be older than what answers
    /// have shown, and else is believed even if its version is, as after a restored backup.
    pub(super) fn address_watched(&mut self, address: IpAddr, view: Option<AddressView>, listed: bool) {
        if let Some(vip) = self.vips.get_mut(&address) {
            match vip.is_about(view.as_ref()) {
                About::Older if !listed => return,
                // What was read is perhaps another object by now, of which the watch is about to tell.
                About::Older | About::Other if vip.ahead => {
                    return self.want_read(address);
                }
                About::Older | About::Other | About::Newer => {}
            }
        }
        self.address_shown(address, view);
        if let Some(vip) = self.vips.get_mut(&address) {
            vip.ahead = false;
        }
    }

    /// An answer showed it, to a call that was sent then. `anew`: nothing has been shown since.
    fn address_answered(&mut self, address: IpAddr, view: Option<AddressView>, anew: bool, sent: Time) {
        self.dirty.insert(address);
        if let Some(vip) = self.vips.get_mut(&address) {
            match vip.is_about(view.as_ref()) {
                _ if anew => {}
                About::Older => {
                    vip.proven = vip.proven.max(sent);
                    return;
                }
                // Deleted, or made again, while the call was on its way: which of the two is the later cannot be told.
                About::Other => return self.want_read(address),
                About::Newer => {}
            }
        }
        let version = |v: &AddressView| v.version.clone();
        let before = self.vips.get(&address).and_then(|v| v.view.as_ref()).map(version);
        let same = before == view.as_ref().map(version);
        self.address_shown(address, view);
        if let Some(vip) = self.vips.get_mut(&address) {
            vip.proven = vip.proven.max(sent);
            vip.ahead |= !same;
        }
    }

    fn address_shown(&mut self, address: IpAddr, view: Option<AddressView>) {
        let refresh = self.rules.announce_refresh;
        let vip = self.vips.entry(address).or_insert_with(|| Box::new(Vip::new(address, refresh)));
        self.dirty.insert(address);
        let before = vip.holder().cloned();
        let after = view.as_ref().and_then(|v| v.holder.clone());
        vip.known = true;
        vip.view = view;
        if before == after {
            return;
        }
        vip.changed = self.at.now;
        vip.open_since = None;
        vip.forsaken = false;
        vip.failures = 0;
        let node = |h: &Option<Holder>| h.as_ref().map(|h| h.node.clone());
        let (old, new) = (node(&before), node(&after));
        if old == new {
            return;
        }
        if old.is_some() && new.is_some() {
            vip.moves.record(self.at.now);
        }
        if let Some(old) = old
            && let Some(held) = self.held.get_mut(&old)
        {
            held.remove(&address);
            if held.is_empty() {
                self.held.remove(&old);
            }
        }
        if let Some(new) = new {
            self.held.entry(new).or_default().insert(address);
        }
    }

    /// A read of some VIPs ended.
    pub(super) fn read_addresses(&mut self, id: u64, result: Result<Vec<(IpAddr, Option<AddressView>)>, Failure>) {
        let Some(reading) = self.calls.reads.remove(&id) else { return };
        self.again = true;
        let Ok(views) = result else {
            self.is_away(reading.sent);
            self.calls.next_read = reading.sent + self.rules.retry_period / 4;
            self.calls.wanted.extend(reading.known.into_keys());
            return;
        };
        self.away_is_over();
        for (address, view) in views {
            let known = self.vips.get(&address).and_then(|v| v.view.as_ref()).map(|v| v.version.clone());
            let anew = reading.known.get(&address).is_some_and(|then| *then == known);
            self.address_answered(address, view, anew, reading.sent);
        }
    }

    /// Writes who holds a VIP. False: it waits until others have been written.
    pub(super) fn write_holder(&mut self, vip: &mut Vip, holder: impl Into<Option<Holder>>) -> bool {
        let Some(view) = &vip.view else { return false };
        let holder = holder.into();
        if vip.flight.is_some() {
            return false;
        }
        if self.calls.writes.len() >= WRITES {
            self.calls.waiting.insert(vip.address);
            return false;
        }
        let (id, now, base) = (self.new_id(), self.at.now, view.version.clone());
        let until = now + WITHIN + MARGIN;
        vip.flight = Some(Flight { id, sent: now, until, wrote: holder.clone() });
        self.calls.writes.insert(id, vip.address);
        self.due(until);
        let base = if planted!(RecordWithoutVersion) { String::new() } else { base };
        self.out.push(Action::WriteHolder { id, address: vip.address, base, holder, within: WITHIN });
        true
    }

    /// The record that names this node.
    pub(super) fn own_holder(&self) -> Option<Holder> {
        let tenure = self.own.tenure.as_ref()?;
        Some(Holder { node: self.rules.node.clone(), session: tenure.incarnation.clone(), to: None })
    }

    /// A write of a record ended.
    pub(super) fn holder_written(&mut self, id: u64, result: Result<AddressView, Failure>) {
        let Some(address) = self.calls.writes.remove(&id) else {
            // One that was given up has an answer after all.
            return;
        };
        self.dirty.insert(address);
        self.again = true;
        let Some(vip) = self.vips.get_mut(&address) else { return };
        let Some(flight) = vip.flight.take() else { return };
        match result {
            Ok(view) => {
                self.away_is_over();
                self.calls.pace.took(self.at.now.since(flight.sent));
                self.address_answered(address, Some(view), false, flight.sent);
            }
            Err(Failure::Conflict) => {
                vip.hold_off = self.at.now + LOST * vip.failed();
                let taking = flight
                    .wrote
                    .is_some_and(|wrote| wrote.to.is_none() && vip.holder().is_none_or(|h| h.session != wrote.session));
                if taking {
                    self.report(Report::Outrun { address });
                }
                self.away_is_over();
                self.want_read(address);
            }
            Err(Failure::Away) => {
                vip.hold_off = self.at.now + self.rules.retry_period / 4 * vip.failed();
                self.is_away(flight.sent);
            }
        }
    }

    /// The write of a VIP's record was never answered.
    pub(super) fn give_up_write(&mut self, vip: &mut Vip) {
        let Some(flight) = &vip.flight else { return };
        let (id, sent, until) = (flight.id, flight.sent, flight.until);
        if !self.due(until) {
            return;
        }
        vip.flight = None;
        self.calls.writes.remove(&id);
        vip.hold_off = self.at.now + self.rules.retry_period / 4;
        self.is_away(sent);
    }

    /// Those that wait to write their record are considered as soon as others have been written. One that has no reason to
    /// any more makes room for the next.
    pub(super) fn advance_writes(&mut self) {
        let room = WRITES.saturating_sub(self.calls.writes.len());
        for _ in 0..room {
            let Some(next) = self.calls.waiting.pop_first() else { break };
            self.dirty.insert(next);
            self.again = true;
        }
    }

    /// How many VIPs are carried beside their record.
    pub(super) fn beside(&self) -> usize {
        let holds = self.carried.iter().filter_map(|a| self.vips.get(a).and_then(|v| v.hold));
        holds.filter(|h| matches!(h.basis, Basis::Beside(_))).count()
    }
}
