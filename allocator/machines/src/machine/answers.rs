//! Results of writes.

use mooring_allocator_core::work::{ObjectWrite as _, STALE_WITHIN};

use super::{Done, Failure, Machine, Report, Write};

impl Machine {
    pub(super) fn answer(&mut self, id: u64, result: &Result<Done, Failure>) {
        let now = self.work.now();
        let Some((key, write)) = self.work.answered(id) else { return };
        if matches!(result, Err(Failure::Conflict | Failure::NotFound)) {
            self.work.mark_at(now + STALE_WITHIN, key.clone());
        }
        let object = write.object();
        let shown = self.slots.get(&key).and_then(|slot| slot.shown(&object));
        let Some(slot) = self.slots.get_mut(&key).filter(|slot| slot.writes.is_pending(&object, id)) else { return };
        if let Some(at) = slot.writes.ended((now, &write), shown, result) {
            // A claim that is not shown in time is created again.
            self.work.mark_at(at, key.clone());
        }
        if result.is_ok() {
            let left = self.seen(&key).is_none();
            match &write {
                Write::ReleaseClaim(target) if left => self.report(Report::Released { claim: target.key.clone() }),
                write => {
                    if let Some(what) = write.said() {
                        self.report(Report::Wrote { machine: key.clone(), what });
                    }
                }
            }
        }
        self.work.mark(key);
    }
}
