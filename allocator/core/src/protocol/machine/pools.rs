//! A pool's own object: its finalizer, and its status, written behind.

use std::sync::Arc;
use std::time::Duration;

use crate::names::{PoolRef, Version};
use crate::provider::Provider;

use super::super::action::{PoolTarget, Write};
use super::super::objects::Pool;
use super::{Machine, STATUS_BEHIND, Who};

#[derive(Debug)]
pub(super) struct PoolSlot {
    pub(super) pool: Pool,
    pub(super) pending: Option<u64>,
    pub(super) spoiled: Option<Version>,
    pub(super) not_before: Duration,
    pub(super) failures: u32,
    /// The status is to be written then.
    due: Option<Duration>,
}

impl PoolSlot {
    pub(super) const fn new(pool: Pool) -> Self {
        Self { pool, pending: None, spoiled: None, not_before: Duration::ZERO, failures: 0, due: None }
    }
}

impl<P: Provider> Machine<P> {
    pub(super) fn look_at_pool(&mut self, reference: &Arc<PoolRef>) {
        let now = self.moment.now;
        let who = Who::Pool(reference.clone());
        let Some(slot) = self.pools.get_mut(reference) else { return };
        if slot.pending.is_some() || slot.pool.paused {
            return;
        }
        if slot.spoiled.as_ref() != Some(&slot.pool.version) {
            slot.spoiled = None;
        }
        if slot.not_before > now {
            let at = slot.not_before;
            return self.later(at, who);
        }
        slot.spoiled = None;
        let Pool { uid, version, .. } = &slot.pool;
        let target = PoolTarget { reference: reference.clone(), uid: uid.clone(), version: version.clone() };
        if !slot.pool.finalizer && !slot.pool.deleting {
            let id = self.write(who, Write::AddPoolFinalizer(target));
            return self.pool_waits_for(reference, id);
        }
        if slot.pool.finalizer && slot.pool.deleting {
            let counts = self.provider.status(reference).map(|s| s.counts).unwrap_or_default();
            if counts.used + counts.resting == 0 {
                let id = self.write(who, Write::RemovePoolFinalizer(target));
                return self.pool_waits_for(reference, id);
            }
        }
        // Many changes, one write.
        let Some(slot) = self.pools.get_mut(reference) else { return };
        let due = *slot.due.get_or_insert(now + STATUS_BEHIND);
        if due > now {
            return self.later(due, who);
        }
        slot.due = None;
        let Some(mut status) = self.provider.status(reference) else { return };
        status.duplicates = self.duplicates_of(reference);
        if self.pools.get(reference).is_none_or(|slot| slot.pool.status.as_ref() == Some(&status)) {
            return;
        }
        let id = self.write(who, Write::PoolStatus(target, status));
        self.pool_waits_for(reference, id);
    }

    fn pool_waits_for(&mut self, reference: &Arc<PoolRef>, id: u64) {
        if let Some(slot) = self.pools.get_mut(reference) {
            slot.pending = Some(id);
        }
    }
}
