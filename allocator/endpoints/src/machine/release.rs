//! Releasing the claims of a Cluster that is gone.

use mooring_allocator_core::names::Key;

use crate::objects::{Claim, Companion};

use super::flaws::{Flaw, planted};
use super::reading::RECHECK_WRITTEN;
use super::view::claim_target;
use super::{Machine, Write};

impl Machine {
    /// The Cluster of these claims is not shown. They are released if the API server says that it does not exist: the watch of
    /// Clusters may be behind the watch of claims.
    pub(super) fn release(&mut self, key: &Key) {
        let now = self.work.now();
        let Some(slot) = self.slots.get_mut(key) else { return };
        // A claim that only has our label may be a machine's, and one of another namespace or label is another allocator's.
        let ours = slot.claims.values().filter(|claim| claim.is_of_a_cluster() && !claim.retained.elsewhere);
        let ours: Vec<Claim> = ours.cloned().collect();
        if ours.is_empty() {
            return;
        }
        let what = Companion::Cluster(key.clone());
        let Some(known) = slot.known.get(&what) else {
            if planted(Flaw::ReleasesUnasked) {
                return ours.iter().for_each(|claim| self.end(key, claim));
            }
            return self.ask(key, what);
        };
        if known.reading.is_some() {
            // The watch will show it; or never does, since it is none of ours. A change of a claim has it read at once.
            slot.ownerless.owner_is_there();
            let again = known.at + RECHECK_WRITTEN;
            if again > now {
                return self.work.mark_at(again, key.clone());
            }
            return self.ask(key, what);
        }
        let orphaned = slot.ownerless.end(known.at);
        let fresh = known.at >= orphaned;
        let may_be_restored = |claim: &Claim| {
            let has = claim.bound.is_some() || claim.had().is_some();
            has && !slot.ownerless.outlived_its_owner(&claim.uid) && !planted(Flaw::ReleasesTheRestored)
        };
        let (go, wait): (Vec<&Claim>, Vec<&Claim>) =
            ours.iter().partition(|claim| fresh || (claim.deleting && !may_be_restored(claim)));
        for claim in go {
            self.end(key, claim);
        }
        if wait.is_empty() {
            return;
        }
        if orphaned > now { self.work.mark_at(orphaned, key.clone()) } else { self.ask(key, what) }
    }

    /// The next write to the end of a claim.
    fn end(&mut self, key: &Key, claim: &Claim) {
        if !claim.deleting {
            self.write(key, Write::DeleteClaim(claim_target(claim)));
        } else if claim.in_use() {
            self.write(key, Write::ReleaseClaim(claim_target(claim)));
        }
    }
}
