//! A witness never takes from a holder that answers it, and the VIP does not wander.

use mooring_core::action::Report;
use mooring_core::lease::LeaseView;
use mooring_core::rules::{MOVES, MOVES_WINDOW};

use super::Rule;
use crate::clock::{MS, Nanos};
use crate::fault::Fault;
use crate::world::World;

/// How often the Lease went from one holder to another.
#[derive(Debug, Default)]
pub struct Moves {
    last: String,
    since: u32,
    all: Vec<Nanos>,
}

impl Moves {
    /// Something happened: the VIP may move again.
    pub fn disturbed(&mut self) {
        self.since = 0;
    }

    /// Whether those who watched all moves may take early now.
    #[must_use]
    pub fn may_move(&self, now: Nanos) -> bool {
        let window = Nanos::try_from(MOVES_WINDOW.as_nanos()).unwrap_or(Nanos::MAX);
        self.all.iter().filter(|at| now - **at <= window).count() < MOVES
    }
}

impl World<'_> {
    /// What a core reports is held against what the world knows.
    pub fn check_report(&mut self, host: usize, report: &Report) {
        self.check_taken_by_end(host, report);
        if let Report::Abandoned { holder } = report {
            let rules = &self.plan.settings.rules;
            let silence = Self::nanos(rules.witness_interval) * u64::from(rules.witness_misses);
            let heard = self.hosts[host].agent.as_ref().map_or(0, |agent| agent.heard);
            let quiet = self.now - heard;
            if quiet + 2 * MS < silence {
                let text = format!("cp{} takes from {holder}, whose answer reached it {} ms ago", host + 1, quiet / MS);
                self.violated(Rule::Witness, text);
            }
        }
    }

    /// A write took effect.
    pub fn written(&mut self, by: Option<usize>, before: &str, view: &LeaseView) {
        let holder = &view.record.holder;
        if before != holder {
            let who = by.map_or_else(|| "a person".to_owned(), |by| format!("cp{}", by + 1));
            self.say(|_| format!("Lease {}: {before:?} -> {holder:?} (by {who})", view.version));
        }
        if holder.is_empty() || *holder == self.checks.witness.last {
            return;
        }
        self.checks.witness.last.clone_from(holder);
        self.checks.witness.since += 1;
        self.checks.witness.all.push(self.now);
        let upgrades = self.plan.faults.iter().filter(|p| matches!(p.fault, Fault::Upgrade(_)) && p.at <= self.now).count();
        let each = u32::try_from(upgrades * self.hosts.len()).unwrap_or(u32::MAX);
        if self.checks.witness.since > self.checks.bounds.moves + each {
            let text = format!("the VIP has moved {} times since anything happened", self.checks.witness.since);
            self.violated(Rule::Moves, text);
        }
    }
}
