//! Other nodes' sessions: an expired or abandoned session is ended by a compare-and-swap on its Lease. Nothing follows from
//! the judgement alone.

use std::time::Duration;

use super::calls::EndFlight;
use super::questions::Question;
use super::watching::Watch;
use super::{Call, Output, Report, SessionVips};
use crate::event::Failure;
use crate::lease::Record;
use crate::placement::mix;
use crate::planted::planted;
use crate::rules::MARGIN;
use crate::session::{End, EndCause, View};
use crate::time::Time;

/// Between two observers of an expired session.
const EXPIRY_STEP: Duration = Duration::from_millis(200);
/// Between two watchers of an abandoned one.
const ABANDON_STEP: Duration = Duration::from_millis(100);
/// A node waits for at most so many others.
const STEPS: u32 = 10;
/// How long the write may go unanswered.
const WITHIN: Duration = Duration::from_secs(1);

impl SessionVips {
    pub(super) fn advance_ends(&mut self) {
        let now = self.step.at.now;
        if self.own.tenure.is_none() || !self.doubt.is_sure() || self.own.has_left() {
            return;
        }
        // With the API away, one end is tried now and then: the first answer tells that the API is back.
        let away = self.api.away.is_some() && !planted!(EndsStorm);
        let next = if planted!(EndsStorm) { now } else { self.calls.next_end };
        if !self.due(next) || away && !self.calls.ends.is_empty() {
            return;
        }
        let me = &self.rules.node;
        let fresh = self.sessions.is_fresh(now, &self.rules) || planted!(EndsWhenBlind);
        // A frame may have shown since that the node is there.
        let silent = |node: &str, watch: &Watch| watch.silent_since.is_some() && self.is_abandoned(node, &watch.views);
        let silent = self.watches.iter().filter(|(node, watch)| silent(node, watch)).map(|(node, _)| node.clone());
        let mut these: Vec<(String, EndCause, Time)> = vec![];
        for node in silent {
            let (Some(watch), Some(peer)) = (self.watches.get(&node), self.sessions.get(&node)) else { continue };
            let mut abandoned = peer.abandoned.clone();
            if let Some(since) = watch.silent_since
                && peer.view.is_live()
                && abandoned.may_move(now)
            {
                these.push((node, EndCause::Abandoned, since + ABANDON_STEP * watch.place));
            }
        }
        // Whoever could not renew its own session does that first: the others may have been refused too.
        let renews = !self.own.is_lapsed() || planted!(RefusedTimeCounts);
        if fresh && renews && now >= self.calls.first_expiry {
            let mut first = Time::from_nanos(u64::MAX);
            for (node, peer) in self
                .sessions
                .live()
                .filter(|(node, _)| node != me && (self.sessions.is_followed(node) || planted!(JudgesUnfollowed)))
                .filter(|(node, _)| !self.is_asked(node, Question::NotUnpublished))
            {
                let at = peer.expires(&self.rules);
                if at <= now {
                    these.push((node.to_owned(), EndCause::Expired, at));
                }
                first = first.min(at);
            }
            self.calls.first_expiry = first;
            if planted!(EndsByLooking) {
                let held = these.iter().filter_map(|(node, ..)| self.index.held.get(node)).flatten();
                self.index.dirty.extend(held.copied());
                self.step.again |= !these.is_empty();
            }
        }
        // Renewals may have put the expiry off: that is looked at when the moment has come.
        if fresh && renews && self.calls.first_expiry > now && self.calls.first_expiry < Time::from_nanos(u64::MAX) {
            self.due(self.calls.first_expiry);
        }
        for (node, cause, at) in these {
            if self.calls.ends.contains_key(&node) || self.is_outdated(&node) {
                continue;
            }
            let at = if cause == EndCause::Expired { at + EXPIRY_STEP * self.order_for(&node) } else { at };
            if self.due(at) {
                self.end_other(&node, cause);
                if away {
                    return;
                }
            }
        }
    }

    /// Whether the known version of a session is one that was found old: another one is about to be shown.
    fn is_outdated(&mut self, node: &str) -> bool {
        let Some((version, until)) = self.calls.outdated.get(node) else { return false };
        let (until, same) = (*until, self.sessions.get(node).is_some_and(|peer| peer.view.version == *version));
        same && !self.due(until)
    }

    /// How many nodes are before this one to end an expired session.
    fn order_for(&self, node: &str) -> u32 {
        let Some(target) = self.sessions.get(node) else { return 0 };
        if target.view.published {
            return self.judge_place(node).unwrap_or(STEPS);
        }
        let target = target.seed;
        let Some(mine) = self.sessions.get(&self.rules.node).map(|p| mix(target, p.seed)) else { return STEPS };
        let before = self.sessions.live().filter(|(other, p)| *other != node && mix(target, p.seed) > mine).count();
        u32::try_from(before).unwrap_or(STEPS).min(STEPS)
    }

    fn end_other(&mut self, node: &str, cause: EndCause) {
        let (id, now) = (self.step.new_id(), self.step.at.now);
        let Some(view) = self.sessions.get(node).map(|p| p.view.clone()) else { return };
        let record = Record { holder: String::new(), duration: Duration::from_secs(1), ..view.record };
        let fails_at = now + WITHIN + MARGIN;
        self.calls.ends.insert(node.to_owned(), EndFlight { id, version: view.version.clone(), sent: now, fails_at });
        self.due(fails_at);
        let base = Some(if planted!(EndWithoutVersion) { String::new() } else { view.version });
        let end = Some(End { by: self.rules.node.clone(), cause });
        let node = node.to_owned();
        self.step.out.push(Output::Call(Call::WriteSession {
            id,
            node,
            base,
            record,
            declared: view.declared,
            end,
            within: WITHIN,
        }));
    }

    /// The write of another session's end was answered, or has failed.
    pub(super) fn end_written(&mut self, node: &str, id: u64, result: Result<View, Failure>) {
        let Some(flight) = self.calls.ends.get(node).filter(|f| f.id == id) else { return };
        let (sent, version) = (flight.sent, flight.version.clone());
        self.calls.ends.remove(node);
        match result {
            Ok(view) => {
                self.api_answered();
                let cause = view.end.as_ref().map_or(EndCause::Expired, |end| end.cause);
                self.report(Report::EndedOther { node: node.to_owned(), cause });
                self.publishing.was_ended_here(node);
                self.session_answered(view);
            }
            Err(Failure::Conflict) => {
                self.api_answered();
                // The session was renewed, or another node was first. The watch is about to tell, unless it is behind: a list
                // tells.
                let now = self.step.at.now;
                self.calls.outdated.retain(|_, (_, until)| *until > now);
                self.calls.outdated.insert(node.to_owned(), (version, now + self.rules.retry_period));
                self.forget_witness(node);
                self.list_sessions();
            }
            Err(Failure::Away | Failure::Refused | Failure::NoNamespace) => {
                self.not_answered(sent);
                self.calls.next_end = sent + self.rules.retry_period / 2;
            }
        }
        self.step.again = true;
    }
}
