//! Carrying without a valid Lease: a holder whose Lease lapsed because the API is away, and a provisional holder.
//!
//! Both have a short fence, ask the segment all the time whether another host has the VIP, and always yield to it. Both answer, and
//! do not call: a provisional holder announces when it takes, a lapsed holder not at all. Both go on only while they hear enough
//! of the other nodes. With the settings `release` no fence is refreshed while the API is away: a hold without a Lease (one that an
//! earlier run left, or one whose successor never came) ends with the fence in force.

use std::net::IpAddr;

use super::vip::{Put, Search, Vip};
use super::{Elector, Role};
use crate::action::{Cause, Report, Why};
use crate::lease::{LeaseView, Record};
use crate::mac::Mac;
use crate::planted::planted;
use crate::rules::{AWAY, MARGIN, SHORT_FENCE, SHORT_REFRESH};
use crate::schedule::is_burst_on;
use crate::time::Time;

/// For so much of a Lease's duration a holder that was misjudged is not judged again.
const MISJUDGED_PART: u32 = 3;

/// This node carries the VIPs, and no Lease says so.
#[derive(Debug)]
pub(super) struct Unleased {
    pub(super) kind: Kind,
    /// The end of the short fence.
    pub(super) deadline: Time,
    refresh: Time,
    refreshed: bool,
    probe: Time,
    /// When the hold began. A provisional holder announces just after that.
    since: Time,
    /// Too few others are heard.
    pub(super) few: Option<Few>,
    /// The record as last seen before the hold began: a holder that renews it after that is alive.
    known: Option<Record>,
}

/// Too few of the other nodes are heard to go on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Few {
    pub(super) since: Time,
    /// Whether it was reported.
    pub(super) told: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// This node held the Lease.
    Lapsed,
    /// This node held the Lease before the agent was restarted: nothing is refreshed while the API may still answer.
    LeftOver,
    /// This node never held the Lease: the VIP was free, and the API away.
    Provisional,
}

impl Unleased {
    /// An earlier run of the agent put the VIPs there, and this run has refreshed none of them.
    pub(super) fn is_left_over(&self) -> bool {
        self.kind == Kind::LeftOver && !self.refreshed
    }

    /// Whether the VIPs may be announced: just after they were taken provisionally.
    pub(super) fn may_announce(&self, now: Time, late_at: Time) -> bool {
        self.kind == Kind::Provisional && is_burst_on(now, self.since, late_at) || planted!(LapsedAnnounces)
    }
}

impl Elector {
    pub(super) fn lapse(&mut self) {
        self.report(Report::Lapsed);
        self.hold_unleased(Kind::Lapsed);
    }

    pub(super) fn hold_provisionally(&mut self) {
        self.candidacy.turns += 1;
        self.candidacy.left_since = None;
        let asked = self.segment.witness.addresses().to_vec();
        self.was_asked_for(&asked);
        self.report(Report::Took(Cause::Provisional));
        self.hold_unleased(Kind::Provisional);
    }

    /// An earlier run of this agent left its VIPs on the interface.
    pub(super) fn found_left_over(&mut self, addresses: &[IpAddr]) {
        // A VIP that is yet to be removed is none that an earlier run left.
        if self.is_carrying() || self.is_releasing() {
            return;
        }
        for (address, vip) in &mut self.vips {
            if addresses.contains(address) {
                vip.put = Put::Yes;
                vip.search = Search::Done;
            }
        }
        if self.vips.values().any(Vip::is_put) {
            self.hold_unleased(Kind::LeftOver);
            self.doubt.begin(self.step.at.now);
            self.read();
        }
    }

    pub(super) fn hold_unleased(&mut self, kind: Kind) {
        let now = self.step.at.now;
        let known = self.record().cloned();
        let refresh = if kind == Kind::LeftOver { now + SHORT_REFRESH } else { now };
        // The fence in force is the last one until another is asked for.
        let deadline = self.deadline().unwrap_or(now + SHORT_FENCE);
        let unleased = Unleased { kind, deadline, refresh, refreshed: false, probe: now, since: now, few: None, known };
        self.become_role(Role::Unleased(unleased));
        self.api.next_write = self.api.next_write.max(now);
    }

    pub(super) fn advance_unleased(&mut self) {
        let now = self.step.at.now;
        if self.process.is_ending() {
            self.leave_behind();
            return;
        }
        let Role::Unleased(unleased) = &self.role else { return };
        let (kind, deadline, refresh, probe) = (unleased.kind, unleased.deadline, unleased.refresh, unleased.probe);
        let enough = self.hears_enough();
        self.note_few(enough);
        let left_over = kind == Kind::LeftOver;
        let strict = !self.rules.hold_without_api && !planted!(HoldsThoughReleased);
        let away = (left_over || strict) && self.is_away();
        let may_refresh = enough && self.doubt.is_sure() && (away || !left_over) && !(away && strict);
        if may_refresh && self.due(refresh) {
            self.carry(now + SHORT_FENCE);
            self.with_unleased(|u| {
                u.deadline = now + SHORT_FENCE;
                u.refresh = now + SHORT_REFRESH;
                u.refreshed = true;
            });
            self.due(now + SHORT_REFRESH);
        } else if now + MARGIN >= deadline {
            let why = match (away && strict, enough) {
                (true, _) => Why::ApiLost,
                (false, true) => Why::Late,
                (false, false) => Why::CutOff,
            };
            self.let_go(why);
            return;
        } else {
            self.due(deadline - MARGIN);
        }
        if self.due(probe) && !planted!(NoSelfProbe) {
            let next = self.probe_vips_in_turn();
            self.with_unleased(|u| u.probe = next);
            self.due(next);
        }
        // After a conflict the Lease is read first.
        if self.api.may_write() && self.due(self.api.next_write) {
            self.take_unleased(kind);
        }
    }

    fn is_away(&mut self) -> bool {
        self.api.away_since().is_some_and(|since| self.due(since + AWAY))
    }

    fn with_unleased(&mut self, change: impl FnOnce(&mut Unleased)) {
        if let Role::Unleased(unleased) = &mut self.role {
            change(unleased);
        }
    }

    /// Takes the Lease as soon as it can be taken.
    fn take_unleased(&mut self, kind: Kind) {
        if !self.lease.is_known() {
            return;
        }
        if self.is_mine() {
            self.take(Cause::Adopted);
        } else if !self.is_anothers() {
            self.take(Cause::Free);
        } else if kind == Kind::Provisional && self.is_abandoned() {
            self.take(Cause::Provisional);
        } else if self.lease.is_fresh(self.step.at.now, &self.rules)
            && let Some(expires) = self.lease.expires(&self.rules)
            && self.due(expires)
        {
            self.take(Cause::Expiry);
        }
    }

    /// The record is still that of a holder that declared that it would answer, and that does not answer.
    fn is_abandoned(&self) -> bool {
        let Role::Unleased(unleased) = &self.role else {
            return false;
        };
        let declared = self.lease.view().is_some_and(|v| v.declaration().is_some());
        declared && unleased.known.as_ref().is_none_or(|known| Some(known) == self.record())
    }

    /// The holder that this node took for silent is alive: frames may be lost on the way to it. What this node hears of it is no
    /// evidence for a while; without that, the VIPs would go to and fro as often as the API falls silent for a moment. Other nodes
    /// judge for themselves, and after that while, or when the Lease expires, this one takes part again.
    pub(super) fn has_misjudged(&mut self) {
        let provisional = matches!(&self.role, Role::Unleased(unleased) if unleased.kind == Kind::Provisional);
        if provisional {
            self.candidacy.misjudged_until = self.step.at.now + self.rules.lease_duration / MISJUDGED_PART;
        }
    }

    /// Whether the MAC address is one that the Lease's holder declared.
    pub(super) fn is_holders(&self, mac: Mac) -> bool {
        let declared = self.lease.view().and_then(LeaseView::declaration);
        declared.is_some_and(|declared| declared.holder != self.rules.node && declared.macs.contains(&mac))
    }

    /// The Lease names another holder.
    pub(super) fn unleased_sees_holder(&mut self) {
        let Role::Unleased(unleased) = &self.role else { return };
        let stays = unleased.kind == Kind::Provisional
            && match &unleased.known {
                Some(known) => Some(known) == self.record(),
                // At a cold start the record may be old. A holder that is alive answers on the segment, or renews.
                None => true,
            };
        if !stays {
            // Another holder says nothing about the one that was silent.
            let same = unleased.known.as_ref().is_some_and(|known| known.holder == self.lease.holder());
            if same {
                self.has_misjudged();
            }
            self.let_go(Why::LeaseLost);
        } else if unleased.known.is_none() {
            let record = self.lease.view().map(|v: &LeaseView| v.record.clone());
            self.with_unleased(|u| u.known = record);
            self.api.next_write = self.step.at.now;
        }
    }
}
