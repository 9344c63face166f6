//! Invariants of the state after each step. Every simulated run checks them.

use mooring_allocator_core::work::FEW;

use super::Machine;

impl Machine {
    /// Checks the invariants that the types state.
    pub(super) fn check(&self) {
        if self.slots.len() > FEW {
            return;
        }
        let mut claims = 0;
        for (key, slot) in &self.slots {
            for (name, claim) in &slot.claims {
                assert_eq!(claim.key.name, *name, "{key}");
                assert_eq!(self.owner_of.get(&claim.key), Some(key), "{name}");
                claims += 1;
            }
            for (object, writes) in slot.writes.iter() {
                let known = writes.pending.is_none_or(|id| self.work.on_behalf_of(id).is_some());
                assert!(known, "{key}: {object:?} waits for nothing");
            }
            if let Some(id) = slot.reading {
                assert_eq!(self.reads.get(&id), Some(key));
            }
        }
        assert_eq!(self.owner_of.len(), claims, "each claim is in one slot");
    }
}
