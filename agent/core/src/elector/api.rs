//! What is known of the API server: whether it answers, and which calls are under way.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::time::Duration;

use crate::action::Cause;
use crate::lease::Record;
use crate::peers::KNOWN;
use crate::time::Time;

/// How many writes without an answer are remembered.
const UNANSWERED: usize = 8;

/// The API, as far as this elector's own calls tell. One read and one write may be under way at a time.
#[derive(Debug, Default)]
pub(super) struct Api {
    /// Since when no call has been answered; None while the API answers.
    pub(super) away: Option<Time>,
    /// When the last silence began. One that follows another within [`KNOWN`] continues it.
    began: Option<Time>,
    /// When a call was last answered after others had not been.
    back: Option<Time>,
    /// When a call was last answered.
    pub(super) last_answer: Time,
    /// The read under way.
    pub(super) reading: Option<Reading>,
    /// The write under way.
    pub(super) flight: Option<Flight>,
    /// The last writes that were given up without an answer, oldest first. They may have taken effect, or may do so later.
    pub(super) unanswered: VecDeque<Flight>,
    /// The VIPs in the last declaration that was sent.
    pub(super) told: Vec<IpAddr>,
    /// Whether the Lease is offered, as far as this node's writes are known to have taken effect: whoever takes it may have seen that.
    pub(super) offered: bool,
    /// When a renewal was last sent because the VIPs on the interface were others than those.
    pub(super) declared: Time,
    /// The earliest time of the next read of the Lease.
    pub(super) next_read: Time,
    /// The earliest time of the next write of the Lease by a node that carries the VIPs.
    pub(super) next_write: Time,
}

/// A read that has no answer yet.
#[derive(Debug)]
pub(super) struct Reading {
    pub(super) id: u64,
    pub(super) sent: Time,
    /// Without an answer the read has failed at this time.
    pub(super) fails_at: Time,
    /// The version of the Lease that was known when the read was sent.
    pub(super) known: Option<String>,
}

/// A write that has no answer yet.
#[derive(Debug)]
pub(super) struct Flight {
    pub(super) id: u64,
    pub(super) purpose: Purpose,
    pub(super) sent: Time,
    /// Without an answer the write has failed at this time.
    pub(super) fails_at: Time,
    /// The version that the write was based on. If the answer is lost, this and `record` identify the write.
    pub(super) base: Option<String>,
    pub(super) record: Record,
    /// Whether it offers the Lease.
    pub(super) offers: bool,
}

/// What a write of the Lease is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    Take(Cause),
    Renew,
    Release,
    Participate,
}

impl Api {
    /// Notes that the API has answered.
    pub(super) fn answered(&mut self, now: Time) {
        if self.away.take().is_some() {
            self.back = Some(now);
        }
        self.last_answer = now;
    }

    /// Notes that a call was not answered. `sent`: when the call was sent.
    pub(super) fn not_answered(&mut self, sent: Time) {
        if self.away.is_none() && self.back.is_none_or(|back| sent.since(back) >= KNOWN) {
            self.began = Some(sent);
        }
        self.away.get_or_insert(sent);
    }

    /// Since when the API has not answered: calls that failed, or a take that waits.
    pub(super) fn away_since(&self) -> Option<Time> {
        let waiting = self.flight.as_ref().filter(|f| matches!(f.purpose, Purpose::Take(_))).map(|f| f.sent);
        match (self.away, waiting) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    /// When the last silence began.
    pub(super) const fn away_began(&self) -> Option<Time> {
        self.began
    }

    /// Whether a call was not answered within that time.
    pub(super) fn was_away(&self, now: Time, within: Duration) -> bool {
        self.away.is_some() || self.back.is_some_and(|back| now.since(back) < within)
    }

    /// Whether a write may be sent now: no write is under way, and no read, which comes first after a conflict. With the API
    /// away a read may hang, and is not waited for.
    pub(super) fn may_write(&self) -> bool {
        self.flight.is_none() && (self.reading.is_none() || self.away.is_some())
    }

    /// Remembers a write that was given up without an answer.
    pub(super) fn remember(&mut self, flight: Flight) {
        while self.unanswered.len() >= UNANSWERED {
            self.unanswered.pop_front();
        }
        self.unanswered.push_back(flight);
    }

    /// The write of this node's that the Lease shows to have taken effect, if there is one: the one under way, or one that
    /// was given up.
    pub(super) fn take_shown(&mut self, shown: impl Fn(&Flight) -> bool) -> Option<Flight> {
        if let Some(flight) = self.flight.take_if(|flight| shown(flight)) {
            return Some(flight);
        }
        let nth = self.unanswered.iter().position(shown)?;
        // Those before it were based on what it wrote over: they can take effect no more.
        self.unanswered.drain(..=nth).next_back()
    }
}
