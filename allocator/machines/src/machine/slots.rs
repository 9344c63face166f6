//! The known state of each machine.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use mooring_allocator_core::names::{Uid, Version};
use mooring_allocator_core::ownerless::Ownerless;
use mooring_allocator_core::work::ObjectWrites;

use crate::objects::{Claim, VSphereMachine};
use crate::reason::Condition;

use super::Write;

/// A machine and its claims, or claims whose machine is not there.
#[derive(Debug, Default)]
pub(super) struct Slot {
    pub(super) machine: Option<Arc<VSphereMachine>>,
    /// The claims, by name.
    pub(super) claims: BTreeMap<Arc<str>, Claim>,
    /// Its claims while the machine is not there.
    pub(super) ownerless: Ownerless,
    pub(super) writes: ObjectWrites<Write>,
    /// What was read about the machine, after every event about it and its claims.
    pub(super) known: Option<Known>,
    /// The read under way.
    pub(super) reading: Option<u64>,
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
pub enum Object {
    Machine,
    Claim(Arc<str>),
}

impl Slot {
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
