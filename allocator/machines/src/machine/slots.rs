//! The known state of each machine.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use mooring_allocator_core::names::{Uid, Version};
use mooring_allocator_core::work;

use crate::objects::{Claim, VSphereMachine};
use crate::reason::Condition;

use super::Write;
use super::flaws::{Flaw, planted};

/// Writes about one object.
pub(super) type Writes = work::Writes<Write>;

/// A machine and its claims, or claims whose machine is not there.
#[derive(Debug, Default)]
pub(super) struct Slot {
    pub(super) machine: Option<Arc<VSphereMachine>>,
    /// The claims, by name.
    pub(super) claims: BTreeMap<Arc<str>, Claim>,
    pub(super) writes: BTreeMap<Object, Writes>,
    /// What was read about the machine, after every event about it and its claims.
    pub(super) known: Option<Known>,
    /// The read under way.
    pub(super) reading: Option<u64>,
    /// Names of claims that exist and are not shown.
    pub(super) hidden: BTreeSet<Arc<str>>,
    /// Why the last write about an object was refused.
    pub(super) refused: BTreeMap<Object, Box<str>>,
    /// Where the addresses stand, and since when for this reason.
    pub(super) verdict: Option<(Condition, Duration)>,
    /// What was reported last, and when.
    pub(super) reported: Option<(Condition, Duration)>,
}

/// What was read about a machine.
#[derive(Clone, Debug)]
pub(super) struct Known {
    /// Its uid; None: there is no such machine.
    pub(super) uid: Option<Uid>,
    /// When.
    pub(super) at: Duration,
}

/// An object of a machine that is written.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Object {
    Machine,
    Claim(Arc<str>),
}

impl Object {
    /// The object that a write is about.
    pub(super) fn of(write: &Write) -> Self {
        match write {
            Write::CreateClaim(new) => Self::Claim(new.key.name.clone()),
            Write::AdoptClaim(target, _) | Write::ReleaseClaim(target) | Write::DeleteClaim(target) => {
                Self::Claim(target.key.name.clone())
            }
            Write::Devices(..) => Self::Machine,
        }
    }
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

    /// What was read says nothing about what was shown since.
    pub(super) fn forget_read(&mut self) {
        (self.known, self.reading) = (None, None);
    }

    /// The version of an object that the watch shows.
    pub(super) fn shown(&self, object: &Object) -> Option<Version> {
        match object {
            Object::Machine => Some(self.machine.as_ref()?.version.clone()),
            Object::Claim(name) => Some(self.claims.get(name)?.version.clone()),
        }
    }

    /// Whether nothing is left to know.
    pub(super) fn is_empty(&self) -> bool {
        self.machine.is_none() && self.claims.is_empty()
    }
}
