//! A witness never takes from a holder that answers it, and the VIP does not wander.

use mooring_agent_core::action::{Cause, Report};
use mooring_agent_core::lease::{LeaseView, Record};
use mooring_agent_core::rules::{MOVES, MOVES_WINDOW};

use crate::check::Rule;
use crate::clock::{MS, Nanos, SECOND};
use crate::elector::Elector;
use crate::fault::Fault;
use crate::world::{World, nanos};

/// How often the Lease went from one holder to another.
#[derive(Debug, Default)]
pub struct Moves {
    last: String,
    since: u32,
    all: Vec<Nanos>,
    /// When somebody last stripped what the holder had declared: it declares again, and must be heard again.
    pub stripped: Nanos,
}

impl Moves {
    /// Something happened: the VIP may move again.
    pub fn disturbed(&mut self) {
        self.since = 0;
    }

    /// When the tenure began that goes on now.
    #[must_use]
    pub fn began(&self) -> Nanos {
        self.all.last().copied().unwrap_or(0)
    }

    /// Whether candidates that watched all moves may take early now.
    #[must_use]
    pub fn may_move(&self, now: Nanos) -> bool {
        let window = Nanos::try_from(MOVES_WINDOW.as_nanos()).unwrap_or(Nanos::MAX);
        self.all.iter().filter(|at| now - **at <= window).count() < MOVES
    }
}

impl World<'_, Elector> {
    /// What a core reports is held against what the world knows.
    pub fn check_report(&mut self, host: usize, report: &Report) {
        self.check_taken_by_end(host, report);
        self.check_handed_over(host, report);
        self.check_robbed(host, report);
        let rules = &self.plan.settings.rules;
        let window = if rules.witness_interval.is_zero() { 100 * MS } else { nanos(rules.witness_interval) };
        let silence = window * u64::from(rules.witness_misses);
        let Some(agent) = &self.hosts[host].agent else { return };
        let ago = |at: Nanos| self.now - at;
        // Excused: to a machine that stood still with its clock, what it heard before is as fresh as it was.
        if self.hosts[host].slept > agent.own.third {
            return;
        }
        // A take that waited for the API rests on a silence of before, and where switches answer for others nobody need answer since.
        let waited = self.plan.settings.network.proxy.is_some();
        let late = if waited { 600 * SECOND } else { 0 };
        let wrong = match report {
            Report::Abandoned { holder } => {
                let station = self.names.iter().position(|name| name == holder);
                let heard = station.map_or(0, |station| agent.own.heard_from[station]);
                // Excused: of a host many of whose frames get lost, an answer to a broadcast alone shows nothing (a network may answer for a
                // host that is gone).
                let lost = |from, to| self.segment.way(0, from, to).lost >= 100;
                let lossy = station.is_some_and(|station| lost(station, host) || lost(host, station));
                if ago(agent.own.heard) + 2 * MS < silence && !lossy {
                    Some(format!("takes from {holder}, and an answer reached it {} ms ago", ago(agent.own.heard) / MS))
                } else if self.sees_kube_vip(host) {
                    Some(format!("takes early from {holder}, where kube-vip has renewed the Lease"))
                } else if heard < self.tenure_seen_by(host) {
                    Some(format!("takes early from {holder}, which has not answered it in this tenure"))
                } else if ago(agent.own.third) > silence + window + 1_050 * MS + late {
                    Some(format!("takes from {holder}, and heard nobody for {} ms", ago(agent.own.third) / MS))
                } else {
                    None
                }
            }
            // One that has the Lease by now reports the same.
            Report::Took(Cause::Provisional) if self.api.store.holder() == self.names[host] => None,
            Report::Took(Cause::Provisional) if ago(agent.own.third) > silence + 3_000 * MS => {
                Some(format!("holds provisionally, and heard nobody for {} ms", ago(agent.own.third) / MS))
            }
            _ => None,
        };
        if let Some(wrong) = wrong {
            self.violated(Rule::Witness, format!("{} {wrong}", self.names[host]));
        }
    }

    /// Whether the record that a node sees is kube-vip's: it declares nothing.
    fn sees_kube_vip(&self, host: usize) -> bool {
        let seen = self.hosts[host].agent.as_ref().and_then(|agent| agent.core.snapshot().lease);
        let rivals = || self.hosts.iter().filter_map(|host| host.own.rival.as_ref());
        seen.is_some_and(|lease| rivals().any(|rival| rival.wrote(&lease.record)))
    }

    /// When the tenure that a node sees began. One that was given back and taken again, or restored, is the same.
    fn tenure_seen_by(&self, host: usize) -> Nanos {
        let seen = self.hosts[host].agent.as_ref().and_then(|agent| agent.core.snapshot().lease);
        let Some(seen) = seen.map(|lease| lease.record) else { return 0 };
        let same =
            |r: &Record| (&r.holder, r.transitions, r.acquired) == (&seen.holder, seen.transitions, seen.acquired);
        self.api.store.holders.iter().find(|change| same(&change.record)).map_or(0, |change| change.at)
    }

    /// A write took effect.
    pub fn written(&mut self, by: Option<usize>, before: &str, view: &LeaseView) {
        self.check_released(by, before, view);
        let holder = &view.record.holder;
        if before != holder {
            let who = by.map_or_else(|| "a person".to_owned(), |by| self.names[by].clone());
            self.note(|_| format!("Lease {}: {before:?} -> {holder:?} (by {who})", view.version));
        }
        if holder.is_empty() || *holder == self.checks.witness.last {
            return;
        }
        if by.is_some() && !self.checks.witness.last.is_empty() {
            let last = self.checks.witness.last.clone();
            self.check_stays(&last, holder);
        }
        self.checks.witness.last.clone_from(holder);
        self.checks.witness.since += 1;
        self.checks.witness.all.push(self.now);
        let upgrades =
            self.plan.faults.iter().filter(|p| matches!(p.fault, Fault::Upgrade(_)) && p.at <= self.now).count();
        // A node whose kernel refuses the address gives the Lease on at once: each take by it is two.
        let refused = if self
            .active
            .iter()
            .any(|n| matches!(self.plan.faults[*n].fault, Fault::Refuse(_) | Fault::KernelSilent(..)))
        {
            4
        } else {
            0
        };
        let each = u32::try_from(upgrades * self.hosts.len() + refused).unwrap_or(u32::MAX);
        if self.checks.witness.since > self.bounds.moves + each {
            let text = format!("the VIP has moved {} times since anything happened", self.checks.witness.since);
            self.violated(Rule::Moves, text);
        }
    }
}
