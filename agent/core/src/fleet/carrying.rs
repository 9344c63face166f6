//! The VIPs on the interfaces: put there, put back, fenced, announced, let go. What a step wants is gathered, and told in
//! lists at its end.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

use super::vip::{Basis, Hold, Vip};
use super::{Action, Ask, Fleet, Report};
use crate::action::{Cause, Why};
use crate::fence;
use crate::rules::{SHORT_FENCE, SHORT_REFRESH};
use crate::time::Time;

/// A VIP that was removed this often within [`REMOVED_WITHIN`] is no longer put back at once.
const REMOVED_OFTEN: usize = 5;
/// See [`REMOVED_OFTEN`].
const REMOVED_WITHIN: Duration = Duration::from_secs(10);
/// A VIP that the interface refused is tried again after this.
const REFUSED: Duration = Duration::from_secs(5);
/// What the way to the kernel may take.
const ON_THE_WAY: Duration = Duration::from_millis(50);

/// What a step wants done.
#[derive(Debug, Default)]
pub(super) struct Batch {
    drops: BTreeSet<IpAddr>,
    carries: BTreeMap<Time, BTreeMap<IpAddr, u32>>,
    announces: BTreeMap<IpAddr, u32>,
    pub(super) asks: Vec<Ask>,
}

impl Batch {
    fn carry(&mut self, address: IpAddr, index: u32, until: Time) {
        self.drops.remove(&address);
        for others in self.carries.values_mut() {
            others.remove(&address);
        }
        self.carries.entry(until).or_default().insert(address, index);
    }

    fn drop(&mut self, address: IpAddr) {
        self.announces.remove(&address);
        for others in self.carries.values_mut() {
            others.remove(&address);
        }
        self.drops.insert(address);
    }
}

impl Fleet {
    /// The lists of this step. What is let go goes first.
    pub(super) fn flush(&mut self) {
        let batch = std::mem::take(&mut self.batch);
        if !batch.drops.is_empty() {
            self.out.push(Action::Drop(batch.drops.into_iter().collect()));
        }
        for (until, addresses) in batch.carries.into_iter().filter(|(_, all)| !all.is_empty()) {
            self.out.push(Action::Carry { addresses: addresses.into_iter().collect(), until });
        }
        if !batch.announces.is_empty() {
            self.out.push(Action::Announce(batch.announces.into_iter().collect()));
        }
        if !batch.asks.is_empty() {
            // Nothing else is wanted most of the time, and actions are large.
            self.out.reserve_exact(1);
            self.out.push(Action::Probe(batch.asks));
        }
    }

    /// Gives a carried VIP a fence until then. False if so little is left that there is no lifetime for it: then the one in
    /// force stays, and the session is renewed at once.
    pub(super) fn fence(&mut self, vip: &mut Vip, until: Time) -> bool {
        let now = self.at.now;
        let Some(hold) = &mut vip.hold else { return false };
        let Some(lifetime) = fence::lifetime(now + ON_THE_WAY, until) else {
            self.own.next_write = now;
            return false;
        };
        hold.until = until;
        hold.dropped = now + Duration::from_secs(u64::from(lifetime));
        self.own.first_dropped = self.own.first_dropped.min(hold.dropped);
        self.batch.carry(vip.address, hold.index, until);
        true
    }

    /// The same for one that is not being considered.
    pub(super) fn fence_to(&mut self, address: IpAddr, until: Time) -> bool {
        let Some(mut vip) = self.vips.remove(&address) else { return false };
        let done = self.fence(&mut vip, until);
        self.vips.insert(address, vip);
        self.dirty.insert(address);
        done
    }

    /// Carries a VIP from now on.
    pub(super) fn take_up(&mut self, vip: &mut Vip, basis: Basis, cause: Cause) {
        let now = self.at.now;
        let Some(index) = self.link_for(vip).map(|interface| interface.index) else { return };
        let short = now + SHORT_FENCE;
        let until = match basis {
            Basis::Recorded | Basis::Beside(_) if self.own.is_live() => self.common_fence().unwrap_or(short),
            _ => short,
        };
        vip.hold = Some(Hold {
            basis,
            until,
            dropped: until,
            index,
            returns_until: None,
            heard: None,
            named: None,
            other: self.other_session(vip),
            consented: false,
        });
        let by_session = matches!(basis, Basis::Recorded | Basis::Beside(_)) && self.own.is_live();
        let whole = self.session_ends().filter(|_| by_session);
        if !self.fence(vip, until) && !whole.is_some_and(|end| self.fence(vip, end)) {
            // Too little is left of the session: after its renewal.
            vip.hold = None;
            self.own.awaiting.insert(vip.address);
            return;
        }
        vip.look = None;
        vip.free_since = None;
        vip.challenge = None;
        self.carried.insert(vip.address);
        self.report(Report::Took { address: vip.address, cause });
        if basis == Basis::Provisional {
            self.asking.provisional.insert(vip.address);
        }
        self.again = true;
    }

    /// Carries it no longer.
    pub(super) fn let_go(&mut self, vip: &mut Vip, why: Why) {
        if vip.hold.take().is_none() {
            return;
        }
        vip.put = false;
        vip.schedule.stop();
        vip.challenge = None;
        vip.pending = None;
        vip.look = None;
        vip.open_since = None;
        vip.rebalance = false;
        let address = vip.address;
        self.carried.remove(&address);
        self.asking.forget(address);
        self.batch.drop(address);
        self.report(Report::LetGo { address, why });
        self.dirty.insert(address);
        self.again = true;
    }

    /// Lets all those go whose basis is such.
    pub(super) fn let_all_go(&mut self, why: Why, which: impl Fn(Basis) -> bool) {
        for address in self.carried.clone() {
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
        if !vip.put || self.unsure.is_some() || hold.basis == Basis::LeftOver {
            return;
        }
        if vip.schedule.due(self.at.now) {
            self.batch.announces.insert(vip.address, hold.index);
        }
        if let Some(next) = vip.schedule.next() {
            self.due(next);
        }
    }

    /// VIPs are on their interface.
    pub(super) fn were_put(&mut self, addresses: &[IpAddr]) {
        for address in addresses {
            let now = self.at.now;
            match self.vips.get_mut(address).filter(|vip| vip.hold.is_some()) {
                Some(vip) if !vip.put => {
                    vip.put = true;
                    vip.schedule.restart(now);
                    self.dirty.insert(*address);
                }
                Some(_) => {}
                // The put and the end of the hold have crossed.
                None => self.batch.drop(*address),
            }
        }
    }

    pub(super) fn put_failed(&mut self, address: IpAddr, reason: String) {
        self.report(Report::CannotCarry { address, reason });
        let Some(mut vip) = self.vips.remove(&address) else { return };
        vip.refused_until = self.at.now + REFUSED;
        self.let_go(&mut vip, Why::CannotCarry);
        self.vips.insert(address, vip);
        self.dirty.insert(address);
    }

    /// A VIP left its interface: somebody removed it, or its fence is over.
    pub(super) fn gone(&mut self, address: IpAddr) {
        let now = self.at.now;
        let Some(mut vip) = self.vips.remove(&address) else { return };
        if let Some(hold) = vip.hold
            && std::mem::take(&mut vip.put)
        {
            vip.schedule.stop();
            vip.removed.retain(|at| now.since(*at) < REMOVED_WITHIN);
            let often = vip.removed.len() >= REMOVED_OFTEN;
            if !often {
                vip.removed.push_back(now);
            }
            let covered = fence::lifetime(now + ON_THE_WAY, hold.until).is_some();
            if hold.basis == Basis::LeftOver {
                self.let_go(&mut vip, Why::Late);
            } else if covered && !often && self.unsure.is_none() {
                self.fence(&mut vip, hold.until);
                self.report(Report::Restored { address });
            }
        }
        self.vips.insert(address, vip);
        self.dirty.insert(address);
    }

    /// Short fences are refreshed once a second: those of a lapsed session, and of what is held provisionally.
    pub(super) fn advance_short(&mut self) {
        let any = self.own.is_lapsed() && !self.carried.is_empty() || !self.asking.provisional.is_empty();
        if any && self.unsure.is_none() && self.due(self.asking.refresh) {
            self.refresh_short();
            self.due(self.asking.refresh);
        }
    }

    pub(super) fn refresh_short(&mut self) {
        if self.unsure.is_some() {
            return;
        }
        let (now, lapsed) = (self.at.now, self.own.is_lapsed());
        self.asking.refresh = now + SHORT_REFRESH;
        let short = |basis| match basis {
            Basis::Provisional => true,
            Basis::Recorded | Basis::Beside(_) => lapsed,
            Basis::LeftOver => false,
        };
        for address in self.carried.clone() {
            if self.vips.get(&address).and_then(|v| v.hold).is_some_and(|h| short(h.basis)) {
                self.fence_to(address, now + SHORT_FENCE);
            }
        }
    }
}
