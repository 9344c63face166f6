//! The actions of the machine.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use mooring_allocator_core::names::{Key, PoolRef, Uid, Version};
use mooring_allocator_core::work::{ObjectWrite, Repeatable, Target};
use serde_json::Value;

use crate::objects::{Cluster, Companion, Reference};
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
    /// Read an object, consistently; [`super::Event::Read`] reports the result.
    Read {
        /// Repeated in the answer.
        id: u64,
        /// What to read.
        what: Companion,
    },
    /// List every kind anew, because this allocator begins to lead: [`super::Event::Listed`] reports the end of each list. A
    /// list that began before this action does not count.
    List(u64),
    /// A report to people.
    Report(Report),
}

/// A write. Each but the creation of a claim takes effect only on the object that it rests on, at the version seen.
#[derive(Clone, PartialEq)]
pub enum Write {
    /// Create a claim, with label, finalizer and owner.
    CreateClaim(Box<NewClaim>),
    /// Put label, finalizer and owner on a claim that exists.
    AdoptClaim(Target, Parent),
    /// Take our finalizer off a claim.
    ReleaseClaim(Target),
    /// Delete a claim.
    DeleteClaim(Target),
    /// Set our condition on a claim. The address: it stood everywhere until now.
    Condition(Target, Condition, Option<IpAddr>),
    /// Set the text of a companion.
    Text(Target, Companion, String),
    /// Change a control plane.
    ControlPlane(Target, Reference, Box<Change>),
    /// Set `spec.controlPlaneEndpoint.host` of an infrastructure cluster, which is empty; and the port, if there is none.
    Host(Target, Reference, IpAddr, Option<u16>),
    /// Set the variables of a Cluster's topology: all of them.
    Variables(Target, Vec<Value>),
    /// Set a Cluster's `spec.paused` to false and take [`crate::words::PAUSED_FOR_ENDPOINT`] off.
    Unpause(Target),
    /// Take [`crate::words::PAUSED_FOR_ENDPOINT`] off a Cluster.
    Unmark(Target),
}

/// A claim to create.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewClaim {
    /// Its namespace and name.
    pub key: Key,
    /// The Cluster that owns it.
    pub parent: Parent,
    /// `spec.poolRef`.
    pub pool: Arc<PoolRef>,
    /// The annotation `mooring.dev/requested-address`: the host that the Cluster has, or an address that its Services have. The claim is
    /// marked with [`crate::words::GIVEN`] then.
    pub requested: Option<IpAddr>,
}

/// A Cluster as the owner of a claim.
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
    /// This Cluster.
    #[must_use]
    pub fn of(cluster: &Cluster) -> Self {
        Self { name: cluster.key.name.clone(), uid: cluster.uid.clone(), api: cluster.api }
    }
}

/// The changes to a control plane; what is None stays.
#[derive(Clone, Default, PartialEq)]
pub struct Change {
    /// All files.
    pub files: Option<Vec<Value>>,
    /// All `certSANs`.
    pub sans: Option<Vec<Box<str>>>,
    /// `spec.network.serviceAddress`, which is empty.
    pub address: Option<IpAddr>,
}

/// For the log: what is written, and nothing that stands in a `Secret`, a file or a variable.
impl fmt::Debug for Write {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CreateClaim(new) => write!(f, "CreateClaim({new:?})"),
            Self::AdoptClaim(at, parent) => write!(f, "AdoptClaim({at:?}, {parent:?})"),
            Self::ReleaseClaim(at) => write!(f, "ReleaseClaim({at:?})"),
            Self::DeleteClaim(at) => write!(f, "DeleteClaim({at:?})"),
            Self::Condition(at, condition, stood) => write!(f, "Condition({at:?}, {condition:?}, {stood:?})"),
            Self::Text(at, what, text) => write!(f, "Text({at:?}, {what}, {} bytes)", text.len()),
            Self::ControlPlane(at, reference, change) => write!(f, "ControlPlane({at:?}, {reference}, {change:?})"),
            Self::Host(at, reference, ip, port) => write!(f, "Host({at:?}, {reference}, {ip}, {port:?})"),
            Self::Variables(at, all) => write!(f, "Variables({at:?}, {} of them)", all.len()),
            Self::Unpause(at) => write!(f, "Unpause({at:?})"),
            Self::Unmark(at) => write!(f, "Unmark({at:?})"),
        }
    }
}

impl fmt::Debug for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let files = self.files.as_ref().map(Vec::len);
        f.debug_struct("Change")
            .field("files", &files)
            .field("sans", &self.sans)
            .field("address", &self.address)
            .finish()
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
            | Self::Condition(target, ..)
            | Self::Text(target, ..)
            | Self::ControlPlane(target, ..)
            | Self::Host(target, ..)
            | Self::Variables(target, _)
            | Self::Unpause(target)
            | Self::Unmark(target) => target.version = Version::from(""),
        }
        write
    }

    /// Machines may be made from what lacks the address. The Cluster's own writes, and that which binds its claim, come before those.
    fn is_urgent(&self) -> bool {
        match self {
            Self::AdoptClaim(..)
            | Self::Text(..)
            | Self::ControlPlane(..)
            | Self::Host(..)
            | Self::Variables(..)
            | Self::Unpause(_)
            | Self::Unmark(_) => true,
            Self::CreateClaim(_) | Self::ReleaseClaim(_) | Self::DeleteClaim(_) | Self::Condition(..) => false,
        }
    }
}

impl ObjectWrite for Write {
    type Object = Object;

    fn object(&self) -> Object {
        match self {
            Self::CreateClaim(new) => Object::Claim(new.key.name.clone()),
            Self::AdoptClaim(target, _)
            | Self::ReleaseClaim(target)
            | Self::DeleteClaim(target)
            | Self::Condition(target, ..) => Object::Claim(target.key.name.clone()),
            Self::Text(_, what, _) => Object::Companion(what.clone()),
            Self::ControlPlane(..) => Object::ControlPlane,
            Self::Host(..) => Object::Infrastructure,
            Self::Variables(..) | Self::Unpause(_) | Self::Unmark(_) => Object::Cluster,
        }
    }

    fn target(&self) -> Option<&Target> {
        match self {
            Self::CreateClaim(_) => None,
            Self::AdoptClaim(target, _)
            | Self::ReleaseClaim(target)
            | Self::DeleteClaim(target)
            | Self::Condition(target, ..)
            | Self::Text(target, ..)
            | Self::ControlPlane(target, ..)
            | Self::Host(target, ..)
            | Self::Variables(target, _)
            | Self::Unpause(target)
            | Self::Unmark(target) => Some(target),
        }
    }

    fn said(&self) -> Option<String> {
        Some(match self {
            Self::CreateClaim(new) => match new.requested {
                Some(ip) => format!("claim {} of {}, for {ip}", new.key.name, new.pool),
                None => format!("claim {} of {}", new.key.name, new.pool),
            },
            Self::AdoptClaim(target, _) => format!("claim {}, which existed", target.key.name),
            Self::Text(_, what, _) => what.to_string(),
            Self::ControlPlane(_, reference, _) => reference.to_string(),
            Self::Host(_, reference, ip, _) => format!("{reference}: spec.controlPlaneEndpoint.host {ip}"),
            Self::Variables(..) => "spec.topology.variables".to_owned(),
            Self::Unpause(_) => "spec.paused: false".to_owned(),
            Self::Unmark(_) => format!("the annotation {} is taken off", crate::words::PAUSED_FOR_ENDPOINT),
            Self::ReleaseClaim(_) | Self::DeleteClaim(_) | Self::Condition(..) => return None,
        })
    }
}

/// A report for people; it becomes Events, metrics and log lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Report {
    /// A place of a Cluster was written.
    Wrote {
        /// The Cluster.
        cluster: Key,
        /// What was written, and where.
        what: String,
    },
    /// What was written is put back again and again.
    PutBack {
        /// The Cluster.
        cluster: Key,
        /// What, and what to do.
        message: String,
    },
    /// The endpoint of a Cluster stands elsewhere than before; or still stands where no claim of its says so.
    ConditionChanged {
        /// The Cluster.
        cluster: Key,
        /// Where it stands.
        condition: Condition,
        /// Somebody should look.
        warning: bool,
    },
    /// A Cluster is gone, and the claim is released.
    Released {
        /// The claim.
        claim: Key,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_has_no_content() {
        let at = Target { key: Key::new("n", "x"), uid: Uid::from("u"), version: Version::from("7") };
        let what = Companion::Secret(at.key.clone(), "content".into());
        let file = serde_json::json!({"path": "/a", "content": "hush"});
        let reference = Reference { group: "g".into(), kind: "KubeadmControlPlane".into(), key: at.key.clone() };
        let change = Change { files: Some(vec![file.clone()]), ..Change::default() };
        for write in [
            Write::Text(at.clone(), what, "hush".to_owned()),
            Write::ControlPlane(at.clone(), reference, Box::new(change)),
            Write::Variables(at, vec![file]),
        ] {
            let text = format!("{write:?}");
            assert!(!text.contains("hush") && text.contains('x'), "{text}");
        }
    }
}
