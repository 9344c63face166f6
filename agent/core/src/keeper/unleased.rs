//! Carrying without a valid Lease: a holder whose Lease lapsed because the API is away, and a provisional one.
//!
//! Both have a short fence, ask the segment all the time whether somebody else has the VIP, and always yield.

use std::net::IpAddr;

use super::{Keeper, Role};
use crate::action::{Cause, Report, Why};
use crate::lease::{LeaseView, Record};
use crate::planted::planted;
use crate::rules::{AWAY, MARGIN, SELF_PROBE, SHORT_FENCE, SHORT_REFRESH};
use crate::time::Time;

#[derive(Debug)]
pub(super) struct Unleased {
    pub(super) kind: Kind,
    /// The end of the short fence.
    pub(super) until: Time,
    refresh: Time,
    refreshed: bool,
    probe: Time,
    /// The record as last seen before the hold began: whoever renews it after that is alive.
    known: Option<Record>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// This node held the Lease.
    Lapsed,
    /// It did, before it was restarted: nothing is refreshed while the API may still answer.
    LeftOver,
    /// It did not.
    Provisional,
}

impl Unleased {
    /// Nothing of it was refreshed by this run of the agent.
    pub(super) fn is_left_over(&self) -> bool {
        self.kind == Kind::LeftOver && !self.refreshed
    }
}

impl Keeper {
    pub(super) fn lapse(&mut self) {
        self.report(Report::Lapsed);
        self.hold_unleased(Kind::Lapsed);
    }

    pub(super) fn hold_provisionally(&mut self) {
        self.turns += 1;
        self.report(Report::Took(Cause::Provisional));
        self.hold_unleased(Kind::Provisional);
    }

    /// An earlier run of this agent left its VIPs on the interface.
    pub(super) fn found_left_over(&mut self, addresses: &[IpAddr]) {
        if !matches!(self.role, Role::Following) {
            return;
        }
        for (address, vip) in &mut self.vips {
            vip.put = addresses.contains(address);
        }
        if self.vips.values().any(|vip| vip.put) {
            self.hold_unleased(Kind::LeftOver);
            self.unsure = Some(self.at.now);
            self.unsure_probe = self.at.now;
            self.read();
        }
    }

    pub(super) fn hold_unleased(&mut self, kind: Kind) {
        let now = self.at.now;
        let known = self.view_record().cloned();
        let refresh = if kind == Kind::LeftOver { now + SHORT_REFRESH } else { now };
        let unleased = Unleased { kind, until: now + SHORT_FENCE, refresh, refreshed: false, probe: now, known };
        self.become_role(Role::Unleased(unleased));
        self.next_write = self.next_write.max(now);
    }

    pub(super) fn advance_unleased(&mut self) {
        let now = self.at.now;
        if self.shutting_down {
            self.leave_behind();
            return;
        }
        let Role::Unleased(unleased) = &self.role else { return };
        let (kind, until, refresh, probe) = (unleased.kind, unleased.until, unleased.refresh, unleased.probe);
        if now + MARGIN >= until {
            self.let_go(Why::Late);
            return;
        }
        self.due(until - MARGIN);
        if self.due(probe) && !planted!(NoSelfProbe) {
            self.probe_vips();
            self.with_unleased(|u| u.probe = now + SELF_PROBE);
            self.due(now + SELF_PROBE);
        }
        let may_refresh = self.unsure.is_none() && (kind != Kind::LeftOver || self.is_away());
        if may_refresh && self.due(refresh) {
            self.carry(now + SHORT_FENCE);
            self.with_unleased(|u| {
                u.until = now + SHORT_FENCE;
                u.refresh = now + SHORT_REFRESH;
                u.refreshed = true;
            });
            self.due(now + SHORT_REFRESH);
        }
        // After a conflict the Lease is read first.
        let informed = self.reading.is_none() || self.away.is_some();
        if self.flight.is_none() && informed && self.due(self.next_write) {
            self.take_unleased(kind);
        }
    }

    fn is_away(&mut self) -> bool {
        self.away_since().is_some_and(|since| self.due(since + AWAY))
    }

    fn with_unleased(&mut self, change: impl FnOnce(&mut Unleased)) {
        if let Role::Unleased(unleased) = &mut self.role {
            change(unleased);
        }
    }

    /// Takes the Lease as soon as it can be taken.
    fn take_unleased(&mut self, kind: Kind) {
        if !self.seen.is_known() {
            return;
        }
        let holder = self.seen.holder();
        if holder == self.rules.node {
            self.take(Cause::Adopted);
        } else if holder.is_empty() {
            self.take(Cause::Free);
        } else if kind == Kind::Provisional && self.is_abandoned() {
            self.take(Cause::Provisional);
        } else if self.seen.is_fresh(self.at.now, &self.rules)
            && let Some(expires) = self.seen.expires(&self.rules)
            && self.due(expires)
        {
            self.take(Cause::Expiry);
        }
    }

    /// The record is still the one of the holder that fell silent, or of one that declared that it would answer and does not.
    fn is_abandoned(&self) -> bool {
        let Role::Unleased(unleased) = &self.role else {
            return false;
        };
        let declared = self.seen.view().is_some_and(|v| v.declaration().is_some());
        declared && unleased.known.as_ref().is_none_or(|known| Some(known) == self.view_record())
    }

    /// The Lease names another holder.
    pub(super) fn unleased_sees_holder(&mut self) {
        let Role::Unleased(unleased) = &self.role else { return };
        let stays = unleased.kind == Kind::Provisional
            && match &unleased.known {
                Some(known) => Some(known) == self.view_record(),
                // A cold start: the record is from before. A holder that is alive shows itself on the segment, or renews.
                None => true,
            };
        if !stays {
            self.let_go(Why::LeaseLost);
        } else if unleased.known.is_none() {
            let record = self.seen.view().map(|v: &LeaseView| v.record.clone());
            self.with_unleased(|u| u.known = record);
            self.next_write = self.at.now;
        }
    }
}
