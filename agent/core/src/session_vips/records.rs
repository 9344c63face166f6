//! The holder's record on the `IPAddress`: read, and written by compare-and-swap.
//!
//! Who may write it, always by [`SessionVips::write_holder`]:
//!
//! - any candidate while the record is free or offered (`free.rs`);
//! - a node that carries the VIP without its own record: just taken and not yet written, or provisionally (`carried.rs`);
//! - the holder, to name a successor (decided in `handover.rs`, written in `free.rs`), to take that back (`handover.rs`), or to clear
//!   the record of a VIP that is not wanted any more (`free.rs`).
//!
//! The version that a write is based on decides between two of them. Outside this core, the allocator clears the record of an
//! address that nobody is to advertise any more (`allocator/core/src/placement_hints`), and an agent that places VIPs by Leases writes
//! its Lease in place of a session (`agent/src/lease_vips/records.rs`).

use std::net::IpAddr;
use std::time::Duration;

use super::calls::WRITES;
use super::hold::Basis;
use super::record::About;
use super::vip::{Flight, Vip};
use super::{Call, Output, Report, SessionVips};
use crate::event::Failure;
use crate::planted::planted;
use crate::rules::MARGIN;
use crate::session::{AddressView, Holder};
use crate::time::Time;

/// How long a write may go unanswered.
const WITHIN: Duration = Duration::from_secs(1);
/// After a lost race nothing is written for so long: the watch, or a read, shows the record first.
const LOST: Duration = Duration::from_millis(100);

impl SessionVips {
    /// The watch showed the `IPAddress` of a VIP. `listed`: by the list that a watch begins with. Such a list may be older than
    /// what answers have shown. Otherwise it is believed even if its version is older, as after a restored backup.
    pub(super) fn address_watched(&mut self, address: IpAddr, view: Option<AddressView>, listed: bool) {
        if let Some(vip) = self.vips.get_mut(&address) {
            match vip.record.is_about(view.as_ref()) {
                About::Older if !listed => return,
                // The object that was read may have been replaced, and the watch is about to tell.
                About::Older | About::Other if vip.record.ahead => {
                    return self.want_read(address);
                }
                About::Older | About::Other | About::Newer => {}
            }
        }
        self.address_shown(address, view);
        if let Some(vip) = self.vips.get_mut(&address) {
            vip.record.ahead = false;
        }
    }

    /// The answer to a call that was sent at `sent` showed the object. `anew`: nothing else has shown it since.
    fn address_answered(&mut self, address: IpAddr, view: Option<AddressView>, anew: bool, sent: Time) {
        self.index.dirty.insert(address);
        if let Some(vip) = self.vips.get_mut(&address) {
            match vip.record.is_about(view.as_ref()) {
                _ if anew => {}
                About::Older => {
                    vip.record.proven = vip.record.proven.max(sent);
                    return;
                }
                // The object was deleted, or made again, while the call was under way: it is unknown which came later.
                About::Other => return self.want_read(address),
                About::Newer => {}
            }
        }
        let before = self.vips.get(&address).and_then(|v| v.record.version());
        let same = before == view.as_ref().map(|view| view.version.as_str());
        self.address_shown(address, view);
        if let Some(vip) = self.vips.get_mut(&address) {
            vip.record.proven = vip.record.proven.max(sent);
            vip.record.ahead |= !same;
        }
    }

    fn address_shown(&mut self, address: IpAddr, view: Option<AddressView>) {
        let refresh = self.rules.announce_refresh;
        let vip = self.vips.entry(address).or_insert_with(|| Box::new(Vip::new(address, refresh)));
        self.index.dirty.insert(address);
        let before = vip.holder().cloned();
        vip.record.show(view);
        let (before, after) = (before.as_ref(), vip.holder().cloned());
        if before == after.as_ref() {
            return;
        }
        vip.holder_changed(self.step.at.now);
        let (old, new) = (before.map(|h| h.node.as_str()), after.as_ref().map(|h| h.node.as_str()));
        if old == new {
            return;
        }
        if old.is_some() && new.is_some() {
            vip.moves.record(self.step.at.now);
        }
        self.index.holder_changed(address, old, new);
    }

    /// A read of some VIPs ended.
    pub(super) fn read_addresses(&mut self, id: u64, result: Result<Vec<(IpAddr, Option<AddressView>)>, Failure>) {
        let Some(reading) = self.calls.reads.remove(&id) else { return };
        self.step.again = true;
        let Ok(views) = result else {
            self.not_answered(reading.sent);
            self.calls.next_read = reading.sent + self.rules.retry_period / 4;
            self.calls.wanted.extend(reading.known.into_keys());
            return;
        };
        self.api_answered();
        for (address, view) in views {
            let known = self.vips.get(&address).and_then(|v| v.record.version());
            let anew = reading.known.get(&address).is_some_and(|then| then.as_deref() == known);
            self.address_answered(address, view, anew, reading.sent);
        }
    }

    /// Writes who holds a VIP. False: it waits until others have been written.
    pub(super) fn write_holder(&mut self, vip: &mut Vip, holder: impl Into<Option<Holder>>) -> bool {
        let Some(base) = vip.record.version().map(str::to_owned) else { return false };
        let holder = holder.into();
        if vip.flight.is_some() {
            return false;
        }
        if self.calls.writes.len() >= WRITES {
            self.calls.waiting.insert(vip.address);
            return false;
        }
        let (id, now) = (self.step.new_id(), self.step.at.now);
        let fails_at = now + WITHIN + MARGIN;
        vip.flight = Some(Flight { id, sent: now, fails_at, wrote: holder.clone() });
        self.calls.writes.insert(id, vip.address);
        self.due(fails_at);
        let base = if planted!(RecordWithoutVersion) { String::new() } else { base };
        self.step.out.push(Output::Call(Call::WriteHolder { id, address: vip.address, base, holder, within: WITHIN }));
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
            // A write that was given up has an answer after all.
            return;
        };
        self.index.dirty.insert(address);
        self.step.again = true;
        let Some(vip) = self.vips.get_mut(&address) else { return };
        let Some(flight) = vip.flight.take() else { return };
        match result {
            Ok(view) => {
                self.api_answered();
                self.calls.pace.took(self.step.at.now.since(flight.sent));
                self.address_answered(address, Some(view), false, flight.sent);
            }
            Err(Failure::Conflict) => {
                vip.hold_off = self.step.at.now + LOST * vip.failed();
                let taking = flight
                    .wrote
                    .is_some_and(|wrote| wrote.to.is_none() && vip.holder().is_none_or(|h| h.session != wrote.session));
                if taking {
                    self.report(Report::Outrun { address });
                }
                self.api_answered();
                self.want_read(address);
            }
            Err(Failure::Away | Failure::Refused | Failure::NoNamespace) => {
                vip.hold_off = self.step.at.now + self.rules.retry_period / 4 * vip.failed();
                self.not_answered(flight.sent);
            }
        }
    }

    /// The write of a VIP's record was never answered.
    pub(super) fn give_up_write(&mut self, vip: &mut Vip) {
        let Some(flight) = &vip.flight else { return };
        let (id, sent, fails_at) = (flight.id, flight.sent, flight.fails_at);
        if !self.due(fails_at) {
            return;
        }
        vip.flight = None;
        self.calls.writes.remove(&id);
        vip.hold_off = self.step.at.now + self.rules.retry_period / 4;
        self.not_answered(sent);
    }

    /// VIPs that wait to write their record are considered as soon as others have been written. A VIP that has no reason to
    /// write any more makes room for the next.
    pub(super) fn advance_writes(&mut self) {
        let room = WRITES.saturating_sub(self.calls.writes.len());
        for _ in 0..room {
            let Some(next) = self.calls.waiting.pop_first() else { break };
            self.index.dirty.insert(next);
            self.step.again = true;
        }
    }

    /// How many VIPs are carried whose record is not written yet.
    pub(super) fn beside(&self) -> usize {
        let holds = self.index.carried.iter().filter_map(|a| self.vips.get(a).and_then(|v| v.hold));
        holds.filter(|h| matches!(h.basis, Basis::Beside(_))).count()
    }
}
