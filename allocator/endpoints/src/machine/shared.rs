//! `Secret`s that the machines of several Clusters get: the address of one must not be written into them.

use std::sync::Arc;

use mooring_allocator_core::names::Key;

use crate::objects::{Companion, ControlPlane, Reference};

use super::Machine;

impl Machine {
    /// A control plane names these `Secret`s from now on.
    pub(super) fn names_secrets(&mut self, one: &ControlPlane) {
        for (_, secret) in one.secrets() {
            self.users.entry(secret).or_default().insert(one.reference.clone());
        }
    }

    /// A control plane does not name its `Secret`s any more, or is shown anew.
    pub(super) fn names_secrets_no_more(&mut self, reference: &Reference) {
        let Some(one) = self.control_planes.get(reference) else { return };
        for (_, secret) in one.secrets() {
            if let Some(users) = self.users.get_mut(&secret) {
                users.remove(reference);
                if users.is_empty() {
                    self.users.remove(&secret);
                }
            }
        }
    }

    /// The Clusters whose machines get this `Secret`, besides this one.
    pub(super) fn other_users(&self, cluster: &Key, secret: &Companion) -> Vec<Arc<str>> {
        let planes = self.users.get(secret).into_iter().flatten();
        let planes = planes.filter(|reference| self.control_planes.get(reference).is_some_and(|one| !one.deleting));
        let clusters = planes.filter_map(|reference| self.named_by.get(reference)).flatten();
        let lives = |key: &&Key| self.seen(key).is_some_and(|one| !one.deleting);
        clusters.filter(|key| *key != cluster).filter(lives).map(|key| key.name.clone()).collect()
    }
}
