//! The kernel has not given VIPs their new lifetimes. They are still on their interfaces, under an earlier fence: this is no reason to
//! let them go. The refresh is tried again, and if it fails again and again, the kernel ends them in time.

use std::net::IpAddr;

use super::SessionVips;
use super::hold::Basis;
use super::vip::Vip;
use crate::planted::planted;
use crate::rules::REFRESH_AGAIN;

impl SessionVips {
    /// VIPs got no new lifetime.
    pub(super) fn not_refreshed(&mut self, addresses: &[IpAddr]) {
        let again = self.step.at.now + REFRESH_AGAIN;
        for address in addresses {
            if planted!(LetsGoOnFailedRefresh) {
                self.put_failed(*address, "it was not refreshed".into());
            } else if let Some(hold) = self.vips.get_mut(address).and_then(|vip| vip.hold.as_mut()) {
                hold.refresh_again.get_or_insert(again);
                self.index.dirty.insert(*address);
            }
        }
    }

    /// Asks once more for the fence that the kernel has not given the VIP.
    pub(super) fn refresh_again(&mut self, vip: &mut Vip) {
        let Some((hold, again)) = vip.hold.and_then(|hold| Some((hold, hold.refresh_again?))) else { return };
        if !self.due(again) {
            return;
        }
        // What an earlier run left is not refreshed, and nothing is while this node is not sure of what it knows.
        let may = hold.basis != Basis::LeftOver && self.doubt.is_sure() && !self.own.has_left();
        let asked = may && self.fence(vip, hold.deadline);
        if let Some(hold) = vip.hold.as_mut().filter(|_| !asked) {
            hold.refresh_again = None;
        }
    }
}
