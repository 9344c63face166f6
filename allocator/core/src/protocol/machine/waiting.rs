//! Claims that wait for their pool.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::block::Block;
use crate::names::PoolRef;
use crate::provider::{Provider, Until, Woken};

use super::super::flaws::{Flaw, planted};
use super::super::objects::{Hold, Reason};
use super::claims::Unseen;
use super::{Machine, Who};

/// The claims that wait for a pool, and what each waits for.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    /// Claims that wait for any unit: the claim that was created first comes first.
    pub(super) line: BTreeSet<((u64, u64), u32)>,
    /// Claims that wait for a particular unit.
    pub(super) asking: BTreeSet<(Block, u32)>,
    /// Claims that wait for the pool to change: all of them, each with the particular unit it wants.
    pub(super) held: BTreeMap<u32, Option<Block>>,
}

impl<P: Provider> Machine<P> {
    /// Makes a claim wait until its pool has what the claim needs.
    pub(super) fn wait(&mut self, slot: u32, until: Until) {
        let Some(claim) = self.claims.get(slot) else { return };
        let turn = claim.turn;
        let waiting = self.waiting.entry(claim.claim.pool.clone()).or_default();
        let mut particular = None;
        match until {
            Until::AnyFree => {
                waiting.line.insert((turn, slot));
            }
            Until::Free(block) => {
                waiting.asking.insert((block, slot));
                particular = Some(block);
            }
            Until::PoolChanges | Until::Answered(_) => {}
        }
        waiting.held.insert(slot, particular);
    }

    /// Tells a claim without an address that the pools of its kind may not be listed. Nothing else is done for it: whether its pool
    /// is there is not known.
    pub(super) fn tell_refused(&mut self, who: &Who) {
        let now = self.work.now();
        let Who::Claim(slot) = *who else { return };
        let Some(known) = self.claims.get(slot).filter(|known| known.pending.is_none()) else { return };
        let Some(why) = self.refused.get(&known.claim.pool.kind) else { return };
        let at = known.so_far().retry.not_before;
        if at > now {
            return self.work.mark_at(at, Who::Claim(slot));
        }
        let claim = known.claim.clone();
        if claim.bound.is_none() && !claim.deleting && claim.hold == Hold::None {
            let message = format!("{} cannot be read: {why}", claim.pool);
            self.set_condition(slot, &claim, Reason::PoolNotReady, message);
        }
    }

    /// Ends a claim's wait. Returns whether it waited.
    pub(super) fn leave(&mut self, slot: u32) -> bool {
        let Some(claim) = self.claims.get(slot) else { return false };
        let Some(waiting) = self.waiting.get_mut(&claim.claim.pool) else { return false };
        let Some(particular) = waiting.held.remove(&slot) else { return false };
        waiting.line.remove(&(claim.turn, slot));
        if let Some(block) = particular {
            waiting.asking.remove(&(block, slot));
        }
        true
    }

    /// Stops a claim for now: its reservation becomes free once no object is under way.
    pub(super) fn give_up(&mut self, slot: u32) {
        if self.all_is_seen(slot) {
            self.provider.release(slot);
        }
    }

    /// Whether no unseen object of a claim can exist. Otherwise waiting, then a list, finds this out.
    pub(super) fn all_is_seen(&mut self, slot: u32) -> bool {
        let Some(unseen) = self.claims.get(slot).and_then(|s| s.so_far().unseen) else { return true };
        if unseen.list.is_none() && unseen.until > self.work.now() {
            self.work.mark_at(unseen.until, Who::Claim(slot));
        } else if unseen.list.is_none() {
            let kind = self.kind_of(slot);
            let list = Some(self.want_list(kind));
            self.lists(kind).listeners.insert(slot);
            if let Some(known) = self.claims.get_mut(slot) {
                known.progress().unseen = Some(Unseen { list, ..unseen });
            }
        }
        false
    }

    /// A claim no longer needs the unit for which it was woken: if anything is free, the next claim in line has its
    /// turn.
    pub(super) fn pass_on(&mut self, pool: &Arc<PoolRef>) {
        let free = self.provider.describe(pool).is_some_and(|d| d.available > 0);
        let next = self.waiting.get(pool).and_then(|w| w.line.first()).map(|&(_, s)| Who::Claim(s));
        self.work.mark_all(next.filter(|_| free));
    }

    /// Marks the claims that may go on, in order: as many claims as there are free units.
    pub(super) fn wake(&mut self) {
        for woken in self.provider.woken() {
            let (pool, freed) = match woken {
                Woken::Pool(pool) => (pool, None),
                Woken::Freed(pool, block) => (pool, Some(block)),
                Woken::Claim(slot) => {
                    self.work.mark(Who::Claim(slot));
                    continue;
                }
                Woken::Address(slot) => {
                    self.work.mark(Who::Address(slot));
                    continue;
                }
                Woken::Status(pool) => {
                    self.work.mark(Who::Pool(pool));
                    continue;
                }
            };
            let available = self.provider.describe(&pool).map_or(0, |d| d.available);
            let Some(waiting) = self.waiting.get_mut(&pool) else { continue };
            match freed {
                None => {
                    // Who wants a particular unit, such as the one that it had, comes before those who take any.
                    self.work.mark_all(waiting.asking.iter().map(|&(_, s)| Who::Claim(s)));
                    self.work.mark_all(waiting.line.iter().map(|&(_, s)| Who::Claim(s)));
                    // Claims that the pool's pause has stopped have no place in the line.
                    let place = |&slot: &u32| self.claims.get(slot).map(super::claims::Slot::place);
                    let mut held: Vec<u32> = waiting.held.keys().copied().collect();
                    held.sort_unstable_by_key(place);
                    self.work.mark_all(held.into_iter().map(Who::Claim));
                }
                Some(_) if planted(Flaw::NobodyWoken) => {}
                Some(block) => {
                    let asking = waiting.asking.iter().filter(|(b, _)| b.overlaps(block));
                    self.work.mark_all(asking.map(|&(_, s)| Who::Claim(s)));
                    let many = usize::try_from(available).unwrap_or(usize::MAX);
                    self.work.mark_all(waiting.line.iter().take(many).map(|&(_, s)| Who::Claim(s)));
                }
            }
        }
    }
}
