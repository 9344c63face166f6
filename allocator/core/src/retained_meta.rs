//! The parts of a claim that the allocation protocol does not read: metadata and status that a patch must not lose, and
//! the data that tells which allocator the claim belongs to.

use std::net::IpAddr;
use std::sync::Arc;

use crate::block::Family;
use crate::names::{Key, Uid};

/// A list of finalizers. Many objects have the same list: it is stored once.
pub type Finalizers = Arc<[Box<str>]>;

/// A Service that has, or shares, a claim.
pub type Member = (Key, Uid);

/// The class of a Service for which an allocator gave it a claim; empty: the Service had none. None: nobody has written it.
pub type GivenClass = Option<Box<str>>;

/// The other parts of a claim.
///
/// `RetainedMeta` is part of [`crate::protocol::Claim`], so it always belongs to the same version as the rest of the
/// claim. A patch that is made from it, and that carries this version, loses nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RetainedMeta {
    /// All finalizers of the claim.
    pub finalizers: Finalizers,
    /// The Cluster that the claim belongs to.
    pub cluster: Option<Arc<str>>,
    /// The claim has the annotation that pauses it.
    pub paused: bool,
    /// The claim belongs to another allocator, by its namespace or label.
    pub elsewhere: bool,
    /// The claim's status as JSON, unless the status is nothing but one `Ready` condition that is true.
    pub status: Option<Box<str>>,
    /// The API version in which the claim was read.
    pub api: &'static str,
    /// The Services that have the claim.
    pub service: Option<Box<ForServices>>,
    /// The Cluster whose endpoint, or whose Services, the claim is for.
    pub endpoint: Option<Box<ForCluster>>,
    /// The machine whose address the claim is for.
    pub machine: Option<Box<ForMachine>>,
    /// The claim has an owner of any kind.
    pub owned: bool,
}

/// The claim's data about the Services that have it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForServices {
    /// Its label.
    pub family: Family,
    /// Its annotation.
    pub members: Vec<Member>,
    /// The class of each of these, by another annotation.
    pub classes: Vec<GivenClass>,
    /// At least one of the Services owns the claim.
    pub owned: bool,
    /// Owners that are not Services.
    pub owners: Vec<Owner>,
}

/// The data of a claim that is for the endpoint, or the Services, of a Cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForCluster {
    /// Its label: the Cluster's name. None: somebody took the label off, and the claim still has the finalizer.
    pub label: Option<Arc<str>>,
    /// The Cluster that owns the claim.
    pub owner: Option<ClusterOwner>,
    /// Its annotation: the address was the Cluster's before the claim was made.
    pub given: bool,
    /// Owners that are not Clusters.
    pub owners: Vec<Owner>,
    /// The reason and message of its condition.
    pub condition: Option<(Box<str>, Box<str>)>,
    /// The address that has stood everywhere, as another condition says.
    pub stood: Option<IpAddr>,
}

/// A Cluster that owns a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterOwner {
    /// Its name.
    pub name: Arc<str>,
    /// Its uid.
    pub uid: Uid,
}

impl ForCluster {
    /// The name of the Cluster. A label is easily changed by mistake: the owner counts more.
    #[must_use]
    pub fn cluster(&self) -> Option<&Arc<str>> {
        self.owner.as_ref().map(|owner| &owner.name).or(self.label.as_ref())
    }
}

/// The data of a claim that is for a machine: a `VSphereMachine` owns it, or it has our finalizer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForMachine {
    /// The machine that owns the claim. None: somebody took the owner off.
    pub owner: Option<MachineOwner>,
    /// Owners that are not machines.
    pub owners: Vec<Owner>,
}

/// A machine that owns a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MachineOwner {
    /// Its name.
    pub name: Arc<str>,
    /// Its uid.
    pub uid: Uid,
}

/// An entry of `ownerReferences`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// `apiVersion`
    pub api_version: Box<str>,
    /// `kind`
    pub kind: Box<str>,
    /// `name`
    pub name: Box<str>,
    /// `uid`
    pub uid: Box<str>,
    /// `controller`
    pub controller: Option<bool>,
    /// `blockOwnerDeletion`
    pub block_owner_deletion: Option<bool>,
}
