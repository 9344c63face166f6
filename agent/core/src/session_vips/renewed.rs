//! What came of writes of this node's own session: it has begun, goes on, or is lost.

use std::time::Duration;

use super::hold::Basis;
use super::own::{OwnFlight, Tenure};
use super::{Report, SessionVips};
use crate::action::Why;
use crate::event::Failure;
use crate::planted::planted;
use crate::rules::MARGIN;
use crate::session::View;

/// A session that was ended begins again after this at the earliest.
const BEGIN_AGAIN: Duration = Duration::from_millis(250);
/// Without the namespace of sessions, the session begins again after this, and sessions are not listed before.
const NO_NAMESPACE: Duration = Duration::from_secs(30);
/// The planned end is written again after this.
const END_AGAIN: Duration = Duration::from_millis(200);

impl SessionVips {
    /// The own session was shown: that may be the answer to a write, or the session may have ended.
    pub(super) fn own_shown(&mut self) {
        let me = self.rules.node.clone();
        let view = self.sessions.get(&me).map(|p| p.view.clone());
        if let Some(tenure) = &mut self.own.tenure {
            tenure.in_doubt = false;
        }
        self.look_for_twin();
        if let Some(view) = view.as_ref().filter(|view| !self.is_anothers(view)) {
            let shown = |f: &mut OwnFlight| f.record == view.record && f.base.as_deref() != Some(view.version.as_str());
            let flight = self.own.calls.flight.take_if(shown).or_else(|| self.own.calls.unanswered.take_if(shown));
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

    /// Another node has ended the session, or the Lease is gone: everything that rests on it is let go.
    fn session_lost(&mut self) {
        self.own.tenure = None;
        self.own.set_leaving(None);
        self.own.calls.begin_after = self.step.at.now + BEGIN_AGAIN;
        self.report(Report::Ended);
        self.may_be_unheard();
        self.let_all_go(Why::LeaseLost, |basis| basis != Basis::Provisional);
        // What is carried provisionally does not rest on the session: after a late step, the segment is still asked for it.
        if self.index.carried.is_empty() {
            self.doubt.unsure = None;
        }
        self.step.again = true;
    }

    pub(super) fn own_took_effect(&mut self, flight: &OwnFlight, view: &View) {
        let now = self.step.at.now;
        self.api_answered();
        self.own.calls.conflicts = 0;
        if flight.is_end() {
            // This was the planned end: `own_shown` lets go of what is left.
            return;
        }
        self.calls.pace.took(now.since(flight.sent));
        let valid = now + MARGIN < flight.sent + self.rules.lease_duration;
        if !valid || flight.sent < self.doubt.late_at && self.own.tenure.is_none() {
            self.own.calls.next_write = now;
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
            // The first renewal tells others at which version the session began.
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
        // A challenge that came after this write was sent waits for the next write.
        let enough = told && self.own.challenged <= flight.sent;
        self.own.calls.next_write = if enough { flight.sent + self.rules.retry_period } else { now };
        self.rewatch |= known.is_none();
        match &known {
            None => self.report(Report::Began { transitions, adopted }),
            Some(t) if t.lapsed => self.report(Report::Confirmed),
            Some(_) => {}
        }
        if known.as_ref().is_some_and(|t| t.lapsed) {
            self.sessions.could_not_renew(now);
        }
        if known.as_ref().is_none_or(|t| t.lapsed) {
            self.all_dirty();
        }
        if self.doubt.is_ended_by(flight.sent) {
            self.sure_again();
        } else if !self.doubt.is_sure() {
            self.own.calls.next_write = now;
        }
        self.consider_up_to_date();
        self.refresh_by_session(false);
        self.challenges_dirty();
        self.index.dirty.append(&mut self.own.awaiting);
        self.step.again = true;
    }

    pub(super) fn own_write_failed(&mut self, failure: Failure) {
        let Some(flight) = self.own.calls.flight.take() else { return };
        let now = self.step.at.now;
        if let Some(leaving) = self.own.leaving_mut().filter(|_| flight.is_end()) {
            leaving.next_end = now + END_AGAIN;
        }
        if failure == Failure::NoNamespace {
            self.api_answered();
            self.own.calls.begin_after = now + NO_NAMESPACE;
            self.calls.next_list = self.calls.next_list.max(now + NO_NAMESPACE);
        } else if failure == Failure::Conflict {
            self.api_answered();
            self.list_anew();
            if let Some(tenure) = &mut self.own.tenure {
                tenure.in_doubt = true;
            }
            // One conflict comes of an own write that was given up, or of an annotation that somebody changed. Several in a row
            // come of a list that lags.
            self.own.calls.conflicts = self.own.calls.conflicts.saturating_add(1);
            self.own.calls.next_write =
                now + self.rules.retry_period / 4 * self.own.calls.conflicts.saturating_sub(1).min(4);
            self.own.calls.begin_after = self.own.calls.next_write;
        } else {
            self.not_answered(flight.sent);
            self.own.calls.next_write = now + self.rules.retry_period / 2;
            self.own.calls.next_try = flight.sent + self.rules.retry_period / 4;
            self.own.calls.begin_after = self.own.calls.begin_after.max(now + self.rules.retry_period / 4);
            self.own.calls.unanswered = Some(flight);
        }
        self.step.again = true;
    }
}
