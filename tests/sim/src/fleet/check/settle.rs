//! When faults stop, exactly one node carries each VIP soon, is in its record, and stays.

use super::Rule;
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
        let mut settled = vec![None; self.most];
        for (vip, settled) in settled.iter_mut().enumerate() {
            let who = self.carriers(vip);
            let [one] = who[..] else {
                let expected = self.wanted.contains(&vip) && self.able_since(vip).is_some();
                if expected || who.len() > 1 {
                    let text = format!("long after the last fault, {} carries VIP {vip}", Self::names(&who));
                    return self.violated(Rule::Settle, text);
                }
                continue;
            };
            let record = self.store.addresses.get(&vip).and_then(|a| a.holder.clone());
            let name = settings::name(one);
            let live = self.store.sessions.get(&name).filter(|s| s.is_live()).map(mooring_core::session::View::incarnation);
            let named = record.as_ref().filter(|h| h.node == name && Some(&h.session) == live.as_ref());
            if !self.wanted.contains(&vip) || named.is_none() {
                let text = format!("long after the last fault, {name} carries VIP {vip}, and its record says {record:?}");
                return self.violated(Rule::Settle, text);
            }
            *settled = Some(one);
        }
        self.checks.settled = Some(settled);
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
