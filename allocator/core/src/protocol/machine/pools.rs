//! A pool's own object: its finalizer, and its status, which is written with a delay.

use std::sync::Arc;
use std::time::Duration;

use crate::names::{PoolRef, Version};
use crate::provider::Provider;
use crate::work::{PoolTarget, Retry};

use super::super::action::Write;
use super::super::objects::{Claim, Pool};
use super::claims::Said;
use super::{Machine, RETRY, STATUS_BEHIND, Who};

#[derive(Debug)]
pub(super) struct PoolSlot {
    pub(super) pool: Pool,
    pub(super) pending: Option<u64>,
    /// A write at this version was done, or came too late: the next one waits until the watch shows another version.
    pub(super) spoiled: Option<Version>,
    pub(super) retry: Retry,
    /// When the status is due to be written.
    due: Option<Duration>,
    /// The status that this allocator wrote last. Another allocator that leads as well may know of other addresses that are
    /// kept for claims: the two must not replace each other's status without end.
    said: Option<Said>,
}

impl PoolSlot {
    pub(super) const fn new(pool: Pool) -> Self {
        Self {
            pool,
            pending: None,
            spoiled: None,
            retry: Retry { not_before: Duration::ZERO, failures: 0 },
            due: None,
            said: None,
        }
    }
}

impl<P: Provider> Machine<P> {
    pub(super) fn look_at_pool(&mut self, reference: &Arc<PoolRef>) {
        let now = self.work.now();
        let who = Who::Pool(reference.clone());
        let Some(slot) = self.pools.get_mut(reference) else { return };
        if slot.pending.is_some() || slot.pool.paused.is_some() {
            return;
        }
        if slot.spoiled.take_if(|version| *version != slot.pool.version).is_some() {
            slot.retry.not_before = Duration::ZERO;
        }
        if slot.retry.not_before > now {
            let at = slot.retry.not_before;
            return self.work.mark_at(at, who);
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
            let claimed = |claim: &Arc<Claim>| claim.pool == *reference && claim.finalizer;
            let claimed = reference.kind.is_remote() && self.claims().any(claimed);
            if counts.used + counts.resting == 0 && !claimed && self.provider.pool_may_go(reference) {
                let id = self.write(who, Write::RemovePoolFinalizer(target));
                return self.pool_waits_for(reference, id);
            }
        }
        // One write covers many changes.
        let Some(slot) = self.pools.get_mut(reference) else { return };
        let due = *slot.due.get_or_insert(now + STATUS_BEHIND);
        if due > now {
            return self.work.mark_at(due, who);
        }
        slot.due = None;
        let Some(mut status) = self.provider.status(reference) else { return };
        status.duplicates = self.duplicates_of(reference);
        if self.pools.get(reference).is_none_or(|slot| slot.pool.status.as_ref() == Some(&status)) {
            return;
        }
        let Some(slot) = self.pools.get_mut(reference) else { return };
        if let Some(at) = slot.said.and_then(|said| said.waits(&status, now)) {
            slot.due = Some(now);
            return self.work.mark_at(at, who);
        }
        let before = slot.said.filter(|said| said.over() + RETRY.last > now);
        slot.said = Some(Said::now(&status, now, before));
        let id = self.write(who, Write::PoolStatus(target, status));
        self.pool_waits_for(reference, id);
    }

    fn pool_waits_for(&mut self, reference: &Arc<PoolRef>, id: u64) {
        if let Some(slot) = self.pools.get_mut(reference) {
            slot.pending = Some(id);
        }
    }
}
