//! Invariants of the state after each step. Every simulated run checks them.

use std::collections::BTreeSet;

use mooring_allocator_core::work::FEW;

use super::Machine;
use super::slots::Held;

impl Machine {
    /// Checks the invariants that the types state.
    pub(super) fn check(&self) {
        if self.services.len() + self.claims.all.len() > FEW {
            return;
        }
        self.check_claims();
        self.check_services();
        let takeover = &self.takeover;
        let waited_for = !(takeover.unsettled.is_empty() && takeover.asking.is_empty());
        assert!(waited_for || takeover.settles_by.is_none(), "an end without anybody to wait for");
        assert!(takeover.kept.values().all(|keys| !keys.is_empty()));
        assert!(takeover.unclaimed.values().all(|keys| !keys.is_empty()));
        assert!(self.seen.endpoints.nodes.values().all(|nodes| !nodes.is_empty()));
        let pending = self.made.writes.values().filter_map(|writes| writes.0.pending);
        assert!(pending.into_iter().all(|id| self.work.on_behalf_of(id).is_some()), "a pool waits for nothing");
    }

    fn check_claims(&self) {
        let claims = &self.claims;
        for (key, slot) in &claims.all {
            assert!(claims.by_pool.get(&slot.pool).is_some_and(|keys| keys.contains(key)), "{key} by pool");
            let by_request = slot.requested.map(|ip| claims.by_request.get(&ip));
            assert!(by_request.is_none_or(|keys| keys.is_some_and(|keys| keys.contains(key))), "{key} by request");
            let group = slot.group.clone().map(|group| claims.by_group.get(&(group, slot.family)));
            let ranked = (slot.rank, key.clone());
            assert!(group.is_none_or(|all| all.is_some_and(|all| all.contains(&ranked))), "{key} by group");
            assert!(
                slot.writes.pending.is_none_or(|id| self.work.on_behalf_of(id).is_some()),
                "{key} waits for nothing"
            );
        }
        let found = claims.by_pool.values().map(BTreeSet::len).sum::<usize>();
        assert_eq!(found, claims.all.len(), "by pool");
        let asking = claims.all.values().filter(|slot| slot.requested.is_some()).count();
        assert_eq!(claims.by_request.values().map(BTreeSet::len).sum::<usize>(), asking, "by request");
        let grouped = claims.all.values().filter(|slot| slot.group.is_some()).count();
        assert_eq!(claims.by_group.values().map(BTreeSet::len).sum::<usize>(), grouped, "by group");
        let ports = claims.all.values().filter(|slot| slot.group.is_some()).map(|slot| slot.ports.len()).sum::<usize>();
        assert_eq!(claims.by_port.values().sum::<usize>(), ports, "by port");
    }

    fn check_services(&self) {
        for (key, slot) in &self.services {
            for claim in slot.held.iter().flat_map(Held::all) {
                let members = self.claims.get(claim).map(|claim| &claim.members);
                assert!(members.is_some_and(|members| members.contains_key(key)), "{key} holds {claim}");
            }
            assert!(
                slot.writes.pending.is_none_or(|id| self.work.on_behalf_of(id).is_some()),
                "{key} waits for nothing"
            );
        }
        for (topic, keys) in &self.waiting {
            let waits = |key| self.services.get(key).is_some_and(|slot| slot.waits.contains(topic));
            assert!(keys.iter().all(waits), "{topic:?}: {keys:?}");
        }
    }
}
