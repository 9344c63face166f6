//! A node that stepped late is not sure of what it knew. This file says what becomes doubtful, and how the doubt ends.

use std::time::Duration;

use super::{Elector, Role};
use crate::action::{Report, Why};
use crate::planted::planted;
use crate::rules::{MARGIN, SELF_PROBE};
use crate::time::Time;

/// The consequences of a late step.
#[derive(Debug, Default)]
pub(super) struct Doubt {
    /// Nothing is announced or refreshed until the Lease or the segment was looked at since. Only a node that carries VIPs
    /// can be unsure.
    unsure: Option<Unsure>,
    /// The last late step. The answer to a call that was sent before this time proves nothing.
    pub(super) late_at: Time,
}

#[derive(Clone, Copy, Debug)]
struct Unsure {
    since: Time,
    /// Whether the segment was asked for another owner.
    probed: bool,
}

impl Doubt {
    pub(super) fn begin(&mut self, now: Time) {
        self.unsure = Some(Unsure { since: now, probed: false });
    }

    pub(super) fn end(&mut self) -> bool {
        self.unsure.take().is_some()
    }

    pub(super) fn is_sure(&self) -> bool {
        self.unsure.is_none()
    }

    /// Whether a successful call ends the doubt. `sent`: when the call was sent.
    pub(super) fn is_ended_by(&self, sent: Time) -> bool {
        self.unsure.is_some_and(|unsure| sent >= unsure.since)
    }
}

impl Elector {
    /// Takes in that this step came late: drops VIPs that the fence no longer covers, and begins the doubt.
    pub(super) fn late(&mut self, by: Duration) {
        let now = self.step.at.now;
        self.doubt.late_at = now;
        self.segment.forget(now);
        let Some(deadline) = self.deadline() else { return };
        self.report(Report::Late { by });
        if now + MARGIN >= deadline {
            self.let_go(Why::Late);
        } else {
            self.doubt.begin(now);
            if planted!(AnnouncesWhenLate) {
                self.sure_again();
            }
            self.api.next_write = now;
        }
    }

    /// Asks the segment after a late step. After a whole probe interval on time, an owner would have answered.
    pub(super) fn advance_doubt(&mut self) {
        let Some(unsure) = &mut self.doubt.unsure else { return };
        let since = unsure.since;
        if !std::mem::replace(&mut unsure.probed, true) {
            self.probe_vips();
        }
        // A holder by Lease waits for its write. Without an answer the hold lapses, and then the segment decides.
        if !matches!(self.role, Role::Holding(_)) && self.due(since + SELF_PROBE) {
            self.sure_again();
        }
    }

    pub(super) fn sure_again(&mut self) {
        if self.doubt.end() {
            self.step.again = true;
            for vip in self.vips.values_mut() {
                vip.schedule.restart(self.step.at.now);
            }
        }
    }
}
