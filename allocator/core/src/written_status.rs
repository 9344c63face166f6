//! The last status written to each pool.
//!
//! An object does not show all of a status: for example, the kept addresses are not in it. So the written status is
//! remembered, and counts as long as the object shows the same fields. Otherwise each restart of a watch would write
//! every status again.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::names::{PoolRef, Uid};
use crate::protocol::PoolStatus;

/// The written statuses, by pool.
///
/// Invariant: a status belongs to the uid to which it was written. A pool that was deleted and made again has none.
#[derive(Debug, Default)]
pub struct WrittenStatus {
    by_pool: BTreeMap<Arc<PoolRef>, (Uid, PoolStatus)>,
}

impl WrittenStatus {
    /// A pool was shown.
    pub fn shown(&mut self, pool: &Arc<PoolRef>, uid: &Uid) {
        if self.by_pool.get(pool).is_some_and(|(written_to, _)| written_to != uid) {
            self.by_pool.remove(pool);
        }
    }

    /// A pool is gone.
    pub fn gone(&mut self, pool: &PoolRef) {
        self.by_pool.remove(pool);
    }

    /// Keeps only these pools.
    pub fn retain(&mut self, there: impl Fn(&PoolRef) -> bool) {
        self.by_pool.retain(|pool, _| there(pool));
    }

    /// A status was written, or the object has this status already.
    pub fn written(&mut self, pool: &Arc<PoolRef>, uid: &Uid, status: PoolStatus) {
        self.by_pool.insert(pool.clone(), (uid.clone(), status));
    }

    /// The status that a pool's object shows: the last written status, if the object matches it; otherwise the readable
    /// part of the object's status.
    pub fn of(
        &self,
        pool: &PoolRef,
        says: impl FnOnce(&PoolStatus) -> bool,
        read: impl FnOnce() -> Option<PoolStatus>,
    ) -> Option<PoolStatus> {
        match self.by_pool.get(pool) {
            Some((_, written)) if says(written) => Some(written.clone()),
            _ => read(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::PoolKind;

    fn status(message: &str) -> PoolStatus {
        PoolStatus { ready: true, message: message.into(), ..PoolStatus::default() }
    }

    #[test]
    fn what_was_written_counts_while_the_object_says_it() {
        let pool = Arc::new(PoolRef::new(PoolKind::InClusterIPPool, "n", "p"));
        let (uid, read) = (Uid::from("u"), || Some(status("read")));
        let mut all = WrittenStatus::default();
        assert_eq!(all.of(&pool, |_| true, read), Some(status("read")), "nothing was written");
        all.written(&pool, &uid, status("written"));
        assert_eq!(all.of(&pool, |_| true, read), Some(status("written")));
        assert_eq!(all.of(&pool, |_| false, read), Some(status("read")), "somebody else wrote since");
        all.shown(&pool, &uid);
        assert_eq!(all.of(&pool, |_| true, || None), Some(status("written")));
        all.shown(&pool, &Uid::from("another"));
        assert_eq!(all.of(&pool, |_| true, || None), None, "it was made again");
    }
}
