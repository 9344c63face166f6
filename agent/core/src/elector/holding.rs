//! The holder by Lease: renewals and the fence.

use std::time::Duration;

use super::challenge::Challenges;
use super::mute::Heard;
use super::service::Found;
use super::{Elector, Role};
use crate::action::{Report, Why};
use crate::planted::planted;
use crate::time::{Time, WallTime};

/// How long before the kernel would drop the VIP a holder changes to a short fence.
const BEFORE_DROPPED: Duration = Duration::from_millis(100);
/// How long after a write that declares other VIPs the next such write is sent: the kernel may refuse a VIP and take it in turn.
const DECLARE_AGAIN: Duration = Duration::from_millis(300);

/// This node's own write made it the holder.
#[derive(Debug)]
pub(super) struct Holding {
    /// When the last successful write was sent. The fence counts from this time.
    pub(super) sent: Time,
    pub(super) acquired: Option<WallTime>,
    pub(super) transitions: u32,
    /// Other hosts' claims of VIPs.
    pub(super) challenges: Challenges,
    /// Since when the peers are asked for a successor.
    pub(super) leaving_since: Option<Time>,
    /// Until when the last holder may come back with the VIP: it did not let the VIP go, and its Lease would have ended then.
    pub(super) returns_until: Option<Time>,
    /// The last holder handed the Lease over, and serves until it hears this node: for so long at most.
    pub(super) given_until: Option<Time>,
    /// A renewal met a conflict, and the Lease was not read since: the Lease may belong to another node.
    pub(super) in_doubt: bool,
    /// Whether the segment hears this node.
    pub(super) heard: Heard,
    /// When the segment is asked next whether somebody else has the VIP.
    look: Time,
}

impl Elector {
    /// A write of this node's own made it the holder. The fence counts from when that write was sent.
    pub(super) fn hold(&mut self, sent: Time) {
        let sent = if planted!(FenceFromAnswer) { self.step.at.now } else { sent };
        let record = self.record();
        let (acquired, transitions) = record.map_or((None, 0), |r| (r.acquired, r.transitions));
        self.tenure = Some((transitions, acquired));
        self.service.found = Found::Nothing;
        let holding = Holding {
            sent,
            acquired,
            transitions,
            challenges: Challenges::default(),
            leaving_since: None,
            returns_until: None,
            given_until: None,
            in_doubt: false,
            heard: Heard::default(),
            look: self.step.at.now,
        };
        self.become_role(Role::Holding(holding));
        self.api.next_write = sent + self.rules.retry_period;
        if self.doubt.is_ended_by(sent) {
            self.sure_again();
        } else if !self.doubt.is_sure() {
            self.api.next_write = self.step.at.now;
        }
        self.carry(sent + self.rules.lease_duration);
    }

    pub(super) fn renewed(&mut self, sent: Time) {
        let sent = if planted!(FenceFromAnswer) { self.step.at.now } else { sent };
        let Role::Holding(holding) = &mut self.role else {
            // The hold lapsed while the write was on its way.
            if matches!(self.role, Role::Unleased(_)) {
                self.hold(sent);
                self.report(Report::Confirmed);
            }
            return;
        };
        holding.sent = sent;
        holding.in_doubt = false;
        let answered = holding.challenges.answered_by(sent);
        let unanswered = holding.challenges.since().is_some();
        // A frame that was heard while this write was on its way needs another write, at once.
        let unproven = unanswered || !self.doubt.is_sure() && !self.doubt.is_ended_by(sent);
        self.api.next_write = if unproven { self.step.at.now } else { sent + self.rules.retry_period };
        if self.doubt.is_ended_by(sent) {
            self.sure_again();
        }
        if self.rules.refresh.is_zero() {
            self.carry(sent + self.rules.lease_duration);
        }
        self.defend(answered);
    }

    pub(super) fn advance_holding(&mut self) {
        let Role::Holding(holding) = &self.role else { return };
        let sent = holding.sent;
        self.refresh_late(sent + self.rules.lease_duration);
        if self.due(self.lapses_at(sent)) {
            self.ran_out();
            return;
        }
        if self.advance_challenge() {
            return;
        }
        // After a conflict the Lease is read first: perhaps only an annotation changed.
        let declares = self.must_declare() && self.due(self.api.declared + DECLARE_AGAIN);
        if self.api.may_write() && (declares || self.due(self.api.next_write)) {
            if declares {
                self.api.declared = self.step.at.now;
            }
            self.renew();
        }
        self.look_for_another();
        self.advance_mute();
        self.consider_leaving();
    }

    /// Gives the VIPs the deadline of the latest renewal, if the last request to the kernel is old enough.
    fn refresh_late(&mut self, deadline: Time) {
        let last = self.ensured;
        let longer = !self.rules.refresh.is_zero() && last.deadline < deadline && self.doubt.is_sure();
        if longer && self.due(last.at + self.rules.refresh) {
            self.carry(deadline);
        }
    }

    /// When a holder lapses: at the renew deadline; or just before the kernel drops the VIP (a Lease of a few seconds, a slow
    /// answer), if the holder is to go on under a short fence.
    fn lapses_at(&self, sent: Time) -> Time {
        let deadline = sent + self.rules.lapses_after();
        let covered = self.rules.hold_without_api && self.ensured.dropped_at > sent;
        if covered { deadline.min(self.ensured.dropped_at - BEFORE_DROPPED) } else { deadline }
    }

    /// The Lease could not be renewed in time.
    pub(super) fn ran_out(&mut self) {
        if self.rules.hold_without_api {
            self.lapse();
        } else {
            self.let_go(Why::ApiLost);
        }
    }

    /// Asks the segment for another owner while two nodes may believe that they hold the VIP: the last holder may have been
    /// silent (asleep, cut off) and not dead; or this node is the one that is cut off, when its renewals are not answered.
    fn look_for_another(&mut self) {
        let now = self.step.at.now;
        let Role::Holding(holding) = &self.role else { return };
        let look = holding.look;
        let certain =
            !holding.in_doubt && self.doubt.is_sure() && holding.returns_until.is_none_or(|until| now >= until);
        if certain && self.silent_since().is_none() {
            return;
        }
        if self.due(look) && !planted!(NoSelfProbe) {
            let next = self.probe_vips_in_turn();
            if let Role::Holding(holding) = &mut self.role {
                holding.look = next;
            }
            self.due(next);
        }
    }
}
