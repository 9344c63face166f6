//! Results of writes.

use mooring_allocator_core::work::{RETRY, Retry, SHOWN_WITHIN, STALE_WITHIN, UNSHOWN};

use super::slots::Object;
use super::{Done, Failure, Machine, Report, Write};

impl Machine {
    pub(super) fn answer(&mut self, id: u64, result: &Result<Done, Failure>) {
        let now = self.work.now();
        let Some((key, write)) = self.work.answered(id) else { return };
        if matches!(result, Err(Failure::Conflict | Failure::NotFound)) {
            self.work.mark_at(now + STALE_WITHIN, key.clone());
        }
        let object = Object::of(&write);
        let Some(slot) = self.slots.get_mut(&key) else { return };
        let shown = slot.shown(&object);
        match result {
            Err(Failure::Refused(why)) => _ = slot.refused.insert(object.clone(), why.as_str().into()),
            _ => _ = slot.refused.remove(&object),
        }
        let Some(writes) = slot.writes.get_mut(&object).filter(|writes| writes.pending == Some(id)) else { return };
        if let Some(target) = write.target() {
            let known = shown.unwrap_or_else(|| target.version.clone());
            writes.ended((now, &write), &target.version, &known, result);
        } else if let Object::Claim(name) = &object {
            writes.pending = None;
            let there = slot.claims.contains_key(name);
            match result {
                Ok(_) | Err(Failure::Exists) if there => writes.retry = Retry::default(),
                Ok(_) => writes.retry = Retry { not_before: now + SHOWN_WITHIN, failures: 0 },
                Err(Failure::Exists) => writes.retry.back_off(now, UNSHOWN),
                Err(_) => writes.retry.back_off(now, RETRY),
            }
            if matches!(result, Err(Failure::Exists)) && !there {
                slot.hidden.insert(name.clone());
            } else {
                slot.hidden.remove(name);
            }
            if !there {
                // A claim that is not shown in time is created again.
                self.work.mark_at(writes.retry.not_before, key.clone());
            }
        }
        if result.is_ok() {
            let left = self.seen(&key).is_none();
            match &write {
                Write::ReleaseClaim(target) if left => self.report(Report::Released { claim: target.key.clone() }),
                write => {
                    if let Some(what) = said(write) {
                        self.report(Report::Wrote { machine: key.clone(), what });
                    }
                }
            }
        }
        self.work.mark(key);
    }
}

/// A write in words; None: nobody need know.
pub(super) fn said(write: &Write) -> Option<String> {
    Some(match write {
        Write::CreateClaim(new) => format!("claim {} of {}", new.key.name, new.pool),
        Write::AdoptClaim(target, _) => format!("claim {}, which existed", target.key.name),
        Write::Devices(_, _, addresses) => format!("spec.network.devices: {addresses}"),
        Write::ReleaseClaim(_) | Write::DeleteClaim(_) => return None,
    })
}
