//! Late is not sure: what a late step of this node's own makes doubtful, and how the doubt ends.

use std::time::Duration;

use super::{Fleet, Report};
use crate::action::Why;
use crate::planted::planted;
use crate::rules::{MARGIN, SELF_PROBE};

impl Fleet {
    /// The own step came late: what a fence no longer covers is dropped, and nothing is sure.
    pub(super) fn late(&mut self, by: Duration) {
        let now = self.at.now;
        self.late_at = now;
        self.forget_witnesses();
        self.third_heard.clear();
        for vip in self.vips.values_mut() {
            vip.look = None;
            vip.free_since = None;
        }
        if self.own.tenure.is_none() && self.carried.is_empty() {
            return;
        }
        self.report(Report::Late { by });
        for address in self.carried.clone() {
            let Some(mut vip) = self.vips.remove(&address) else { continue };
            if vip.hold.is_some_and(|hold| now + MARGIN >= hold.until) {
                self.let_go(&mut vip, Why::Late);
            }
            self.vips.insert(address, vip);
        }
        if let Some(tenure) = &mut self.own.tenure
            && now + MARGIN >= tenure.sent + self.rules.lease_duration
        {
            tenure.lapsed = true;
        }
        self.own.next_write = now;
        self.unsure = Some(now);
        if planted!(AnnouncesVipWhenLate) {
            self.unsure = None;
        }
        self.all_dirty();
        self.burst();
    }

    /// A holder by its session waits for its write. Without that, the segment is sure to have answered after a whole round.
    pub(super) fn advance_unsure(&mut self) {
        let Some(since) = self.unsure else { return };
        if !self.own.is_live() && self.due(since + SELF_PROBE) {
            self.sure_again();
        }
    }

    pub(super) fn sure_again(&mut self) {
        if self.unsure.take().is_none() {
            return;
        }
        let now = self.at.now;
        for address in &self.carried {
            if let Some(vip) = self.vips.get_mut(address) {
                vip.schedule.restart(now);
            }
        }
        self.all_dirty();
        self.again = true;
    }
}
