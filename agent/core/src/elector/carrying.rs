//! The VIPs on the interface: put there, put back, announced, let go.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Duration;

use super::ensured::Ensured;
use super::following::Following;
use super::segment::Link;
use super::vip::Put;
use super::{Elector, Role, Vip};
use crate::action::{Action, Report, Why};
use crate::planted::planted;
use crate::rules::{FENCE_ENDS, REFRESH_AGAIN};
use crate::time::Time;

/// A node whose interface refused all VIPs tries again after this.
pub(super) const CANNOT_CARRY: Duration = Duration::from_secs(5);

impl Elector {
    /// Has every VIP on the interface until the deadline, except those that are held back. When so little is left that there is no lifetime for the VIPs, the
    /// fence in force stays (the datapath would take the addresses off), and the next renewal is sent at once.
    pub(super) fn carry(&mut self, deadline: Time) {
        let now = self.step.at.now;
        let Some(ensured) = Ensured::until(now, deadline) else {
            self.api.next_write = now;
            return;
        };
        self.ensured = ensured;
        let these = self.may_be_carried();
        self.step.out.extend(these.into_iter().map(|address| Action::Carry { address, deadline }));
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
        self.note_let_go();
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
        self.let_go_and_release(Why::LinkDown);
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
            if std::mem::take(&mut vip.restoring) {
                self.report(Report::Restored { address });
            }
        }
    }

    /// The VIP is still on the interface, under an earlier fence. This is no reason to let the VIP go: the refresh is tried again,
    /// and if it fails again and again, the kernel ends the VIP in time.
    pub(super) fn not_refreshed(&mut self, address: IpAddr) {
        let again = self.step.at.now + REFRESH_AGAIN;
        if planted!(LetsGoOnFailedRefresh) {
            self.put_failed(address, "it was not refreshed".into());
        } else if self.is_carrying() && self.vips.contains_key(&address) {
            self.ensured.again.get_or_insert(again);
        }
    }

    /// Asks once more for the fence that the kernel has not given all VIPs.
    pub(super) fn advance_refresh(&mut self) {
        let Some(again) = self.ensured.again.filter(|_| self.is_carrying() && !self.process.has_left()) else { return };
        if self.due(again) {
            self.ensured.again = None;
            if let Some(deadline) = self.deadline_to_restore() {
                self.carry(deadline);
            }
        }
    }

    pub(super) fn put_failed(&mut self, address: IpAddr, reason: String) {
        if let Some(vip) = self.vips.get_mut(&address) {
            vip.take_off(Put::Refused);
        }
        self.report(Report::CannotCarry { address, reason });
        let now = self.step.at.now;
        let is_out = |vip: &Vip| vip.put == Put::Refused || vip.is_kept_elsewhere(now);
        if self.vips.values().all(is_out) && self.is_carrying() {
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
            vip.restoring = true;
            self.act(Action::Carry { address, deadline });
        }
    }

    pub(super) fn link_changed(&mut self, up: bool) {
        let now = self.step.at.now;
        if up {
            let was_down = matches!(self.segment.link, Link::Down(_));
            self.segment.link = Link::Up;
            self.segment.witness.forget(now);
            for vip in self.vips.values_mut().filter(|vip| vip.is_put()) {
                vip.schedule.restart(now);
            }
            if let Some(deadline) = self.deadline_to_restore() {
                self.carry(deadline);
            }
            // While the link was down, another node may have taken the Lease: nothing is announced before that is known.
            if was_down && self.is_carrying() {
                self.doubt.begin(now);
                self.api.next_write = now;
            }
        } else {
            self.segment.link.went_down(now);
        }
    }

    /// Frames pass on the interfaces of some VIPs, and on those of others they do not. VIPs whose link has come up are announced anew.
    pub(super) fn unheard_changed(&mut self, unheard: BTreeSet<IpAddr>) {
        let now = self.step.at.now;
        let before = std::mem::replace(&mut self.segment.unheard, unheard);
        let (unheard, witness) = (&self.segment.unheard, &mut self.segment.witness);
        if witness.addresses().iter().any(|address| unheard.contains(address) && !before.contains(address)) {
            witness.must_answer_anew();
        }
        for address in before.difference(&self.segment.unheard) {
            if let Some(vip) = self.vips.get_mut(address).filter(|vip| vip.is_put()) {
                vip.schedule.restart(now);
            }
        }
    }

    /// None of the VIPs could be put on the interface: another node may be able to.
    pub(super) fn cannot_carry(&mut self) {
        self.let_go_and_release(Why::CannotCarry);
        self.candidacy.hold_off = self.step.at.now + CANNOT_CARRY;
        self.candidacy.refused_until = self.candidacy.hold_off;
    }
}
