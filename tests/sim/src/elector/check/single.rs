//! One fault, in a world where all was settled: what it may do, by its class. The tight bounds.

use crate::check::{Rule, Single};
use crate::clock::{MS, Nanos, SECOND};
use crate::elector::Elector;
use crate::elector::fault::Fault as Own;
use crate::elector::settings::Shape;
use crate::fault::{Fault, How, has};
use crate::network::Mute;
use crate::world::{World, nanos};

impl World<'_, Elector> {
    /// A fault begins or ends.
    pub fn note_disturbance(&mut self, fault: usize) {
        let now = self.now;
        let (informed, last) = (self.bounds.informed, self.checks.outage.last);
        self.checks.outage.last = now;
        if self.checks.outage.single.is_some_and(|s| s.fault == fault) {
            return;
        }
        let alone = self.active.is_empty() && now > last + informed;
        let all_able = self.hosts.iter().all(|h| h.own.able.is_some_and(|since| since + informed <= now));
        // An elector that polls takes what is free when its turn comes, and serves while it is unwell.
        let ours = self.plan.settings.own.rival.is_none();
        let holder = self.names.iter().position(|name| *name == self.api.store.holder());
        let carries = |h: &usize| (0..self.vips).all(|v| self.hosts[*h].carries(v));
        let settled = holder.filter(|h| alone && all_able && ours && carries(h));
        if settled.is_some() {
            self.watch_cut_off(fault);
        }
        self.checks.outage.single = settled.and_then(|holder| self.single(fault, holder));
    }

    fn single(&self, number: usize, holder: usize) -> Option<Single> {
        let planned = self.plan.faults[number];
        // Nodes that never hear each other carry the VIP beside each other while the API is away.
        if self.plan.settings.network.isolated {
            return None;
        }
        let bounds = &self.bounds;
        let rules = &self.plan.settings.rules;
        // The fence in force may be a third of the Lease old.
        let fenced = planned.lasts + bounds.stopped + nanos(rules.lease_duration) / 3 < nanos(rules.lease_duration);
        let bound = match planned.fault {
            Fault::KernelSilent(..) => fenced.then_some(bounds.moment)?,
            fault => self.single_bound(fault, holder)?,
        };
        let fall =
            u64::from(self.plan.settings.own.health.fall.saturating_sub(1)) * self.plan.settings.own.health.interval;
        let lease = nanos(rules.lease_duration);
        let stays = match planned.fault {
            Fault::Crash(h)
            | Fault::Kill(h)
            | Fault::Suspend(h)
            | Fault::Stun(h, _)
            | Fault::LinkDown(h, ..)
            | Fault::Mute(h, _, Mute::Frames)
            | Fault::Restart(h) => h != holder && self.plan.settings.own.shape != Shape::Stacked,
            // A stopped agent's kernel answers until the fence is over.
            Fault::Freeze(h) => h != holder || planned.lasts + bounds.stopped < lease,
            Fault::Own(Own::Unhealthy(h)) => h != holder || planned.lasts < fall,
            Fault::ApiOf(h, _) => h != holder || planned.lasts + bounds.stopped < lease,
            // Where some requests get through, those of another than the holder may.
            Fault::Api(servers, How::Refused | How::Hangs | How::Errors | How::Forbidden) => {
                (0..self.api.servers.all.len()).all(|s| has(servers, s))
            }
            Fault::Own(Own::NoLeader | Own::AllUnhealthy) => true,
            Fault::Own(
                Own::WatchBreak(_) | Own::WatchHang(_) | Own::WatchGone(_) | Own::WatchReplay(_) | Own::WatchLag(..),
            ) => true,
            Fault::WallJump(..)
            | Fault::Own(Own::StripNotes)
            | Fault::Strip(_)
            | Fault::Primary(_)
            | Fault::KernelSilent(..)
            | Fault::Mute(_, _, Mute::Probes)
            | Fault::Twice(..) => true,
            Fault::Own(Own::Delete) => rules.conflict_probe,
            _ => false,
        };
        Some(Single { fault: number, at: self.now, bound, stays: stays && rules.hold_without_api })
    }

    /// How long the VIP may be silent. None: the general bound.
    fn single_bound(&self, fault: Fault<Own>, holder: usize) -> Option<Nanos> {
        let bounds = &self.bounds;
        let hold = self.plan.settings.rules.hold_without_api;
        // The VIP has moved so often recently that no candidate takes it early (EVPN).
        let early = self.checks.witness.may_move(self.now);
        let stacked = self.plan.settings.own.shape == Shape::Stacked;
        let leader = stacked && (self.api.servers.leader == holder || self.hosts.len() == 2);
        match fault {
            Fault::Crash(h)
            | Fault::Freeze(h)
            | Fault::Kill(h)
            | Fault::Suspend(h)
            | Fault::Stun(h, _)
            | Fault::LinkDown(h, ..)
            | Fault::Mute(h, _, Mute::Frames)
                if h == holder =>
            {
                let mut bound = if early { bounds.crash } else { self.checks.bounds.expiry };
                if leader {
                    bound = bound.max(self.checks.bounds.crash_with_leader?);
                }
                // The kernel's timer ends one VIP up to a second after the other, and the holder is not silent before.
                if self.plan.settings.own.vips.len() > 1 {
                    bound += SECOND;
                }
                // The node itself may give the Lease back just when another takes it.
                let released = matches!(fault, Fault::LinkDown(..) | Fault::Kill(_));
                Some(if released { bound + self.checks.bounds.outrun } else { bound })
            }
            Fault::Crash(_)
            | Fault::Freeze(_)
            | Fault::Kill(_)
            | Fault::Suspend(_)
            | Fault::Stun(..)
            | Fault::Mute(..)
            | Fault::LinkDown(..) => hold.then_some(bounds.moment),
            // Where some requests get through, another's take may.
            Fault::Api(_, How::LosesRequests(_) | How::LosesAnswers(_) | How::Slow(_)) => None,
            Fault::Api(..) | Fault::ApiOf(..) | Fault::Own(Own::NoLeader | Own::AllUnhealthy) => {
                hold.then_some(bounds.moment)
            }
            Fault::Restart(_) | Fault::Upgrade(_) | Fault::Own(Own::Unhealthy(_)) => Some(bounds.moment),
            Fault::Strip(_) | Fault::Primary(_) | Fault::WallJump(..) | Fault::Own(Own::Delete | Own::StripNotes) => {
                Some(bounds.moment)
            }
            Fault::Own(
                Own::WatchBreak(_) | Own::WatchHang(_) | Own::WatchGone(_) | Own::WatchReplay(_) | Own::WatchLag(..),
            ) => Some(bounds.moment),
            Fault::Refuse(_) | Fault::Twice(..) => Some(bounds.moment),
            // The client's own frames are lost, or nobody can say when the kernel does what it is asked; and which side of a
            // partition may go on depends on more than one thing.
            Fault::Loss(..) | Fault::Noise(..) | Fault::Delay(..) | Fault::SlowKernel(..) | Fault::Starve(..) => None,
            Fault::KernelSilent(..)
            | Fault::Own(Own::OwnProbe(_) | Own::AllOwnProbes | Own::Keeps(_) | Own::ForeignNew | Own::KubeVip(_)) => {
                None
            }
            Fault::Partition(..)
            | Fault::Unplug(..)
            | Fault::NewMac(_)
            | Fault::Foreign(_)
            | Fault::Own(Own::Restore) => None,
        }
    }

    /// The Lease has gone to another holder.
    pub fn check_stays(&mut self, before: &str, holder: &str) {
        let Some(single) = self.checks.outage.single.filter(|s| s.stays) else { return };
        let after = (self.now - single.at) / MS;
        let text = format!(
            "the VIP went from {before:?} to {holder:?} {after} ms after fault {}, which is no reason",
            single.fault
        );
        self.violated(Rule::Moves, text);
    }
}
