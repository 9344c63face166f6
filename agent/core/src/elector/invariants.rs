//! Which combinations of the elector's state are legal between two steps.
//!
//! The types rule out what they can: a search and a turn belong to the role that follows, a link that is down has a moment
//! since when, a VIP is not put and refused at once. The rest is checked here after each step of a debug build, so that
//! every simulated run and every fuzzed trace checks it.

use super::{Elector, Role};
use crate::planted::planted;

impl Elector {
    /// Panics if the state is one that no step may leave behind.
    pub(super) fn check_invariants(&self) {
        match &self.role {
            Role::Following(_) => {
                assert!(!self.vips.values().any(super::Vip::is_put), "who follows has no VIP on its interface");
                assert!(self.doubt.is_sure(), "who carries nothing has nothing to doubt");
            }
            Role::Holding(_) | Role::Unleased(_) | Role::Leaving(_) => self.check_carrying(),
        }
    }

    fn check_carrying(&self) {
        if self.process.has_left() {
            // Nothing is renewed any more: the fence that was left behind ends the addresses.
            return;
        }
        assert!(self.step.wake.is_some(), "whoever carries a VIP has a moment to let it go");
        // Rules out of a trace may say anything.
        let sensible = self.rules.renew_deadline < self.rules.lease_duration;
        let fenced = self.ensured.dropped_at <= self.ensured.deadline || planted!(NoFence);
        assert!(fenced, "the kernel keeps a VIP past the deadline that was asked for");
        let before = self.deadline().is_none_or(|deadline| self.step.at.now < deadline);
        assert!(before || !sensible, "a VIP is carried past its deadline");
    }
}
