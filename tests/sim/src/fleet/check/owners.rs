//! Two nodes that hear each other never both carry a VIP for long.

use super::{Look, Rule};
use crate::clock::{MS, Nanos, SECOND};
use crate::fleet::queue::Item;
use crate::fleet::settings;
use crate::fleet::world::World;

impl World<'_> {
    /// Who carries a VIP together is looked at anew.
    pub fn watch_owners(&mut self, vip: usize) {
        let carriers: Vec<usize> = (0..self.hosts.len()).filter(|h| self.hosts[*h].vips[vip].is_some()).collect();
        let any = self.checks.pairs.range((vip, 0, 0)..(vip + 1, 0, 0)).next().is_some();
        if carriers.len() < 2 && !any {
            return;
        }
        for a in 0..self.hosts.len() {
            for b in a + 1..self.hosts.len() {
                self.watch_pair(vip, a, b);
            }
        }
    }

    fn watch_pair(&mut self, vip: usize, a: usize, b: usize) {
        let together = self.could_know(vip, a, b);
        let (key, now) = ((vip, a, b), self.now);
        match (together, self.checks.pairs.get(&key)) {
            (true, None) => {
                self.say(|_| format!("{} and {} both carry VIP {vip}", settings::name(a), settings::name(b)));
                self.checks.pairs.insert(key, now);
                let bound = self.owners_bound(a, b);
                self.put(bound, Item::Look(Look::Pair { vip, a, b, since: now }));
            }
            (false, Some(_)) => {
                self.checks.pairs.remove(&key);
                self.say(|_| format!("{} and {} no longer both carry VIP {vip}", settings::name(a), settings::name(b)));
            }
            _ => {}
        }
    }

    /// How long that may last, by what the two can know.
    fn owners_bound(&self, a: usize, b: usize) -> Nanos {
        let (bounds, now) = (&self.checks.bounds, self.now);
        let mut bound = bounds.owners;
        if [a, b].iter().any(|h| self.hosts[*h].slept > 0 && now < self.hosts[*h].slept + SECOND) {
            bound = bound.max(bounds.owners_after_sleep);
        }
        if !self.knows(a, b) || !self.knows(b, a) {
            bound = bound.max(bounds.owners_unknown);
        }
        bound
    }

    /// Whether a node has seen that another has a session.
    fn knows(&self, host: usize, other: usize) -> bool {
        self.hosts[host].agent.as_ref().is_none_or(|a| a.fleet.node_with(settings::mac(other)).is_some())
    }

    /// Both carry it, hear each other, and can act. A stopped, starved or dead agent hears nothing, and its fence yields for
    /// it; while frames get lost, or the kernel is slow, nobody can promise when.
    fn could_know(&self, vip: usize, a: usize, b: usize) -> bool {
        let able = |h: usize| {
            let host = &self.hosts[h];
            host.vips[vip].is_some()
                && host.is_live()
                && host.starved == 0
                && host.kernel == 0
                && host.slow_until <= self.now
        };
        able(a) && able(b) && self.hear_each_other(self.plan.settings.segment_of(vip), a, b)
    }

    /// The bound is over.
    pub fn check_pair(&mut self, vip: usize, a: usize, b: usize, since: Nanos) {
        if self.checks.pairs.get(&(vip, a, b)) == Some(&since) {
            let took = (self.now - since) / MS;
            let (a, b) = (settings::name(a), settings::name(b));
            self.violated(Rule::Owners, format!("{a} and {b} both carry VIP {vip} for {took} ms, and hear each other"));
        }
    }
}
