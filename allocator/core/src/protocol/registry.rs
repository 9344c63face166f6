//! The addresses that were shown, and their order.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use crate::block::Block;
use crate::names::{Key, Uid};

use super::objects::Address;
use crate::work::Retry;

/// The known state of an object.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) address: Arc<Address>,
    /// The object's block.
    pub(super) block: Option<Block>,
    /// When the object was shown: two objects of the same rank (one list) each count as earlier than the other.
    pub(super) rank: u64,
    /// Since when this process knows the object.
    pub(super) since: Duration,
    pub(super) fate: Fate,
    /// The write about the object that is under way.
    pub(super) pending: Option<u64>,
    /// A write at the known version found another version.
    pub(super) spoiled: bool,
    pub(super) retry: Retry,
    /// The list of the other kind's objects that decides whether the object may be bound: it began after the object was shown.
    pub(super) compared: Option<u64>,
    /// How often the server refused a tombstone for the object.
    pub(super) refusals: u32,
    /// The claim to which the object belongs although it names another owner: the API server has said that the owner is
    /// gone, and that this claim has the name. So it is after a restore from a backup.
    pub(super) heir: Option<Uid>,
    /// The claim that owned the object until somebody removed the owner reference: the garbage collector does so when a claim
    /// is deleted in the foreground, or is gone.
    former: Option<Uid>,
    /// A tombstone exists for the object.
    pub(super) rested: bool,
    /// A write of ours has ended the object, or found it ended.
    pub(super) ended: bool,
}

impl Entry {
    /// Stores a new state of the object. The fate was decided for the owner: an object with another owner is judged
    /// again.
    pub(super) fn renew(&mut self, address: Address) {
        if self.spoiled && self.address.version != address.version {
            // The change that spoiled the last write is visible now.
            self.spoiled = false;
            self.retry.not_before = Duration::ZERO;
        }
        let before = self.claim_uid().cloned();
        self.former = match &address.owner {
            Some(_) => None,
            None => self.address.owner.clone().or_else(|| self.former.clone()),
        };
        self.address = Arc::new(address);
        if self.claim_uid() != before.as_ref() {
            self.fate = Fate::Stays;
            self.heir = None;
            self.rested = false;
        }
    }

    /// The uid of the claim that owns the object, or that did so until somebody removed the owner reference.
    pub(super) fn claim_uid(&self) -> Option<&Uid> {
        let Address { owner, attempt, .. } = &*self.address;
        owner.as_ref().or(self.former.as_ref()).or_else(|| attempt.as_ref().map(|mark| &mark.claim))
    }

    /// The uid about which the API server is asked, to learn whether the object's claim exists. For an object that was never a
    /// claim's: the object's own uid, which no claim has.
    pub(super) fn in_doubt(&self) -> &Uid {
        self.claim_uid().unwrap_or(&self.address.uid)
    }

    /// Whether the object is being deleted, no claim owns it, and our finalizer holds it.
    pub(super) fn is_held_by_us_alone(&self) -> bool {
        let Address { owner, deleting, finalizer, rest, .. } = &*self.address;
        owner.is_none() && *deleting && *finalizer && rest.is_none()
    }

    /// The claim that the object names.
    pub(super) fn claim(&self) -> Key {
        self.address.claim_key()
    }
}

/// The fate of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    Stays,
    /// The object's claim was not seen, and must be read after this time.
    Doubtful(Duration),
    /// The object goes; `rest`: its address must rest first.
    Goes {
        rest: bool,
    },
}

/// Objects by uid: an old event that is shown again removes nothing that exists.
#[derive(Debug, Default)]
pub(super) struct Registry {
    entries: Vec<Option<Entry>>,
    unused: Vec<u32>,
    by_uid: HashMap<Uid, u32>,
    by_name: HashMap<Key, Slots>,
    rank: u64,
}

/// The objects of a name: hardly ever more than one.
#[derive(Debug)]
enum Slots {
    One(u32),
    Many(Box<[u32]>),
}

impl Slots {
    fn as_slice(&self) -> &[u32] {
        match self {
            Self::One(slot) => std::slice::from_ref(slot),
            Self::Many(slots) => slots,
        }
    }
}

impl Registry {
    /// The rank of the next object shown, alone or with others of one list.
    pub(super) fn next_rank(&mut self) -> u64 {
        self.rank += 1;
        self.rank
    }

    pub(super) fn find(&self, uid: &Uid) -> Option<u32> {
        self.by_uid.get(uid).copied()
    }

    pub(super) fn get(&self, slot: u32) -> Option<&Entry> {
        self.entries.get(slot as usize)?.as_ref()
    }

    pub(super) fn get_mut(&mut self, slot: u32) -> Option<&mut Entry> {
        self.entries.get_mut(slot as usize)?.as_mut()
    }

    /// The objects of a name: one, except for the moment in which one follows another.
    pub(super) fn named(&self, key: &Key) -> &[u32] {
        self.by_name.get(key).map_or(&[], Slots::as_slice)
    }

    /// The number of objects.
    #[cfg(debug_assertions)]
    pub(super) fn count(&self) -> usize {
        self.by_uid.len()
    }

    pub(super) fn slots(&self) -> impl Iterator<Item = u32> + '_ {
        self.entries.iter().zip(0u32..).filter(|(e, _)| e.is_some()).map(|(_, slot)| slot)
    }

    pub(super) fn insert(&mut self, address: Address, rank: u64, now: Duration) -> u32 {
        let slot = self.unused.pop().unwrap_or_else(|| {
            self.entries.push(None);
            u32::try_from(self.entries.len() - 1).unwrap_or(u32::MAX)
        });
        self.by_uid.insert(address.uid.clone(), slot);
        match self.by_name.get_mut(&address.key) {
            None => {
                self.by_name.insert(address.key.clone(), Slots::One(slot));
            }
            Some(slots) => *slots = Slots::Many([slots.as_slice(), &[slot]].concat().into()),
        }
        self.entries[slot as usize] = Some(Entry {
            address: Arc::new(address),
            block: None,
            rank,
            since: now,
            fate: Fate::Stays,
            pending: None,
            spoiled: false,
            retry: Retry::default(),
            compared: None,
            refusals: 0,
            heir: None,
            former: None,
            rested: false,
            ended: false,
        });
        slot
    }

    pub(super) fn remove(&mut self, slot: u32) -> Option<Entry> {
        let entry = self.entries.get_mut(slot as usize)?.take()?;
        self.by_uid.remove(&entry.address.uid);
        if let Some(slots) = self.by_name.get_mut(&entry.address.key) {
            let left: Vec<u32> = slots.as_slice().iter().copied().filter(|&s| s != slot).collect();
            match left[..] {
                [] => {
                    self.by_name.remove(&entry.address.key);
                }
                [one] => *slots = Slots::One(one),
                _ => *slots = Slots::Many(left.into()),
            }
        }
        self.unused.push(slot);
        Some(entry)
    }
}
