//! A VIP that is carried here: by what, and whether it stays.

use std::time::Duration;

use super::claim::Claim;
use super::vip::{Basis, Vip};
use super::{Fleet, Report};
use crate::action::Why;
use crate::planted::planted;
use crate::rules::{AWAY, MARGIN};
use crate::session::number;

/// How long a VIP may be announced before its record is written.
pub(super) const BESIDE: Duration = Duration::from_secs(1);

impl Fleet {
    pub(super) fn consider_carried(&mut self, vip: &mut Vip, claim: &Claim) {
        self.give_up_write(vip);
        let Some(hold) = vip.hold else { return };
        let found = matches!(hold.basis, Basis::LeftOver | Basis::Provisional);
        if vip.demand.is_none() && (self.synced || !found) {
            return self.let_go(vip, Why::NotWanted);
        }
        if self.due(hold.until - MARGIN) {
            return self.let_go(vip, Why::Late);
        }
        if let Some(why) = self.cut_off(vip) {
            return self.let_go(vip, why);
        }
        match hold.basis {
            Basis::LeftOver => self.consider_left_over(vip, claim),
            Basis::Recorded => self.consider_recorded(vip, claim),
            Basis::Beside(since) => self.consider_beside(vip, claim, since),
            Basis::Provisional => self.consider_provisionally_held(vip, claim),
        }
        self.advance_challenge(vip, claim);
        if let Some(hold) = vip.hold {
            let returns = hold.returns_until.is_some_and(|until| !self.due(until));
            let doubtful = matches!(hold.basis, Basis::Provisional | Basis::LeftOver);
            let asked = returns || doubtful || hold.named.is_some() && hold.heard.is_none();
            self.asking.set(vip.address, asked);
        }
    }

    /// Its interface is gone, is another by now, or its link has been down for so long.
    fn cut_off(&mut self, vip: &Vip) -> Option<Why> {
        let index = vip.hold.map(|hold| hold.index)?;
        match self.link_for(vip).map(|interface| interface.index) {
            Some(now) if now == index => {}
            // What an earlier run left, and nobody has told yet.
            None if vip.demand.is_none() => {}
            // It is asked for where nothing is here: it is handed over, if anybody has that.
            None if self.interfaces.iter().any(|one| one.index == index && one.link.up) => {}
            _ => return Some(Why::LinkDown),
        }
        let since = *self.down.get(&index)?;
        self.due(since + self.rules.link_down_delay).then_some(Why::LinkDown)
    }

    /// The version of the session by which the record says that another holds it.
    pub(super) fn other_session(&self, vip: &Vip) -> Option<u64> {
        let holder = vip.holder().filter(|h| h.node != self.rules.node)?;
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
            self.asking.refresh = self.at.now;
        }
    }

    /// Found at start: nothing of it is refreshed before the session was, and the record read.
    fn consider_left_over(&mut self, vip: &mut Vip, claim: &Claim) {
        let now = self.at.now;
        match claim {
            Claim::Mine if self.own.is_live() && self.unsure.is_none() => {
                self.rest_on(vip, Basis::Recorded);
                if let Some(hold) = &mut vip.hold {
                    hold.returns_until = Some(now + self.rules.lease_duration);
                }
                if let Some(end) = self.session_ends() {
                    self.fence(vip, end);
                }
                vip.schedule.restart(now);
            }
            Claim::Mine => {}
            Claim::Absent | Claim::Free { .. } | Claim::Others { .. } => self.let_go(vip, Why::LeaseLost),
            Claim::Unknown => {
                if let Some(since) = self.away_since()
                    && self.due(since + AWAY)
                    && self.own.tenure.is_none()
                    && self.rules.hold_without_api
                {
                    self.rest_on(vip, Basis::Provisional);
                }
            }
        }
    }

    fn consider_recorded(&mut self, vip: &mut Vip, claim: &Claim) {
        let now = self.at.now;
        match claim {
            // What was known of it is being read again.
            Claim::Unknown => {}
            Claim::Mine => self.consider_handing_over(vip),
            Claim::Others { .. } => self.record_names_another(vip),
            // Somebody has stripped it: this node holds it as long as nobody else is in it.
            Claim::Free { was_held: false } if self.own.is_live() => {
                self.rest_on(vip, Basis::Beside(now));
                self.consider_beside(vip, claim, now);
            }
            Claim::Absent => self.let_go(vip, Why::NotWanted),
            Claim::Free { .. } => self.let_go(vip, Why::LeaseLost),
        }
    }

    /// The record is on its way: at most for a second.
    fn consider_beside(&mut self, vip: &mut Vip, claim: &Claim, since: crate::time::Time) {
        match claim {
            Claim::Mine => {
                self.rest_on(vip, Basis::Recorded);
                return;
            }
            Claim::Others { .. } if planted!(KeepsAfterLostWrite) => return,
            Claim::Others { .. } => {
                self.report(Report::Outrun { address: vip.address });
                return self.let_go(vip, Why::LeaseLost);
            }
            Claim::Absent => return self.let_go(vip, Why::NotWanted),
            Claim::Free { .. } if !self.own.is_live() && !self.own.is_lapsed() => {
                return self.let_go(vip, Why::LeaseLost);
            }
            Claim::Free { .. } | Claim::Unknown => {}
        }
        if self.due(since + BESIDE) {
            self.rest_on(vip, Basis::Provisional);
            return;
        }
        let off = vip.hold_off;
        if vip.flight.is_none()
            && self.due(off)
            && self.is_sound()
            && let Some(record) = self.own_holder()
        {
            self.write_holder(vip, record);
        }
    }

    /// Carried without the API: the record is written as soon as it may be replaced.
    fn consider_provisionally_held(&mut self, vip: &mut Vip, claim: &Claim) {
        match claim {
            Claim::Mine if self.own.is_live() && self.unsure.is_none() && self.away.is_none() => {
                self.rest_on(vip, Basis::Recorded);
                if let Some(end) = self.session_ends() {
                    self.fence(vip, end);
                }
                self.returns(vip);
            }
            Claim::Others { consents: false, .. } => {
                // Whoever has renewed since is alive.
                let now = self.other_session(vip);
                let Some(hold) = &mut vip.hold else { return };
                if hold.other.is_none() {
                    hold.other = now;
                } else if hold.other != now {
                    self.let_go(vip, Why::LeaseLost);
                }
            }
            Claim::Free { .. } | Claim::Others { .. } => {
                let off = vip.hold_off;
                if vip.flight.is_none()
                    && self.is_sound()
                    && self.due(off)
                    && let Some(record) = self.own_holder()
                {
                    self.write_holder(vip, record);
                }
            }
            Claim::Absent => self.let_go(vip, Why::NotWanted),
            Claim::Mine | Claim::Unknown => {}
        }
    }
}
