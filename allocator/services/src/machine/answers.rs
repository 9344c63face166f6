//! Results of writes.

use std::time::Duration;

use mooring_allocator_core::names::Version;
use mooring_allocator_core::work::Retry;

use super::slots::Writes;
use super::{Done, Failure, Machine, RETRY, Report, SHOWN_WITHIN, STALE_WITHIN, UNSHOWN, Who, Write};

impl Writes {
    /// The write at `version` ended; `known`: the version that the watch shows.
    fn ended(
        &mut self,
        (now, write): (Duration, &Write),
        version: &Version,
        known: &Version,
        result: &Result<Done, Failure>,
    ) {
        self.pending = None;
        if result.is_ok() {
            self.repeats.succeeded(now, write);
        }
        let conflict = matches!(result, Err(Failure::Conflict | Failure::NotFound));
        self.stale_until = conflict.then_some(now + STALE_WITHIN);
        match result {
            Ok(Done::There(new)) => {
                self.retry.failures = 0;
                // The watch will show the new version. (A write that changed nothing left the version unchanged.)
                self.stale = (known == version && new != version).then(|| version.clone());
            }
            Ok(Done::Gone) | Err(Failure::Conflict | Failure::NotFound) => {
                self.retry.failures = 0;
                self.stale = (known == version).then(|| version.clone());
            }
            Err(Failure::Exists | Failure::Refused(_) | Failure::Unknown) => self.retry.back_off(now, RETRY),
        }
    }
}

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
                    Ok(_) => slot.exchanged = Some((target.uid.clone(), None)),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_write_waits_longer_each_time_and_a_conflict_for_the_watch() {
        let (mut writes, now) = (Writes::default(), Duration::from_secs(9));
        let target = super::super::Target {
            key: mooring_allocator_core::names::Key::new("a", "web"),
            uid: mooring_allocator_core::names::Uid::from("u"),
            version: Version::from("1"),
        };
        let write = Write::RemoveCleanup(target);
        let (old, new) = (Version::from("1"), Version::from("2"));
        writes.ended((now, &write), &old, &old, &Err(Failure::Unknown));
        assert_eq!((writes.retry.not_before, writes.stale.clone()), (now + RETRY.first, None));
        writes.ended((now, &write), &old, &old, &Err(Failure::Unknown));
        assert_eq!(writes.retry.not_before, now + RETRY.first * 2);
        writes.ended((now, &write), &old, &old, &Err(Failure::Conflict));
        assert_eq!((writes.stale.clone(), writes.retry.failures), (Some(old.clone()), 0));
        writes.freshen(now + STALE_WITHIN / 2);
        assert!(writes.stale.is_some());
        writes.freshen(now + STALE_WITHIN);
        assert_eq!(writes.stale, None, "nor for ever");
        writes.ended((now, &write), &old, &new, &Err(Failure::Conflict));
        assert_eq!(writes.stale, None);
        writes.ended((now, &write), &old, &old, &Ok(Done::There(old.clone())));
        assert_eq!(writes.stale, None, "a write that changes nothing is not waited for");
    }
}
