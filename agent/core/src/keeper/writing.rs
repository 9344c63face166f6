//! Reads and writes of the Lease: one write in flight at a time, each with an end.

use std::time::Duration;

use super::{Keeper, Reading, Role};
use crate::action::{Action, Cause, Report};
use crate::event::Failure;
use crate::lease::{Declaration, Handover, LeaseView, Notes, Record};
use crate::planted::planted;
use crate::rules::MARGIN;
use crate::time::Time;

/// A write that has no answer yet.
#[derive(Debug)]
pub(super) struct Flight {
    pub(super) id: u64,
    pub(super) purpose: Purpose,
    pub(super) sent: Time,
    until: Time,
    /// The version it was based on, and what it wrote: by these it is known again, should its answer be lost.
    base: Option<String>,
    record: Record,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    Take(Cause),
    Renew,
    Release,
    Participate,
}

/// How long a take or a release may go unanswered.
const TAKE_WITHIN: Duration = Duration::from_secs(1);
/// So many writes that were given up are known again when they are shown.
const UNANSWERED: usize = 8;
/// When the Lease changes hands and names more nodes than this, the list begins anew.
const MANY: usize = 16;
/// How soon a note that was written, and is gone, is written again.
const PARTICIPATE_AGAIN: Duration = Duration::from_secs(30);

impl Keeper {
    /// Ends calls that the edge forgot, and reads the Lease when nothing has proved it for a while.
    pub(super) fn advance_calls(&mut self) {
        if let Some(until) = self.flight.as_ref().map(|f| f.until)
            && self.due(until)
        {
            self.write_failed(Failure::Away);
        }
        if let Some(until) = self.reading.as_ref().map(|r| r.until)
            && self.due(until)
        {
            self.read_failed();
        }
        if self.reading.is_some() || self.vips.is_empty() {
            return;
        }
        let stale = self.seen.proven().map_or(self.at.now, |at| at + self.rules.stale_after());
        let wanted = if self.away.is_some() { self.next_read } else { stale.max(self.next_read) };
        if self.due(wanted) {
            self.read();
        }
    }

    pub(super) fn read(&mut self) {
        if self.reading.is_some() || planted!(TrustsTheWatch) && self.seen.is_known() {
            return;
        }
        let id = self.new_id();
        let within = self.rules.retry_period;
        // The edge has its own deadline; a little more here, for the answer's way.
        let (sent, known) = (self.at.now, self.seen.version().map(str::to_owned));
        self.reading = Some(Reading { id, sent, until: sent + within + MARGIN, known });
        self.act(Action::Read { id, within });
    }

    pub(super) fn read_failed(&mut self) {
        self.reading = None;
        self.next_read = self.at.now + if planted!(ReadStorm) { Duration::ZERO } else { self.rules.retry_period / 2 };
        self.away.get_or_insert(self.at.now);
        self.again = true;
    }

    /// The API has answered.
    pub(super) fn answered(&mut self) {
        self.away = None;
    }

    /// Since when the API has not answered: calls that failed, or a take that waits.
    pub(super) fn away_since(&self) -> Option<Time> {
        let waiting = self.flight.as_ref().filter(|f| matches!(f.purpose, Purpose::Take(_))).map(|f| f.sent);
        match (self.away, waiting) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    /// Takes the Lease: from nobody, from another, or (adopting) from an earlier life of this node.
    pub(super) fn take(&mut self, cause: Cause) {
        let old = self.view_record().cloned();
        let record = match old {
            Some(old) if old.holder == self.rules.node => self.own_record(old.acquired, old.transitions),
            Some(old) => self.own_record(Some(self.at.wall), old.transitions.saturating_add(1)),
            None => self.own_record(Some(self.at.wall), 0),
        };
        let mut notes = self.declaring(&record);
        if cause != Cause::Adopted && notes.participants.len() > MANY {
            // Nodes come and go, and some go without a word. Those that live put themselves back.
            notes.participants.retain(|name, _| *name == self.rules.node);
        }
        self.write_with(Purpose::Take(cause), record, notes, TAKE_WITHIN);
    }

    pub(super) fn renew(&mut self) {
        if let Role::Holding(holding) = &self.role {
            let record = self.own_record(holding.acquired, holding.transitions);
            let notes = self.declaring(&record);
            self.write_with(Purpose::Renew, record, notes, self.rules.retry_period);
        }
    }

    /// Releases the Lease as client-go does: no holder, and a duration of 1 s.
    pub(super) fn release(&mut self, successor: Option<String>) {
        let Some(old) = self.view_record().filter(|r| r.holder == self.rules.node) else {
            return;
        };
        let record = Record {
            holder: String::new(),
            duration: Duration::from_secs(1),
            acquired: Some(self.at.wall),
            renewed: Some(self.at.wall),
            transitions: old.transitions,
        };
        let mut notes = self.notes();
        let serving = matches!(self.role, Role::Leaving(_));
        notes.handover = serving.then(|| Handover {
            from: self.rules.node.clone(),
            to: successor.unwrap_or_default(),
            transitions: record.transitions,
            acquired: record.acquired,
        });
        self.write_with(Purpose::Release, record, notes, TAKE_WITHIN);
    }

    /// Tells the others, once, that this node takes part. The record stays as it was seen.
    pub(super) fn participate(&mut self) {
        let Some(view) = self.seen.view() else { return };
        let record = view.record.clone();
        let mut notes = view.notes.clone();
        notes.participants.insert(self.rules.node.clone(), self.node.participant.clone());
        self.write_with(Purpose::Participate, record, notes, TAKE_WITHIN);
    }

    pub(super) fn is_participant(&self) -> bool {
        let known = self.seen.view().and_then(|v| v.notes.participants.get(&self.rules.node));
        known == Some(&self.node.participant)
    }

    fn own_record(&self, acquired: Option<crate::time::WallTime>, transitions: u32) -> Record {
        Record {
            holder: self.rules.node.clone(),
            duration: self.rules.lease_duration,
            acquired,
            renewed: Some(self.at.wall),
            transitions,
        }
    }

    fn notes(&self) -> Notes {
        let mut notes = self.seen.view().map(|v| v.notes.clone()).unwrap_or_default();
        notes.tenure = None;
        notes.handover = None;
        if !self.node.participant.macs.is_empty() {
            notes.participants.insert(self.rules.node.clone(), self.node.participant.clone());
        }
        notes
    }

    /// The notes of a tenure of this node's own.
    fn declaring(&self, record: &Record) -> Notes {
        let mut notes = self.notes();
        notes.tenure = Some(Declaration {
            holder: record.holder.clone(),
            transitions: record.transitions,
            acquired: record.acquired,
            macs: self.node.participant.macs.clone(),
        });
        notes
    }

    fn write_with(&mut self, purpose: Purpose, record: Record, notes: Notes, within: Duration) {
        let id = self.new_id();
        let now = self.at.now;
        let known = self.seen.version().map(str::to_owned);
        let base = known.clone().map(|v| if planted!(WriteWithoutVersion) { String::new() } else { v });
        self.flight =
            Some(Flight { id, purpose, sent: now, until: now + within + MARGIN, base: known, record: record.clone() });
        self.act(Action::Write { id, base, record, notes, within });
    }

    /// The answer to the write in flight. Its time counts from when it was sent.
    pub(super) fn wrote(&mut self, view: LeaseView) {
        let Some(flight) = self.flight.take() else { return };
        self.answered();
        self.see(Some(view));
        self.took_effect(&flight);
    }

    /// A watch event or a read shows exactly what a write of this node's wrote: that is its answer, should its own be lost.
    pub(super) fn shows_own_write(&mut self) {
        let Some(view) = self.seen.view() else { return };
        let shown = |flight: &mut Flight| {
            // One that takes part leaves the record as it was: no record tells whether it did.
            flight.purpose != Purpose::Participate
                && flight.record == view.record
                && flight.base.as_deref() != Some(view.version.as_str())
        };
        let mut flight = self.flight.take_if(shown);
        if flight.is_none()
            && let Some(nth) = self.unanswered.iter_mut().position(shown)
        {
            // Those before it were based on what it wrote over: they can take effect no more.
            flight = self.unanswered.drain(..=nth).next_back();
        }
        if let Some(flight) = flight {
            self.took_effect(&flight);
        }
    }

    fn took_effect(&mut self, flight: &Flight) {
        let valid = self.at.now + MARGIN < flight.sent + self.rules.lease_duration;
        match flight.purpose {
            // Should somebody strip the note, it is not written again at once.
            Purpose::Participate => self.participate_at = Some(self.at.now + PARTICIPATE_AGAIN),
            Purpose::Release => self.released(),
            // One that was sent before a late step is sent again: much may have happened since.
            Purpose::Take(cause) if valid && flight.sent >= self.late_at && self.seen.holder() == self.rules.node => {
                self.took(cause, flight.sent);
            }
            Purpose::Renew if valid && self.seen.holder() == self.rules.node => self.renewed(flight.sent),
            // The answer came when the fence was over: only another write of ours makes this node the holder.
            Purpose::Take(_) | Purpose::Renew => {}
        }
        self.again = true;
    }

    pub(super) fn write_failed(&mut self, failure: Failure) {
        let Some(flight) = self.flight.take() else { return };
        let now = self.at.now;
        if failure == Failure::Conflict {
            self.answered();
            self.next_read = now;
            // A read that is under way was sent before, and may hang.
            self.reading = None;
            self.read();
            if let (Purpose::Renew, Role::Holding(holding)) = (flight.purpose, &mut self.role) {
                holding.in_doubt = true;
            }
            if matches!(flight.purpose, Purpose::Take(_)) {
                self.report(Report::Outrun);
                self.hold_off = now + Duration::from_millis(200) + self.rules.turn(self.turns);
            }
        } else {
            self.away.get_or_insert(flight.sent);
            self.hold_off = self.hold_off.max(now + self.rules.retry_period / 8);
        }
        self.next_write = now + if failure == Failure::Conflict { Duration::ZERO } else { self.rules.retry_period / 2 };
        let purpose = flight.purpose;
        if failure == Failure::Away {
            while self.unanswered.len() >= UNANSWERED {
                self.unanswered.pop_front();
            }
            self.unanswered.push_back(flight);
        }
        match purpose {
            Purpose::Participate => self.participate_at = Some(now + self.rules.retry_period + self.rules.turn(0)),
            Purpose::Release => self.release_failed(failure),
            Purpose::Take(_) | Purpose::Renew => {}
        }
        self.again = true;
    }
}
