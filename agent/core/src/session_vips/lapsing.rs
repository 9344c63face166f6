//! When the own session's fence ends: VIPs get a new fence by its renewals, or a short one when it cannot be renewed.

use std::net::IpAddr;
use std::time::Duration;

use super::hold::{Basis, Hold};
use super::{Output, Report, SessionVips};
use crate::action::Why;
use crate::planted::planted;
use crate::rules::{FENCE_ENDS, LEGACY_FENCE, MARGIN};
use crate::time::Time;

/// A VIP gets another fence so long before the kernel would drop it.
const BEFORE_DROPPED: Duration = Duration::from_millis(100);

impl SessionVips {
    /// The end of this node's session by its own clock: the deadline of what rests on it.
    pub(super) fn session_ends(&self) -> Option<Time> {
        self.own.tenure.as_ref().map(|t| t.sent + self.rules.lease_duration)
    }

    /// The deadline for a VIP that is taken now. It is the deadline of all other VIPs, so that all end together.
    pub(super) fn common_fence(&mut self) -> Option<Time> {
        let end = self.session_ends()?;
        let third = self.rules.lease_duration.saturating_sub(FENCE_ENDS) / 3;
        if self.own.fences.common > end || self.own.fences.common + third <= end {
            self.own.fences.common = end;
        }
        Some(self.own.fences.common)
    }

    /// When a holder gives up renewing: at the deadline, or just before the kernel drops the first VIP.
    pub(super) fn lapses_at(&self, sent: Time) -> Time {
        let deadline = sent + self.rules.lapses_after();
        if self.index.carried.is_empty() {
            // No VIP needs a short fence.
            return sent + self.rules.lease_duration - MARGIN;
        }
        if self.rules.hold_without_api {
            deadline.min(self.own.fences.first_dropped - BEFORE_DROPPED)
        } else {
            deadline
        }
    }

    /// When the kernel drops the first of the VIPs that rest on the session.
    pub(super) fn first_dropped(&self) -> Option<Time> {
        let holds = self.index.carried.iter().filter_map(|a| self.vips.get(a).and_then(|v| v.hold));
        holds.filter(|h| h.basis.is_by_session()).map(|h| h.dropped_at).min()
    }

    /// The session could not be renewed in time, or the first fence of a VIP is about to end.
    pub(super) fn ran_out(&mut self) {
        let now = self.step.at.now;
        let Some(tenure) = &self.own.tenure else { return };
        let deadline = tenure.sent + self.rules.lapses_after();
        // The fence in force was asked for by an earlier renewal: the last renewal allows a longer one.
        if now < deadline && self.refresh_by_session(true) {
            self.own.fences.first_dropped = self.first_dropped().unwrap_or(Time::from_nanos(u64::MAX));
            if self.own.fences.first_dropped > now + BEFORE_DROPPED {
                self.step.again = true;
                return;
            }
        }
        if !self.rules.hold_without_api {
            self.own.tenure = None;
            let all = !planted!(HoldsThoughReleased);
            self.let_all_go(Why::ApiLost, |basis| all || basis != Basis::Provisional);
            self.own.calls.begin_after = now;
            self.step.again = true;
            return;
        }
        if let Some(tenure) = &mut self.own.tenure {
            tenure.lapsed = true;
        }
        self.report(Report::Lapsed);
        self.refresh_short();
        self.all_dirty();
        self.step.again = true;
    }

    /// Gives the VIPs that rest on the session a new fence, when the one in force is much shorter than the session allows:
    /// every refresh is an event to all who listen to netlink. True if any was given.
    pub(super) fn refresh_by_session(&mut self, all: bool) -> bool {
        let Some(end) = self.session_ends().filter(|_| self.own.is_live() && self.doubt.is_sure()) else {
            return false;
        };
        let third = self.rules.lease_duration.saturating_sub(FENCE_ENDS) / 3;
        let ours = |h: &Hold| h.basis.is_by_session() && h.deadline < end;
        let these: Vec<_> = self
            .index
            .carried
            .iter()
            .copied()
            .filter(|a| self.vips.get(a).and_then(|v| v.hold.as_ref()).is_some_and(ours))
            .collect();
        let behind = |a: &IpAddr| self.vips.get(a).and_then(|v| v.hold).is_some_and(|h| h.deadline + third <= end);
        // All at once: if this agent dies, all end together, and no watcher takes this node for dead while some still answer.
        if !all && !these.iter().any(behind) {
            return false;
        }
        self.own.fences.common = end;
        let mut any = false;
        for address in these {
            any |= self.fence_to(address, end);
        }
        any
    }

    /// The process ends. VIPs that are still on an interface are removed by their fence within 5 s.
    pub(super) fn leave_behind(&mut self) {
        if !self.own.leave() {
            return;
        }
        if self.doubt.is_sure() {
            let (deadline, these) = (self.step.at.now + LEGACY_FENCE, self.index.carried.clone());
            for address in these {
                self.fence_to(address, deadline);
            }
        }
        self.flush();
        self.step.out.push(Output::Exit);
    }
}
