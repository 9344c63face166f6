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
        let shown = self.shown(&key, &object);
        let Some(slot) = self.slots.get_mut(&key) else { return };
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
        if let Object::Companion(what) = &object {
            // Nobody tells of its changes: it is read again.
            slot.known.remove(what);
            slot.reading.remove(what);
            writes.stale = None;
        }
        if result.is_ok()
            && let Some(what) = said(&write)
        {
            self.report(Report::Wrote { cluster: key.clone(), what });
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

/// A write in words; None: nobody need know.
pub(super) fn said(write: &Write) -> Option<String> {
    Some(match write {
        Write::CreateClaim(new) => match new.requested {
            Some(ip) => format!("claim {} of {}, for {ip}", new.key.name, new.pool),
            None => format!("claim {} of {}", new.key.name, new.pool),
        },
        Write::AdoptClaim(target, _) => format!("claim {}, which existed", target.key.name),
        Write::Text(_, what, _) => what.to_string(),
        Write::ControlPlane(_, reference, _) => reference.to_string(),
        Write::Host(_, reference, ip, _) => format!("{reference}: spec.controlPlaneEndpoint.host {ip}"),
        Write::Variables(..) => "spec.topology.variables".to_owned(),
        Write::Unpause(_) => "spec.paused: false".to_owned(),
        Write::Unmark(_) => format!("the annotation {} is taken off", crate::words::PAUSED_FOR_ENDPOINT),
        Write::ReleaseClaim(_) | Write::DeleteClaim(_) | Write::Condition(..) => return None,
    })
}
