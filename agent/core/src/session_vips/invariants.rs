//! Which combinations of the state are legal between two steps.
//!
//! The types rule out what they can: what is known of a hold (its challenge, its hand-over, whether it is put) is gone with
//! the hold, and the process has not left unless it was asked to end. The rest is checked here, in debug builds: for each
//! VIP after it was considered, and for the calls after each step. Every simulated run checks it.

use std::net::IpAddr;

use super::SessionVips;
use super::calls::{READS, WRITES};
use super::hold::Basis;
use super::vip::Vip;
use crate::planted::planted;

impl SessionVips {
    /// Panics if the state is one that no step may leave behind.
    pub(super) fn check_invariants(&self) {
        assert!(self.calls.writes.len() <= WRITES && self.calls.reads.len() <= READS, "too many calls");
        if !self.index.carried.is_empty() && !self.own.has_left() {
            assert!(self.step.wake.is_some(), "whoever carries a VIP has a moment to let it go");
        }
        let down = self.node.interfaces.iter().filter(|i| !i.link.up).map(|i| i.index);
        let since = self.node.interfaces.iter().map(|i| i.index).filter(|i| self.node.down.contains_key(i));
        assert!(down.eq(since), "each link that is down has a moment since when, and no other has");
    }

    /// Panics if a VIP that was just considered is in a state that it may not be in.
    pub(super) fn check_vip(&self, address: IpAddr) {
        let index = &self.index;
        let Some(vip) = self.vips.get(&address) else {
            assert!(!index.carried.contains(&address) && !index.open.contains(&address), "{address} is not known");
            assert!(!index.stranded.contains(&address), "{address} is not known");
            return;
        };
        assert_eq!(index.carried.contains(&address), vip.hold.is_some(), "{address}: carried");
        let held = vip.holder().and_then(|holder| index.held.get(&holder.node));
        assert!(vip.holder().is_none() || held.is_some_and(|held| held.contains(&address)), "{address}: held");
        assert!(vip.wake.is_none_or(|wake| index.timers.contains(&(wake, address))), "{address}: its timer");
        let writes = vip.flight.as_ref().is_none_or(|flight| self.calls.writes.get(&flight.id) == Some(&address));
        assert!(writes, "{address}: its write");
        self.check_hold(vip);
    }

    fn check_hold(&self, vip: &Vip) {
        let address = vip.address;
        let provisional = vip.hold.is_some_and(|hold| hold.basis == Basis::Provisional);
        assert_eq!(self.asking.provisional.contains(&address), provisional, "{address}: provisional");
        let Some(hold) = vip.hold else { return };
        assert!(self.own.tenure.is_some() || !hold.basis.is_by_session(), "{address} rests on a session that is over");
        assert!(vip.taking.look.is_none(), "{address} is carried, and still looked for");
        let timed = vip.wake.is_some() || self.index.dirty.contains(&address);
        assert!(timed, "{address} is carried without a moment to let it go");
        let fenced = hold.dropped_at <= hold.deadline || planted!(NoFence);
        assert!(fenced, "the kernel keeps {address} past the deadline that was asked for");
        assert!(self.step.at.now < hold.deadline, "{address} is carried past its deadline");
    }
}
