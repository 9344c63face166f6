//! The claims that were seen, and how far each has come.

use std::collections::HashMap;
use std::time::Duration;

use crate::block::Block;
use crate::names::Key;

use super::super::objects::Claim;

/// How far a claim has come.
#[derive(Debug)]
pub(super) struct Slot {
    pub(super) claim: Claim,
    /// Its place among those that wait.
    pub(super) turn: (u64, u64),
    /// A write about it is under way.
    pub(super) pending: Option<u64>,
    /// What most claims have nothing of: there are many, and most are bound and at rest.
    progress: Option<Box<Progress>>,
}

/// What is remembered of a claim beside what it says itself, until it is settled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Progress {
    /// A write at the version that is known found another one.
    pub(super) spoiled: bool,
    pub(super) not_before: Duration,
    pub(super) failures: u32,
    /// Its object is created, perhaps, and was not shown yet.
    pub(super) unseen: Option<Unseen>,
    /// It is bound, and its object is not there.
    pub(super) missing: Missing,
    /// What its last object had.
    pub(super) before: Option<Block>,
    /// Its object of this number vanished, and nobody here had taken it away.
    pub(super) lost: Option<u32>,
    /// The server said so often that an object of its name exists, which no list has shown.
    pub(super) exists: u32,
    /// It waits for its name since then.
    pub(super) waits_since: Option<Duration>,
}

impl Slot {
    /// How far it has come.
    pub(super) fn so_far(&self) -> Progress {
        self.progress.as_deref().copied().unwrap_or_default()
    }

    /// The same, to change it.
    pub(super) fn progress(&mut self) -> &mut Progress {
        self.progress.get_or_insert_default()
    }

    /// It is settled: nothing need be remembered.
    pub(super) fn rest(&mut self) {
        self.progress = None;
    }
}

/// What is awaited after a create: that the object is shown, or that a consistent list does not show it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Unseen {
    pub(super) until: Duration,
    /// The list that decides, once it is asked for.
    pub(super) list: Option<u64>,
}

/// A bound claim's object was not shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Missing {
    #[default]
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
        self.slots.iter().zip(0u32..).filter(|(s, _)| s.is_some()).map(|(_, slot)| slot)
    }

    pub(super) fn insert(&mut self, claim: Claim) -> u32 {
        let slot = self.unused.pop().unwrap_or_else(|| {
            self.slots.push(None);
            u32::try_from(self.slots.len() - 1).unwrap_or(u32::MAX)
        });
        self.by_name.insert(claim.key.clone(), slot);
        self.turns += 1;
        self.slots[slot as usize] =
            Some(Slot { turn: (claim.created, self.turns), claim, pending: None, progress: None });
        slot
    }

    pub(super) fn remove(&mut self, slot: u32) -> Option<Slot> {
        let gone = self.slots.get_mut(slot as usize)?.take()?;
        self.by_name.remove(&gone.claim.key);
        self.unused.push(slot);
        Some(gone)
    }
}
