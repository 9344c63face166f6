//! Claims that wait for their pool.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::block::Block;
use crate::names::PoolRef;
use crate::provider::{Provider, Until, Woken};

use super::super::flaws::{Flaw, planted};
use super::{Machine, Who};

/// Who waits for a pool, and for what.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    /// For any unit: whoever was created first comes first.
    line: BTreeSet<((u64, u64), u32)>,
    /// For a particular one.
    asking: BTreeSet<(Block, u32)>,
    /// For the pool to change.
    held: BTreeSet<u32>,
}

impl<P: Provider> Machine<P> {
    /// A claim waits, until its pool has what it needs.
    pub(super) fn wait(&mut self, slot: u32, until: Until) {
        let Some(claim) = self.claims.get(slot) else { return };
        let turn = claim.turn;
        let waiting = self.waiting.entry(claim.claim.pool.clone()).or_default();
        match until {
            Until::AnyFree => {
                waiting.line.insert((turn, slot));
            }
            Until::Free(block) => {
                waiting.asking.insert((block, slot));
            }
            Until::PoolChanges => {}
        }
        waiting.held.insert(slot);
    }

    /// A claim waits no more.
    pub(super) fn leave(&mut self, slot: u32) {
        let Some(claim) = self.claims.get(slot) else { return };
        let Some(waiting) = self.waiting.get_mut(&claim.claim.pool) else { return };
        if waiting.held.remove(&slot) {
            waiting.line.remove(&(claim.turn, slot));
            waiting.asking.retain(|&(_, s)| s != slot);
        }
    }

    /// A claim goes on no further for now: what was reserved for it is free, unless an object may be under way.
    pub(super) fn give_up(&mut self, slot: u32) {
        if self.claims.get(slot).is_some_and(|s| s.so_far().unseen.is_none()) {
            self.provider.release(slot);
        }
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
                    self.dirty.extend(waiting.held.iter().map(|&s| Who::Claim(s)));
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
