//! Calls to the API: each with an end, few at a time.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

use super::pace::Pace;
use super::vip::Vip;
use super::{Action, Fleet};
use crate::event::Failure;
use crate::planted::planted;
use crate::rules::MARGIN;
use crate::session::View;
use crate::time::Time;

/// Records written at once at most.
pub(super) const WRITES: usize = 16;
/// Reads of records under way at most: each is for many.
const READS: usize = 2;
/// After the API was away, takes look at the segment first for so long.
const LOOK_LONGER: Duration = Duration::from_secs(5);

/// See the module's text.
#[derive(Debug, Default)]
pub(super) struct Calls {
    /// A list of all sessions: its number, when it was sent, when it has failed.
    pub(super) listing: Option<(u64, Time, Time)>,
    pub(super) next_list: Time,
    /// After one that failed, so long after it was sent: no sooner, whatever else the API answers meanwhile.
    pub(super) next_end: Time,
    pub(super) next_read: Time,
    /// No session of another expires sooner, as far as that was looked at.
    pub(super) first_expiry: Time,
    /// Ends of other sessions that are being written.
    pub(super) ends: BTreeMap<String, EndFlight>,
    /// Records that are to be read.
    pub(super) wanted: BTreeSet<IpAddr>,
    /// Records that are being read.
    pub(super) reads: BTreeMap<u64, Reading>,
    /// Record writes under way, and the VIP of each.
    pub(super) writes: BTreeMap<u64, IpAddr>,
    /// VIPs that wait until they may write.
    pub(super) waiting: BTreeSet<IpAddr>,
    /// How long the write of a record takes by now.
    pub(super) pace: Pace,
}

/// The end of another's session is being written.
#[derive(Debug)]
pub(super) struct EndFlight {
    pub(super) id: u64,
    pub(super) sent: Time,
    pub(super) until: Time,
}

/// Records are being read.
#[derive(Debug)]
pub(super) struct Reading {
    pub(super) sent: Time,
    pub(super) until: Time,
    /// The version of each that was known when it was sent.
    pub(super) known: BTreeMap<IpAddr, Option<String>>,
}

impl Fleet {
    /// Ends calls that the edge forgot, and lists the sessions when nothing has proved them for a while.
    pub(super) fn advance_calls(&mut self) {
        if let Some(until) = self.own.flight.as_ref().map(|f| f.until)
            && self.due(until)
        {
            self.own_write_failed(Failure::Away);
        }
        if let Some((_, _, until)) = self.calls.listing
            && self.due(until)
        {
            self.listed_not();
        }
        let over: Vec<_> = self.calls.reads.iter().map(|(id, r)| (*id, r.until)).collect();
        for (id, until) in over {
            if self.due(until) {
                self.read_addresses(id, Err(Failure::Away));
            }
        }
        let over: Vec<_> = self.calls.ends.iter().map(|(node, f)| (node.clone(), f.id, f.until)).collect();
        for (node, id, until) in over {
            if self.due(until) {
                self.end_written(&node, id, Err(Failure::Away));
            }
        }
        if self.calls.listing.is_some() {
            return;
        }
        let stale = self.sessions.proven().map_or(self.at.now, |at| at + self.rules.stale_after());
        let soon = self.away.is_some() || self.back.is_some_and(|at| !self.sessions.is_listed_since(at));
        let wanted = if soon { self.calls.next_list } else { stale.max(self.calls.next_list) };
        if self.due(wanted) {
            self.list_sessions();
        }
    }

    pub(super) fn list_sessions(&mut self) {
        if self.calls.listing.is_some() {
            return;
        }
        let (id, within, now) = (self.new_id(), self.rules.retry_period, self.at.now);
        self.calls.listing = Some((id, now, now + within + MARGIN));
        self.out.push(Action::ReadSessions { id, within });
    }

    /// Whether what is known was learned, or confirmed, since the API was back.
    pub(super) fn knows_since_back(&self) -> bool {
        let renewed = |at: Time| self.own.tenure.as_ref().is_some_and(|t| t.sent >= at);
        planted!(ActsOnWhatWas) || self.back.is_none_or(|at| renewed(at) && self.sessions.is_listed_since(at))
    }

    /// It is, for the first time since.
    pub(super) fn is_up_to_date(&mut self) {
        if self.back.is_some() && self.knows_since_back() {
            self.back = None;
            self.dirty.extend(self.open.iter().copied());
            self.dirty.extend(self.carried.iter().copied());
            self.again = true;
        }
    }

    pub(super) fn listed_not(&mut self) {
        let sent = self.calls.listing.take().map_or(self.at.now, |(_, sent, _)| sent);
        self.calls.next_list = self.at.now + self.rules.retry_period / 2;
        self.is_away(sent);
    }

    /// A record names a session that is not known: it is newer than what is known, or long gone. A list tells.
    pub(super) fn ask_about_holder(&mut self, vip: &Vip) {
        let unclear = vip.holder().is_some_and(|h| self.sessions.has_ended(h, vip.changed).is_none());
        if !unclear || !self.sessions.is_complete() {
            return;
        }
        self.unclear.insert(vip.address);
        if self.calls.listing.is_none() && self.away.is_none() && self.due(self.calls.next_list) {
            self.list_sessions();
        }
    }

    /// A list of all sessions.
    pub(super) fn listed(&mut self, id: Option<u64>, views: Vec<View>) {
        self.away_is_over();
        let now = self.at.now;
        let sent = match id {
            None => None,
            Some(id) => match self.calls.listing.take_if(|(one, _, _)| *one == id) {
                Some((_, sent, _)) => Some(sent),
                None => return,
            },
        };
        if id.is_some() {
            self.calls.next_list = now + self.rules.retry_period / 2;
        }
        let changed = self.sessions.see_all(now, sent, views, &self.rules);
        self.calls.first_expiry = now;
        if let Some(sent) = sent {
            self.sessions.was_listed(now, sent);
            self.dirty.append(&mut self.unclear);
            self.is_up_to_date();
        } else if self.sessions.is_any_ahead() {
            self.list_sessions();
        }
        for node in changed {
            self.session_changed(&node);
        }
        self.own_shown();
        self.again = true;
    }

    /// A call has not been answered that was sent then.
    pub(super) fn is_away(&mut self, sent: Time) {
        if self.away.is_none() {
            self.rewatch = true;
            let open: Vec<_> = self.open.iter().copied().collect();
            self.dirty.extend(open);
            self.dirty.extend(self.carried.iter().copied());
        }
        self.away.get_or_insert(sent);
        self.again = true;
    }

    /// The API has answered.
    pub(super) fn away_is_over(&mut self) {
        if let Some(since) = self.away.take() {
            self.rewatch = true;
            if self.at.now.since(since) > crate::rules::AWAY {
                self.looks_until = self.at.now + self.rules.lease_duration.max(LOOK_LONGER);
                self.back = Some(self.at.now);
                self.own.challenged = self.at.now;
            }
            if self.own.is_lapsed() || self.back == Some(self.at.now) {
                self.own.next_write = self.at.now.max(self.own.next_try);
            }
            self.all_dirty();
            self.again = true;
        }
    }

    /// A VIP's record is read as soon as that may be.
    pub(super) fn want_read(&mut self, address: IpAddr) {
        self.calls.wanted.insert(address);
    }

    /// One read for all that want one.
    pub(super) fn advance_reads(&mut self) {
        let now = self.at.now;
        if self.calls.wanted.is_empty() || self.calls.reads.len() >= READS {
            return;
        }
        let next = if self.away.is_some() { self.calls.next_list } else { now };
        if !self.due(next.max(self.calls.next_read)) {
            return;
        }
        let addresses: Vec<IpAddr> = std::mem::take(&mut self.calls.wanted).into_iter().collect();
        let known = addresses.iter().map(|a| {
            let version = self.vips.get(a).and_then(|v| v.view.as_ref()).map(|v| v.version.clone());
            (*a, version)
        });
        let (known, within, id) = (known.collect(), self.rules.retry_period, self.new_id());
        self.calls.reads.insert(id, Reading { sent: now, until: now + within + MARGIN, known });
        self.due(now + within + MARGIN);
        self.out.push(Action::ReadAddresses { id, addresses, within });
    }
}
