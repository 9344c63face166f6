//! Results of writes.

use mooring_allocator_core::work::Retry;

use super::{Done, Failure, Machine, RETRY, Report, SHOWN_WITHIN, STALE_WITHIN, UNSHOWN, Who, Write};

impl Machine {
    pub(super) fn answer(&mut self, id: u64, result: Result<Done, Failure>) {
        let now = self.work.now();
        let Some((who, write)) = self.work.answered(id) else { return };
        if matches!(result, Err(Failure::Conflict | Failure::NotFound)) {
            self.work.mark_at(now + STALE_WITHIN, who.clone());
        }
        match &write {
            Write::Annotate(target, _) | Write::Status(target, _) | Write::RemoveCleanup(target) => {
                let Some(slot) = self.services.get_mut(&target.key) else { return };
                if slot.writes.pending != Some(id) {
                    return;
                }
                if slot.replaces.take_if(|replaces| *replaces == id).is_some() && result.is_ok() {
                    slot.contest.replace(now);
                }
                let known = slot.service.version.clone();
                slot.writes.ended((now, &write), &target.version, &known, &result);
            }
            Write::UpdateClaim(target, ..) | Write::DeleteClaim(target) => {
                let Some(slot) = self.claims.get_mut(&target.key).filter(|slot| slot.writes.pending == Some(id)) else {
                    return;
                };
                let known = slot.seen.as_ref().map_or_else(|| target.version.clone(), |claim| claim.version.clone());
                slot.writes.ended((now, &write), &target.version, &known, &result);
                let same = slot.seen.as_ref().is_some_and(|claim| claim.uid == target.uid);
                // The claim is being deleted or gone: no Service can have the claim any more, whatever the watch still
                // shows.
                if same && matches!(write, Write::DeleteClaim(_)) && matches!(result, Ok(_) | Err(Failure::NotFound)) {
                    slot.doomed = true;
                }
            }
            Write::CreateClaim(new) => {
                let Some(slot) = self.claims.get_mut(&new.key).filter(|slot| slot.writes.pending == Some(id)) else {
                    return;
                };
                slot.writes.pending = None;
                match result {
                    Ok(_) | Err(Failure::Exists) if slot.seen.is_some() => slot.writes.retry = Retry::default(),
                    Ok(_) => slot.writes.retry = Retry { not_before: now + SHOWN_WITHIN, failures: 0 },
                    // Somebody took the claim's label off: it is not shown as a claim for Services.
                    Err(Failure::Exists) => slot.writes.retry.back_off(now, UNSHOWN),
                    Err(_) => slot.writes.retry.back_off(now, RETRY),
                }
                let why = match result {
                    Ok(_) => None,
                    Err(Failure::Exists) => {
                        Some("a claim of this name exists, and is not for Services: delete it".into())
                    }
                    Err(Failure::Refused(why)) => Some(why.into()),
                    Err(_) => slot.refused.take(),
                };
                if slot.refused != why {
                    slot.refused = why;
                    let members: Vec<_> = slot.members.keys().cloned().collect();
                    for key in &members {
                        self.enqueue_service(key);
                    }
                    self.wake_those_behind(&members);
                }
            }
            Write::Exchange(target, _) => {
                let Who::Claim(claim) = &who else { return };
                let Some(slot) = self.claims.get_mut(claim).filter(|slot| slot.writes.pending == Some(id)) else {
                    return;
                };
                slot.writes.pending = None;
                match result {
                    // The watch will show the effect of the write.
                    Ok(_) => {
                        slot.exchanged = Some((target.uid.clone(), None));
                        slot.exchanges = slot.exchanges.saturating_add(1);
                    }
                    Err(Failure::Conflict | Failure::NotFound) => {
                        slot.exchanged = Some((target.uid.clone(), Some(target.version.clone())));
                    }
                    Err(_) => slot.writes.retry.back_off(now, RETRY),
                }
            }
            Write::CreatePool(pool) | Write::UpdatePool(_, pool) => {
                self.pool_answer(&write, &pool.reference, id, &result);
            }
            Write::DeletePool(target) => self.pool_answer(&write, &target.reference, id, &result),
        }
        self.work.mark(who);
    }

    fn pool_answer(
        &mut self,
        write: &Write,
        reference: &std::sync::Arc<mooring_allocator_core::names::PoolRef>,
        id: u64,
        result: &Result<Done, Failure>,
    ) {
        let now = self.work.now();
        if let Err(Failure::Refused(why)) = result {
            self.report(Report::PoolRefused { pool: reference.clone(), why: why.clone() });
        }
        let known = self.seen.pools.get(reference).map(|pool| pool.version.clone());
        let Some(writes) = self.made.writes.get_mut(reference).filter(|writes| writes.0.pending == Some(id)) else {
            return;
        };
        let version = writes.1.clone();
        if let (Some(version), Some(known)) = (&version, &known) {
            return writes.0.ended((now, write), version, known, result);
        }
        writes.0.pending = None;
        match result {
            Ok(_) | Err(Failure::Exists) if known.is_some() => writes.0.retry.not_before = now,
            Ok(_) | Err(Failure::Exists) => writes.0.retry.not_before = now + SHOWN_WITHIN,
            Err(_) => writes.0.retry.back_off(now, RETRY),
        }
    }
}
