//! Which addresses are ours.
//!
//! Linux 5.18 and later keep `IFA_PROTO` with an address: [`OUR_PROTO`] says that it is ours. An older kernel drops
//! the attribute without a word, so the first address is read back after it was added. Where the mark is not kept, a
//! file in the run directory names our addresses, written *before* each is added; an address that it names, with the
//! same prefix, a finite lifetime and `preferred_lft 0`, is ours. The file is of this boot (`/run`) and of one network
//! namespace (its inode number is in the name).

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, ErrorKind};
use std::net::IpAddr;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use super::Options;
use super::address::{Seen, Vip};
use super::error::Error;

/// The known addresses and their owners.
#[derive(Debug)]
pub struct Known {
    /// Addresses whose coming and going is reported to the event loop.
    pub(super) watched: BTreeSet<IpAddr>,
    /// Addresses seen as ours, by address and interface, with their prefix lengths.
    held: BTreeMap<(IpAddr, u32), u8>,
    /// Whether the kernel keeps the mark; `None` until an address was read back.
    keeps_proto: Option<bool>,
    no_proto: bool,
    proto: u8,
    record: Record,
}

#[derive(Debug)]
struct Record {
    path: PathBuf,
    entries: BTreeSet<Entry>,
}

/// A line of the record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
struct Entry {
    address: IpAddr,
    prefix: u8,
    index: u32,
}

impl Known {
    /// Reads the record of this network namespace, if there is one.
    pub(super) fn load(options: &Options) -> Result<Self, Error> {
        let namespace = "/proc/thread-self/ns/net";
        let inode =
            std::fs::metadata(namespace).map_err(|source| Error::File { path: namespace.into(), source })?.ino();
        let record = Record::load(options.run_dir.join(format!("{}-{inode}.json", options.whose.name())));
        let (no_proto, proto) = (options.no_proto, options.whose.proto());
        Ok(Self { watched: BTreeSet::new(), held: BTreeMap::new(), keeps_proto: None, no_proto, proto, record })
    }

    /// The mark for addresses that the agent adds.
    pub(super) const fn mark(&self) -> Option<u8> {
        if self.no_proto { None } else { Some(self.proto) }
    }

    /// Whether it is still unknown if the kernel keeps the mark.
    pub(super) const fn must_read_back(&self) -> bool {
        self.keeps_proto.is_none()
    }

    /// Whether an address that the kernel shows is ours.
    pub(super) fn is_ours(&self, seen: &Seen) -> bool {
        if let Some(proto) = seen.proto {
            return proto == self.proto;
        }
        let entry = Entry { address: seen.vip.address, prefix: seen.vip.prefix, index: seen.index };
        self.keeps_proto != Some(true)
            && seen.valid.is_some()
            && seen.deprecated
            && self.record.entries.contains(&entry)
    }

    /// Whether the address was seen as ours on this interface with this prefix, and nothing seen since contradicts
    /// this.
    pub(super) fn holds(&self, vip: Vip, index: u32) -> bool {
        self.held.get(&(vip.address, index)) == Some(&vip.prefix)
    }

    /// The places where the address was seen as ours.
    pub(super) fn places(&self, address: IpAddr) -> Vec<(Vip, u32)> {
        let places = self.held.range((address, 0)..=(address, u32::MAX));
        places.map(|(&(address, index), &prefix)| (Vip { address, prefix }, index)).collect()
    }

    /// Records an address as the kernel shows it.
    pub(super) fn saw(&mut self, seen: &Seen) -> bool {
        let ours = self.is_ours(seen);
        let place = (seen.vip.address, seen.index);
        if ours {
            self.held.insert(place, seen.vip.prefix);
        } else if self.holds(seen.vip, seen.index) {
            self.held.remove(&place);
        }
        ours
    }

    /// Records that an address is gone. The record file keeps it until [`Known::all_removed`].
    pub(super) fn gone(&mut self, vip: Vip, index: u32) {
        if self.holds(vip, index) {
            self.held.remove(&(vip.address, index));
        }
    }

    /// Writes addresses to the record before the agent adds them, where the record may be needed to recognise them
    /// later.
    pub(super) fn adding(&mut self, these: impl IntoIterator<Item = (Vip, u32)>) -> Result<(), Error> {
        if self.keeps_proto == Some(true) {
            return Ok(());
        }
        let entries = these.into_iter().map(|(v, index)| Entry { address: v.address, prefix: v.prefix, index });
        self.record.entries.extend(entries);
        let saved = self.record.save();
        // While the need for the record is not established, a failed write is no reason to stop serving.
        if self.keeps_proto == Some(false) { saved } else { Ok(()) }
    }

    /// Records an address that was added.
    pub(super) fn added(&mut self, vip: Vip, index: u32) {
        self.held.insert((vip.address, index), vip.prefix);
    }

    /// Records whether an address still had the mark when read back. Without the mark, the record must exist.
    pub(super) fn read_back(&mut self, marked: bool) -> Result<(), Error> {
        self.keeps_proto = Some(marked);
        if marked {
            self.record.entries.clear();
        }
        self.record.save()
    }

    /// Forgets addresses that were removed or not added.
    pub(super) fn all_removed(&mut self, these: impl IntoIterator<Item = (Vip, u32)>) -> Result<(), Error> {
        let mut known = false;
        for (vip, index) in these {
            self.gone(vip, index);
            known |= self.record.entries.remove(&Entry { address: vip.address, prefix: vip.prefix, index });
        }
        if known { self.record.save() } else { Ok(()) }
    }
}

impl Record {
    /// What the file names; nothing, if it cannot be read: the addresses in it have finite lifetimes and end by themselves, and most
    /// kernels keep the mark, so that the file is not needed.
    fn load(path: PathBuf) -> Self {
        let read = match std::fs::read(&path) {
            Ok(text) if text.is_empty() => Ok(BTreeSet::new()),
            Ok(text) => serde_json::from_slice(&text).map_err(io::Error::from),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(BTreeSet::new()),
            Err(error) => Err(error),
        };
        let entries = read.unwrap_or_else(|error| {
            tracing::warn!(path = %path.display(), %error, "file of own addresses cannot be read; starting with an empty one: VIPs of an earlier run may stand for some seconds");
            BTreeSet::new()
        });
        Self { path, entries }
    }

    /// The file is written whole and renamed, so that it is never half written. It is removed when empty.
    fn save(&self) -> Result<(), Error> {
        let failed = |source| Error::File { path: self.path.clone(), source };
        if self.entries.is_empty() {
            return match std::fs::remove_file(&self.path) {
                Err(error) if error.kind() != ErrorKind::NotFound => Err(failed(error)),
                _ => Ok(()),
            };
        }
        if let Some(dir) = self.path.parent() {
            std::fs::create_dir_all(dir).map_err(failed)?;
        }
        let text = serde_json::to_vec(&self.entries).map_err(|error| failed(error.into()))?;
        let beside = self.path.with_extension("new");
        std::fs::write(&beside, text).and_then(|()| std::fs::rename(&beside, &self.path)).map_err(failed)
    }
}
