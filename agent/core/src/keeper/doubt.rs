//! Late is not sure: what a late step of this node's own makes doubtful, and how the doubt ends.

use std::time::Duration;

use super::{Keeper, Role};
use crate::action::{Report, Why};
use crate::rules::{MARGIN, SELF_PROBE};

impl Keeper {
    /// The own step came late: what the fence no longer covers is dropped, and nothing is sure.
    pub(super) fn late(&mut self, by: Duration) {
        self.late_at = self.at.now;
        self.witness.forget(self.at.now);
        self.third_heard.clear();
        let covered_until = match &self.role {
            Role::Following => return,
            Role::Holding(holding) => holding.sent + self.rules.lease_duration,
            Role::Unleased(unleased) => unleased.until,
            Role::Leaving(leaving) => leaving.until,
        };
        self.report(Report::Late { by });
        if self.at.now + MARGIN >= covered_until {
            self.let_go(Why::Late);
        } else {
            self.unsure = Some(self.at.now);
            self.unsure_probe = self.at.now;
            self.next_write = self.at.now;
        }
    }

    /// Looks around after a late step: the segment is sure to have answered after a whole probe interval on time.
    pub(super) fn advance_unsure(&mut self) {
        let Some(since) = self.unsure else { return };
        if matches!(self.role, Role::Following) {
            self.unsure = None;
            return;
        }
        if self.unsure_probe <= self.at.now && self.unsure_probe < since + SELF_PROBE {
            self.probe_vips();
            self.unsure_probe = since + SELF_PROBE;
        }
        // A holder by Lease waits for its write; without an answer it lapses, and then the segment decides.
        if !matches!(self.role, Role::Holding(_)) && self.due(since + SELF_PROBE) {
            self.sure_again();
        }
    }

    pub(super) fn sure_again(&mut self) {
        if self.unsure.take().is_some() {
            self.again = true;
            for vip in self.vips.values_mut() {
                vip.schedule.restart(self.at.now);
            }
        }
    }
}
