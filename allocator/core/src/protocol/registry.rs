//! The addresses that were shown, and in which order.

use std::collections::HashMap;
use std::time::Duration;

use crate::block::Block;
use crate::names::{Key, Uid};

use super::objects::Address;

/// What is known of an object.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) address: Address,
    /// What it has.
    pub(super) block: Option<Block>,
    /// When it was shown: of two of the same rank (one list), each counts as earlier than the other.
    pub(super) rank: u64,
    pub(super) fate: Fate,
    /// A write about it is under way.
    pub(super) pending: Option<u64>,
    /// A write at the version that is known found another one.
    pub(super) spoiled: bool,
    pub(super) not_before: Duration,
    pub(super) failures: u32,
    /// So often the server would not have a tombstone for it.
    pub(super) refusals: u32,
    /// A tombstone stands for it.
    pub(super) rested: bool,
    /// A write of ours has ended it, or found it ended.
    pub(super) ended: bool,
}

impl Entry {
    /// It is shown anew. Whatever was decided of it was decided of its owner's: another owner's is judged anew.
    pub(super) fn renew(&mut self, address: Address) {
        if self.spoiled && self.address.version != address.version {
            // What spoiled the last write is seen now.
            self.spoiled = false;
            self.not_before = Duration::ZERO;
        }
        if self.address.owner != address.owner {
            self.fate = Fate::Stays;
            self.rested = false;
        }
        self.address = address;
    }

    /// The claim that it says it is for.
    pub(super) fn claim(&self) -> Key {
        Key { namespace: self.address.key.namespace.clone(), name: self.address.claim.clone() }
    }
}

/// What is to become of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    Stays,
    /// Its claim was not seen, and must be asked for after this time.
    Doubtful(Duration),
    /// It goes; whether its address must rest first.
    Goes {
        rest: bool,
    },
}

/// Objects by uid: an old event that is shown again takes nothing away from what is there.
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
    /// The rank of what is shown next, alone or with others of one list.
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

    /// The objects of a name: one, but for the moment in which one follows another.
    pub(super) fn named(&self, key: &Key) -> &[u32] {
        self.by_name.get(key).map_or(&[], Slots::as_slice)
    }

    pub(super) fn slots(&self) -> impl Iterator<Item = u32> + '_ {
        self.entries.iter().zip(0u32..).filter(|(e, _)| e.is_some()).map(|(_, slot)| slot)
    }

    pub(super) fn insert(&mut self, address: Address, rank: u64) -> u32 {
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
            address,
            block: None,
            rank,
            fate: Fate::Stays,
            pending: None,
            spoiled: false,
            not_before: Duration::ZERO,
            failures: 0,
            refusals: 0,
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
