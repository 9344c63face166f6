//! When faults stop, exactly one node carries each VIP soon, is in its record, and stays.

use super::{Look, Rule};
use crate::clock::{Nanos, SECOND};
use crate::fleet::queue::Item;
use crate::fleet::settings;
use crate::fleet::world::World;

impl World<'_> {
    fn carriers(&self, vip: usize) -> Vec<usize> {
        (0..self.hosts.len()).filter(|h| self.hosts[*h].up && self.hosts[*h].vips[vip].is_some()).collect()
    }

    fn names(who: &[usize]) -> String {
        let all: Vec<_> = who.iter().map(|h| settings::name(*h)).collect();
        if all.is_empty() { "nobody".into() } else { all.join(" and ") }
    }

    /// All should be settled.
    pub fn check_settled(&mut self) {
        match self.settled() {
            Ok(settled) => self.checks.settled = Some(settled),
            Err(text) => self.violated(Rule::Settle, format!("long after the last fault, {text}")),
        }
    }

    /// Nothing but renewals has happened for longer than a Lease: nothing else is to come.
    pub fn check_quiet(&mut self) {
        if self.checks.settled.is_some() {
            return;
        }
        let lease = Self::nanos(self.plan.settings.rules.lease_duration);
        if self.now > self.checks.stirred + lease + 5 * SECOND
            && self.all_can_act()
            && let Ok(settled) = self.settled()
        {
            self.checks.settled = Some(settled);
            self.checks.over = self.now + self.checks.bounds.stay;
            return;
        }
        self.put(SECOND, Item::Look(Look::Quiet));
    }

    /// Every agent runs, with an API, and renews its session.
    fn all_can_act(&self) -> bool {
        let retry = Self::nanos(self.plan.settings.rules.retry_period);
        let renews = |h: usize| {
            let name = settings::name(h);
            self.store.sessions.get(&name).is_some_and(mooring_core::session::View::is_live)
                && self.store.renewed.get(&name).is_some_and(|at: &Nanos| self.now < at + 2 * retry + SECOND)
        };
        self.wire.clean && (0..self.hosts.len()).all(|h| self.hosts[h].is_live() && self.has_api(h) && renews(h))
    }

    /// Who carries each VIP, if each is carried by exactly one node that is in its record; else what is wrong.
    fn settled(&self) -> Result<Vec<Option<usize>>, String> {
        let mut settled = vec![None; self.most];
        for (vip, settled) in settled.iter_mut().enumerate() {
            let who = self.carriers(vip);
            let [one] = who[..] else {
                let expected = self.wanted.contains(&vip) && self.able_since(vip).is_some();
                if expected || who.len() > 1 {
                    return Err(format!("{} carries VIP {vip}", Self::names(&who)));
                }
                continue;
            };
            let record = self.store.addresses.get(&vip).and_then(|a| a.holder.clone());
            let name = settings::name(one);
            let live =
                self.store.sessions.get(&name).filter(|s| s.is_live()).map(mooring_core::session::View::incarnation);
            let named = record.as_ref().filter(|h| h.node == name && Some(&h.session) == live.as_ref());
            if !self.wanted.contains(&vip) || named.is_none() {
                return Err(format!("{name} carries VIP {vip}, and its record says {record:?}"));
            }
            *settled = Some(one);
        }
        Ok(settled)
    }

    /// From then on nothing changes.
    pub fn watch_settled(&mut self, vip: usize) {
        let Some(settled) = &self.checks.settled else { return };
        let (expected, who) = (settled[vip], self.carriers(vip));
        if who.first().copied() != expected || who.len() > 1 {
            let text = format!("all was quiet, and {} carries VIP {vip} now", Self::names(&who));
            self.violated(Rule::Settle, text);
        }
    }
}
