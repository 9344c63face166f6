//! The actions of the machine.

use std::net::IpAddr;
use std::sync::Arc;

use mooring_allocator_core::names::{Key, PoolRef, Uid, Version};
use mooring_allocator_core::work::{ObjectWrite, Repeatable, Target};
use serde_json::Value;

use crate::objects::VSphereMachine;
use crate::reason::Condition;

use super::slots::Object;

/// An action. Actions do not wait for each other; an event reports the result of each.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// A write; [`super::Event::Answer`] reports the result.
    Write {
        /// Repeated in the answer.
        id: u64,
        /// The write itself.
        write: Write,
    },
    /// Read whether a machine exists, consistently; [`super::Event::Read`] reports the result.
    Read {
        /// Repeated in the answer.
        id: u64,
        /// The machine.
        machine: Key,
    },
    /// List every kind anew, because this allocator begins to lead: [`super::Event::Listed`] reports the end of each list. A
    /// list that began before this action does not count.
    List(u64),
    /// A report to people.
    Report(Report),
}

/// A write. Each but the creation of a claim takes effect only on the object that it rests on, at the version seen.
#[derive(Clone, Debug, PartialEq)]
pub enum Write {
    /// Create a claim, with labels, finalizer and owner.
    CreateClaim(Box<NewClaim>),
    /// Put finalizer and owner on a claim that exists.
    AdoptClaim(Target, Parent),
    /// Take our finalizer off a claim.
    ReleaseClaim(Target),
    /// Delete a claim.
    DeleteClaim(Target),
    /// Set `spec.network.devices` of a machine: all of them, and the addresses that the new ones got, for the log.
    Devices(Target, Vec<Value>, String),
}

/// A claim to create.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewClaim {
    /// Its namespace and name.
    pub key: Key,
    /// The machine that owns it.
    pub parent: Parent,
    /// The machine's Cluster: its pause counts for the claim.
    pub cluster: Arc<str>,
    /// The device that it is for.
    pub device: usize,
    /// `spec.poolRef`.
    pub pool: Arc<PoolRef>,
    /// The annotation `mooring.dev/requested-address`: what the device has already.
    pub requested: Option<IpAddr>,
}

/// A machine as the owner of a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parent {
    /// Its name.
    pub name: Arc<str>,
    /// Its uid.
    pub uid: Uid,
    /// The version of its group.
    pub api: &'static str,
}

impl Parent {
    /// This machine.
    #[must_use]
    pub fn of(machine: &VSphereMachine) -> Self {
        Self { name: machine.key.name.clone(), uid: machine.uid.clone(), api: machine.api }
    }
}

impl Repeatable for Write {
    fn unversioned(&self) -> Self {
        let mut write = self.clone();
        match &mut write {
            Self::CreateClaim(_) => {}
            Self::AdoptClaim(target, _)
            | Self::ReleaseClaim(target)
            | Self::DeleteClaim(target)
            | Self::Devices(target, ..) => target.version = Version::from(""),
        }
        write
    }
}

impl ObjectWrite for Write {
    type Object = Object;

    fn object(&self) -> Object {
        match self {
            Self::CreateClaim(new) => Object::Claim(new.key.name.clone()),
            Self::AdoptClaim(target, _) | Self::ReleaseClaim(target) | Self::DeleteClaim(target) => {
                Object::Claim(target.key.name.clone())
            }
            Self::Devices(..) => Object::Machine,
        }
    }

    fn target(&self) -> Option<&Target> {
        match self {
            Self::CreateClaim(_) => None,
            Self::AdoptClaim(target, _)
            | Self::ReleaseClaim(target)
            | Self::DeleteClaim(target)
            | Self::Devices(target, ..) => Some(target),
        }
    }

    fn said(&self) -> Option<String> {
        Some(match self {
            Self::CreateClaim(new) => format!("claim {} of {}", new.key.name, new.pool),
            Self::AdoptClaim(target, _) => format!("claim {}, which existed", target.key.name),
            Self::Devices(_, _, addresses) => format!("spec.network.devices: {addresses}"),
            Self::ReleaseClaim(_) | Self::DeleteClaim(_) => return None,
        })
    }
}

/// A report to people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Report {
    /// Something was written for a machine.
    Wrote {
        /// The machine.
        machine: Key,
        /// What.
        what: String,
    },
    /// It stands otherwise with a machine's addresses than before.
    ConditionChanged {
        /// The machine.
        machine: Key,
        /// Where they stand.
        condition: Condition,
    },
    /// A machine is gone, and the claim is released.
    Released {
        /// The claim.
        claim: Key,
    },
}
