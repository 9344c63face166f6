//! The process is asked to end: the session says that the node leaves, others take its VIPs one by one, and then the session
//! is ended.

use std::time::Duration;

use super::Fleet;
use super::claim::Claim;
use crate::action::Why;
use crate::time::Time;

/// How long the planned end may take to be written.
const END_WITHIN: Duration = Duration::from_millis(1_500);

/// See the module's text.
#[derive(Debug)]
pub(super) struct Leaving {
    grace_ends: Time,
    /// Since when nothing is carried any more.
    empty: Option<Time>,
    /// The end is written no sooner: it has failed.
    pub(super) next_end: Time,
}

impl Fleet {
    pub(super) fn advance_leaving(&mut self) {
        if !self.own.shutting_down {
            return;
        }
        let now = self.at.now;
        if self.own.leaving.is_none() {
            if !self.own.is_live() || self.away_since().is_some() {
                return self.leave_behind();
            }
            self.own.leaving =
                Some(Leaving { grace_ends: now + self.rules.handover_grace, empty: None, next_end: now });
            self.own.next_write = now;
            self.own.redeclare = true;
            self.all_dirty();
        }
        let Some(leaving) = &self.own.leaving else { return };
        let (ends, empty, next_end) = (leaving.grace_ends, leaving.empty, leaving.next_end);
        if self.carried.is_empty() {
            let since = empty.unwrap_or(now);
            if let Some(leaving) = &mut self.own.leaving {
                leaving.empty = Some(since);
            }
            if self.due(since + END_WITHIN) {
                self.leave_behind();
            } else if self.own.flight.is_none() && self.due(next_end) {
                // What is still on its way for a record finds the session ended, and is void.
                self.end_own();
            }
            return;
        }
        let over = self.due(ends);
        // Nobody else may have what is left: it is left behind, and this node's next agent adopts it.
        if over || self.nobody_else_for_any() {
            self.drop_what_is_anothers();
            if self.carried.is_empty() {
                self.again = true;
            } else {
                self.leave_behind();
            }
        }
    }

    /// Whether no other node is a candidate for anything that is left.
    fn nobody_else_for_any(&self) -> bool {
        let left = self.carried.iter().filter_map(|a| self.vips.get(a));
        left.into_iter().all(|vip| self.place(vip).is_none_or(|place| place.other.is_none()))
    }

    fn drop_what_is_anothers(&mut self) {
        for address in self.carried.clone() {
            let Some(mut vip) = self.vips.remove(&address) else { continue };
            if !matches!(self.claim(&vip), Claim::Mine) {
                self.let_go(&mut vip, Why::HandedOver);
            }
            self.vips.insert(address, vip);
        }
    }
}
