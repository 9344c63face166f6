//! A VIP that is carried here: on what basis, and whether it stays.

use std::time::Duration;

use super::hold::Basis;
use super::record_state::RecordState;
use super::vip::Vip;
use super::{Report, SessionVips};
use crate::action::Why;
use crate::planted::planted;
use crate::rules::{AWAY, CHALLENGE, MARGIN};
use crate::session::number;

/// How long a VIP may be announced before its record is written.
pub(super) const BESIDE: Duration = Duration::from_secs(1);

impl SessionVips {
    pub(super) fn consider_carried(&mut self, vip: &mut Vip, state: &RecordState) {
        self.give_up_write(vip);
        let Some(hold) = vip.hold else { return };
        let found = matches!(hold.basis, Basis::LeftOver | Basis::Provisional);
        if vip.demand.is_none() && (self.synced || !found) {
            return self.let_go(vip, Why::NotWanted);
        }
        if self.due(hold.deadline - MARGIN) {
            let alone = (!hold.basis.is_by_session() || self.own.is_lapsed()) && !self.hears_enough();
            let released = !hold.basis.is_by_session() && self.is_released();
            let why = match (released, alone) {
                (true, _) => Why::ApiLost,
                (false, true) => Why::CutOff,
                (false, false) => Why::Late,
            };
            return self.let_go(vip, why);
        }
        if let Some(why) = self.cut_off(vip) {
            return self.let_go(vip, why);
        }
        if self.owner(vip).is_some() {
            return self.let_go(vip, Why::Owned);
        }
        match hold.basis {
            Basis::LeftOver => self.consider_left_over(vip, state),
            Basis::Recorded => self.consider_recorded(vip, state),
            Basis::Beside(since) => self.consider_beside(vip, state, since),
            Basis::Provisional => self.consider_provisionally_held(vip, state),
        }
        self.refresh_again(vip);
        self.advance_challenge(vip, state);
        if let Some(hold) = vip.hold {
            let returns = hold.returns_until.is_some_and(|until| !self.due(until));
            let doubtful = matches!(hold.basis, Basis::Provisional | Basis::LeftOver);
            // Another node may have taken what is offered, and neither its announcement nor its record need reach this one.
            let asked = returns || doubtful || hold.handover.is_some_and(|handover| handover.heard.is_none());
            self.asking.set(vip.address, asked);
        }
    }

    /// Its interface is gone or another one, or the link has been down for too long.
    fn cut_off(&mut self, vip: &Vip) -> Option<Why> {
        let index = vip.hold.map(|hold| hold.interface)?;
        match self.link_for(vip).map(|interface| interface.index) {
            Some(now) if now == index => {}
            // An earlier run left it, and it is not known yet whether it is wanted.
            None if vip.demand.is_none() => {}
            // The demand names an interface that this node does not have: the VIP is handed over to a node that has it.
            None if self.node.interfaces.iter().any(|one| one.index == index && one.link.up) => {}
            _ => return Some(Why::LinkDown),
        }
        let since = *self.node.down.get(&index)?;
        self.due(since + self.rules.link_down_delay).then_some(Why::LinkDown)
    }

    /// The version of the session of the other node that the record names, if its renewals are seen here.
    pub(super) fn other_session(&self, vip: &Vip) -> Option<u64> {
        let holder = vip.holder().filter(|h| h.node != self.rules.node && self.sessions.is_followed(&h.node))?;
        self.sessions.get(&holder.node).and_then(|p| number(&p.view.version))
    }

    fn rest_on(&mut self, vip: &mut Vip, basis: Basis) {
        let other = self.other_session(vip);
        if let Some(hold) = &mut vip.hold {
            hold.basis = basis;
            hold.other = other;
        }
        self.asking.provisional.remove(&vip.address);
        if basis == Basis::Provisional {
            self.asking.provisional.insert(vip.address);
            self.asking.refresh = self.step.at.now;
            self.rewatch = true;
        }
    }

    /// Found at start: it is not refreshed before the session was renewed, and the record read.
    fn consider_left_over(&mut self, vip: &mut Vip, state: &RecordState) {
        let now = self.step.at.now;
        match state {
            RecordState::Mine if self.own.is_live() && self.doubt.is_sure() => {
                self.rest_on(vip, Basis::Recorded);
                if let Some(hold) = &mut vip.hold {
                    hold.returns_until = Some(now + self.rules.lease_duration);
                }
                if let Some(end) = self.session_ends() {
                    self.fence(vip, end);
                }
                vip.schedule.restart(now);
            }
            RecordState::Mine => {}
            RecordState::Absent | RecordState::Free { .. } | RecordState::Others { .. } => {
                self.let_go(vip, Why::LeaseLost);
            }
            RecordState::Unknown => {
                if let Some(since) = self.away_since()
                    && self.due(since + AWAY)
                    && self.own.tenure.is_none()
                    && (self.rules.hold_without_api || planted!(HoldsThoughReleased))
                {
                    self.rest_on(vip, Basis::Provisional);
                }
            }
        }
    }

    fn consider_recorded(&mut self, vip: &mut Vip, state: &RecordState) {
        let now = self.step.at.now;
        match state {
            // The record is being read again.
            RecordState::Unknown => {}
            RecordState::Mine => self.consider_handing_over(vip),
            RecordState::Others { .. } => self.record_names_another(vip),
            // Somebody has removed the record: this node goes on, and writes it again.
            RecordState::Free { was_held: false } if self.own.is_live() => {
                self.rest_on(vip, Basis::Beside(now));
                self.consider_beside(vip, state, now);
            }
            RecordState::Absent => self.let_go(vip, Why::NotWanted),
            RecordState::Free { .. } => self.let_go(vip, Why::LeaseLost),
        }
    }

    /// The record is being written: for at most a second.
    fn consider_beside(&mut self, vip: &mut Vip, state: &RecordState, since: crate::time::Time) {
        let handover = vip.hold.and_then(|hold| hold.handover).filter(|_| !planted!(CarriesOnWhenStripped));
        let handover = handover.unwrap_or_default();
        let named = handover.named.is_some();
        match state {
            RecordState::Mine => {
                self.rest_on(vip, Basis::Recorded);
                return;
            }
            RecordState::Others { .. } if planted!(KeepsAfterLostWrite) => return,
            // The successor has written the record again after somebody had removed it.
            RecordState::Others { .. } if named => {
                self.rest_on(vip, Basis::Recorded);
                return self.record_names_another(vip);
            }
            RecordState::Others { .. } => {
                self.report(Report::Outrun { address: vip.address });
                return self.let_go(vip, Why::LeaseLost);
            }
            RecordState::Absent => return self.let_go(vip, Why::NotWanted),
            RecordState::Free { .. } if !self.own.is_live() && !self.own.is_lapsed() => {
                return self.let_go(vip, Why::LeaseLost);
            }
            // Somebody has removed the record just after it named the successor, which carries the VIP and writes the record again.
            RecordState::Free { was_held: false } if handover.heard.is_some() => {
                if self.heard_long_enough(vip) {
                    self.yield_to_heard_successor(vip);
                }
                return;
            }
            RecordState::Free { .. } | RecordState::Unknown => {}
        }
        if self.due(since + BESIDE) {
            if self.is_released() {
                return self.let_go(vip, Why::ApiLost);
            }
            self.rest_on(vip, Basis::Provisional);
            return;
        }
        // A successor that the record has named writes first. If this node won, neither would keep the VIP.
        let first = if named { since + CHALLENGE } else { since };
        let off = vip.hold_off.max(first);
        if vip.flight.is_none()
            && self.due(off)
            && self.is_sound()
            && let Some(record) = self.own_holder()
        {
            self.write_holder(vip, record);
        }
    }

    /// Carried without the API: the record is written as soon as this node may replace it.
    fn consider_provisionally_held(&mut self, vip: &mut Vip, state: &RecordState) {
        match state {
            RecordState::Mine if self.own.is_live() && self.doubt.is_sure() && self.api.away.is_none() => {
                self.rest_on(vip, Basis::Recorded);
                if let Some(end) = self.session_ends() {
                    self.fence(vip, end);
                }
                self.returns(vip);
            }
            RecordState::Others { consents: false, .. } => {
                // A holder that has renewed since is alive.
                let now = self.other_session(vip);
                let Some(hold) = &mut vip.hold else { return };
                if hold.other.is_none() {
                    hold.other = now;
                } else if hold.other != now {
                    self.let_go(vip, Why::LeaseLost);
                }
            }
            RecordState::Free { .. } | RecordState::Others { .. } => {
                let off = vip.hold_off;
                if vip.flight.is_none()
                    && self.is_sound()
                    && self.due(off)
                    && let Some(record) = self.own_holder()
                {
                    self.write_holder(vip, record);
                }
            }
            RecordState::Absent => self.let_go(vip, Why::NotWanted),
            RecordState::Mine | RecordState::Unknown => {}
        }
    }
}
