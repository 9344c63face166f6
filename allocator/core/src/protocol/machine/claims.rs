//! The claims that were seen, and the progress of each.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher as _};
use std::sync::Arc;
use std::time::Duration;

use crate::block::Block;
use crate::names::Key;
use crate::provider::{Before, Told};

use super::super::flaws::{Flaw, planted};
use super::super::objects::Claim;
use super::RETRY;
use crate::work::Retry;

/// The progress of a claim.
#[derive(Debug)]
pub(super) struct Slot {
    pub(super) claim: Arc<Claim>,
    /// The claim's place among the waiting claims.
    pub(super) turn: (u64, u64),
    /// The write about the claim that is under way.
    pub(super) pending: Option<u64>,
    /// State that most claims do not need: there are many claims, and most are bound and at rest.
    progress: Option<Box<Progress>>,
}

/// State about a claim that the claim itself does not show; kept until the claim is settled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Progress {
    /// A write at the known version found another version.
    pub(super) spoiled: bool,
    pub(super) retry: Retry,
    /// The claim's object may have been created, but was not shown yet.
    pub(super) unseen: Option<Unseen>,
    /// The claim is bound, and its object is missing.
    pub(super) missing: Missing,
    /// The block of the claim's last object, and what tells of it.
    pub(super) before: Option<(Block, Told)>,
    /// The address that was last written to the claim's metadata. The API server may not keep it.
    pub(super) given: Option<Block>,
    /// The address in the claim's metadata that the claim does not wait for: this process wrote it for an attempt, or it was in a
    /// conflict.
    pub(super) tried: Option<Block>,
    /// The address in the claim's metadata that the claim does not get again, as was told.
    pub(super) missed: Option<Block>,
    /// The claim's object went after the claim was deleted: nothing uses its address.
    pub(super) released: bool,
    /// The claim's object with this attempt number vanished, and this allocator had not deleted it.
    pub(super) lost: Option<u32>,
    /// How often the server said that an object of the claim's name exists, although no list has shown one.
    pub(super) exists: u32,
    /// Since when the claim has waited for its name.
    pub(super) waits_since: Option<Duration>,
    /// This process has put the finalizer on the claim since it leads, and has asked for no address since.
    pub(super) fresh: bool,
    /// The last condition that this allocator wrote.
    pub(super) said: Option<Said>,
}

/// A condition, or a pool's status, that was written, and may have to be written again because another program replaces it: two
/// allocators that both lead for a while may see two reasons why a claim waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Said {
    /// A hash of what was written.
    what: u64,
    /// When it was written last.
    at: Duration,
    /// How often it was written again.
    repeats: u32,
}

impl Said {
    /// This is written now; `before`: what was written last.
    pub(super) fn now(what: &impl Hash, now: Duration, before: Option<Self>) -> Self {
        let what = Self::hash(what);
        let repeats = before.filter(|said| said.what == what).map_or(0, |said| said.repeats.saturating_add(1));
        Self { what, at: now, repeats }
    }

    /// The time before which this is not written again; None: it may be written now.
    pub(super) fn waits(self, what: &impl Hash, now: Duration) -> Option<Duration> {
        let until = self.at + RETRY.delay(self.repeats);
        (self.what == Self::hash(what) && until > now).then_some(until)
    }

    /// When this need not be remembered any more.
    pub(super) fn over(self) -> Duration {
        self.at + RETRY.last
    }

    fn hash(what: &impl Hash) -> u64 {
        let mut hasher = DefaultHasher::new();
        what.hash(&mut hasher);
        hasher.finish()
    }
}

impl Progress {
    /// The block that the claim had before, as far as this is known.
    pub(super) fn before(&self, claim: &Claim) -> Option<Before> {
        let had = claim.had.as_deref().copied();
        let (block, told) = self.before.or_else(|| Some((had?, Told::ByAnnotation)))?;
        let recorded = had == Some(block) && self.tried != had;
        Some(Before { block, told, recorded })
    }
}

impl Slot {
    /// The place of the claim among those that are looked at together: who had an address before, by its metadata, comes before who
    /// takes any, and then who has waited longer.
    pub(super) fn place(&self) -> (bool, (u64, u64)) {
        (self.claim.had.is_none(), self.turn)
    }

    /// The progress of the claim.
    pub(super) fn so_far(&self) -> Progress {
        self.progress.as_deref().copied().unwrap_or_default()
    }

    /// The progress of the claim, mutable.
    pub(super) fn progress(&mut self) -> &mut Progress {
        self.progress.get_or_insert_default()
    }

    /// Marks the claim as settled: nothing more is remembered about the claim.
    pub(super) fn rest(&mut self) {
        self.progress = None;
    }
}

/// What is awaited after a create: either the watch shows the object, or a consistent list proves it absent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Unseen {
    pub(super) until: Duration,
    /// The list that decides, once this list was requested.
    pub(super) list: Option<u64>,
}

/// The object of a bound claim was not shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Missing {
    #[default]
    No,
    /// The list that decides.
    Asked(u64),
    /// The object is gone. Holds the claim's count of void objects at the time this became known.
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
        if planted(Flaw::KindIgnored)
            && let Some(other) = self.by_name.get(&key.of_other_kind())
        {
            return Some(*other);
        }
        self.by_name.get(key).copied()
    }

    pub(super) fn get(&self, slot: u32) -> Option<&Slot> {
        self.slots.get(slot as usize)?.as_ref()
    }

    pub(super) fn get_mut(&mut self, slot: u32) -> Option<&mut Slot> {
        self.slots.get_mut(slot as usize)?.as_mut()
    }

    /// The number of claims.
    #[cfg(debug_assertions)]
    pub(super) fn count(&self) -> usize {
        self.by_name.len()
    }

    pub(super) fn slots(&self) -> impl Iterator<Item = u32> + '_ {
        self.slots.iter().zip(0u32..).filter(|(s, _)| s.is_some()).map(|(_, slot)| slot)
    }

    /// Adds a claim. `slot`: that of a vanished claim, whose reservation goes on.
    pub(super) fn insert(&mut self, claim: Arc<Claim>, slot: Option<u32>) -> u32 {
        let slot = slot.or_else(|| self.unused.pop()).unwrap_or_else(|| {
            self.slots.push(None);
            u32::try_from(self.slots.len() - 1).unwrap_or(u32::MAX)
        });
        self.by_name.insert(claim.key.clone(), slot);
        self.turns += 1;
        self.slots[slot as usize] =
            Some(Slot { turn: (claim.created, self.turns), claim, pending: None, progress: None });
        slot
    }

    /// Removes a claim, whose slot nobody else gets before [`Self::reuse`].
    pub(super) fn remove(&mut self, slot: u32) -> Option<Slot> {
        let gone = self.slots.get_mut(slot as usize)?.take()?;
        self.by_name.remove(&gone.claim.key);
        Some(gone)
    }

    /// The slot of a removed claim may be another's.
    pub(super) fn reuse(&mut self, slot: u32) {
        self.unused.push(slot);
    }
}
