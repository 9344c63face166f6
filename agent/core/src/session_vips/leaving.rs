//! The process is asked to end: the session says that the node leaves, other nodes take its VIPs one by one, and then the
//! session is ended.

use std::time::Duration;

use super::SessionVips;
use super::record_state::RecordState;
use super::vip::Vip;
use crate::action::Why;
use crate::time::Time;

/// How long the planned end may take to be written.
const END_WITHIN: Duration = Duration::from_millis(1_500);

/// The session says that this node leaves.
#[derive(Debug)]
pub(super) struct Leaving {
    grace_ends: Time,
    /// Since when nothing is carried any more.
    empty: Option<Time>,
    /// The planned end is not written before: the last write of it has failed.
    pub(super) next_end: Time,
}

impl SessionVips {
    pub(super) fn advance_leaving(&mut self) {
        if !self.own.is_ending() {
            return;
        }
        let now = self.step.at.now;
        if self.own.leaving().is_none() {
            // A renewal that is slow is no reason to skip the hand-over; one that has failed is.
            if !self.own.is_live() || self.api.away.is_some() {
                return self.leave_behind();
            }
            let leaving = Leaving { grace_ends: now + self.rules.handover_grace, empty: None, next_end: now };
            self.own.set_leaving(Some(leaving));
            self.own.calls.next_write = now;
            self.own.redeclare = true;
            self.all_dirty();
        }
        let Some(leaving) = self.own.leaving() else { return };
        let (ends, empty, next_end) = (leaving.grace_ends, leaving.empty, leaving.next_end);
        let removing = self.is_removing_own();
        if self.index.carried.is_empty() && !removing {
            let since = empty.unwrap_or(now);
            if let Some(leaving) = self.own.leaving_mut() {
                leaving.empty = Some(since);
            }
            if self.due(since + END_WITHIN) {
                self.leave_behind();
            } else if self.own.calls.flight.is_none() && self.due(next_end) {
                // A record whose write is still under way names a session that has ended, and is void.
                self.end_own();
            }
            return;
        }
        let over = self.due(ends);
        // No other node may have the rest: it is left behind, and this node's next agent adopts it.
        if over || self.nobody_else_for_any() {
            self.drop_what_is_anothers();
            if self.index.carried.is_empty() && !removing {
                self.step.again = true;
            } else {
                self.leave_behind();
            }
        }
    }

    /// Whether no other node is a candidate for anything that is left.
    fn nobody_else_for_any(&self) -> bool {
        let carried = self.index.carried.iter().filter_map(|a| self.vips.get(a)).map(Box::as_ref);
        let mut left = carried.chain(self.removing_own());
        left.all(|vip| self.place(vip).is_none_or(|place| place.other.is_none()))
    }

    /// The session says that other nodes may take all VIPs as soon as none is still to be removed here: others take them without
    /// a look. Until then VIPs are offered one by one.
    pub(super) fn advance_giving(&mut self) {
        let gives = self.own.gives_all() && (self.own.told || !self.is_removing_own());
        if gives && !std::mem::replace(&mut self.own.told, gives) {
            self.own.redeclare = true;
            self.own.calls.next_write = self.step.at.now;
            self.index.dirty.extend(self.index.carried.iter().copied());
        }
        self.own.told = gives;
    }

    /// The VIPs that were let go and may still be on their interfaces, and whose records name this node.
    fn removing_own(&self) -> impl Iterator<Item = &Vip> {
        let now = self.step.at.now;
        let all = self.vips.values().map(Box::as_ref);
        let removing = all.filter(move |vip| vip.removing.is_some_and(|removing| now < removing.ends));
        removing.filter(|vip| self.record_state(vip) == RecordState::Mine)
    }

    fn is_removing_own(&mut self) -> bool {
        let ends = self.removing_own().filter_map(|vip| vip.removing).map(|removing| removing.ends).min();
        ends.is_some_and(|ends| !self.due(ends))
    }

    fn drop_what_is_anothers(&mut self) {
        for address in self.index.carried.clone() {
            let Some(mut vip) = self.vips.remove(&address) else { continue };
            if !matches!(self.record_state(&vip), RecordState::Mine) {
                self.let_go(&mut vip, Why::HandedOver);
            }
            self.vips.insert(address, vip);
        }
    }
}
