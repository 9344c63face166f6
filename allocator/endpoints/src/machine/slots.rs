//! The known state of each Cluster.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use mooring_allocator_core::ownerless::Ownerless;
use mooring_allocator_core::work::ObjectWrites;

use crate::objects::{Claim, Cluster, Companion, Reading};
use crate::reason::Condition;

use super::Write;
use super::put_back::PutBack;
use super::standstill::Still;

/// A Cluster and its claims, or claims whose Cluster is not there.
#[derive(Debug, Default)]
pub(super) struct Slot {
    pub(super) cluster: Option<Arc<Cluster>>,
    /// The claims, by name.
    pub(super) claims: BTreeMap<Arc<str>, Claim>,
    pub(super) writes: ObjectWrites<Write>,
    /// What the API server said when it failed at the last write of an object.
    pub(super) failed: BTreeMap<Object, Box<str>>,
    /// Places that were written in the last hour, as people are told.
    pub(super) put_back: PutBack,
    /// The Cluster was unpaused.
    pub(super) went_on: bool,
    /// When something was seen last of somebody who applies the Cluster's objects.
    pub(super) stirred: Duration,
    /// What was read.
    pub(super) known: BTreeMap<Companion, Known>,
    /// What is being read, and by which read.
    pub(super) reading: BTreeMap<Companion, u64>,
    /// Where the endpoint stands, and since when for this reason.
    pub(super) verdict: Option<(Condition, Duration)>,
    /// What was reported last, and when.
    pub(super) reported: Option<(Condition, Duration)>,
    /// What appliers put back, while the Cluster waits until nothing of it changes.
    pub(super) still: Option<Still>,
    /// Its claims while the Cluster is not there.
    pub(super) ownerless: Ownerless,
}

impl Slot {
    /// Whether nothing is left to know.
    pub(super) fn is_empty(&self) -> bool {
        self.cluster.is_none() && self.claims.is_empty()
    }
}

/// An object of a Cluster that is written.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Object {
    Cluster,
    ControlPlane,
    Infrastructure,
    Claim(Arc<str>),
    Companion(Companion),
}

impl fmt::Display for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cluster => f.write_str("the Cluster"),
            Self::ControlPlane => f.write_str("the control plane's object"),
            Self::Infrastructure => f.write_str("the infrastructure cluster"),
            Self::Claim(name) => write!(f, "claim {name}"),
            Self::Companion(what) => what.fmt(f),
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
