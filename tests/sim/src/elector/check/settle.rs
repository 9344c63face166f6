//! When faults stop, exactly one node carries the VIP soon, and stays.

use crate::check::Rule;
use crate::elector::Elector;
use crate::world::World;

/// The holder at the end.
#[derive(Debug, Default)]
pub struct Settle {
    by: Option<usize>,
}

impl World<'_, Elector> {
    /// All should be settled.
    pub fn check_settled(&mut self) {
        let mut by = None;
        for vip in 0..self.vips {
            let who = self.carriers(vip);
            let [one] = who[..] else {
                let text = format!("long after the last fault, {} carries VIP {vip}", self.names_of(&who));
                return self.violated(Rule::Settle, text);
            };
            if by.is_some_and(|by| by != one) {
                let text = format!("long after the last fault, {} carries VIP {vip}, but not all", self.names_of(&who));
                return self.violated(Rule::Settle, text);
            }
            by = Some(one);
        }
        let Some(one) = by else { return };
        if self.api.store.holder() != self.names[one] {
            let text = format!(
                "long after the last fault, {} carries the VIPs, and {:?} has the Lease",
                self.names[one],
                self.api.store.holder()
            );
            return self.violated(Rule::Settle, text);
        }
        // Excused: a host that fell mute after its take, when the VIP has moved too often for an early take, or when it was not heard before.
        let mute = !self.is_robbed_by_a_mute()
            && self.segment.mutes.is_all(one, 0)
            && (0..self.hosts.len()).all(|n| n == one || self.renews_elsewhere(n));
        if let Some(vip) = self.checks.client.entries.iter().position(|e| e.silent.is_some()).filter(|_| !mute) {
            let text = format!("long after the last fault, the client has no answer from VIP {vip}");
            return self.violated(Rule::Settle, text);
        }
        self.checks.settle.by = Some(one);
    }

    /// From then on nothing changes.
    pub fn watch_settled(&mut self) {
        let Some(by) = self.checks.settle.by else { return };
        for vip in 0..self.vips {
            let who = self.carriers(vip);
            if who != [by] {
                let text = format!("all was quiet, and {} carries VIP {vip} now", self.names_of(&who));
                self.violated(Rule::Settle, text);
            }
        }
    }
}
