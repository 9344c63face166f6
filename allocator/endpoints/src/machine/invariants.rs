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
                assert_eq!(self.cluster_of.get(&claim.key), Some(key), "{name}");
                claims += 1;
            }
            for (object, writes) in slot.writes.iter() {
                let known = writes.pending.is_none_or(|id| self.work.on_behalf_of(id).is_some());
                assert!(known, "{key}: {object:?} waits for nothing");
            }
            for (what, id) in &slot.reading {
                assert_eq!(self.reads.get(id).map(|(_, what)| what), Some(what), "{key}");
            }
            let cluster = slot.cluster.iter();
            let named = cluster.flat_map(|cluster| cluster.infrastructure.iter().chain(&cluster.control_plane));
            for reference in named {
                assert!(self.named_by.get(reference).is_some_and(|keys| keys.contains(key)), "{reference}");
            }
        }
        assert_eq!(self.cluster_of.len(), claims, "each claim is in one slot");
        for (reference, keys) in &self.named_by {
            assert!(!keys.is_empty(), "{reference}");
            let names = |key| {
                self.seen(key)
                    .is_some_and(|one| [&one.infrastructure, &one.control_plane].contains(&&Some(reference.clone())))
            };
            assert!(keys.iter().all(names), "{reference}: {keys:?}");
        }
    }
}
