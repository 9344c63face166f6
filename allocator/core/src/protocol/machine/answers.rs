//! Handles the results of writes.

use std::sync::Arc;

use crate::block::Block;
use crate::names::{ClaimKind, Key, Version};
use crate::provider::Provider;

use super::super::action::{Report, Write};
use super::super::event::{Done, Object};
use super::super::flaws::{Flaw, planted};
use super::super::objects::{Claim, Condition, Reason};
use super::claims::Unseen;
use super::{Machine, SHOWN_WITHIN, Who};
use crate::work::{Failure, Target};

/// After this many writes without a useful answer, the claim's condition says so.
const UNANSWERED: u32 = 4;
/// After this many refusals by the server, the address is released without a rest period.
const REFUSALS: u32 = 3;

/// The object version on which a write was decided.
fn base(write: &Write) -> Option<&Version> {
    match write {
        Write::AddFinalizer(t, _)
        | Write::RemoveFinalizer(t)
        | Write::Void(t, _)
        | Write::Bind(t, ..)
        | Write::Unbind(t, _)
        | Write::Condition(t, _)
        | Write::Adopt(t, _)
        | Write::RemoveAddressFinalizer(t)
        | Write::DeleteAddress(t) => Some(&t.version),
        Write::AddPoolFinalizer(t) | Write::RemovePoolFinalizer(t) | Write::PoolStatus(t, _) => Some(&t.version),
        Write::Create(_) => None,
    }
}

/// The address that a write tells a claim's metadata.
const fn given(write: &Write) -> Option<Block> {
    if let Write::AddFinalizer(_, given) = write { *given } else { None }
}

impl<P: Provider> Machine<P> {
    pub(super) fn answered(&mut self, id: u64, result: Result<Done, Failure>) {
        let result = result.map(|done| match done {
            Done::There(Object::Claim(claim)) => Done::There(Object::Claim(self.share_claim(claim))),
            Done::There(Object::Address(address)) => Done::There(Object::Address(self.share_address(address))),
            Done::There(Object::NotShown) | Done::Gone => done,
        });
        let record = self.records.remove(&id);
        let Some((who, write)) = self.work.answered(id) else { return };
        match &who {
            Who::Claim(slot) => self.claim_answered(*slot, &write, result, id > self.led_from, record),
            Who::Address(slot) => self.address_answered(*slot, &write, result),
            Who::Pool(reference) => {
                let wait = self.jitter(5);
                // A pool that was made again has writes of its own.
                let Some(pool) = self.pools.get_mut(reference).filter(|pool| pool.pending == Some(id)) else { return };
                pool.pending = None;
                pool.retry.failures = if result.is_ok() { 0 } else { pool.retry.failures + 1 };
                // After an error that another version does not mend, the whole time passes.
                let passes = matches!(result, Ok(_) | Err(Failure::Conflict));
                pool.spoiled = base(&write).filter(|_| passes).cloned();
                // If the watch was quicker, what it showed counts: the pool may have been changed since the write.
                if let (Ok(_), Write::PoolStatus(target, status)) = (&result, &write)
                    && target.version == pool.pool.version
                {
                    pool.pool.status = Some(status.clone());
                }
                // The pool's own event shows the new version. Until then, or for a limited time, no write follows.
                pool.retry.not_before = self.work.now() + wait;
            }
            Who::List(_) | Who::Vanished(_) => {}
        }
        self.work.mark(who);
    }

    /// `record`: the write only tells a bound claim's metadata which address the claim has.
    fn claim_answered(&mut self, slot: u32, write: &Write, result: Result<Done, Failure>, current: bool, record: bool) {
        let now = self.work.now();
        let Some(failures) = self.claims.get(slot).map(|s| s.so_far().retry.failures) else { return };
        let wait = self.jitter(failures);
        let Some(known) = self.claims.get_mut(slot) else { return };
        known.pending = None;
        let creating = matches!(write, Write::Create(_));
        match result {
            Ok(done) => {
                if record || matches!(write, Write::Adopt(..)) {
                    // The API server may undo the change: then the next write must wait longer.
                    let retry = &mut known.progress().retry;
                    retry.failures += 1;
                    retry.not_before = now + wait;
                } else if !matches!(write, Write::Condition(..)) {
                    known.progress().retry.failures = 0;
                }
                if let Write::AddFinalizer(..) = write {
                    known.progress().given = given(write);
                    known.progress().fresh = current && known.claim.bound.is_none();
                }
                if let Write::Void(..) = write {
                    // Delay the next attempt, so that it may come after the rival's.
                    known.progress().retry.not_before = now + wait;
                }
                if let Write::Bind(..) = write {
                    known.progress().before = None;
                    self.bound(slot);
                }
                let Some(known) = self.claims.get_mut(slot) else { return };
                if let (true, Write::Create(new)) = (planted(Flaw::BindBeforeShown), write) {
                    let Claim { key, uid, version, .. } = (*known.claim).clone();
                    let target = Target { key, uid, version };
                    let condition = Condition { ready: true, reason: Reason::AddressAllocated, message: String::new() };
                    return self.claim_write(slot, Write::Bind(target, new.key.name.clone(), condition));
                }
                if creating {
                    known.progress().unseen = Some(Unseen { until: now + SHOWN_WITHIN, list: None });
                    self.already_shown(slot);
                    return;
                }
                match done {
                    // Overwrite only the version on which the write was decided: the watch may have shown a newer one.
                    Done::There(Object::Claim(claim)) if base(write) == Some(&known.claim.version) => {
                        known.claim = Arc::new(claim);
                    }
                    Done::There(_) | Done::Gone => {
                        if base(write) == Some(&known.claim.version) {
                            known.progress().spoiled = true;
                            known.progress().retry.not_before = now + wait;
                        }
                    }
                }
            }
            Err(Failure::Exists) if creating && known.so_far().exists > 0 => {
                // A list that began after the first such answer shows nothing: the object belongs to none of our pools.
                let progress = known.progress();
                if !planted(Flaw::ForeignAtOnce) {
                    progress.retry.failures = (progress.retry.failures + 1).max(6);
                    progress.retry.not_before = now + wait;
                }
                self.provider.release(slot);
                self.foreign(slot);
            }
            Err(failure @ (Failure::Exists | Failure::Unknown)) if creating => {
                let named_after_address = known.claim.key.claim_kind() == ClaimKind::Metal3;
                let progress = known.progress();
                progress.exists += u32::from(failure == Failure::Exists);
                progress.unseen = Some(Unseen { until: now + SHOWN_WITHIN, list: None });
                progress.retry.failures += 1;
                progress.retry.not_before = now + wait;
                let lasts = progress.retry.failures >= UNANSWERED;
                if failure == Failure::Exists && named_after_address {
                    // Somebody else has the address; the list will show who.
                    self.provider.release(slot);
                }
                self.already_shown(slot);
                if lasts && failure == Failure::Unknown {
                    self.unanswered(slot, "IPAddress");
                }
            }
            Err(Failure::Refused(why)) if creating => {
                let progress = known.progress();
                progress.retry.failures += 1;
                progress.retry.not_before = now + wait;
                self.provider.release(slot);
                self.refused(slot, &why);
            }
            Err(failure) => {
                let spoiled = base(write) == Some(&known.claim.version);
                let progress = known.progress();
                progress.retry.failures += 1;
                progress.spoiled = spoiled;
                if spoiled || creating || matches!(write, Write::Adopt(..)) {
                    progress.retry.not_before = now + wait;
                }
                let lasts = progress.retry.failures >= UNANSWERED;
                match failure {
                    // A condition that is refused is not told by another condition.
                    _ if matches!(write, Write::Condition(..)) => {}
                    // Nobody waits for it: it is not written again and again.
                    Failure::Refused(_) if record => progress.given = given(write),
                    Failure::Refused(why) => self.refused(slot, &why),
                    Failure::Unknown if lasts => self.unanswered(slot, "IPAddressClaim"),
                    Failure::Unknown | Failure::Conflict | Failure::NotFound | Failure::Exists => {}
                }
            }
        }
    }

    /// The watch may show a created object before the answer to the create arrives.
    fn already_shown(&mut self, slot: u32) {
        let Some(known) = self.claims.get_mut(slot) else { return };
        let shown = self.addresses.named(&known.claim.key).iter().any(|&a| {
            self.addresses.get(a).is_some_and(|e| !e.ended && e.address.owner.as_ref() == Some(&known.claim.uid))
        });
        if shown {
            known.progress().unseen = None;
            self.provider.release(slot);
        }
    }

    fn bound(&mut self, slot: u32) {
        let Some(known) = self.claims.get(slot) else { return };
        let key: Key = known.claim.key.clone();
        let own = self.addresses.named(&key).iter().filter_map(|&a| self.addresses.get(a));
        let block = own.filter(|e| e.address.owner.as_ref() == Some(&known.claim.uid)).find_map(|e| e.block);
        if let Some(block) = block {
            self.report(Report::Allocated { claim: key, block });
        }
    }

    /// The server does not manage the writes of an object of this kind: report that on the claim, whose status may be written all the
    /// same.
    fn unanswered(&mut self, slot: u32, kind: &str) {
        let why =
            format!("no answer, or an error of its own, for the {kind}: a webhook may be away; it is tried again");
        self.refused(slot, &why);
    }

    /// The server refuses a write: report the refusal on the claim, and try again.
    fn refused(&mut self, slot: u32, why: &str) {
        let Some(claim) = self.claims.get(slot).map(|s| s.claim.clone()) else { return };
        if claim.bound.is_none() && !claim.deleting {
            let message = format!("the API server refuses what the allocator writes for this claim: {why}");
            self.set_condition(slot, &claim, Reason::AllocationFailed, message);
        }
    }

    /// An object with the claim's name exists and is not ours.
    fn foreign(&mut self, slot: u32) {
        let Some(claim) = self.claims.get(slot).map(|s| s.claim.clone()) else { return };
        let message = match claim.key.claim_kind() {
            ClaimKind::ClusterApi => format!(
                "an IPAddress {} exists, of a pool that is not served here: delete it, or make a claim of another name",
                claim.key
            ),
            ClaimKind::Metal3 => {
                "an IPAddress of metal3's group exists that is named after the address which this claim would get, and that names no pool: delete it"
                    .to_owned()
            }
        };
        self.set_condition(slot, &claim, Reason::AllocationFailed, message);
    }

    fn address_answered(&mut self, slot: u32, write: &Write, result: Result<Done, Failure>) {
        let now = self.work.now();
        let Some(failures) = self.addresses.get(slot).map(|e| e.retry.failures) else { return };
        let wait = self.jitter(failures);
        let Some(entry) = self.addresses.get_mut(slot) else { return };
        entry.pending = None;
        let create = matches!(write, Write::Create(_));
        match result {
            Ok(_) | Err(Failure::Exists) if create => {
                // The address rests: the watch shows the resting object before the original object is gone.
                entry.retry.failures = 0;
                entry.rested = true;
            }
            Err(Failure::Refused(_)) if create && entry.refusals < REFUSALS => {
                entry.refusals += 1;
                entry.retry.failures += 1;
                entry.retry.not_before = now + wait;
            }
            Err(Failure::Refused(why)) if create => {
                // The namespace may be being deleted, for example. Nothing may wait for ever.
                entry.rested = true;
                let report = Report::NotRested { address: entry.address.own_key(), block: entry.block, why };
                self.report(report);
            }
            Ok(done) => {
                entry.retry.failures = 0;
                match done {
                    Done::There(Object::Address(address)) if base(write) == Some(&entry.address.version) => {
                        entry.renew(address);
                    }
                    Done::Gone => entry.ended = true,
                    _ if base(write) == Some(&entry.address.version) => {
                        entry.spoiled = true;
                        entry.retry.not_before = now + wait;
                    }
                    Done::There(_) => {}
                }
            }
            Err(Failure::NotFound) if !create => entry.ended = true,
            Err(_) => {
                entry.retry.failures += 1;
                if base(write) == Some(&entry.address.version) || create {
                    entry.spoiled = !create;
                    entry.retry.not_before = now + wait;
                }
            }
        }
        let claim = self.addresses.get(slot).and_then(|e| self.claims.find(&e.claim()));
        if let Some(claim) = claim {
            self.work.mark(Who::Claim(claim));
        }
    }
}
