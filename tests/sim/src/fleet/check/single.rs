//! One fault, in a world where all was settled: what it may do, by its class. The tight bounds.

use super::Rule;
use crate::clock::{Nanos, SECOND};
use crate::fault::How;
use crate::fleet::fault::Fault;
use crate::fleet::settings;
use crate::fleet::world::World;

/// The one fault that hit a settled world.
#[derive(Clone, Copy, Debug)]
pub struct Single {
    /// Which of the plan's.
    pub fault: usize,
    /// When.
    pub at: Nanos,
    /// How long a VIP may be silent for it.
    pub bound: Nanos,
    /// VIPs must stay where they are.
    pub stays: bool,
}

impl World<'_> {
    /// A fault begins or ends.
    pub fn note_single(&mut self, fault: usize) {
        let now = self.now;
        if self.checks.single.is_some_and(|s| s.fault == fault) {
            return;
        }
        self.checks.single = None;
        let alone = self.active.is_empty() && now > self.checks.last + self.checks.bounds.informed;
        let settled = alone && self.all_settled();
        if settled && let Some((mut bound, stays)) = self.single_bound(fault) {
            // Whose API was away looks at the segment before it takes anything, for a Lease.
            let lease = Self::nanos(self.plan.settings.rules.lease_duration).max(5 * SECOND);
            if self.checks.last > 0 && now < self.checks.last + lease + 2 * SECOND {
                bound += self.checks.bounds.silence;
            }
            self.checks.single = Some(Single { fault, at: now, bound, stays });
        }
    }

    fn all_settled(&self) -> bool {
        let live = (0..self.hosts.len()).all(|h| self.hosts[h].is_live() && self.has_api(h) && !self.hosts[h].refuses);
        let heard = self.wire.clean && self.hosts.iter().all(|h| h.plugged.iter().all(|up| *up));
        let quiet = |h: usize| {
            self.hosts[h].agent.as_ref().is_some_and(|a| !a.watches.iter().any(|w| w.silent) && !a.ending && !a.drained)
        };
        live && heard
            && (0..self.hosts.len()).all(quiet)
            && self.wanted.iter().all(|vip| {
                let holder = self.store.addresses.get(vip).and_then(|a| a.holder.as_ref());
                let holder = holder.and_then(|h| settings::number(&h.node));
                holder.is_some_and(|h| self.hosts[h].vips[*vip].is_some()) && self.checks.moved[*vip] < 3
            })
    }

    /// How long a VIP may be silent, and whether all stay where they are. None: the general bound.
    fn single_bound(&self, number: usize) -> Option<(Nanos, bool)> {
        let planned = self.plan.faults[number];
        let (bounds, rules) = (&self.checks.bounds, &self.plan.settings.rules);
        let lease = Self::nanos(rules.lease_duration);
        let hold = rules.hold_without_api;
        let short = planned.lasts + bounds.stopped < lease;
        let moment = bounds.moment;
        match planned.fault {
            // Who answers again, from its own address, before it was missed is not ended for that.
            Fault::Crash(_) if planned.lasts < bounds.crash => None,
            // With a single segment, or no node that is on one only, every watcher sees all of it.
            Fault::Crash(h) | Fault::Suspend(h) | Fault::Stun(h, _) => {
                let early = self.checks.abandoned[h] < 3;
                // A node that returns with its VIPs before anybody has them is no matter; one that was ended meanwhile is.
                (early && self.hosts.len() > 1).then_some((bounds.crash + SECOND / 5, false))
            }
            Fault::Freeze(_) => short.then_some((moment, true)),
            Fault::Restart(_) | Fault::Drain(_) | Fault::Rebalance(_) if self.hosts.len() > 1 => Some((moment, false)),
            // The last endpoint is gone before anybody is told.
            Fault::NoEndpoints(_) if self.hosts.len() > 1 => Some((bounds.take + 2 * moment, false)),
            Fault::WallJump(..)
            | Fault::WatchBreak(..)
            | Fault::WatchHang(..)
            | Fault::Nudge(_)
            | Fault::WatchLag(..)
            | Fault::StripSession(_)
            | Fault::StripRecord(_)
            | Fault::AllUnready
            | Fault::Cordon(_)
            | Fault::NoEndpointsAnywhere
            | Fault::Strip(_) => Some((moment, true)),
            Fault::Api(How::Refused | How::Hangs | How::Errors) => hold.then_some((moment, true)),
            Fault::ApiOf(_, How::Refused | How::Hangs | How::Errors) => (hold && short).then_some((moment, true)),
            Fault::LinkDown(_, _, true) => Some((Self::nanos(rules.link_down_delay) + bounds.take + 3 * moment, false)),
            _ => None,
        }
    }

    /// The record of a VIP has gone from one node to another.
    pub fn check_stays(&mut self, vip: usize, from: &str, to: &str) {
        let now = self.now;
        if let Some(single) = self.checks.single.filter(|s| s.stays && now > s.at) {
            let after = (self.now - single.at) / crate::clock::MS;
            let text = format!(
                "VIP {vip} went from {from} to {to} {after} ms after fault {}, which is no reason",
                single.fault
            );
            return self.violated(Rule::Moves, text);
        }
        self.checks.moves[vip] += 1;
        self.checks.moved[vip] += 1;
        let upgrades = self.plan.faults.iter().filter(|p| matches!(p.fault, Fault::Upgrade(_)) && p.at <= now).count();
        let active = |which: fn(&Fault) -> bool| self.active.iter().any(|n| which(&self.plan.faults[*n].fault));
        let refuses = if active(|f| matches!(f, Fault::Refuse(_))) { 8 } else { 0 };
        // Nodes that do not hear one another end each other, until that has been too often.
        let deaf = active(|f| matches!(f, Fault::Delay(..) | Fault::Loss(..) | Fault::Partition(..)));
        let more = u32::try_from(upgrades * self.hosts.len()).unwrap_or(u32::MAX) + refuses + if deaf { 2 } else { 0 };
        if self.checks.moves[vip] > self.checks.bounds.moves + more {
            let text = format!("VIP {vip} has moved {} times since anything happened", self.checks.moves[vip]);
            self.violated(Rule::Moves, text);
        }
    }
}
