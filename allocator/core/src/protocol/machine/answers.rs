//! What came of a write.

use crate::names::{Key, Version};
use crate::provider::Provider;

use super::super::action::{Report, Target, Write};
use super::super::event::{Done, Failure};
use super::super::flaws::{Flaw, planted};
use super::super::objects::{Claim, Condition, Reason};
use super::claims::Unseen;
use super::{Machine, SHOWN_WITHIN, Who};

/// After so many times that the server would not have it, an address is released without having rested.
const REFUSALS: u32 = 3;

/// The version a write was decided on.
fn base(write: &Write) -> Option<&Version> {
    match write {
        Write::AddFinalizer(t)
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

impl<P: Provider> Machine<P> {
    pub(super) fn answered(&mut self, id: u64, result: Result<Done, Failure>) {
        let result = result.map(|done| match done {
            Done::Claim(claim) => Done::Claim(self.share_claim(claim)),
            Done::Address(address) => Done::Address(self.share_address(address)),
            Done::Written | Done::Gone => done,
        });
        let Some((who, write)) = self.writes.remove(&id) else { return };
        match &who {
            Who::Claim(slot) => self.claim_answered(*slot, &write, result),
            Who::Address(slot) => self.address_answered(*slot, &write, result),
            Who::Pool(reference) => {
                let wait = self.jitter(5);
                let Some(pool) = self.pools.get_mut(reference) else { return };
                pool.pending = None;
                pool.failures = if result.is_ok() { 0 } else { pool.failures + 1 };
                pool.spoiled = base(&write).cloned();
                if let (Ok(_), Write::PoolStatus(_, status)) = (&result, &write) {
                    pool.pool.status = Some(status.clone());
                }
                // Its own news tells the new version; until then, or a while, it rests.
                pool.not_before = self.moment.now + wait;
            }
            Who::List => {}
        }
        self.mark(who);
    }

    fn claim_answered(&mut self, slot: u32, write: &Write, result: Result<Done, Failure>) {
        let now = self.moment.now;
        let Some(failures) = self.claims.get(slot).map(|s| s.so_far().failures) else { return };
        let wait = self.jitter(failures);
        let Some(known) = self.claims.get_mut(slot) else { return };
        known.pending = None;
        let creating = matches!(write, Write::Create(_));
        match result {
            Ok(done) => {
                if !matches!(write, Write::Condition(..)) {
                    known.progress().failures = 0;
                }
                if let Write::Void(..) = write {
                    // The next attempt comes a little later than the other's, perhaps.
                    known.progress().not_before = now + wait;
                }
                if let Write::Bind(..) = write {
                    known.progress().before = None;
                    self.bound(slot);
                }
                let Some(known) = self.claims.get_mut(slot) else { return };
                if let (true, Write::Create(new)) = (planted(Flaw::BindBeforeShown), write) {
                    let Claim { key, uid, version, .. } = known.claim.clone();
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
                    // Only over what the write was decided on: the watch may have shown something newer.
                    Done::Claim(claim) if base(write) == Some(&known.claim.version) => known.claim = claim,
                    Done::Claim(_) | Done::Address(_) | Done::Gone | Done::Written => {
                        if base(write) == Some(&known.claim.version) {
                            known.progress().spoiled = true;
                            known.progress().not_before = now + wait;
                        }
                    }
                }
            }
            Err(Failure::Exists) if creating && known.so_far().exists > 0 => {
                // A list has begun after it was said first, and shows nothing: it is of none of our pools.
                let progress = known.progress();
                progress.failures = (progress.failures + 1).max(6);
                progress.not_before = now + wait;
                self.provider.release(slot);
                self.foreign(slot);
            }
            Err(failure @ (Failure::Exists | Failure::Unknown)) if creating => {
                let progress = known.progress();
                progress.exists += u32::from(failure == Failure::Exists);
                progress.unseen = Some(Unseen { until: now + SHOWN_WITHIN, list: None });
                progress.failures += 1;
                self.already_shown(slot);
            }
            Err(Failure::Refused(why)) if creating => {
                let progress = known.progress();
                progress.failures += 1;
                progress.not_before = now + wait;
                self.provider.release(slot);
                self.refused(slot, &why);
            }
            Err(failure) => {
                let spoiled = base(write) == Some(&known.claim.version);
                let progress = known.progress();
                progress.failures += 1;
                progress.spoiled = spoiled;
                if spoiled || creating || matches!(write, Write::Adopt(..)) {
                    progress.not_before = now + wait;
                }
                if let Failure::Refused(why) = failure
                    && !matches!(write, Write::Condition(..))
                {
                    self.refused(slot, &why);
                }
            }
        }
    }

    /// The watch may have shown what a create made before its answer came.
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

    /// The server will not have a write: that is told on the claim, and tried again.
    fn refused(&mut self, slot: u32, why: &str) {
        let Some(claim) = self.claims.get(slot).map(|s| s.claim.clone()) else { return };
        if claim.bound.is_none() && !claim.deleting {
            let message = format!("the API server refuses what the allocator writes for this claim: {why}");
            self.tell(slot, &claim, Reason::AllocationFailed, message);
        }
    }

    /// An object of the claim's name is there, and is none of ours.
    fn foreign(&mut self, slot: u32) {
        let Some(claim) = self.claims.get(slot).map(|s| s.claim.clone()) else { return };
        let message = format!(
            "an IPAddress {} exists, of a pool that is not served here: delete it, or make a claim of another name",
            claim.key
        );
        self.tell(slot, &claim, Reason::AllocationFailed, message);
    }

    fn address_answered(&mut self, slot: u32, write: &Write, result: Result<Done, Failure>) {
        let now = self.moment.now;
        let Some(failures) = self.addresses.get(slot).map(|e| e.failures) else { return };
        let wait = self.jitter(failures);
        let Some(entry) = self.addresses.get_mut(slot) else { return };
        entry.pending = None;
        let create = matches!(write, Write::Create(_));
        match result {
            Ok(_) | Err(Failure::Exists) if create => {
                // It rests; the watch shows it before the object that it stands for is gone.
                entry.failures = 0;
                entry.rested = true;
            }
            Err(Failure::Refused(_)) if create && entry.refusals < REFUSALS => {
                entry.refusals += 1;
                entry.failures += 1;
                entry.not_before = now + wait;
            }
            Err(Failure::Refused(why)) if create => {
                // Its namespace is being deleted, say. Nothing may wait for ever.
                entry.rested = true;
                let report = Report::NotRested { address: entry.address.key.clone(), block: entry.block, why };
                self.report(report);
            }
            Ok(done) => {
                entry.failures = 0;
                match done {
                    Done::Address(address) if base(write) == Some(&entry.address.version) => entry.renew(address),
                    Done::Gone => entry.ended = true,
                    _ if base(write) == Some(&entry.address.version) => {
                        entry.spoiled = true;
                        entry.not_before = now + wait;
                    }
                    _ => {}
                }
            }
            Err(Failure::NotFound) if !create => entry.ended = true,
            Err(_) => {
                entry.failures += 1;
                if base(write) == Some(&entry.address.version) || create {
                    entry.spoiled = !create;
                    entry.not_before = now + wait;
                }
            }
        }
        let claim = self.addresses.get(slot).and_then(|e| self.claims.find(&e.claim()));
        if let Some(claim) = claim {
            self.mark(Who::Claim(claim));
        }
    }
}
