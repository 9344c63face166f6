//! A VIP is handed over: the record names a successor, or the session says that all may be taken. The old holder serves until
//! it hears the new one, and a little longer.

use super::Fleet;
use super::vip::{Basis, Vip};
use crate::action::Why;
use crate::planted::planted;
use crate::rules::{CHALLENGE, OVERLAP};

impl Fleet {
    /// The record names this node: it stays, unless the VIP belongs elsewhere by a hard condition, somebody asked for that,
    /// or the node is about to leave.
    pub(super) fn consider_handing_over(&mut self, vip: &mut Vip) {
        let leaving = self.own.leaving.is_some() || self.own.drained;
        let admitted = vip.demand.as_ref().is_some_and(|d| d.admits(&self.rules.node)) && self.link_for(vip).is_some()
            || planted!(StaysWithoutEndpoint);
        let elsewhere = (vip.rebalance || planted!(Rebalances))
            && self.place_anew(vip).and_then(|p| p.position).is_some_and(|n| n > 0);
        vip.rebalance = elsewhere;
        let wanted = !admitted || elsewhere && vip.moves.may_move(self.at.now);
        if let Some(hold) = &mut vip.hold {
            // A write that names a successor may have taken effect: what was offered stays so until the record says otherwise.
            let offered = vip.view.as_ref().and_then(|v| v.holder.as_ref()).is_some_and(|h| h.to.is_some());
            hold.consented = leaving || wanted || offered || vip.flight.is_some() && hold.consented;
            if !hold.consented || planted!(DropsBeforeSuccessor) {
                (hold.heard, hold.named) = (None, None);
            }
        }
        if self.heard_long_enough(vip) {
            // What is known of the record is older than what was heard: only a read since brings it back.
            vip.yielded = Some(self.at.now);
            vip.hold_off = self.at.now + CHALLENGE;
            return self.let_go(vip, Why::HandedOver);
        }
        let off = vip.hold_off;
        if !self.own.is_live() || self.away.is_some() || vip.flight.is_some() || !self.due(off) {
            return;
        }
        if wanted {
            self.offer(vip);
        } else if vip.holder().is_some_and(|h| h.to.is_some()) && !leaving {
            // It is admitted again, and nobody has taken it.
            if let Some(record) = self.own_holder() {
                self.write_holder(vip, record);
            }
        }
    }

    fn heard_long_enough(&mut self, vip: &Vip) -> bool {
        let heard = vip.hold.and_then(|hold| hold.heard);
        heard.is_some_and(|at| self.due(at + OVERLAP)) && !planted!(ServesOnAfterHandover)
    }

    /// The record names another.
    pub(super) fn record_names_another(&mut self, vip: &mut Vip) {
        let now = self.at.now;
        let Some(hold) = &mut vip.hold else { return };
        if planted!(MemoryOverRecord) && hold.basis == Basis::Recorded {
            return;
        }
        if !hold.consented || planted!(DropsBeforeSuccessor) {
            return self.let_go(vip, Why::LeaseLost);
        }
        let named = *hold.named.get_or_insert(now);
        // Its announcement may have been lost; it is asked for. Without a word it had its time.
        let over = self.due(named + self.rules.handover_grace) && !planted!(ServesOnAfterHandover);
        if self.heard_long_enough(vip) || over {
            self.let_go(vip, Why::HandedOver);
        }
    }
}
