//! One fault, in a world where all was settled: what it may do, by its class. The tight bounds.

use mooring_agent_core::rules::SELF_PROBE;

use crate::check::{Rule, Single};
use crate::clock::{MS, Nanos, SECOND};
use crate::fault::{Fault as Any, How};
use crate::network::Mute;
use crate::session_vips::SessionVips;
use crate::session_vips::fault::Fault;
use crate::settings::number;
use crate::world::{World, nanos};

impl World<'_, SessionVips> {
    /// A fault begins or ends.
    pub fn note_single(&mut self, fault: usize) {
        let now = self.now;
        if self.checks.single.is_some_and(|s| s.fault == fault) {
            return;
        }
        self.checks.single = None;
        let alone = self.active.is_empty() && now > self.checks.last + self.bounds.informed && !self.is_upgrading();
        let settled = alone && self.all_settled();
        if settled {
            self.watch_cut_off(fault);
        }
        if settled && let Some((mut bound, stays)) = self.single_bound(fault) {
            // For a Lease after an outage of the API, a node probes the segment before it takes anything.
            let lease = nanos(self.plan.settings.rules.lease_duration).max(5 * SECOND);
            if self.checks.last > 0 && now < self.checks.last + lease + 2 * SECOND {
                bound += self.checks.bounds.silence;
            }
            self.checks.single = Some(Single { fault, at: now, bound, stays });
        }
    }

    /// Whether agents are still being restarted one after the other: their VIPs move, whatever else happens.
    fn is_upgrading(&self) -> bool {
        let hosts = Nanos::try_from(self.hosts.len()).unwrap_or(Nanos::MAX);
        self.plan.faults.iter().any(|planned| {
            let Any::Upgrade(apart) = planned.fault else { return false };
            let ends = planned.at + Nanos::from(apart) * MS * hosts + self.bounds.stopped;
            (planned.at..=ends).contains(&self.now)
        })
    }

    fn all_settled(&self) -> bool {
        let segments = self.plan.settings.segments;
        let mute = |h: usize| (0..segments).any(|segment| self.segment.mutes.of(h, segment).is_some());
        let live = (0..self.hosts.len()).all(|h| {
            self.hosts[h].is_live()
                && !mute(h)
                && self.has_api(h)
                && !self.hosts[h].refuses
                && self.hosts[h].unanswered == 0
        });
        let wired = |h: usize, segment: usize| self.plan.settings.is_wired(h, segment);
        let plugged = |h: usize| self.hosts[h].plugged.iter().enumerate().all(|(segment, up)| *up == wired(h, segment));
        let heard = self.segment.clean && (0..self.hosts.len()).all(plugged);
        let quiet = |h: usize| {
            self.hosts[h]
                .agent
                .as_ref()
                .is_some_and(|a| !a.own.watches.iter().any(|w| w.silent) && !a.ending && !a.own.drained)
        };
        live && heard
            && (0..self.hosts.len()).all(quiet)
            && self.api.wanted.iter().filter(|vip| !self.is_owned(**vip)).all(|vip| {
                let holder = self.api.store.addresses.get(vip).and_then(|a| a.holder.as_ref());
                let holder = holder.and_then(|h| number::<Fault>(&h.node));
                holder.is_some_and(|h| self.hosts[h].vips[*vip].is_some()) && self.checks.moved[*vip] < 3
            })
    }

    /// How long a VIP may be silent, and whether all stay where they are. None: the general bound.
    fn single_bound(&self, number: usize) -> Option<(Nanos, bool)> {
        let planned = self.plan.faults[number];
        // Nodes that never hear each other carry VIPs beside each other while the API is away.
        if self.plan.settings.network.isolated {
            return None;
        }
        let (bounds, rules) = (&self.bounds, &self.plan.settings.rules);
        let lease = nanos(rules.lease_duration);
        let hold = rules.hold_without_api;
        let short = planned.lasts + bounds.stopped < lease;
        let moment = bounds.moment;
        match planned.fault {
            // A node that answers again from its own address before it was missed is not ended.
            Any::Crash(_) if planned.lasts < bounds.crash => None,
            // With a single segment, or no node that is on one only, every watcher sees all of it.
            Any::Crash(h) | Any::Suspend(h) | Any::Stun(h, _) => {
                let early = self.checks.abandoned[h] < 3;
                // The bound holds for a node whose session was ended meanwhile, even if the node returns. One that returns in the
                // moment of its end still answers for its VIPs: who takes one looks at the segment again.
                let returns = planned.lasts < bounds.crash && !matches!(planned.fault, Any::Crash(_));
                let again = if returns { nanos(SELF_PROBE) } else { 0 };
                (early && self.hosts.len() > 1).then_some((bounds.crash + SECOND / 5 + again, false))
            }
            // So short a session lapses at two slow calls in a row, also that of the node which takes: it yields to the old holder,
            // which lets go.
            Any::Restart(_) | Any::Own(Fault::Drain(_) | Fault::NoEndpoints(_) | Fault::Rebalance(_))
                if lease <= 3 * SECOND && self.plan.settings.api.1 > 20 * MS =>
            {
                None
            }
            Any::Mute(_, Some(_), Mute::Frames) if self.plan.settings.segments > 1 => None,
            Any::Mute(_, _, Mute::Frames) if planned.lasts > 0 && planned.lasts < bounds.crash => None,
            Any::Mute(h, _, Mute::Frames) => {
                let early = self.checks.abandoned[h] < 3;
                (early && self.hosts.len() > 1).then_some((bounds.crash + SECOND / 5 + nanos(SELF_PROBE), false))
            }
            Any::Mute(_, _, Mute::Probes) => Some((moment, true)),
            Any::Freeze(_) => short.then_some((moment, true)),
            Any::Restart(_) | Any::Own(Fault::Drain(_) | Fault::Rebalance(_)) if self.hosts.len() > 1 => {
                Some((moment, false))
            }
            // The last endpoint is gone before any agent is told.
            Any::Own(Fault::NoEndpoints(_)) if self.hosts.len() > 1 => {
                Some((self.checks.bounds.take + 2 * moment, false))
            }
            // A node without the label names another one, which has not told yet that it has none either.
            Any::Own(Fault::NoEndpointsAnywhere) if self.plan.settings.own.labelled => None,
            // Until it is written again, nobody knows that the address of a VIP is that node's own.
            Any::Own(Fault::StripSession(node)) if self.plan.settings.own.owned.is_some_and(|(of, _)| of == node) => {
                None
            }
            Any::WallJump(..)
            | Any::NewMac(_)
            | Any::Strip(_)
            | Any::Own(
                Fault::WatchBreak(..)
                | Fault::WatchHang(..)
                | Fault::WatchLag(..)
                | Fault::Nudge(_)
                | Fault::StripSession(_)
                | Fault::StripRecord(_)
                | Fault::Elsewhere(_)
                | Fault::AllUnready
                | Fault::Cordon(_)
                | Fault::NoEndpointsAnywhere,
            ) => Some((moment, true)),
            Any::Api(_, How::Refused | How::Hangs | How::Errors) => hold.then_some((moment, true)),
            Any::ApiOf(_, How::Refused | How::Hangs | How::Errors) => (hold && short).then_some((moment, true)),
            // Other VIPs may be about to be taken, and the fence in force may be a third of the session old.
            Any::KernelSilent(..) => (planned.lasts + bounds.stopped + lease / 3 < lease).then_some((moment, true)),
            Any::LinkDown(_, _, true) => {
                Some((nanos(rules.link_down_delay) + self.checks.bounds.take + 3 * moment, false))
            }
            _ => None,
        }
    }

    /// The record of a VIP has gone from one node to another.
    pub fn check_stays(&mut self, vip: usize, from: &str, to: &str) {
        let now = self.now;
        if let Some(single) = self.checks.single.filter(|s| s.stays && now > s.at) {
            let after = (self.now - single.at) / MS;
            let text = format!(
                "VIP {vip} went from {from} to {to} {after} ms after fault {}, which is no reason",
                single.fault
            );
            return self.violated(Rule::Moves, text);
        }
        self.checks.moves[vip] += 1;
        self.checks.moved[vip] += 1;
        let upgrades = self.plan.faults.iter().filter(|p| matches!(p.fault, Any::Upgrade(_)) && p.at <= now).count();
        // Nodes that do not hear one another end each other, until that has been too often. A node that was cut off does not know yet
        // that its session has ended, and takes what another one offers: the record goes there and back.
        let deafens: fn(&Any<Fault>) -> bool =
            |f| matches!(f, Any::Delay(..) | Any::Loss(..) | Any::Partition(..) | Any::Mute(..));
        let lately = || self.plan.faults.iter().filter(|p| p.was_there(now, 5 * SECOND));
        let was = |which: fn(&Any<Fault>) -> bool| lately().any(|p| which(&p.fault));
        let (deaf, refuses) = (was(deafens), was(|f| matches!(f, Any::Refuse(_) | Any::KernelSilent(..))));
        let more = u32::try_from(upgrades * self.hosts.len()).unwrap_or(u32::MAX)
            + if refuses { 8 } else { 0 }
            + if deaf { 2 } else { 0 };
        if self.checks.moves[vip] > self.bounds.moves + more {
            let text = format!("VIP {vip} has moved {} times since anything happened", self.checks.moves[vip]);
            self.violated(Rule::Moves, text);
        }
    }
}
