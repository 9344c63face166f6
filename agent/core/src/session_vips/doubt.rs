//! A node that stepped late is not sure of what it knew. This file says what becomes doubtful, and how the doubt ends. A node that
//! was cut off goes on, but does not know whether its session has ended.

use std::time::Duration;

use super::{Report, SessionVips};
use crate::action::Why;
use crate::planted::planted;
use crate::rules::{AWAY, MARGIN};
use crate::time::Time;

/// What a late step left behind.
#[derive(Debug, Default)]
pub(super) struct Doubt {
    /// Nothing is announced, refreshed or taken until the session was renewed or the segment asked since.
    pub(super) unsure: Option<Time>,
    /// The last late step: what was sent before it proves nothing any more.
    pub(super) late_at: Time,
    /// When another node claimed a VIP that it then got, because the API did not answer: it may have taken the VIP because this
    /// session has ended.
    pub(super) yielded: Option<Time>,
}

impl Doubt {
    pub(super) fn is_sure(&self) -> bool {
        self.unsure.is_none()
    }

    /// Whether a call that was sent then, and succeeded, proves what became doubtful.
    pub(super) fn is_ended_by(&self, sent: Time) -> bool {
        self.unsure.is_some_and(|since| sent >= since)
    }
}

impl SessionVips {
    /// Whether this node must not defend a VIP by what it knows of its session: others may have ended that since the last renewal. Then
    /// whoever claims the VIP may have it, also a host that this node does not know: a node may have begun its session meanwhile.
    pub(super) fn may_have_ended(&self) -> bool {
        let mut signs = self.doubt.yielded.into_iter().chain(self.segment.deaf);
        let signs = signs.any(|at| !self.own.is_renewed_since(at)) && !planted!(DefendsWhenCutOff);
        self.own.tenure.is_none() || !self.doubt.is_sure() || signs
    }

    /// The same, while no answer to a renewal is to be expected soon: strangers' claims do not wait then.
    pub(super) fn seems_to_have_ended(&self) -> bool {
        let waiting = self.own.calls.flight.as_ref().is_some_and(|flight| self.step.at.now >= flight.sent + AWAY);
        (self.api.away.is_some() || waiting) && self.may_have_ended()
    }

    /// This step came late: VIPs that their fence no longer covers are dropped, and nothing is sure.
    pub(super) fn late(&mut self, by: Duration) {
        let now = self.step.at.now;
        self.doubt.late_at = now;
        self.forget_witnesses();
        self.segment.forget();
        for vip in self.vips.values_mut() {
            vip.taking.look = None;
            vip.taking.free_since = None;
        }
        if self.own.tenure.is_none() && self.index.carried.is_empty() {
            return;
        }
        self.report(Report::Late { by });
        for address in self.index.carried.clone() {
            let Some(mut vip) = self.vips.remove(&address) else { continue };
            if vip.hold.is_some_and(|hold| now + MARGIN >= hold.deadline) {
                self.let_go(&mut vip, Why::Late);
            }
            self.forget_strangers_claim(&mut vip);
            self.vips.insert(address, vip);
        }
        if let Some(tenure) = &mut self.own.tenure
            && now + MARGIN >= tenure.sent + self.rules.lease_duration
        {
            tenure.lapsed = true;
        }
        self.own.calls.next_write = now;
        self.doubt.unsure = Some(now);
        if planted!(AnnouncesVipWhenLate) {
            self.doubt.unsure = None;
        }
        self.all_dirty();
        self.burst();
    }

    /// A node with a live session waits for its renewal. Without a session the segment decides: after a whole round of probes,
    /// another owner would have answered.
    pub(super) fn advance_unsure(&mut self) {
        let Some(since) = self.doubt.unsure else { return };
        if !self.own.is_live() && self.due(since + self.round()) {
            self.sure_again();
        }
    }

    pub(super) fn sure_again(&mut self) {
        if self.doubt.unsure.take().is_none() {
            return;
        }
        let now = self.step.at.now;
        for address in &self.index.carried {
            if let Some(vip) = self.vips.get_mut(address) {
                vip.schedule.restart(now);
            }
        }
        self.all_dirty();
        self.step.again = true;
    }
}
