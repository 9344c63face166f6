//! Other nodes' sessions: who is expired or abandoned is told so by a compare-and-swap on its Lease. Nothing follows from a
//! judgement alone.

use std::time::Duration;

use super::calls::EndFlight;
use super::{Action, Fleet, Report};
use crate::event::Failure;
use crate::lease::Record;
use crate::placement::mix;
use crate::planted::planted;
use crate::session::{End, EndCause, View};
use crate::time::Time;

/// Between two observers of an expired session.
const EXPIRY_STEP: Duration = Duration::from_millis(200);
/// Between two watchers of an abandoned one.
const ABANDON_STEP: Duration = Duration::from_millis(100);
/// Nobody waits longer for those before it.
const STEPS: u32 = 10;
/// How long the write may go unanswered.
const WITHIN: Duration = Duration::from_secs(1);

impl Fleet {
    pub(super) fn advance_ends(&mut self) {
        let now = self.at.now;
        if self.own.tenure.is_none() || self.unsure.is_some() || self.own.left {
            return;
        }
        // With the API away, one end is tried again now and then: the first call to be answered tells that it is back.
        let away = self.away.is_some() && !planted!(EndsStorm);
        let next = if planted!(EndsStorm) { now } else { self.calls.next_end };
        if !self.due(next) || away && !self.calls.ends.is_empty() {
            return;
        }
        let me = &self.rules.node;
        let fresh = self.sessions.is_fresh(now, &self.rules) || planted!(EndsWhenBlind);
        let silent =
            self.watches.iter().filter(|(_, watch)| watch.silent_since.is_some()).map(|(node, _)| node.clone());
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
        if fresh && now >= self.calls.first_expiry {
            let mut first = Time::from_nanos(u64::MAX);
            for (node, peer) in self.sessions.live().filter(|(node, _)| node != me) {
                let at = peer.expires(&self.rules);
                if at <= now {
                    these.push((node.to_owned(), EndCause::Expired, at));
                }
                first = first.min(at);
            }
            self.calls.first_expiry = first;
            if planted!(EndsByLooking) {
                let held = these.iter().filter_map(|(node, ..)| self.held.get(node)).flatten();
                self.dirty.extend(held.copied());
                self.again |= !these.is_empty();
            }
        }
        // Renewals put it off; it is looked at anew when it has come.
        if fresh && self.calls.first_expiry > now && self.calls.first_expiry < Time::from_nanos(u64::MAX) {
            self.due(self.calls.first_expiry);
        }
        for (node, cause, at) in these {
            if self.calls.ends.contains_key(&node) {
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

    /// How many nodes are before this one to end an expired session.
    fn order_for(&self, node: &str) -> u32 {
        let Some(target) = self.sessions.get(node).map(|p| p.seed) else { return 0 };
        let Some(mine) = self.sessions.get(&self.rules.node).map(|p| mix(target, p.seed)) else { return STEPS };
        let before = self.sessions.live().filter(|(other, p)| *other != node && mix(target, p.seed) > mine).count();
        u32::try_from(before).unwrap_or(STEPS).min(STEPS)
    }

    fn end_other(&mut self, node: &str, cause: EndCause) {
        let (id, now) = (self.new_id(), self.at.now);
        let Some(view) = self.sessions.get(node).map(|p| p.view.clone()) else { return };
        let record = Record { holder: String::new(), duration: Duration::from_secs(1), ..view.record };
        let until = now + WITHIN + crate::rules::MARGIN;
        self.calls.ends.insert(node.to_owned(), EndFlight { id, sent: now, until });
        self.due(until);
        let base = Some(if planted!(EndWithoutVersion) { String::new() } else { view.version });
        let end = Some(End { by: self.rules.node.clone(), cause });
        let node = node.to_owned();
        self.out.push(Action::WriteSession { id, node, base, record, declared: view.declared, end, within: WITHIN });
    }

    /// Another's end was written, or was not.
    pub(super) fn end_written(&mut self, node: &str, id: u64, result: Result<View, Failure>) {
        let Some(flight) = self.calls.ends.get(node).filter(|f| f.id == id) else { return };
        let sent = flight.sent;
        self.calls.ends.remove(node);
        match result {
            Ok(view) => {
                self.away_is_over();
                let cause = view.end.as_ref().map_or(EndCause::Expired, |end| end.cause);
                self.report(Report::EndedOther { node: node.to_owned(), cause });
                self.session_answered(view);
            }
            Err(Failure::Conflict) => {
                self.away_is_over();
                // It has been renewed, or another was first: the watch is about to tell. If it does not, it is behind.
                self.forget_witness(node);
                self.list_sessions();
            }
            Err(Failure::Away) => {
                self.is_away(sent);
                self.calls.next_end = sent + self.rules.retry_period / 2;
            }
        }
        self.again = true;
    }
}
