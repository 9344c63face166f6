//! Which VIPs a step looks at, and what it asks about each.

use super::SessionVips;
use super::record_state::RecordState;
use super::vip::Vip;

impl SessionVips {
    /// Considers every VIP that an event concerned, and every VIP that is due.
    pub(super) fn advance_vips(&mut self) {
        while let Some((when, address)) = self.index.timers.first().copied() {
            if when > self.step.at.now {
                self.due(when);
                break;
            }
            self.index.timers.remove(&(when, address));
            if let Some(vip) = self.vips.get_mut(&address) {
                vip.wake = None;
            }
            self.index.dirty.insert(address);
        }
        for address in std::mem::take(&mut self.index.dirty) {
            let Some(mut vip) = self.vips.remove(&address) else { continue };
            if let Some(wake) = vip.wake.take() {
                self.index.timers.remove(&(wake, address));
            }
            let outer = self.step.wake.take();
            self.consider(&mut vip);
            vip.wake = self.step.wake.take();
            if let Some(wake) = vip.wake {
                self.index.timers.insert((wake, address));
            }
            self.step.wake = outer;
            if let Some(wake) = vip.wake {
                self.due(wake);
            }
            if vip.is_needed() {
                self.vips.insert(address, vip);
            } else {
                if let Some(wake) = vip.wake {
                    self.index.timers.remove(&(wake, address));
                }
                self.index.open.remove(&address);
            }
            if cfg!(debug_assertions) {
                self.check_vip(address);
            }
        }
    }

    fn consider(&mut self, vip: &mut Vip) {
        let state = self.record_state(vip);
        self.ask_about_holder(vip);
        self.index.stranded.remove(&vip.address);
        if state.is_open() {
            // Since the API is back it may wait for a list of sessions.
            self.step.again |= self.index.open.insert(vip.address) && self.api.back.is_some();
        } else {
            self.index.open.remove(&vip.address);
            // If the VIP is open again later, all turns begin anew.
            vip.taking.open_since = None;
        }
        vip.ended_unwanted |= vip.demand.is_none() && state == RecordState::Free { was_held: true };
        if vip.hold.is_some() {
            self.consider_carried(vip, &state);
        } else {
            self.consider_free(vip, &state);
        }
        self.announce_due(vip);
    }
}
