//! When faults stop, exactly one node carries the VIP soon, and stays.

use super::Rule;
use crate::world::World;

/// Who has it in the end.
#[derive(Debug, Default)]
pub struct Settle {
    by: Option<usize>,
}

impl World<'_> {
    fn carriers(&self, vip: usize) -> Vec<usize> {
        (0..self.hosts.len()).filter(|h| self.hosts[*h].carries(vip)).collect()
    }

    fn names(who: &[usize]) -> String {
        let all: Vec<_> = who.iter().map(|h| format!("cp{}", h + 1)).collect();
        if all.is_empty() { "nobody".into() } else { all.join(" and ") }
    }

    /// All should be settled.
    pub fn check_settled(&mut self) {
        let mut by = None;
        for vip in 0..self.plan.settings.vips.len() {
            let who = self.carriers(vip);
            let [one] = who[..] else {
                let text = format!("long after the last fault, {} carries VIP {}", Self::names(&who), vip + 1);
                return self.violated(Rule::Settle, text);
            };
            if by.is_some_and(|by| by != one) {
                let text =
                    format!("long after the last fault, {} carries VIP {}, but not all", Self::names(&who), vip + 1);
                return self.violated(Rule::Settle, text);
            }
            by = Some(one);
        }
        let Some(one) = by else { return };
        if self.store.holder() != self.plan.names[one] {
            let text = format!(
                "long after the last fault, cp{} carries the VIPs, and {:?} has the Lease",
                one + 1,
                self.store.holder()
            );
            return self.violated(Rule::Settle, text);
        }
        if let Some(vip) = self.client.entries.iter().position(|e| e.silent.is_some()) {
            let text = format!("long after the last fault, the client has no answer from VIP {}", vip + 1);
            return self.violated(Rule::Settle, text);
        }
        self.checks.settle.by = Some(one);
    }

    /// From then on nothing changes.
    pub fn watch_settled(&mut self) {
        let Some(by) = self.checks.settle.by else { return };
        for vip in 0..self.plan.settings.vips.len() {
            let who = self.carriers(vip);
            if who != [by] {
                let text = format!("all was quiet, and {} carries VIP {} now", Self::names(&who), vip + 1);
                self.violated(Rule::Settle, text);
            }
        }
    }
}
