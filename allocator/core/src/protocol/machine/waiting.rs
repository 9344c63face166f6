//! Claims that wait for their pool.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::block::Block;
use crate::names::PoolRef;
use crate::provider::{Provider, Until, Woken};

use super::super::flaws::{Flaw, planted};
use super::claims::Unseen;
use super::{Machine, Who};

/// Who waits for a pool, and for what.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    /// For any unit: whoever was created first comes first.
    line: BTreeSet<((u64, u64), u32)>,
    /// For a particular one.
    asking: BTreeSet<(Block, u32)>,
    /// For the pool to change: all of them; and for which particular one.
    held: BTreeMap<u32, Option<Block>>,
}

impl<P: Provider> Machine<P> {
    /// A claim waits, until its pool has what it needs.
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
            Until::PoolChanges => {}
        }
        waiting.held.insert(slot, particular);
    }

    /// A claim waits no more.
    pub(super) fn leave(&mut self, slot: u32) {
        let Some(claim) = self.claims.get(slot) else { return };
        let Some(waiting) = self.waiting.get_mut(&claim.claim.pool) else { return };
        if let Some(particular) = waiting.held.remove(&slot) {
            waiting.line.remove(&(claim.turn, slot));
            if let Some(block) = particular {
                waiting.asking.remove(&(block, slot));
            }
        }
    }

    /// A claim goes on no further for now: what was reserved for it is free, once no object is under way.
    pub(super) fn give_up(&mut self, slot: u32) {
        if self.all_is_seen(slot) {
            self.provider.release(slot);
        }
    }

    /// Whether no object of a claim may be there that was not shown. Else that is found out: by waiting, then by a list.
    pub(super) fn all_is_seen(&mut self, slot: u32) -> bool {
        let Some(unseen) = self.claims.get(slot).and_then(|s| s.so_far().unseen) else { return true };
        if unseen.list.is_none() && unseen.until > self.moment.now {
            self.later(unseen.until, Who::Claim(slot));
        } else if unseen.list.is_none() {
            let list = Some(self.want_list());
            self.listeners.insert(slot);
            if let Some(known) = self.claims.get_mut(slot) {
                known.progress().unseen = Some(Unseen { list, ..unseen });
            }
        }
        false
    }

    /// A claim no longer needs what it may have been woken for: the next in line has its turn, if anything is free.
    pub(super) fn pass_on(&mut self, pool: &Arc<PoolRef>) {
        let free = self.provider.describe(pool).is_some_and(|d| d.available > 0);
        let next = self.waiting.get(pool).and_then(|w| w.line.first()).map(|&(_, s)| Who::Claim(s));
        self.dirty.extend(next.filter(|_| free));
    }

    /// Marks the claims that may go on: as many as there is something free for, in order.
    pub(super) fn wake(&mut self) {
        for Woken { pool, freed } in self.provider.woken() {
            let available = self.provider.describe(&pool).map_or(0, |d| d.available);
            let Some(waiting) = self.waiting.get_mut(&pool) else { continue };
            match freed {
                None => {
                    self.dirty.extend(waiting.line.iter().map(|&(_, s)| Who::Claim(s)));
                    self.dirty.extend(waiting.held.keys().map(|&s| Who::Claim(s)));
                }
                Some(_) if planted(Flaw::NobodyWoken) => {}
                Some(block) => {
                    let asking = waiting.asking.iter().filter(|(b, _)| b.overlaps(block));
                    self.dirty.extend(asking.map(|&(_, s)| Who::Claim(s)));
                    let many = usize::try_from(available).unwrap_or(usize::MAX);
                    self.dirty.extend(waiting.line.iter().take(many).map(|&(_, s)| Who::Claim(s)));
                }
            }
        }
    }
}
