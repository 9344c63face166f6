//! This node's own session: begun or adopted, renewed, lapsed, lost.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Duration;

use super::vip::Basis;
use super::{Action, Fleet, Report};
use crate::action::Why;
use crate::event::Failure;
use crate::lease::Record;
use crate::planted::planted;
use crate::rules::{AWAY, FENCE_ENDS, LEGACY_FENCE, MARGIN};
use crate::session::{Declared, End, EndCause, Incarnation, View};
use crate::time::{Time, WallTime};

use super::leaving::Leaving;

/// How long a begin or an end may go unanswered.
const WITHIN: Duration = Duration::from_secs(1);
/// How long before the kernel would drop a VIP it gets another fence.
const BEFORE_DROPPED: Duration = Duration::from_millis(100);
/// A session that was ended begins again after this at the earliest.
const BEGIN_AGAIN: Duration = Duration::from_millis(250);
/// The planned end is written again after this.
const END_AGAIN: Duration = Duration::from_millis(200);

/// See the module's text.
#[derive(Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "they are independent facts, not one state")]
pub(super) struct Own {
    pub(super) tenure: Option<Tenure>,
    pub(super) flight: Option<OwnFlight>,
    /// The last write, if it was given up without an answer.
    unanswered: Option<OwnFlight>,
    pub(super) next_write: Time,
    hold_off: Time,
    /// After a write that failed, so long after it was sent: no sooner, whatever else the API answers meanwhile.
    pub(super) next_try: Time,
    /// What is on the Lease is not what this node wants there.
    pub(super) redeclare: bool,
    pub(super) drained: bool,
    pub(super) shutting_down: bool,
    pub(super) left: bool,
    pub(super) leaving: Option<Leaving>,
    /// When the kernel drops the first of the VIPs that rest on the session, or sooner.
    pub(super) first_dropped: Time,
    /// The fence that was last given to all VIPs.
    fence: Time,
    /// VIPs that wait for the next renewal.
    pub(super) awaiting: BTreeSet<IpAddr>,
    /// When a VIP was last challenged: only a renewal sent since answers that.
    pub(super) challenged: Time,
    /// The number of the last incarnation: should the Lease be set back, the next one counts on from that.
    counted: u32,
    /// Renewals that met a conflict, in a row.
    conflicts: u32,
}

/// The incarnation that this node's own write has begun, adopted or renewed.
#[derive(Clone, Debug)]
pub(super) struct Tenure {
    pub(super) incarnation: Incarnation,
    acquired: Option<WallTime>,
    began: Option<String>,
    after: Option<String>,
    /// When the last successful write was sent: the fence counts from then.
    pub(super) sent: Time,
    pub(super) lapsed: bool,
    /// A renewal met a conflict, and the Lease was not read since.
    pub(super) in_doubt: bool,
}

/// A write of the own session.
#[derive(Clone, Debug)]
pub(super) struct OwnFlight {
    id: u64,
    pub(super) sent: Time,
    pub(super) until: Time,
    base: Option<String>,
    record: Record,
    declared: Declared,
}

impl Own {
    pub(super) fn is_of(&self, incarnation: &Incarnation) -> bool {
        self.tenure.as_ref().is_some_and(|t| t.incarnation == *incarnation)
    }

    /// Neither lapsed nor none.
    pub(super) fn is_live(&self) -> bool {
        self.tenure.as_ref().is_some_and(|t| !t.lapsed)
    }

    pub(super) fn is_lapsed(&self) -> bool {
        self.tenure.as_ref().is_some_and(|t| t.lapsed)
    }
}

impl Fleet {
    /// The end of this node's session, as far as the fence goes.
    pub(super) fn session_ends(&self) -> Option<Time> {
        self.own.tenure.as_ref().map(|t| t.sent + self.rules.lease_duration)
    }

    /// Whether this node may take anything: its session is live by its own write, the API answers, and nothing is doubtful.
    pub(super) fn is_sound(&self) -> bool {
        let now = self.at.now;
        let live = self.own.tenure.as_ref().is_some_and(|t| !t.lapsed && !t.in_doubt);
        live && self.away.is_none()
            && self.unsure.is_none()
            && !self.own.shutting_down
            && self.knows_since_back()
            && self.sessions.is_fresh(now, &self.rules)
            && self.session_ends().is_some_and(|end| now + MARGIN < end)
    }

    /// The fence for a VIP that is taken now: that of all others, so that all end together.
    pub(super) fn common_fence(&mut self) -> Option<Time> {
        let end = self.session_ends()?;
        let third = self.rules.lease_duration.saturating_sub(FENCE_ENDS) / 3;
        if self.own.fence > end || self.own.fence + third <= end {
            self.own.fence = end;
        }
        Some(self.own.fence)
    }

    pub(super) fn advance_own(&mut self) {
        if self.own.left {
            return;
        }
        let Some(tenure) = &self.own.tenure else {
            if self.own.shutting_down && self.own.flight.is_none() {
                self.leave_behind();
            } else if !self.own.shutting_down {
                self.consider_beginning();
            }
            return;
        };
        let (lapsed, sent) = (tenure.lapsed, tenure.sent);
        if !lapsed && self.due(self.lapses_at(sent)) {
            // What is remembered may be sooner than what is.
            self.own.first_dropped = self.first_dropped().unwrap_or(Time::from_nanos(u64::MAX));
            if self.due(self.lapses_at(sent)) {
                self.ran_out();
                return;
            }
        }
        self.advance_leaving();
        if self.own.left {
            return;
        }
        // After a conflict the Lease is read first; a list that hangs for another reason holds nothing up.
        let in_doubt = self.own.tenure.as_ref().is_some_and(|t| t.in_doubt);
        let informed = !in_doubt || self.calls.listing.is_none() || self.away.is_some();
        if self.own.flight.is_none() && informed && !self.is_ending() && self.due(self.own.next_write) {
            self.renew();
        }
    }

    fn consider_beginning(&mut self) {
        let ready = self.sessions.is_complete() && !self.interfaces.is_empty() && self.own.flight.is_none();
        // A list that is under way may show what a conflict was about.
        if !ready || self.calls.listing.is_some() && self.away.is_none() || !self.due(self.own.hold_off) {
            return;
        }
        let me = self.rules.node.clone();
        let known = self.sessions.get(&me).map(|p| p.view.clone());
        match known {
            Some(view) if view.is_live() && view.record.holder == me => {
                let declared = view.declared().cloned().unwrap_or_default();
                let record = self.own_record(view.record.acquired, view.record.transitions);
                // Without a note of it, the session may have begun as late as now.
                let began = declared.began.or_else(|| Some(view.version.clone()));
                let declared = self.declared(view.record.transitions, began, declared.after, false);
                self.write_own(Some(view.version), record, declared, None, WITHIN);
            }
            known => {
                let counted = self.own.counted;
                let transitions = known.as_ref().map_or(0, |v| v.record.transitions.max(counted).saturating_add(1));
                let base = known.map(|v| v.version);
                let record = self.own_record(Some(self.at.wall), transitions);
                let declared = self.declared(transitions, None, base.clone(), false);
                self.write_own(base, record, declared, None, WITHIN);
            }
        }
    }

    pub(super) fn renew(&mut self) {
        let Some(tenure) = &self.own.tenure else { return };
        let base = self.sessions.get(&self.rules.node).map(|p| p.view.version.clone());
        let record = self.own_record(tenure.acquired, tenure.incarnation.transitions);
        let (began, after) = (tenure.began.clone(), tenure.after.clone());
        let leaving = self.own.leaving.is_some() || self.own.drained;
        let declared = self.declared(tenure.incarnation.transitions, began, after, leaving);
        self.own.redeclare = false;
        self.write_own(base, record, declared, None, self.rules.retry_period);
    }

    /// The planned end, when nothing is carried any more.
    pub(super) fn end_own(&mut self) {
        let Some(tenure) = &self.own.tenure else { return };
        let base = self.sessions.get(&self.rules.node).map(|p| p.view.version.clone());
        let record = Record {
            holder: String::new(),
            duration: Duration::from_secs(1),
            ..self.own_record(tenure.acquired, tenure.incarnation.transitions)
        };
        let (began, after) = (tenure.began.clone(), tenure.after.clone());
        let declared = self.declared(tenure.incarnation.transitions, began, after, true);
        let end = End { by: self.rules.node.clone(), cause: EndCause::Planned };
        self.write_own(base, record, declared, Some(end), WITHIN);
    }

    /// The last write is the planned end.
    pub(super) fn is_ending(&self) -> bool {
        self.own.flight.as_ref().is_some_and(|f| f.record.holder.is_empty())
    }

    fn own_record(&self, acquired: Option<WallTime>, transitions: u32) -> Record {
        Record {
            holder: self.rules.node.clone(),
            duration: self.rules.lease_duration,
            acquired,
            renewed: Some(self.at.wall),
            transitions,
        }
    }

    fn declared(&self, transitions: u32, began: Option<String>, after: Option<String>, leaving: bool) -> Declared {
        let links = self.interfaces.iter().map(|i| i.link.clone()).collect();
        Declared { transitions, links, leaving, began, after }
    }

    fn write_own(
        &mut self,
        base: Option<String>,
        record: Record,
        declared: Declared,
        end: Option<End>,
        within: Duration,
    ) {
        let (id, now) = (self.new_id(), self.at.now);
        let until = now + within + MARGIN;
        let flight =
            OwnFlight { id, sent: now, until, base: base.clone(), record: record.clone(), declared: declared.clone() };
        self.own.flight = Some(flight);
        self.own.unanswered = None;
        let node = self.rules.node.clone();
        let base = if planted!(RenewsWithoutVersion) { base.map(|_| String::new()) } else { base };
        self.out.push(Action::WriteSession { id, node, base, record, declared: Some(declared), end, within });
    }

    pub(super) fn is_own_flight(&self, id: u64) -> bool {
        self.own.flight.as_ref().is_some_and(|f| f.id == id)
    }

    /// The own session was shown: perhaps it answers a write, perhaps it has ended.
    pub(super) fn own_shown(&mut self) {
        let me = self.rules.node.clone();
        let view = self.sessions.get(&me).map(|p| p.view.clone());
        if let Some(tenure) = &mut self.own.tenure {
            tenure.in_doubt = false;
        }
        if let Some(view) = &view {
            let shown = |f: &mut OwnFlight| f.record == view.record && f.base.as_deref() != Some(view.version.as_str());
            let flight = self.own.flight.take_if(shown).or_else(|| self.own.unanswered.take_if(shown));
            if let Some(flight) = flight {
                self.own_took_effect(&flight, view);
            }
        }
        let Some(tenure) = &self.own.tenure else { return };
        let goes_on = view.is_some_and(|v| v.is_live() && v.is_of(&tenure.incarnation) && v.record.holder == me);
        if !goes_on && !planted!(IgnoresOwnEnd) {
            self.session_lost();
        }
    }

    /// Another has ended it, or it is not there any more: everything that rests on it goes.
    fn session_lost(&mut self) {
        self.own.tenure = None;
        self.own.leaving = None;
        self.own.hold_off = self.at.now + BEGIN_AGAIN;
        self.report(Report::Ended);
        self.let_all_go(Why::LeaseLost, |basis| basis != Basis::Provisional);
        // What is carried without the API does not rest on the session: who came late goes on to look for it.
        if self.carried.is_empty() {
            self.unsure = None;
        }
        self.again = true;
    }

    pub(super) fn own_took_effect(&mut self, flight: &OwnFlight, view: &View) {
        let now = self.at.now;
        self.away_is_over();
        self.own.conflicts = 0;
        if flight.record.holder.is_empty() {
            // The planned end; `own_shown` lets go of what is left.
            return;
        }
        self.calls.pace.took(now.since(flight.sent));
        let valid = now + MARGIN < flight.sent + self.rules.lease_duration;
        if !valid || flight.sent < self.late_at && self.own.tenure.is_none() {
            self.own.next_write = now;
            return;
        }
        let sent = if planted!(SessionFenceFromAnswer) { now } else { flight.sent };
        let began = flight.declared.began.clone();
        let incarnation = view.incarnation();
        let adopted = began.is_some();
        let known = self.own.tenure.as_ref().filter(|t| t.incarnation == incarnation).cloned();
        let tenure = Tenure {
            incarnation,
            acquired: flight.record.acquired,
            // The first renewal tells others which version the session began at.
            began: began.or_else(|| Some(view.version.clone())),
            after: flight.declared.after.clone(),
            sent: known.as_ref().map_or(sent, |t| t.sent.max(sent)),
            lapsed: false,
            in_doubt: false,
        };
        let transitions = tenure.incarnation.transitions;
        self.own.counted = transitions;
        self.own.tenure = Some(tenure);
        let told = flight.declared.began.is_some() && !self.own.redeclare;
        // A challenge that came after it was sent waits for the next one.
        let enough = told && self.own.challenged <= flight.sent;
        self.own.next_write = if enough { flight.sent + self.rules.retry_period } else { now };
        self.rewatch |= known.is_none();
        match &known {
            None => self.report(Report::Began { transitions, adopted }),
            Some(t) if t.lapsed => self.report(Report::Confirmed),
            Some(_) => {}
        }
        if known.as_ref().is_none_or(|t| t.lapsed) {
            self.all_dirty();
        }
        if self.unsure.is_some_and(|since| flight.sent >= since) {
            self.sure_again();
        } else if self.unsure.is_some() {
            self.own.next_write = now;
        }
        self.is_up_to_date();
        self.refresh_by_session(false);
        self.challenges_dirty();
        self.dirty.append(&mut self.own.awaiting);
        self.again = true;
    }

    pub(super) fn own_write_failed(&mut self, failure: Failure) {
        let Some(flight) = self.own.flight.take() else { return };
        let now = self.at.now;
        if let Some(leaving) = self.own.leaving.as_mut().filter(|_| flight.record.holder.is_empty()) {
            leaving.next_end = now + END_AGAIN;
        }
        if failure == Failure::Conflict {
            self.away_is_over();
            self.calls.listing = None;
            self.list_sessions();
            if let Some(tenure) = &mut self.own.tenure {
                tenure.in_doubt = true;
            }
            // One is an own write that was given up, or somebody's note; a row of them is a list that lags.
            self.own.conflicts = self.own.conflicts.saturating_add(1);
            self.own.next_write = now + self.rules.retry_period / 4 * self.own.conflicts.saturating_sub(1).min(4);
            self.own.hold_off = self.own.next_write;
        } else {
            self.is_away(flight.sent);
            self.own.next_write = now + self.rules.retry_period / 2;
            self.own.next_try = flight.sent + self.rules.retry_period / 4;
            self.own.hold_off = self.own.hold_off.max(now + self.rules.retry_period / 4);
            self.own.unanswered = Some(flight);
        }
        self.again = true;
    }

    /// When a holder gives up renewing: at the deadline, or just before the kernel drops the first VIP.
    fn lapses_at(&self, sent: Time) -> Time {
        let deadline = sent + self.rules.lapses_after();
        if self.carried.is_empty() {
            // There is nothing to go on with under a short fence.
            return sent + self.rules.lease_duration - MARGIN;
        }
        if self.rules.hold_without_api { deadline.min(self.own.first_dropped - BEFORE_DROPPED) } else { deadline }
    }

    /// When the kernel drops the first of the VIPs that rest on the session.
    fn first_dropped(&self) -> Option<Time> {
        let holds = self.carried.iter().filter_map(|a| self.vips.get(a).and_then(|v| v.hold));
        holds.filter(|h| matches!(h.basis, Basis::Recorded | Basis::Beside(_))).map(|h| h.dropped).min()
    }

    /// The session could not be renewed in time, or the first fence of a VIP is about to end.
    fn ran_out(&mut self) {
        let now = self.at.now;
        let Some(tenure) = &self.own.tenure else { return };
        let deadline = tenure.sent + self.rules.lapses_after();
        // A fence that was asked for by an earlier renewal ends before what the last one allows.
        if now < deadline && self.refresh_by_session(true) {
            self.own.first_dropped = self.first_dropped().unwrap_or(Time::from_nanos(u64::MAX));
            if self.own.first_dropped > now + BEFORE_DROPPED {
                self.again = true;
                return;
            }
        }
        if !self.rules.hold_without_api {
            self.own.tenure = None;
            self.let_all_go(Why::ApiLost, |basis| basis != Basis::Provisional);
            self.own.hold_off = now;
            self.again = true;
            return;
        }
        if let Some(tenure) = &mut self.own.tenure {
            tenure.lapsed = true;
        }
        self.report(Report::Lapsed);
        self.refresh_short();
        self.all_dirty();
        self.again = true;
    }

    /// Gives the VIPs that rest on the session a new fence, when the one in force is much shorter than the session allows:
    /// every refresh is an event to all who listen to netlink. True if any was given.
    pub(super) fn refresh_by_session(&mut self, all: bool) -> bool {
        let Some(end) = self.session_ends().filter(|_| self.own.is_live() && self.unsure.is_none()) else {
            return false;
        };
        let third = self.rules.lease_duration.saturating_sub(FENCE_ENDS) / 3;
        let ours = |h: &super::vip::Hold| matches!(h.basis, Basis::Recorded | Basis::Beside(_)) && h.until < end;
        let these: Vec<_> = self
            .carried
            .iter()
            .copied()
            .filter(|a| self.vips.get(a).and_then(|v| v.hold.as_ref()).is_some_and(ours))
            .collect();
        let behind = |a: &IpAddr| self.vips.get(a).and_then(|v| v.hold).is_some_and(|h| h.until + third <= end);
        // All at once: should this agent die, all end together, and nobody takes one for dead while another answers.
        if !all && !these.iter().any(behind) {
            return false;
        }
        self.own.fence = end;
        let mut any = false;
        for address in these {
            any |= self.fence_to(address, end);
        }
        any
    }

    /// Since when the API has not answered: calls that failed, or one that waits for so long.
    pub(super) fn away_since(&self) -> Option<Time> {
        let waiting = self.own.flight.as_ref().map(|f| f.sent);
        let waiting = waiting.into_iter().chain(self.calls.ends.values().map(|end| end.sent)).min();
        let waiting = waiting.filter(|sent| self.at.now >= *sent + AWAY);
        match (self.away, waiting) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    /// Ends with VIPs on the interface, if there are any: their fence takes them off within 5 s.
    pub(super) fn leave_behind(&mut self) {
        if self.own.left {
            return;
        }
        self.own.left = true;
        if self.unsure.is_none() {
            let (until, these) = (self.at.now + LEGACY_FENCE, self.carried.clone());
            for address in these {
                self.fence_to(address, until);
            }
        }
        self.flush();
        self.out.push(Action::Exit);
    }
}
