//! Reads and writes of the Lease. One read and one write are in flight at a time; each has a deadline.

use std::net::IpAddr;
use std::time::Duration;

use super::api::{Flight, Purpose, Reading};
use super::looking::WITNESSED;
use super::vip::Put;
use super::{Elector, Role};
use crate::action::{Action, Cause, Report};
use crate::event::Failure;
use crate::lease::{Declaration, Handover, LeaseView, Notes, Record, Tenure};
use crate::planted::planted;
use crate::rules::MARGIN;

/// How long a take or a release may go unanswered.
pub(super) const TAKE_WITHIN: Duration = Duration::from_secs(1);
/// The first pause after a Lease could not be created because its namespace does not exist. Each further pause is twice as long:
/// when a cluster begins, the namespace is there within a second or two.
const NO_NAMESPACE: Duration = Duration::from_millis(500);
/// The pause doubles so many times, to 32 s.
const MOST_DOUBLED: u32 = 6;
/// The pause before this node's entry among the participants is written again, after others have removed it.
const PARTICIPATE_AGAIN: Duration = Duration::from_secs(30);

impl Elector {
    /// Ends calls that were never answered, and reads the Lease when nothing has proved it for a while.
    pub(super) fn advance_calls(&mut self) {
        if let Some(fails_at) = self.api.flight.as_ref().map(|f| f.fails_at)
            && self.due(fails_at)
        {
            self.write_failed(Failure::Away);
        }
        if let Some(fails_at) = self.api.reading.as_ref().map(|r| r.fails_at)
            && self.due(fails_at)
        {
            self.read_failed();
        }
        if self.api.reading.is_some() || self.vips.is_empty() {
            return;
        }
        let stale = self.lease.proven().map_or(self.step.at.now, |at| at + self.rules.stale_after());
        let wanted = if self.api.away.is_some() { self.api.next_read } else { stale.max(self.api.next_read) };
        if self.due(wanted) {
            self.read();
        }
    }

    pub(super) fn read(&mut self) {
        if self.api.reading.is_some() || planted!(TrustsTheWatch) && self.lease.is_known() {
            return;
        }
        let id = self.step.new_id();
        let within = self.rules.retry_period;
        // The caller has its own deadline. The answer takes a little longer to get here.
        let (sent, known) = (self.step.at.now, self.lease.version().map(str::to_owned));
        self.api.reading = Some(Reading { id, sent, fails_at: sent + within + MARGIN, known });
        self.act(Action::Read { id, within });
    }

    pub(super) fn read_failed(&mut self) {
        self.api.reading = None;
        self.api.next_read =
            self.step.at.now + if planted!(ReadStorm) { Duration::ZERO } else { self.rules.retry_period / 2 };
        self.api.not_answered(self.step.at.now);
        self.step.again = true;
    }

    /// Takes the Lease: from nobody, from another, or (adopting) from an earlier life of this node.
    pub(super) fn take(&mut self, cause: Cause) {
        let old = self.record().cloned();
        let record = match old {
            Some(old) if self.is_mine() => self.own_record(old.acquired, old.transitions),
            Some(old) => self.own_record(Some(self.step.at.wall), old.transitions.saturating_add(1)),
            None => self.own_record(Some(self.step.at.wall), 0),
        };
        let mut notes = self.declaring(&record);
        if cause != Cause::Adopted {
            self.leave_some_out(&mut notes, record.transitions);
            self.take_part(&mut notes);
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
        let Some(old) = self.record().filter(|_| self.is_mine()) else {
            return;
        };
        let record = Record {
            holder: String::new(),
            duration: Duration::from_secs(1),
            acquired: Some(self.step.at.wall),
            renewed: Some(self.step.at.wall),
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

    fn own_record(&self, acquired: Option<crate::time::WallTime>, transitions: u32) -> Record {
        Record {
            holder: self.rules.node.clone(),
            duration: self.rules.lease_duration,
            acquired,
            renewed: Some(self.step.at.wall),
            transitions,
        }
    }

    fn notes(&self) -> Notes {
        let mut notes = self.lease.view().map(|v| v.notes.clone()).unwrap_or_default();
        notes.tenure = None;
        notes.handover = None;
        if let Some(let_go) = &self.recall.unsaid {
            notes.let_go = Some(let_go.clone());
        }
        self.take_part(&mut notes);
        notes
    }

    /// The annotations for a tenure of this node's own.
    fn declaring(&self, record: &Record) -> Notes {
        let mut notes = self.notes();
        let declared = Declaration {
            holder: record.holder.clone(),
            transitions: record.transitions,
            acquired: record.acquired,
            macs: self.node.participant.macs.clone(),
            vips: self.declared_vips().collect(),
        };
        notes.tenure = Some(Tenure { declared, renewed: record.renewed, unheard: self.says_unheard() });
        notes
    }

    /// The VIPs that candidates are to probe while this node holds them: those that it carries, or is about to.
    fn declared_vips(&self) -> impl Iterator<Item = IpAddr> {
        let carried = self.vips.iter().filter(|(_, vip)| vip.put != Put::Refused && !vip.is_held_back());
        carried.map(|(address, _)| *address).take(WITNESSED)
    }

    /// Whether the last declaration names other VIPs than this node has now. Candidates would soon miss a VIP that this node
    /// has let go, and take the Lease: their write fails if the Lease is written before.
    pub(super) fn must_declare(&self) -> bool {
        !self.api.told.iter().copied().eq(self.declared_vips())
    }

    pub(super) fn write_with(&mut self, purpose: Purpose, record: Record, notes: Notes, within: Duration) {
        let id = self.step.new_id();
        let now = self.step.at.now;
        let known = self.lease.version().map(str::to_owned);
        let base = known.clone().map(|v| if planted!(WriteWithoutVersion) { String::new() } else { v });
        if let Some(tenure) = &notes.tenure {
            self.api.told.clone_from(&tenure.declared.vips);
            self.api.offered |= tenure.unheard;
        }
        self.api.flight = Some(Flight {
            id,
            purpose,
            sent: now,
            fails_at: now + within + MARGIN,
            base: known,
            record: record.clone(),
            offers: notes.tenure.as_ref().is_some_and(|tenure| tenure.unheard),
        });
        self.act(Action::Write { id, base, record, notes, within });
    }

    /// The write under way was answered. The Lease counts from when that write was sent.
    pub(super) fn wrote(&mut self, view: LeaseView) {
        let Some(flight) = self.api.flight.take() else { return };
        self.api.answered(self.step.at.now);
        self.candidacy.no_namespace = 0;
        self.see(Some(view));
        self.took_effect(&flight);
    }

    /// A watch event or a read may show exactly what a write of this node's wrote: that is an answer, too.
    pub(super) fn shows_own_write(&mut self) {
        let Some(view) = self.lease.view() else { return };
        let shown = |flight: &Flight| {
            // A write of the participants leaves the record as it was: the record cannot tell whether that write took effect.
            flight.purpose != Purpose::Participate
                && flight.record == view.record
                && flight.base.as_deref() != Some(view.version.as_str())
        };
        if let Some(flight) = self.api.take_shown(shown) {
            self.took_effect(&flight);
        }
    }

    fn took_effect(&mut self, flight: &Flight) {
        let valid = self.step.at.now + MARGIN < flight.sent + self.rules.lease_duration;
        if matches!(flight.purpose, Purpose::Take(_) | Purpose::Renew) {
            self.api.offered = flight.offers;
        }
        match flight.purpose {
            // If somebody strips the annotation, it is not written again at once.
            Purpose::Participate => {
                self.trial_worked(flight);
                let again = if self.must_say_let_go() { self.rules.retry_period / 4 } else { PARTICIPATE_AGAIN };
                self.candidacy.participate_at = Some(self.step.at.now + again);
            }
            Purpose::Release => self.released(),
            // A take that was sent before a late step is sent again: much may have happened since.
            Purpose::Take(cause) if valid && flight.sent >= self.doubt.late_at && self.is_mine() => {
                self.took(cause, flight.sent);
            }
            Purpose::Renew if valid && self.is_mine() => self.renewed(flight.sent),
            // The answer came when the fence was over: only another write makes this node the holder.
            Purpose::Take(_) | Purpose::Renew => {}
        }
        self.step.again = true;
    }

    pub(super) fn write_failed(&mut self, failure: Failure) {
        let Some(flight) = self.api.flight.take() else { return };
        let now = self.step.at.now;
        let mut pause = if failure == Failure::Conflict { Duration::ZERO } else { self.rules.retry_period / 2 };
        if failure == Failure::NoNamespace {
            self.api.answered(now);
            pause = NO_NAMESPACE * (1 << self.candidacy.no_namespace.min(MOST_DOUBLED));
            if self.candidacy.no_namespace == 0 {
                self.report(Report::NoNamespace);
            }
            self.candidacy.no_namespace = self.candidacy.no_namespace.saturating_add(1);
            self.candidacy.hold_off = now + pause;
        } else if failure == Failure::Conflict {
            self.api.answered(self.step.at.now);
            self.api.next_read = now;
            // A read that is under way was sent before the conflict, and may hang.
            self.api.reading = None;
            self.read();
            if let (Purpose::Renew, Role::Holding(holding)) = (flight.purpose, &mut self.role) {
                holding.in_doubt = true;
            }
            if matches!(flight.purpose, Purpose::Take(_)) {
                self.report(Report::Outrun);
                self.candidacy.hold_off = now + Duration::from_millis(200) + self.rules.turn(self.candidacy.turns);
            }
        } else {
            self.api.not_answered(flight.sent);
            self.candidacy.hold_off = self.candidacy.hold_off.max(now + self.rules.retry_period / 8);
        }
        self.api.next_write = now + pause;
        let purpose = flight.purpose;
        if failure == Failure::Away {
            self.api.remember(flight);
        }
        match purpose {
            Purpose::Participate => {
                if failure == Failure::Away {
                    self.trial_failed();
                }
                let says = self.must_say_let_go();
                let pause = if says { self.rules.retry_period / 4 } else { self.rules.retry_period };
                self.candidacy.participate_at = Some(now + pause + self.turn_to_participate());
            }
            Purpose::Release => self.release_failed(failure),
            Purpose::Take(Cause::Expiry) if failure != Failure::Conflict => self.trial_failed(),
            Purpose::Take(_) | Purpose::Renew => {}
        }
        self.step.again = true;
    }
}
