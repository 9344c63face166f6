//! The claims that were seen, and how far each has come.

use std::collections::HashMap;
use std::time::Duration;

use crate::block::Block;
use crate::names::{Key, Version};

use super::super::objects::Claim;

/// How far a claim has come.
#[derive(Debug)]
pub(super) struct Slot {
    pub(super) claim: Claim,
    /// Its place among those that wait.
    pub(super) turn: (u64, u64),
    /// A write about it is under way.
    pub(super) pending: Option<u64>,
    /// A write at this version found another one.
    pub(super) spoiled: Option<Version>,
    pub(super) not_before: Duration,
    pub(super) failures: u32,
    /// Its object is created, perhaps, and was not shown yet.
    pub(super) unseen: Option<Unseen>,
    /// It is bound, and its object is not there.
    pub(super) missing: Missing,
    /// What its last object had.
    pub(super) before: Option<Block>,
    pub(super) told: bool,
}

/// What is awaited after a create: that the object is shown, or that a consistent list does not show it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Unseen {
    pub(super) until: Duration,
    /// The list that decides, once it is asked for.
    pub(super) list: Option<u64>,
}

/// A bound claim's object was not shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Missing {
    No,
    /// This list decides.
    Asked(u64),
    /// It is gone; the claim's count of void objects when that was known.
    Gone(u32),
}

#[derive(Debug, Default)]
pub(super) struct Claims {
    slots: Vec<Option<Slot>>,
    unused: Vec<u32>,
    by_name: HashMap<Key, u32>,
    turns: u64,
}

impl Claims {
    pub(super) fn find(&self, key: &Key) -> Option<u32> {
        self.by_name.get(key).copied()
    }

    pub(super) fn get(&self, slot: u32) -> Option<&Slot> {
        self.slots.get(slot as usize)?.as_ref()
    }

    pub(super) fn get_mut(&mut self, slot: u32) -> Option<&mut Slot> {
        self.slots.get_mut(slot as usize)?.as_mut()
    }

    pub(super) fn slots(&self) -> impl Iterator<Item = u32> + '_ {
        self.by_name.values().copied()
    }

    pub(super) fn insert(&mut self, claim: Claim) -> u32 {
        let slot = self.unused.pop().unwrap_or_else(|| {
            self.slots.push(None);
            u32::try_from(self.slots.len() - 1).unwrap_or(u32::MAX)
        });
        self.by_name.insert(claim.key.clone(), slot);
        self.turns += 1;
        self.slots[slot as usize] = Some(Slot {
            turn: (claim.created, self.turns),
            claim,
            pending: None,
            spoiled: None,
            not_before: Duration::ZERO,
            failures: 0,
            unseen: None,
            missing: Missing::No,
            before: None,
            told: false,
        });
        slot
    }

    pub(super) fn remove(&mut self, slot: u32) -> Option<Slot> {
        let gone = self.slots.get_mut(slot as usize)?.take()?;
        self.by_name.remove(&gone.claim.key);
        self.unused.push(slot);
        Some(gone)
    }
}
