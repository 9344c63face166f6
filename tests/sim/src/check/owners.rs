//! Two nodes that hear each other never both carry the VIP for long.

use super::{Look, Rule};
use crate::clock::{MS, Nanos, SECOND};
use crate::queue::Item;
use crate::settings;
use crate::world::World;

/// Which pairs carry one VIP together now, and since when.
#[derive(Debug)]
pub struct Owners {
    nodes: usize,
    vips: usize,
    since: Vec<Option<Nanos>>,
    any: bool,
    /// The longest that was seen.
    pub longest: Nanos,
}

impl Owners {
    /// None.
    #[must_use]
    pub fn new(nodes: usize, vips: usize) -> Self {
        Self { nodes, vips, since: vec![None; nodes * nodes * vips], any: false, longest: 0 }
    }

    fn pair(&self, vip: usize, a: usize, b: usize) -> usize {
        (vip * self.nodes + a) * self.nodes + b
    }

    fn parts(&self, pair: usize) -> (usize, usize, usize) {
        (pair / self.nodes / self.nodes % self.vips, pair / self.nodes % self.nodes, pair % self.nodes)
    }
}

impl World<'_> {
    /// Who carries what together is looked at anew.
    pub fn watch_owners(&mut self) {
        let mut any = false;
        for vip in 0..self.plan.settings.vips.len() {
            let carriers = (0..self.hosts.len()).filter(|h| self.hosts[*h].carries(vip)).count();
            if carriers < 2 && !self.checks.owners.any {
                continue;
            }
            for a in 0..self.hosts.len() {
                for b in a + 1..self.hosts.len() {
                    any |= self.watch_pair(vip, a, b);
                }
            }
        }
        self.checks.owners.any = any;
    }

    fn watch_pair(&mut self, vip: usize, a: usize, b: usize) -> bool {
        let together = self.both_could_know(vip, a, b);
        let pair = self.checks.owners.pair(vip, a, b);
        let since = self.checks.owners.since[pair];
        match (together, since) {
            (true, None) => {
                let now = self.now;
                self.say(|_| format!("cp{} and cp{} both carry VIP {}, and hear each other", a + 1, b + 1, vip + 1));
                self.checks.owners.since[pair] = Some(now);
                let bound = self.owners_bound(a, b);
                self.put(bound, Item::Look(Look::Pair { pair, since: now }));
            }
            (false, Some(since)) => {
                self.checks.owners.since[pair] = None;
                self.checks.owners.longest = self.checks.owners.longest.max(self.now - since);
                let took = (self.now - since) / MS;
                self.say(|_| format!("cp{} and cp{} no longer do, after {took} ms", a + 1, b + 1));
            }
            _ => {}
        }
        together
    }

    /// How long that may last, by what the two can know.
    fn owners_bound(&self, a: usize, b: usize) -> Nanos {
        let (bounds, now) = (&self.checks.bounds, self.now);
        let one = |is: &dyn Fn(usize, usize) -> bool| is(a, b) || is(b, a);
        let mut bound = bounds.owners;
        // A machine that stood still does not know it before its own next step.
        let step = Self::nanos(self.plan.settings.rules.retry_period).max(SECOND);
        if one(&|h, _| self.checks.slept[h] > 0 && now < self.checks.slept[h] + step) {
            bound = bound.max(bounds.owners_after_sleep);
        }
        // kube-vip looks at nothing but the Lease, when its turn comes.
        if one(&|h, _| self.hosts[h].rival.is_some()) {
            bound += 2 * SECOND;
        }
        // Somebody whose declaration this node has not seen is a stranger to it, against whom it defends as long as it may
        // think that it holds the Lease.
        if one(&|h, other| !self.knows(h, other)) {
            bound = bound.max(bounds.owners_unknown);
        }
        bound
    }

    /// Whether a node has seen that another takes part.
    fn knows(&self, host: usize, other: usize) -> bool {
        let Some(agent) = &self.hosts[host].agent else { return true };
        let lease = agent.keeper.snapshot().lease;
        lease.is_some_and(|lease| lease.participant_with(settings::mac(other)).is_some())
    }

    /// Both carry it, hear each other, and can act. Excused is what cannot act, for as long as it cannot: a stopped, starved
    /// or dead agent hears nothing, and its fence yields for it (which the fence's own check sees to); while frames get
    /// lost, or the kernel is slow to remove an address, nobody can promise when.
    fn both_could_know(&self, vip: usize, a: usize, b: usize) -> bool {
        let able = |h: usize| {
            let host = &self.hosts[h];
            host.carries(vip)
                && (host.is_live() || host.rival.is_some())
                && host.starved == 0
                && host.kernel == 0
                && host.slow_until <= self.now
        };
        able(a) && able(b) && self.hear_each_other(a, b)
    }

    /// The bound is over.
    pub fn check_pair(&mut self, pair: usize, since: Nanos) {
        if self.checks.owners.since[pair] == Some(since) {
            let (vip, a, b) = self.checks.owners.parts(pair);
            let took = (self.now - since) / MS;
            let text =
                format!("cp{} and cp{} both carry VIP {} for {took} ms, and hear each other", a + 1, b + 1, vip + 1);
            self.violated(Rule::Owners, text);
        }
    }
}
