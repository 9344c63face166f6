//! The store: one Lease, linearizable. A write must name the version it is based on.

use mooring_agent_core::lease::{LeaseView, Notes, Record};

use crate::clock::Nanos;

/// The holders of the Lease, with the start of each hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// When.
    pub at: Nanos,
    /// The holder, and the start of the hold.
    pub record: Record,
}

/// What is stored.
#[derive(Debug)]
pub struct Store {
    /// The Lease.
    pub lease: Option<LeaseView>,
    /// The last version given out.
    pub version: u64,
    /// What it was, oldest first, a few of them.
    pub before: Vec<LeaseView>,
    /// Every change of the holder.
    pub holders: Vec<Change>,
    /// How many writes took effect.
    pub writes: u64,
}

/// So many earlier states are kept.
const KEPT: usize = 8;

impl Default for Store {
    fn default() -> Self {
        Self { lease: None, version: 1_000, before: vec![], holders: vec![], writes: 0 }
    }
}

impl Store {
    /// A compare-and-swap; None: a conflict.
    pub fn write(&mut self, now: Nanos, base: Option<&str>, record: Record, notes: Notes) -> Option<LeaseView> {
        if self.lease.as_ref().map(|l| l.version.as_str()) != base {
            return None;
        }
        Some(self.set(now, record, notes))
    }

    /// A write that needs no base: a person's.
    pub fn set(&mut self, now: Nanos, record: Record, notes: Notes) -> LeaseView {
        self.version += 1;
        self.writes += 1;
        let view = LeaseView { version: self.version.to_string(), record, notes };
        self.put(now, Some(view.clone()));
        view
    }

    /// The Lease is deleted, or was restored.
    pub fn put(&mut self, now: Nanos, view: Option<LeaseView>) {
        let tenure = |r: &Record| (r.holder.clone(), r.transitions, r.acquired);
        let record = view.as_ref().map(|v| v.record.clone()).unwrap_or_default();
        if self.holders.last().is_none_or(|last| tenure(&last.record) != tenure(&record)) {
            self.holders.push(Change { at: now, record });
        }
        if let Some(before) = std::mem::replace(&mut self.lease, view) {
            self.before.push(before);
            if self.before.len() > KEPT {
                self.before.remove(0);
            }
        }
    }

    /// The holder; empty: no holder.
    #[must_use]
    pub fn holder(&self) -> &str {
        self.lease.as_ref().map_or("", |l| l.record.holder.as_str())
    }
}
