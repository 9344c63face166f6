//! Calls to the API: each has a time by which it has failed, and few are under way at once.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use super::api::{SPREAD, spread};
use super::pace::Pace;
use super::vip::Vip;
use super::{Call, Output, SessionVips};
use crate::event::Failure;
use crate::rules::MARGIN;
use crate::session::View;
use crate::time::Time;

/// Records written at once at most.
pub(super) const WRITES: usize = 16;
/// Reads of records under way at most: each is for many.
pub(super) const READS: usize = 2;

/// The calls under way, except those for the own session, and when the next ones may be sent.
#[derive(Debug, Default)]
pub(super) struct Calls {
    /// A list of all sessions is under way.
    pub(super) listing: Option<Listing>,
    /// The sessions are not listed before.
    pub(super) next_list: Time,
    /// No session of another is ended before: so long after one that failed was sent, whatever else the API answers meanwhile.
    pub(super) next_end: Time,
    /// Records are not read before.
    pub(super) next_read: Time,
    /// A watch has broken, and all sessions are to be listed then.
    pub(super) after_loss: Option<Time>,
    /// The next such list is made no sooner.
    pub(super) next_after_loss: Time,
    /// No other node's session expires sooner, as far as that was looked at.
    pub(super) first_expiry: Time,
    /// Ends of other sessions that are being written.
    pub(super) ends: BTreeMap<String, EndFlight>,
    /// Versions of other sessions that were found old when their end was to be written, and until when nobody tries that again.
    pub(super) outdated: BTreeMap<String, (String, Time)>,
    /// Records that are to be read.
    pub(super) wanted: BTreeSet<IpAddr>,
    /// Records that are being read.
    pub(super) reads: BTreeMap<u64, Reading>,
    /// Record writes under way, and the VIP of each.
    pub(super) writes: BTreeMap<u64, IpAddr>,
    /// VIPs that wait until they may write.
    pub(super) waiting: BTreeSet<IpAddr>,
    /// How long the write of a record takes at present.
    pub(super) pace: Pace,
}

/// All sessions are being listed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Listing {
    pub(super) id: u64,
    pub(super) sent: Time,
    /// Without an answer it has failed then.
    pub(super) fails_at: Time,
}

/// A write of the end of another node's session.
#[derive(Debug)]
pub(super) struct EndFlight {
    pub(super) id: u64,
    /// The version of the session that is to end.
    pub(super) version: String,
    pub(super) sent: Time,
    /// Without an answer it has failed then.
    pub(super) fails_at: Time,
}

/// Records are being read.
#[derive(Debug)]
pub(super) struct Reading {
    pub(super) sent: Time,
    /// Without an answer it has failed then.
    pub(super) fails_at: Time,
    /// The version of each that was known when it was sent.
    pub(super) known: BTreeMap<IpAddr, Option<String>>,
}

impl SessionVips {
    /// Ends calls that were never answered, and lists the sessions when nothing has proved them for a while.
    pub(super) fn advance_calls(&mut self) {
        if let Some(fails_at) = self.own.calls.flight.as_ref().map(|f| f.fails_at)
            && self.due(fails_at)
        {
            self.own_write_failed(Failure::Away);
        }
        if let Some(listing) = self.calls.listing
            && self.due(listing.fails_at)
        {
            self.list_failed();
        }
        let over: Vec<_> = self.calls.reads.iter().map(|(id, r)| (*id, r.fails_at)).collect();
        for (id, fails_at) in over {
            if self.due(fails_at) {
                self.read_addresses(id, Err(Failure::Away));
            }
        }
        self.advance_published();
        let over: Vec<_> = self.calls.ends.iter().map(|(node, f)| (node.clone(), f.id, f.fails_at)).collect();
        for (node, id, fails_at) in over {
            if self.due(fails_at) {
                self.end_written(&node, id, Err(Failure::Away));
            }
        }
        if self.calls.listing.is_some() {
            return;
        }
        let stale = self.sessions.proven().map_or(self.step.at.now, |at| at + self.rules.stale_after());
        let wanted = match self.api.back.filter(|at| !self.sessions.is_listed_since(*at)) {
            _ if self.api.away.is_some() => self.calls.next_list,
            Some(_) if self.is_any_unsettled() => self.calls.next_list,
            Some(back) => stale.min(back + spread(&self.rules.node)).max(self.calls.next_list),
            None => stale.max(self.calls.next_list),
        };
        let after_loss = self.calls.after_loss.filter(|_| self.api.away.is_none());
        if self.due(after_loss.map_or(wanted, |at| wanted.min(at.max(self.calls.next_list)))) {
            self.list_sessions();
        }
    }

    /// A watch has broken: its API server may be away, or set back. When an API server ends, the watches of many nodes break together, and
    /// while an API server cannot list, they break again and again.
    pub(super) fn list_after_loss(&mut self) {
        if self.calls.after_loss.is_none() {
            let at = (self.step.at.now + self.apart()).max(self.calls.next_after_loss);
            (self.calls.after_loss, self.calls.next_after_loss) = (Some(at), at + SPREAD);
            self.step.again = true;
        }
    }

    pub(super) fn list_sessions(&mut self) {
        if self.calls.listing.is_some() {
            return;
        }
        self.calls.after_loss = None;
        let (id, within, now) = (self.step.new_id(), self.rules.retry_period, self.step.at.now);
        self.calls.listing = Some(Listing { id, sent: now, fails_at: now + within + MARGIN });
        self.step.out.push(Output::Call(Call::ReadSessions { id, within }));
    }

    /// Lists them, though a list is under way: that may have been made before.
    pub(super) fn list_anew(&mut self) {
        self.calls.listing = None;
        self.list_sessions();
    }

    pub(super) fn list_failed(&mut self) {
        let sent = self.calls.listing.take().map_or(self.step.at.now, |listing| listing.sent);
        self.calls.next_list = self.step.at.now + self.rules.retry_period / 2;
        self.not_answered(sent);
    }

    /// A record names a session that is not known: the session is newer than what is known, or long gone. A list tells.
    pub(super) fn ask_about_holder(&mut self, vip: &Vip) {
        let unclear = vip.holder().is_some_and(|h| self.sessions.has_ended(h, vip.record.changed).is_none());
        if !unclear || !self.sessions.is_complete() {
            return;
        }
        self.index.unclear.insert(vip.address);
        if self.calls.listing.is_none() && self.api.away.is_none() && self.due(self.calls.next_list) {
            self.list_sessions();
        }
    }

    /// A list of all sessions.
    pub(super) fn listed(&mut self, id: Option<u64>, views: Vec<View>) {
        self.api_answered();
        let now = self.step.at.now;
        let sent = match id {
            None => None,
            Some(id) => match self.calls.listing.take_if(|listing| listing.id == id) {
                Some(listing) => Some(listing.sent),
                None => return,
            },
        };
        if id.is_some() {
            self.calls.next_list = now + self.rules.retry_period / 2;
        }
        let changed = if let Some(sent) = sent {
            let changed = self.sessions.see_all(now, sent, views, &self.rules);
            self.compare_with_list();
            self.following.looked_up = true;
            self.index.dirty.append(&mut self.index.unclear);
            self.index.dirty.extend(self.asking.provisional.iter().copied());
            self.consider_up_to_date();
            changed
        } else {
            let (changed, missing) = self.sessions.see_unpublished(now, views, &self.rules);
            if missing || self.sessions.is_any_ahead() {
                self.list_sessions();
            }
            changed
        };
        self.calls.first_expiry = now;
        self.publishing.look_at_all();
        for node in changed {
            self.session_changed(&node);
        }
        self.notes_were_listed();
        self.own_shown();
        self.step.again = true;
    }

    /// A VIP's record is read as soon as that may be.
    pub(super) fn want_read(&mut self, address: IpAddr) {
        self.calls.wanted.insert(address);
    }

    /// One read for all that want one.
    pub(super) fn advance_reads(&mut self) {
        let now = self.step.at.now;
        if self.calls.wanted.is_empty() || self.calls.reads.len() >= READS {
            return;
        }
        let next = if self.api.away.is_some() { self.calls.next_list } else { now };
        if !self.due(next.max(self.calls.next_read)) {
            return;
        }
        let addresses: Vec<IpAddr> = std::mem::take(&mut self.calls.wanted).into_iter().collect();
        let known = addresses.iter().map(|a| {
            let version = self.vips.get(a).and_then(|v| v.record.version()).map(str::to_owned);
            (*a, version)
        });
        let (known, within, id) = (known.collect(), self.rules.retry_period, self.step.new_id());
        self.calls.reads.insert(id, Reading { sent: now, fails_at: now + within + MARGIN, known });
        self.due(now + within + MARGIN);
        self.step.out.push(Output::Call(Call::ReadAddresses { id, addresses, within }));
    }
}
