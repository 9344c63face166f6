//! This node's own session: it begins or is adopted, is renewed, and ends.

use std::time::Duration;

use super::own::OwnFlight;
use super::{Call, Output, SessionVips};
use crate::lease::Record;
use crate::planted::planted;
use crate::rules::MARGIN;
use crate::session::{Declared, End, EndCause};
use crate::time::{Time, WallTime};

/// How long a begin or an end may go unanswered.
const WITHIN: Duration = Duration::from_secs(1);

impl SessionVips {
    /// Whether this node may take VIPs: its session is live by its own write, the API answers, and nothing is doubtful.
    pub(super) fn is_sound(&self) -> bool {
        let now = self.step.at.now;
        let live = self.own.tenure.as_ref().is_some_and(|t| !t.lapsed && !t.in_doubt);
        live && self.is_own_published()
            && self.api.away.is_none()
            && self.doubt.is_sure()
            && !self.own.is_ending()
            && self.knows_since_back()
            && self.sessions.is_fresh(now, &self.rules)
            && self.session_ends().is_some_and(|end| now + MARGIN < end)
    }

    pub(super) fn advance_own(&mut self) {
        if self.own.has_left() {
            return;
        }
        let Some(tenure) = &self.own.tenure else {
            if self.own.is_ending() && self.own.calls.flight.is_none() {
                self.leave_behind();
            } else if !self.own.is_ending() {
                self.consider_beginning();
            }
            return;
        };
        let (lapsed, sent) = (tenure.lapsed, tenure.sent);
        self.is_twin_gone();
        if !lapsed && self.due(self.lapses_at(sent)) {
            // The remembered moment may be sooner than the real one.
            self.own.fences.first_dropped = self.first_dropped().unwrap_or(Time::from_nanos(u64::MAX));
            if self.due(self.lapses_at(sent)) {
                self.ran_out();
                return;
            }
        }
        self.advance_leaving();
        if self.own.has_left() {
            return;
        }
        self.advance_giving();
        // After a conflict the Lease is read first. A list that hangs for another reason holds nothing up.
        let in_doubt = self.own.tenure.as_ref().is_some_and(|t| t.in_doubt);
        let informed = !in_doubt || self.calls.listing.is_none() || self.api.away.is_some();
        if self.own.calls.flight.is_none() && informed && !self.is_ending() && self.due(self.own.calls.next_write) {
            self.renew();
        }
    }

    fn consider_beginning(&mut self) {
        let looked_up = self.following.looked_up || self.sessions.get(&self.rules.node).is_some();
        let ready = self.sessions.is_complete()
            && looked_up
            && !self.node.interfaces.is_empty()
            && self.own.calls.flight.is_none();
        // A list that is under way may show the reason for a conflict.
        if !ready || self.calls.listing.is_some() && self.api.away.is_none() || !self.due(self.own.calls.begin_after) {
            return;
        }
        if !self.is_twin_gone() {
            return;
        }
        let me = self.rules.node.clone();
        let known = self.sessions.get(&me).map(|p| p.view.clone());
        match known {
            Some(view) if view.is_live() && view.record.holder == me && !self.is_anothers(&view) => {
                let declared = view.declared().cloned().unwrap_or_default();
                let record = self.own_record(view.record.acquired, view.record.transitions);
                // If the Lease does not say when the session began, it may have begun as late as now.
                let began = declared.began.or_else(|| Some(view.version.clone()));
                let declared = self.declared(view.record.transitions, began, declared.after, false);
                self.write_own(Some(view.version), record, declared, None, WITHIN);
            }
            known => {
                let counted = self.own.counted;
                let transitions = known.as_ref().map_or(0, |v| v.record.transitions.max(counted).saturating_add(1));
                let base = known.map(|v| v.version);
                let record = self.own_record(Some(self.step.at.wall), transitions);
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
        let leaving = self.own.told;
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
        self.own.calls.flight.as_ref().is_some_and(OwnFlight::is_end)
    }

    fn own_record(&self, acquired: Option<WallTime>, transitions: u32) -> Record {
        Record {
            holder: self.rules.node.clone(),
            duration: self.rules.lease_duration,
            acquired,
            renewed: Some(self.step.at.wall),
            transitions,
        }
    }

    fn declared(&self, transitions: u32, began: Option<String>, after: Option<String>, leaving: bool) -> Declared {
        let links = self.declared_links();
        let (reserved, let_go) = (self.owned.reserved(), self.recall.own(self.step.at.now));
        let (standing, labels) = (self.node.standing, self.labels_asked_for());
        Declared { transitions, links, leaving, began, after, reserved, let_go, standing, labels }
    }

    fn write_own(
        &mut self,
        base: Option<String>,
        record: Record,
        declared: Declared,
        end: Option<End>,
        within: Duration,
    ) {
        let (id, now) = (self.step.new_id(), self.step.at.now);
        let fails_at = now + within + MARGIN;
        let flight = OwnFlight {
            id,
            sent: now,
            fails_at,
            base: base.clone(),
            record: record.clone(),
            declared: declared.clone(),
        };
        self.own.calls.flight = Some(flight);
        self.own.calls.unanswered = None;
        let node = self.rules.node.clone();
        let base = if planted!(RenewsWithoutVersion) { base.map(|_| String::new()) } else { base };
        self.step.out.push(Output::Call(Call::WriteSession {
            id,
            node,
            base,
            record,
            declared: Some(declared),
            end,
            within,
        }));
    }

    pub(super) fn is_own_flight(&self, id: u64) -> bool {
        self.own.calls.flight.as_ref().is_some_and(|f| f.id == id)
    }
}
