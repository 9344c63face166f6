//! The VIPs on the interface: put there, put back, announced, let go.

use std::net::IpAddr;
use std::time::Duration;

use super::ensured::Ensured;
use super::following::Following;
use super::segment::Link;
use super::vip::Put;
use super::{Elector, Role};
use crate::action::{Action, Report, Why};
use crate::rules::FENCE_ENDS;
use crate::time::Time;

/// A node whose interface refused all VIPs tries again after this.
const CANNOT_CARRY: Duration = Duration::from_secs(5);

impl Elector {
    /// Has every VIP on the interface until the deadline. When so little is left that there is no lifetime for the VIPs, the
    /// fence in force stays (the datapath would take the addresses off), and the next renewal is sent at once.
    pub(super) fn carry(&mut self, deadline: Time) {
        let now = self.step.at.now;
        let Some(ensured) = Ensured::until(now, deadline) else {
            self.api.next_write = now;
            return;
        };
        self.ensured = ensured;
        self.step.out.extend(self.vips.keys().map(|address| Action::Carry { address: *address, deadline }));
    }

    /// By when the VIPs must be gone, if nothing is renewed: the end of the Lease, or of the short fence.
    pub(super) fn deadline(&self) -> Option<Time> {
        match &self.role {
            Role::Following(_) => None,
            Role::Holding(holding) => Some(holding.sent + self.rules.lease_duration),
            Role::Unleased(unleased) => Some(unleased.deadline),
            Role::Leaving(leaving) => Some(leaving.deadline),
        }
    }

    /// The deadline under which an address may be put back. None while nothing is sure, and none for what an earlier run left
    /// behind: only an own write (or a lapsed holder's refresh) brings that back.
    pub(super) fn deadline_to_restore(&self) -> Option<Time> {
        let left_over = matches!(&self.role, Role::Unleased(u) if u.is_left_over());
        self.deadline().filter(|deadline| self.step.at.now < *deadline && self.doubt.is_sure() && !left_over)
    }

    /// Carries the VIPs no longer, and follows.
    pub(super) fn let_go(&mut self, why: Why) {
        for (address, vip) in &mut self.vips {
            vip.take_off(Put::No);
            self.step.out.push(Action::Drop { address: *address });
        }
        self.doubt.end();
        self.report(Report::LetGo(why));
        self.become_role(Role::Following(Following::default()));
    }

    pub(super) fn advance_announcements(&mut self) {
        let now = self.step.at.now;
        let enough = self.hears_enough();
        let may_announce = match &self.role {
            Role::Following(_) => false,
            Role::Unleased(unleased) => unleased.may_announce(now, self.doubt.late_at),
            // A holder that hears too few others while its renewals are not answered may be cut off: its clients are better served
            // elsewhere.
            Role::Holding(_) => enough,
            // Once the Lease is released, or over, the successor calls.
            Role::Leaving(leaving) => enough && !leaving.released && now < leaving.sent + self.rules.lapses_after(),
        };
        if !may_announce || !self.doubt.is_sure() {
            return;
        }
        let mut wakes = vec![];
        for (address, vip) in self.vips.iter_mut().filter(|(_, vip)| vip.is_put()) {
            if vip.schedule.due(now) {
                self.step.out.push(Action::Announce { address: *address });
            }
            wakes.extend(vip.schedule.next());
        }
        for wake in wakes {
            self.due(wake);
        }
    }

    pub(super) fn advance_link(&mut self) {
        let Link::Down(since) = self.segment.link else { return };
        if !self.is_carrying() || !self.due(since + self.rules.link_down_delay) {
            return;
        }
        let release = matches!(self.role, Role::Holding(_));
        self.let_go(Why::LinkDown);
        if release {
            self.release(None);
        }
    }

    pub(super) fn was_put(&mut self, address: IpAddr) {
        let now = self.step.at.now;
        let carrying = self.is_carrying();
        let Some(vip) = self.vips.get_mut(&address) else { return };
        if !carrying {
            // The VIP was let go while the kernel was working: it is removed again.
            vip.put = Put::No;
            self.act(Action::Drop { address });
        } else if !vip.is_put() {
            vip.put = Put::Yes;
            vip.schedule.restart(now);
        }
    }

    pub(super) fn put_failed(&mut self, address: IpAddr, reason: String) {
        if let Some(vip) = self.vips.get_mut(&address) {
            vip.take_off(Put::Refused);
        }
        self.report(Report::CannotCarry { address, reason });
        if self.vips.values().all(|vip| vip.put == Put::Refused) && self.is_carrying() {
            self.cannot_carry();
        }
    }

    pub(super) fn gone(&mut self, address: IpAddr) {
        let (deadline, now) = (self.deadline_to_restore(), self.step.at.now);
        let Some(vip) = self.vips.get_mut(&address).filter(|vip| vip.is_put()) else {
            return;
        };
        vip.take_off(Put::No);
        if matches!(self.role, Role::Holding(_)) && deadline.is_some_and(|deadline| now + FENCE_ENDS >= deadline) {
            // Nobody has removed it: the kernel was first to see that the Lease was not renewed.
            self.ran_out();
            return;
        }
        if !vip.was_removed(now) {
            // Another program removes the VIP whenever it sees it: the next refresh puts the VIP back.
            self.report(Report::RemovedAgain { address });
            return;
        }
        if let Some(deadline) = deadline
            && self.segment.link.is_up()
            && Ensured::until(now, deadline).is_some()
        {
            self.act(Action::Carry { address, deadline });
            self.report(Report::Restored { address });
        }
    }

    pub(super) fn link_changed(&mut self, up: bool) {
        let now = self.step.at.now;
        if up {
            self.segment.link = Link::Up;
            self.segment.witness.forget(now);
            for vip in self.vips.values_mut().filter(|vip| vip.is_put()) {
                vip.schedule.restart(now);
            }
            if let Some(deadline) = self.deadline_to_restore() {
                self.carry(deadline);
            }
        } else {
            self.segment.link.went_down(now);
        }
    }

    /// None of the VIPs could be put on the interface: another node may be able to.
    pub(super) fn cannot_carry(&mut self) {
        let release = matches!(self.role, Role::Holding(_));
        self.let_go(Why::CannotCarry);
        self.candidacy.hold_off = self.step.at.now + CANNOT_CARRY;
        self.candidacy.refused_until = self.candidacy.hold_off;
        if release {
            self.release(None);
        }
    }
}
