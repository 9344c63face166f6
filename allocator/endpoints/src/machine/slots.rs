//! The known state of each Cluster.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use mooring_allocator_core::work;

use crate::objects::{Claim, Cluster, Companion, Reading};
use crate::reason::Condition;

use super::Write;
use super::flaws::{Flaw, planted};

/// Writes about one object.
pub(super) type Writes = work::Writes<Write>;

/// A Cluster and its claims, or claims whose Cluster is not there.
#[derive(Debug, Default)]
pub(super) struct Slot {
    pub(super) cluster: Option<Arc<Cluster>>,
    /// The claims, by name.
    pub(super) claims: BTreeMap<Arc<str>, Claim>,
    pub(super) writes: BTreeMap<Object, Writes>,
    /// What was read.
    pub(super) known: BTreeMap<Companion, Known>,
    /// What is being read, and by which read.
    pub(super) reading: BTreeMap<Companion, u64>,
    /// Names of claims that exist and are not shown.
    pub(super) hidden: BTreeSet<Arc<str>>,
    /// Why the last write about an object was refused.
    pub(super) refused: BTreeMap<Object, Box<str>>,
    /// Where the endpoint stands, and since when for this reason.
    pub(super) verdict: Option<(Condition, Duration)>,
    /// What was reported last, and when.
    pub(super) reported: Option<(Condition, Duration)>,
    /// Since when its claims have no Cluster.
    pub(super) orphaned: Option<Duration>,
}

impl Slot {
    /// A claim that exists and is not shown may be gone by now: it is created again once its time has come.
    pub(super) fn unhide(&mut self, now: Duration) {
        let writes = &self.writes;
        let waits = |name: &Arc<str>| {
            let writes = writes.get(&Object::Claim(name.clone()));
            writes.is_some_and(|writes| writes.pending.is_some() || writes.retry.waits(now).is_some())
        };
        self.hidden.retain(|name| waits(name) || planted(Flaw::HiddenForEver));
    }

    /// Whether nothing is left to know.
    pub(super) fn is_empty(&self) -> bool {
        self.cluster.is_none() && self.claims.is_empty()
    }
}

/// An object of a Cluster that is written.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Object {
    Cluster,
    ControlPlane,
    Infrastructure,
    Claim(Arc<str>),
    Companion(Companion),
}

impl Object {
    /// The object that a write is about.
    pub(super) fn of(write: &Write) -> Self {
        match write {
            Write::CreateClaim(new) => Self::Claim(new.key.name.clone()),
            Write::AdoptClaim(target, _)
            | Write::ReleaseClaim(target)
            | Write::DeleteClaim(target)
            | Write::Condition(target, _) => Self::Claim(target.key.name.clone()),
            Write::Text(_, what, _) => Self::Companion(what.clone()),
            Write::ControlPlane(..) => Self::ControlPlane,
            Write::Host(..) => Self::Infrastructure,
            Write::Variables(..) | Write::Unpause(_) | Write::Unmark(_) => Self::Cluster,
        }
    }
}

/// What was read of a companion.
#[derive(Clone, Debug)]
pub(super) struct Known {
    /// None: there is no such object.
    pub(super) reading: Option<Reading>,
    /// When.
    pub(super) at: Duration,
    /// How often there was none, one read after another.
    pub(super) misses: u32,
}
