//! The VIPs on the interfaces: put there, put back, fenced, announced, let go. What a step wants is gathered, and told as
//! lists at the end of the step.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

use super::hold::{Basis, Hold};
use super::vip::{Removing, Vip};
use super::{Output, Report, SessionVips};
use crate::action::{Cause, Why};
use crate::core::{Probe, Vip as OnInterface};
use crate::fence;
use crate::rules::{SHORT_FENCE, SHORT_REFRESH};
use crate::time::Time;

/// A VIP that others removed this often within [`REMOVED_WITHIN`] is no longer put back at once.
const REMOVED_OFTEN: usize = 5;
/// Removals count for so long.
const REMOVED_WITHIN: Duration = Duration::from_secs(10);
/// The longest that a request takes to reach the kernel.
const ON_THE_WAY: Duration = Duration::from_millis(50);

/// What a step wants done on the interfaces and segments.
#[derive(Debug, Default)]
pub(super) struct Batch {
    drops: BTreeSet<IpAddr>,
    carries: BTreeMap<Time, BTreeMap<IpAddr, u32>>,
    announces: BTreeMap<IpAddr, u32>,
    pub(super) probes: Vec<Probe>,
}

impl Batch {
    fn carry(&mut self, address: IpAddr, interface: u32, deadline: Time) {
        self.drops.remove(&address);
        for others in self.carries.values_mut() {
            others.remove(&address);
        }
        self.carries.entry(deadline).or_default().insert(address, interface);
    }

    fn drop(&mut self, address: IpAddr) {
        self.announces.remove(&address);
        for others in self.carries.values_mut() {
            others.remove(&address);
        }
        self.drops.insert(address);
    }
}

fn on_interfaces(vips: BTreeMap<IpAddr, u32>) -> Vec<OnInterface> {
    vips.into_iter().map(|(address, interface)| OnInterface { address, interface }).collect()
}

impl SessionVips {
    /// Tells the lists of this step. VIPs to remove come first.
    pub(super) fn flush(&mut self) {
        let batch = std::mem::take(&mut self.batch);
        if !batch.drops.is_empty() {
            self.step.out.push(Output::Remove(batch.drops.into_iter().collect()));
        }
        for (deadline, vips) in batch.carries.into_iter().filter(|(_, all)| !all.is_empty()) {
            self.step.out.push(Output::Ensure { vips: on_interfaces(vips), deadline });
        }
        if !batch.announces.is_empty() {
            self.step.out.push(Output::Announce(on_interfaces(batch.announces)));
        }
        let now = self.step.at.now;
        for interface in self.segment.broadcasts.late(now) {
            self.frames.leaves_late(now, interface, &self.rules);
        }
        let probes = self.segment.broadcasts.leave(now, batch.probes);
        if !probes.is_empty() {
            // Nothing else is wanted most of the time, and actions are large.
            self.step.out.reserve_exact(1);
            self.step.out.push(Output::Probe(probes));
        }
        if let Some(next) = self.segment.broadcasts.next() {
            self.due(next);
        }
    }

    /// Gives a carried VIP a fence that ends before the deadline. False if so little is left that there is no lifetime for the
    /// VIP: then the fence in force stays, and the session is renewed at once.
    pub(super) fn fence(&mut self, vip: &mut Vip, deadline: Time) -> bool {
        let now = self.step.at.now;
        let Some(hold) = &mut vip.hold else { return false };
        let Some(lifetime) = fence::lifetime(now + ON_THE_WAY, deadline) else {
            self.own.calls.next_write = now;
            return false;
        };
        hold.deadline = deadline;
        hold.refresh_again = None;
        hold.dropped_at = now + Duration::from_secs(u64::from(lifetime));
        self.own.fences.first_dropped = self.own.fences.first_dropped.min(hold.dropped_at);
        self.batch.carry(vip.address, hold.interface, deadline);
        true
    }

    /// Like [`SessionVips::fence`], for a VIP that is not under consideration now.
    pub(super) fn fence_to(&mut self, address: IpAddr, deadline: Time) -> bool {
        let Some(mut vip) = self.vips.remove(&address) else { return false };
        let done = self.fence(&mut vip, deadline);
        self.vips.insert(address, vip);
        self.index.dirty.insert(address);
        done
    }

    /// Carries a VIP from now on.
    pub(super) fn take_up(&mut self, vip: &mut Vip, basis: Basis, cause: Cause) {
        let now = self.step.at.now;
        let Some(interface) = self.link_for(vip).map(|interface| interface.index) else { return };
        let short = now + SHORT_FENCE;
        let by_session = basis.is_by_session() && self.own.is_live();
        let deadline = if by_session { self.common_fence().unwrap_or(short) } else { short };
        let (other, untold) = (self.other_session(vip), vip.refusal.later(now, cause));
        let given = vip.taking.giver.take().map(|giver| (giver, now + self.rules.handover_grace));
        vip.hold = Some(Hold { other, since: now, untold, given, ..Hold::new(basis, interface, deadline) });
        let whole = self.session_ends().filter(|_| by_session);
        if !self.fence(vip, deadline) && !whole.is_some_and(|end| self.fence(vip, end)) {
            // Too little is left of the session: the VIP is taken up after the next renewal.
            vip.hold = None;
            self.own.awaiting.insert(vip.address);
            return;
        }
        vip.removing = None;
        vip.taking.look = None;
        vip.taking.free_since = None;
        self.index.carried.insert(vip.address);
        // The datapath may never answer: the VIP is considered at once, and then has a moment at which it is let go.
        self.index.dirty.insert(vip.address);
        if untold.is_none() {
            self.report(Report::Took { address: vip.address, cause });
        }
        if basis == Basis::Provisional {
            self.asking.provisional.insert(vip.address);
            self.rewatch = true;
        }
        self.step.again = true;
    }

    /// Carries it no longer.
    pub(super) fn let_go(&mut self, vip: &mut Vip, why: Why) {
        let Some(hold) = vip.hold.take() else { return };
        self.note_let_go(vip.address, &hold);
        vip.removing = Some(Removing { ends: hold.deadline, refused: why == Why::CannotCarry });
        vip.schedule.stop();
        vip.taking.look = None;
        vip.taking.open_since = None;
        let address = vip.address;
        self.index.carried.remove(&address);
        self.asking.forget(address);
        self.batch.drop(address);
        if hold.untold.is_none() {
            self.report(Report::LetGo { address, why });
        }
        self.index.dirty.insert(address);
        self.step.again = true;
    }

    /// Lets go of all VIPs with a basis that `which` selects.
    pub(super) fn let_all_go(&mut self, why: Why, which: impl Fn(Basis) -> bool) {
        for address in self.index.carried.clone() {
            let Some(mut vip) = self.vips.remove(&address) else { continue };
            if vip.hold.is_some_and(|hold| which(hold.basis)) {
                self.let_go(&mut vip, why);
            }
            self.vips.insert(address, vip);
        }
        self.all_dirty();
    }

    pub(super) fn announce_due(&mut self, vip: &mut Vip) {
        let Some(hold) = vip.hold else { return };
        if !hold.put || !self.doubt.is_sure() || !self.may_announce(&hold) || !self.may_call(vip, &hold) {
            return;
        }
        if vip.schedule.due(self.step.at.now) {
            self.batch.announces.insert(vip.address, hold.interface);
        }
        if let Some(next) = vip.schedule.next() {
            self.due(next);
        }
    }

    /// VIPs are on their interface.
    pub(super) fn were_put(&mut self, addresses: &[IpAddr]) {
        for address in addresses {
            let now = self.step.at.now;
            let Some((hold, schedule, refusal)) = self
                .vips
                .get_mut(address)
                .and_then(|vip| Some((vip.hold.as_mut()?, &mut vip.schedule, &mut vip.refusal)))
            else {
                // The VIP was let go while the kernel was working: it is removed again.
                self.batch.drop(*address);
                continue;
            };
            if !std::mem::replace(&mut hold.put, true) {
                schedule.restart(now);
                refusal.over();
                let (untold, restored) = (hold.untold.take(), std::mem::take(&mut hold.restoring));
                self.index.dirty.insert(*address);
                if let Some(cause) = untold {
                    self.report(Report::Took { address: *address, cause });
                }
                if restored {
                    self.report(Report::Restored { address: *address });
                }
            }
        }
    }

    /// VIPs that were to be removed are on no interface.
    pub(super) fn were_removed(&mut self, addresses: &[IpAddr]) {
        for address in addresses {
            if let Some(vip) = self.vips.get_mut(address)
                && vip.removing.take().is_some()
            {
                self.index.dirty.insert(*address);
            }
        }
    }

    /// Whether the VIP is gone from the interface here, after it was let go: confirmed by the kernel, or by its fence.
    pub(super) fn is_removed(&mut self, vip: &Vip) -> bool {
        vip.removing.is_none_or(|removing| self.due(removing.ends))
    }

    pub(super) fn put_failed(&mut self, address: IpAddr, reason: String) {
        let now = self.step.at.now;
        let Some(mut vip) = self.vips.remove(&address) else { return };
        vip.refusal.refused(now);
        self.let_go(&mut vip, Why::CannotCarry);
        if vip.refusal.tells(now, &reason) {
            self.report(Report::CannotCarry { address, reason });
        }
        self.vips.insert(address, vip);
        self.index.dirty.insert(address);
    }

    /// A VIP left its interface: somebody removed it, or its fence is over. Or it is not carried here, and another program's address
    /// is gone that was in its way.
    pub(super) fn gone(&mut self, address: IpAddr) {
        let now = self.step.at.now;
        let Some(mut vip) = self.vips.remove(&address) else { return };
        if let Some(hold) = &mut vip.hold
            && std::mem::take(&mut hold.put)
        {
            hold.restoring = false;
            let hold = *hold;
            vip.schedule.stop();
            vip.removed.retain(|at| now.since(*at) < REMOVED_WITHIN);
            let often = vip.removed.len() >= REMOVED_OFTEN;
            if !often {
                vip.removed.push_back(now);
            }
            let covered = fence::lifetime(now + ON_THE_WAY, hold.deadline).is_some();
            if hold.basis == Basis::LeftOver {
                self.let_go(&mut vip, Why::Late);
            } else if covered && !often && self.doubt.is_sure() {
                self.fence(&mut vip, hold.deadline);
                if let Some(hold) = &mut vip.hold {
                    hold.restoring = true;
                }
            }
        }
        if vip.hold.is_none() {
            vip.refusal.lift(now);
        }
        self.vips.insert(address, vip);
        self.index.dirty.insert(address);
    }

    /// Short fences are refreshed once a second: those of a lapsed session, and of what is held provisionally.
    pub(super) fn advance_short(&mut self) {
        let any = self.own.is_lapsed() && !self.index.carried.is_empty() || !self.asking.provisional.is_empty();
        if any && self.doubt.is_sure() && self.hears_enough() && !self.is_released() && self.due(self.asking.refresh) {
            self.refresh_short();
            self.due(self.asking.refresh);
        }
    }

    /// With too few other nodes heard, or without the API if the settings say `release`, the fences in force are the last ones.
    pub(super) fn refresh_short(&mut self) {
        if !self.doubt.is_sure() || !self.hears_enough() || self.is_released() {
            return;
        }
        let (now, lapsed) = (self.step.at.now, self.own.is_lapsed());
        self.asking.refresh = now + SHORT_REFRESH;
        let short = |basis| match basis {
            Basis::Provisional => true,
            Basis::Recorded | Basis::Beside(_) => lapsed,
            Basis::LeftOver => false,
        };
        for address in self.index.carried.clone() {
            if self.vips.get(&address).and_then(|v| v.hold).is_some_and(|h| short(h.basis)) {
                self.fence_to(address, now + SHORT_FENCE);
            }
        }
    }
}
