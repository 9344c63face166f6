//! Two nodes that hear each other never both carry a VIP for long.

use super::{Look, Rule};
use crate::clock::{MS, Nanos, SECOND};
use crate::queue::Item;
use crate::segment::What;
use crate::subject::Subject;
use crate::world::World;

/// A pair that could not know is looked at again after this.
const SHORT: Nanos = SECOND;

impl<S: Subject> World<'_, S> {
    /// Updates which pairs of hosts carry a VIP together.
    pub fn watch_owners(&mut self, vip: usize) {
        let carriers = self.hosts.iter().filter(|host| host.carries(vip)).count();
        let any = self.pairs.range((vip, 0, 0)..(vip + 1, 0, 0)).next().is_some();
        if carriers < 2 && !any {
            return;
        }
        for a in 0..self.hosts.len() {
            for b in a + 1..self.hosts.len() {
                self.watch_pair(vip, a, b);
            }
        }
    }

    fn watch_pair(&mut self, vip: usize, a: usize, b: usize) {
        let together = self.both_could_know(vip, a, b);
        let (key, now) = ((vip, a, b), self.now);
        match (together, self.pairs.get(&key).copied()) {
            (true, None) => {
                self.note(|w| format!("{} and {} both carry VIP {vip}", w.names[a], w.names[b]));
                self.pairs.insert(key, now);
                let bound = S::owners_bound(self, a, b);
                self.put(bound, Item::Look(Look::Pair { vip, a, b, since: now }));
            }
            (false, Some(since)) => {
                self.pairs.remove(&key);
                let took = (now - since) / MS;
                self.note(|w| {
                    format!("{} and {} no longer both carry VIP {vip}, after {took} ms", w.names[a], w.names[b])
                });
            }
            _ => {}
        }
    }

    /// Whether a node has seen that another takes part.
    #[must_use]
    pub fn knows(&self, host: usize, other: usize) -> bool {
        self.hosts[host].agent.as_ref().is_none_or(|agent| S::knows(&agent.core, self.mac(other)))
    }

    /// Both carry the VIP, hear each other, and can act. Excused for as long as it lasts: an agent that is stopped, starved or
    /// dead hears nothing, and its fence yields for it (the check of fences looks at that); while frames get lost, or a
    /// kernel is slow to remove an address or does not remove it, there is no bound.
    fn both_could_know(&self, vip: usize, a: usize, b: usize) -> bool {
        let able = |h: usize| {
            let host = &self.hosts[h];
            host.carries(vip)
                && (host.is_live() || !S::is_ours(host))
                && host.starved == 0
                && host.kernel == 0
                && !host.keeps
                && host.unanswered == 0
                && host.slow_until <= self.now
        };
        able(a) && able(b) && self.hear_each_other(S::segment_of(&self.plan.settings, vip), a, b)
    }

    /// The bound is over.
    pub(super) fn check_pair(&mut self, vip: usize, a: usize, b: usize, since: Nanos) {
        if self.pairs.get(&(vip, a, b)) == Some(&since) {
            // A switch names a third host to both, for as long as it knows that one: the fences have to do.
            let segment = S::segment_of(&self.plan.settings, vip);
            let what = What::Vip(vip);
            if self.hides(a, segment, what, b) && self.hides(b, segment, what, a) {
                return self.put(SHORT, Item::Look(Look::Pair { vip, a, b, since }));
            }
            let took = (self.now - since) / MS;
            let (a, b) = (&self.names[a], &self.names[b]);
            let text = format!("{a} and {b} both carry VIP {vip} for {took} ms, and hear each other");
            self.violated(Rule::Owners, text);
        }
    }

    /// The carriers of a VIP.
    #[must_use]
    pub fn carriers(&self, vip: usize) -> Vec<usize> {
        (0..self.hosts.len()).filter(|h| self.hosts[*h].carries(vip)).collect()
    }
}
