//! The VIPs on the interface: put there, put back, announced, let go.

use std::net::IpAddr;
use std::time::Duration;

use super::{Keeper, Role};
use crate::action::{Action, Report, Why};
use crate::fence;
use crate::rules::FENCE_ENDS;
use crate::time::Time;

/// A VIP that was removed this often within [`REMOVED_WITHIN`] is no longer put back at once.
const REMOVED_OFTEN: usize = 5;
/// See [`REMOVED_OFTEN`].
const REMOVED_WITHIN: Duration = Duration::from_secs(10);
/// A node that could put none of the VIPs on its interface tries again after this.
const CANNOT_CARRY: Duration = Duration::from_secs(5);
/// What the way to the kernel may take.
const ON_THE_WAY: Duration = Duration::from_millis(50);

impl Keeper {
    /// Has every VIP on the interface until then. When so little is left that there is no lifetime for it, the fence in force
    /// stays (the datapath would take the address off), and the next renewal is sent at once.
    pub(super) fn carry(&mut self, until: Time) {
        let Some(lifetime) = fence::lifetime(self.at.now + ON_THE_WAY, until) else {
            self.next_write = self.at.now;
            return;
        };
        self.dropped_at = self.at.now + Duration::from_secs(u64::from(lifetime));
        self.carried = (self.at.now, until);
        let addresses: Vec<IpAddr> = self.vips.keys().copied().collect();
        self.out.extend(addresses.into_iter().map(|address| Action::Carry { address, until }));
    }

    /// The end of the fence in force.
    pub(super) fn fence(&self) -> Option<Time> {
        match &self.role {
            Role::Following => None,
            Role::Holding(holding) => Some(holding.sent + self.rules.lease_duration),
            Role::Unleased(unleased) => Some(unleased.until),
            Role::Leaving(leaving) => Some(leaving.until),
        }
    }

    /// The end of the fence that an address may be put back under: none while nothing is sure, nor for what an earlier run
    /// left behind, which only an own write (or a lapsed holder's refresh) brings back.
    pub(super) fn fence_to_restore(&self) -> Option<Time> {
        let left_over = matches!(&self.role, Role::Unleased(u) if u.is_left_over());
        self.fence().filter(|until| self.at.now < *until && self.unsure.is_none() && !left_over)
    }

    /// Carries the VIPs no longer, and follows.
    pub(super) fn let_go(&mut self, why: Why) {
        for (address, vip) in &mut self.vips {
            vip.put = false;
            vip.refused = false;
            vip.schedule.stop();
            self.out.push(Action::Drop { address: *address });
        }
        self.unsure = None;
        self.report(Report::LetGo(why));
        self.become_role(Role::Following);
    }

    pub(super) fn advance_announcements(&mut self) {
        if matches!(self.role, Role::Following) || self.unsure.is_some() {
            return;
        }
        let now = self.at.now;
        let mut wakes = vec![];
        for (address, vip) in self.vips.iter_mut().filter(|(_, vip)| vip.put) {
            if vip.schedule.due(now) {
                self.out.push(Action::Announce { address: *address });
            }
            wakes.extend(vip.schedule.next());
        }
        for wake in wakes {
            self.due(wake);
        }
    }

    pub(super) fn advance_link(&mut self) {
        if self.link == Some(true) {
            return;
        }
        let Some(since) = self.link_down_since else { return };
        if matches!(self.role, Role::Following) || !self.due(since + self.rules.link_down_delay) {
            return;
        }
        let release = matches!(self.role, Role::Holding(_));
        self.let_go(Why::LinkDown);
        if release {
            self.release(None);
        }
    }

    pub(super) fn was_put(&mut self, address: IpAddr) {
        let now = self.at.now;
        let carrying = !matches!(self.role, Role::Following);
        let Some(vip) = self.vips.get_mut(&address) else { return };
        vip.refused = false;
        if !carrying {
            // The put and the end of the hold have crossed.
            self.act(Action::Drop { address });
        } else if !vip.put {
            vip.put = true;
            vip.schedule.restart(now);
        }
    }

    pub(super) fn put_failed(&mut self, address: IpAddr, reason: String) {
        if let Some(vip) = self.vips.get_mut(&address) {
            vip.put = false;
            vip.refused = true;
            vip.schedule.stop();
        }
        self.report(Report::CannotCarry { address, reason });
        if self.vips.values().all(|vip| vip.refused) && !matches!(self.role, Role::Following) {
            self.cannot_carry();
        }
    }

    pub(super) fn gone(&mut self, address: IpAddr) {
        let (until, now) = (self.fence_to_restore(), self.at.now);
        let Some(vip) = self.vips.get_mut(&address).filter(|vip| vip.put) else {
            return;
        };
        vip.put = false;
        vip.schedule.stop();
        if matches!(self.role, Role::Holding(_)) && until.is_some_and(|until| now + FENCE_ENDS >= until) {
            // Nobody has removed it: the kernel was first to see that the Lease was not renewed.
            self.ran_out();
            return;
        }
        let Some(vip) = self.vips.get_mut(&address) else { return };
        vip.removed.retain(|at| now.since(*at) < REMOVED_WITHIN);
        if vip.removed.len() >= REMOVED_OFTEN {
            // Another program that removes it each time it sees it: the next refresh puts it back.
            self.report(Report::RemovedAgain { address });
            return;
        }
        vip.removed.push_back(now);
        if let Some(until) = until
            && self.link == Some(true)
            && fence::lifetime(now + ON_THE_WAY, until).is_some()
        {
            self.act(Action::Carry { address, until });
            self.report(Report::Restored { address });
        }
    }

    pub(super) fn link_changed(&mut self, up: bool) {
        let now = self.at.now;
        self.link = Some(up);
        if up {
            self.link_down_since = None;
            self.witness.forget(now);
            for vip in self.vips.values_mut().filter(|vip| vip.put) {
                vip.schedule.restart(now);
            }
            if let Some(until) = self.fence_to_restore() {
                self.carry(until);
            }
        } else {
            self.link_down_since.get_or_insert(now);
        }
    }

    /// None of the VIPs could be put on the interface: somebody else may have more luck.
    pub(super) fn cannot_carry(&mut self) {
        let release = matches!(self.role, Role::Holding(_));
        self.let_go(Why::CannotCarry);
        self.hold_off = self.at.now + CANNOT_CARRY;
        self.refused_until = self.hold_off;
        if release {
            self.release(None);
        }
    }
}
