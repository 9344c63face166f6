//! While a node could serve, outage stays within the bound of what happened.

use super::Rule;
use crate::clock::{MS, Nanos};
use crate::fault::Fault;
use crate::settings::Shape;
use crate::world::World;

/// The one fault that hit a settled world.
#[derive(Clone, Copy, Debug)]
pub struct Single {
    /// Which of the plan's.
    pub fault: usize,
    /// When.
    pub at: Nanos,
    /// How long the VIP may be silent for it.
    pub bound: Nanos,
}

/// What happened lately, as far as outages go.
#[derive(Debug, Default)]
pub struct Outages {
    last: Nanos,
    single: Option<Single>,
}

impl World<'_> {
    /// A fault begins or ends.
    pub fn note_disturbance(&mut self, fault: usize) {
        let now = self.now;
        let quiet = now.saturating_sub(self.checks.outage.last);
        self.checks.outage.last = now;
        if self.checks.outage.single.is_some_and(|s| s.fault == fault) {
            return;
        }
        let alone = self.active.is_empty() && quiet > self.checks.bounds.informed;
        let holder = self.plan.names.iter().position(|name| *name == self.store.holder());
        let holder = holder.filter(|h| alone && (0..self.plan.settings.vips.len()).all(|v| self.hosts[*h].carries(v)));
        let all = (0..self.hosts.len()).all(|h| self.hosts[h].able.is_some_and(|since| since + quiet.min(self.checks.bounds.informed) <= now) && self.has_api(h));
        self.checks.outage.single = holder.filter(|_| all).and_then(|holder| {
            let bound = self.single_bound(self.plan.faults[fault].fault, holder)?;
            Some(Single { fault, at: now, bound })
        });
    }

    /// How long the VIP may be silent when this, and nothing else, happens to a settled world. None: the general bound.
    fn single_bound(&self, fault: Fault, holder: usize) -> Option<Nanos> {
        let bounds = &self.checks.bounds;
        let hold = self.plan.settings.rules.hold_without_api;
        let others = |set: u64| (0..self.hosts.len()).any(|h| set >> h & 1 == 0);
        // An elector that polls takes what is free when its turn comes, and serves while it is unwell.
        if self.plan.settings.rival.is_some() {
            return None;
        }
        // The VIP has moved so often lately that nobody takes it early (EVPN); and API servers that hang are found out
        // one after the other.
        let early = self.checks.witness.may_move(self.now);
        let leader = self.plan.settings.shape == Shape::Stacked && (self.servers.leader == holder || self.hosts.len() == 2);
        let gone = || {
            let silent = if early { bounds.crash } else { bounds.expiry };
            Some(if leader { silent.max(bounds.crash_with_leader?) } else { silent })
        };
        match fault {
            Fault::Crash(h) | Fault::Freeze(h) | Fault::Kill(h) | Fault::Suspend(h) | Fault::Stun(h, _) | Fault::LinkDown(h) => {
                if h == holder { gone() } else { hold.then_some(bounds.moment) }
            }
            Fault::Partition(set, _) if set >> holder & 1 == 1 && others(set) => None,
            Fault::Partition(..) => None,
            Fault::Restart(_) | Fault::Upgrade(_) | Fault::Unhealthy(_) => Some(bounds.moment),
            Fault::Strip(_) | Fault::Primary(_) | Fault::WallJump(..) | Fault::Delete | Fault::StripNotes => Some(bounds.moment),
            Fault::WatchBreak(_) | Fault::WatchHang(_) | Fault::WatchGone(_) | Fault::WatchReplay(_) | Fault::WatchLag(..) => {
                Some(bounds.moment)
            }
            Fault::Api(..) | Fault::ApiOf(..) | Fault::NoLeader | Fault::AllUnhealthy => hold.then_some(bounds.moment),
            Fault::Refuse(_) | Fault::Twice(..) => Some(bounds.moment),
            // Clients' own frames are lost, or nobody can say when the kernel does what it is asked.
            Fault::Loss(..) | Fault::Noise(..) | Fault::Delay(..) | Fault::SlowKernel(..) | Fault::Starve(..) => None,
            Fault::Foreign(_) | Fault::Restore => None,
        }
    }

    /// The VIP still does not answer.
    pub fn check_outage(&mut self, vip: usize) {
        let Some(since) = self.client.entries[vip].silent else { return };
        let Some((host, able)) = self.able_since() else { return };
        if let Some(single) = self.checks.outage.single
            && able <= single.at
            && since >= single.at
            && self.now - since > single.bound
        {
            let text = format!(
                "VIP {} has not answered for {} ms; all that happened is fault {}; cp{} could serve it; the bound is {} ms",
                vip + 1,
                (self.now - since) / MS,
                single.fault,
                host + 1,
                single.bound / MS
            );
            return self.violated(Rule::Outage, text);
        }
        let began = since.max(able).max(self.checks.outage.last);
        let took = self.now - began;
        // Excused: who may carry it without the API only by settings that forbid that.
        let rules = &self.plan.settings.rules;
        if !(rules.provisional && rules.hold_without_api) && !self.has_api(host) {
            return;
        }
        // Excused: a holder that renews its Lease, and that the client does not hear, is replaced only early, by the witness:
        // not when that is switched off, and not when the VIP has moved so often that fabrics would freeze it.
        let early = !rules.witness_interval.is_zero() && self.checks.witness.may_move(self.now);
        let renews = |h: usize| self.hosts[h].is_live() && self.has_api(h);
        let holder = self.plan.names.iter().position(|name| *name == self.store.holder());
        if !early && holder.is_some_and(|h| h != host && renews(h)) {
            return;
        }
        let bound = self.checks.bounds.outage;
        if took > bound {
            let text = format!(
                "VIP {} has not answered for {} ms since anything happened; cp{} could serve it; the bound is {} ms",
                vip + 1,
                took / MS,
                host + 1,
                bound / MS
            );
            self.violated(Rule::Outage, text);
        }
    }

    /// The VIP answers again.
    pub fn served_again(&mut self, vip: usize, since: Nanos) {
        let took = self.now - since;
        self.say(|_| format!("the client has an answer from VIP {} again, after {} ms", vip + 1, took / MS));
    }
}
