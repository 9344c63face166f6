//! The hand-over of a VIP: the record names a successor, or the session says that other nodes may take all VIPs. The old
//! holder serves until it hears the new holder, and a little longer.

use super::SessionVips;
use super::hold::{Basis, Handover};
use super::vip::Vip;
use crate::action::Why;
use crate::planted::planted;
use crate::rules::{CHALLENGE, OVERLAP};

impl SessionVips {
    /// The record names this node: the VIP stays, unless a hard condition excludes this node, nobody hears it, somebody
    /// asked for a rebalance, or the node is about to leave.
    pub(super) fn consider_handing_over(&mut self, vip: &mut Vip) {
        let leaving = self.own.gives_all();
        let admitted = vip.demand.as_ref().is_some_and(|d| d.admits(&self.rules.node, &self.node.labels))
            && self.link_for(vip).is_some()
            || planted!(StaysWithoutEndpoint);
        let elsewhere = (vip.hold.is_some_and(|hold| hold.rebalance) || planted!(Rebalances))
            && self.place_anew(vip).and_then(|p| p.position).is_some_and(|n| n > 0);
        let wanted = !admitted || self.gives_back(vip) || elsewhere && vip.moves.may_move(self.step.at.now);
        if let Some(hold) = &mut vip.hold {
            // A write that names a successor may have taken effect: the offer stands until the record says otherwise.
            let offered = vip.record.holder().is_some_and(|h| h.to.is_some());
            let consents = leaving || wanted || offered || vip.flight.is_some() && hold.handover.is_some();
            let known = hold.handover.filter(|_| !planted!(DropsBeforeSuccessor)).unwrap_or_default();
            hold.handover = consents.then_some(Handover { named: None, ..known });
            hold.rebalance = elsewhere;
        }
        if self.heard_long_enough(vip) {
            return self.yield_to_heard_successor(vip);
        }
        let off = vip.hold_off;
        if !self.own.is_live() || self.api.away.is_some() || vip.flight.is_some() || !self.due(off) {
            return;
        }
        if wanted || leaving && !self.own.told {
            self.offer(vip);
        } else if vip.is_put() && vip.holder().is_some_and(|h| h.to.is_some()) && !leaving {
            // This node is admitted again, or its interface takes the VIP again, and no other has taken the VIP.
            if let Some(record) = self.own_holder() {
                self.write_holder(vip, record);
            }
        }
    }

    /// The record as known is older than the frame: only a read after this moment brings the VIP back.
    pub(super) fn yield_to_heard_successor(&mut self, vip: &mut Vip) {
        vip.yielded = Some(self.step.at.now);
        vip.hold_off = self.step.at.now + CHALLENGE;
        self.let_go(vip, Why::HandedOver);
    }

    /// The successor was heard a while ago: clients have learned its MAC address.
    pub(super) fn heard_long_enough(&mut self, vip: &Vip) -> bool {
        let heard = vip.hold.and_then(|hold| hold.handover).and_then(|handover| handover.heard);
        heard.is_some_and(|at| self.due(at + OVERLAP)) && !planted!(ServesOnAfterHandover)
    }

    /// The record names another.
    pub(super) fn record_names_another(&mut self, vip: &mut Vip) {
        let now = self.step.at.now;
        let offered = vip.hold.is_some_and(|hold| self.has_offered(&hold));
        let Some(hold) = &mut vip.hold else { return };
        if planted!(MemoryOverRecord) && hold.basis == Basis::Recorded {
            return;
        }
        if offered {
            hold.handover.get_or_insert_default();
        }
        let Some(handover) = hold.handover.as_mut().filter(|_| !planted!(DropsBeforeSuccessor)) else {
            return self.let_go(vip, Why::LeaseLost);
        };
        let named = *handover.named.get_or_insert(now);
        // The successor's announcement may have been lost: it is asked for. A silent successor has the grace time.
        let over = self.due(named + self.rules.handover_grace) && !planted!(ServesOnAfterHandover);
        if self.heard_long_enough(vip) || over {
            self.let_go(vip, Why::HandedOver);
        }
    }
}
