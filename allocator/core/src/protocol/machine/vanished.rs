//! What claims had that are gone, while what uses the address may be there still.
//!
//! After a restore the owner of a claim has another uid than the claim names. The garbage collector deletes the claim at once, whoever uses
//! the address makes another claim of the same name, and in between nobody else may get the address. This is known from no object, so an
//! allocator that starts in between does not know it.

use std::sync::Arc;
use std::time::Duration;

use crate::block::Block;
use crate::names::Key;
use crate::provider::{Provider, Told};

use super::super::action::Report;
use super::super::objects::Claim;
use super::{Machine, Who};

/// The address of a claim that is gone is kept for the next claim of its name for so long: a restore takes minutes.
const KEPT: Duration = Duration::from_mins(5);
/// And for so long at most, where its Cluster is paused: whoever may make a Cluster may pause it.
const KEPT_PAUSED: Duration = Duration::from_hours(1);
/// Of a pool of the whole cluster that is not there yet, so many are kept for one namespace.
const MANY: i64 = 64;

/// A claim that is gone, and what it had.
///
/// Invariant: no claim has its name or its slot.
#[derive(Debug)]
pub(super) struct Vanished {
    /// As it was shown last.
    pub(super) claim: Arc<Claim>,
    /// Its slot, which keeps the reservation.
    pub(super) slot: u32,
    had: (Block, Told),
    /// Its Cluster is paused, and will not ask for the address before it goes on.
    paused: bool,
    until: Duration,
    /// It is not kept longer than until then.
    last: Duration,
}

impl<P: Provider> Machine<P> {
    /// What a claim had without having been released since, if it is for a Cluster or a machine that may still use the address.
    pub(super) fn may_be_in_use(&self, slot: u32) -> Option<(Block, Told)> {
        let known = self.claims.get(slot)?;
        let (claim, so_far) = (&known.claim, known.so_far());
        let of = &claim.retained;
        let is_for = of.endpoint.is_some() || of.machine.is_some() || of.cluster.is_some();
        let before = so_far.before(claim)?;
        let used = is_for && !so_far.released && so_far.tried != Some(before.block) && !claim.pool.kind.is_remote();
        used.then_some((before.block, before.told))
    }

    /// Whether what a claim had is kept when the claim vanishes. Its own `IPAddress` says more than its metadata.
    pub(super) fn leaves_what_is_in_use(&self, slot: u32) -> Option<(Block, Told)> {
        let claim = &self.claims.get(slot)?.claim;
        let its = |address: &u32| self.addresses.get(*address).is_some_and(|entry| entry.is_of(&claim.uid));
        let had = self.may_be_in_use(slot).filter(|_| !self.addresses.named(&claim.object_key()).iter().any(its));
        had.filter(|_| self.may_leave_more(claim))
    }

    /// Whether one more claim of its namespace may leave what it had. Whoever may write claims may make and delete one after the other, and
    /// have each name another address: of a pool that others use too, half stays for them.
    fn may_leave_more(&self, claim: &Claim) -> bool {
        if !claim.pool.kind.global() {
            return true;
        }
        let of_it = |one: &&Vanished| one.claim.pool == claim.pool && one.claim.key.namespace == claim.key.namespace;
        let left = self.vanished.values().filter(of_it).count();
        let all = self.provider.status(&claim.pool).map_or(2 * MANY, |status| status.counts.total);
        i64::try_from(left).is_ok_and(|left| 2 * (left + 1) <= all)
    }

    /// Keeps what a claim had that is gone.
    pub(super) fn keep_for_the_next(&mut self, slot: u32, claim: Arc<Claim>, had: (Block, Told)) {
        // It may have been offered another one.
        self.provider.release(slot);
        self.provider.reserve_again(slot, &claim.key, &claim.pool, had.0, had.1);
        let now = self.work.now();
        let (until, last) = (now + KEPT, now + KEPT_PAUSED);
        for at in [until, last] {
            self.work.mark_at(at, Who::Vanished(claim.key.clone()));
        }
        self.report(Report::KeptForTheNext { claim: claim.key.clone(), had: had.0 });
        self.vanished.insert(claim.key.clone(), Vanished { claim, slot, had, paused: false, until, last });
    }

    /// Gives the next claim of the name, in the slot of the former, what that one had.
    pub(super) fn inherit(&mut self, slot: u32, former: &Vanished) {
        let Some(known) = self.claims.get_mut(slot) else { return };
        let own = known.claim.had.as_deref().copied();
        let (block, told) = former.had;
        if known.claim.pool != former.claim.pool || own.is_some_and(|own| own != block) {
            return self.provider.release(slot);
        }
        if own.is_none() {
            known.progress().before = Some((block, told));
        }
        let claim = known.claim.clone();
        self.provider.reserve_again(slot, &claim.key, &claim.pool, block, told);
    }

    /// Reserves again what vanished claims had: their pool was not there, or did not have it, or an object had it that is gone.
    pub(super) fn keep_again(&mut self, which: impl Fn(&Claim) -> bool) {
        for Vanished { claim, slot, had: (block, told), .. } in self.vanished.values() {
            if which(claim) {
                self.provider.reserve_again(*slot, &claim.key, &claim.pool, *block, *told);
            }
        }
    }

    /// Claims that are gone, and for whose name what they had is kept; and whether their Cluster is paused, as was told.
    pub fn vanished(&self) -> impl Iterator<Item = (&Arc<Claim>, bool)> {
        self.vanished.values().map(|one| (&one.claim, one.paused))
    }

    /// The Cluster of a vanished claim is paused, or goes on.
    pub(super) fn vanished_paused(&mut self, key: &Key, paused: bool) {
        let until = self.work.now() + KEPT;
        let Some(one) = self.vanished.get_mut(key) else { return };
        if std::mem::replace(&mut one.paused, paused) && !paused {
            one.until = until;
            self.work.mark_at(until, Who::Vanished(key.clone()));
        }
    }

    /// Ends the keeping if its time is over.
    pub(super) fn look_at_vanished(&mut self, key: &Key) {
        let now = self.work.now();
        if self.vanished.get(key).is_some_and(|one| !one.paused && one.until <= now || one.last <= now)
            && let Some(one) = self.vanished.remove(key)
        {
            self.provider.release(one.slot);
            self.claims.reuse(one.slot);
        }
    }
}
