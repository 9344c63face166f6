//! Results of writes.

use mooring_allocator_core::work::{ObjectWrite as _, Repeatable as _, STALE_WITHIN};

use crate::objects::Companion;

use super::slots::Object;
use super::{Done, Failure, Machine, Report, Write};

impl Machine {
    pub(super) fn answer(&mut self, id: u64, result: &Result<Done, Failure>, said: Option<String>) {
        let now = self.work.now();
        let Some((key, write)) = self.work.answered(id) else { return };
        if matches!(result, Err(Failure::Conflict | Failure::NotFound)) {
            self.work.mark_at(now + STALE_WITHIN, key.clone());
        }
        let object = write.object();
        let shown = self.shown(&key, &object);
        let Some(slot) = self.slots.get_mut(&key).filter(|slot| slot.writes.is_pending(&object, id)) else { return };
        if let Some(at) = slot.writes.ended((now, &write), shown, result) {
            // A claim that is not shown in time is created again.
            self.work.mark_at(at, key.clone());
        }
        match said {
            Some(said) => _ = slot.failed.insert(object.clone(), said.into()),
            None => _ = slot.failed.remove(&object),
        }
        if result.is_ok() && matches!(write, Write::Unpause(_)) {
            slot.went_on = true;
        }
        let changed =
            matches!(result, Ok(Done::There(new)) if write.target().is_some_and(|target| target.version != *new));
        let put_back = if changed && write.is_urgent() { slot.put_back.wrote(now, &write) } else { None };
        if let Object::Companion(what) = &object {
            if changed && matches!(what, Companion::Secret(..)) {
                // Whoever has emptied it may be about to empty another.
                slot.stirred = now;
            }
            // Nobody tells of its changes: it is read again.
            slot.known.remove(what);
            slot.reading.remove(what);
            slot.writes.is_read(&object);
        }
        if result.is_ok()
            && let Some(what) = write.said()
        {
            self.report(Report::Wrote { cluster: key.clone(), what });
        }
        if let Some(message) = put_back {
            self.report(Report::PutBack { cluster: key.clone(), message });
        }
        if result.is_ok()
            && let Write::ReleaseClaim(target) = &write
            && slot_is_gone(self, &key)
        {
            self.report(Report::Released { claim: target.key.clone() });
        }
        self.work.mark(key);
    }
}

fn slot_is_gone(machine: &Machine, key: &mooring_allocator_core::names::Key) -> bool {
    machine.slots.get(key).is_none_or(|slot| slot.cluster.is_none())
}
