//! The objects, as far as endpoints need them. Names, uids and versions are the allocator core's.

use std::fmt;
use std::net::IpAddr;
use std::ops::Deref;
use std::sync::Arc;

use mooring_allocator_core::names::{Key, Uid, Version, is_object_name};
use mooring_allocator_core::protocol;
use mooring_allocator_core::retained_meta::ForCluster;
use serde_json::Value;

use crate::notes::Notes;
use crate::{service_addresses, words};

/// An object that a Cluster names. The version of its group is left out: it may change.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Reference {
    /// The API group.
    pub group: Arc<str>,
    /// The kind.
    pub kind: Arc<str>,
    /// Namespace and name. A Cluster names objects of its own namespace.
    pub key: Key,
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind, self.key.name)
    }
}

/// A Cluster as one read or watch event showed it.
#[expect(clippy::struct_excessive_bools, reason = "as its object has them")]
#[derive(Clone, Debug, PartialEq)]
pub struct Cluster {
    /// Its namespace and name.
    pub key: Key,
    /// Its uid.
    pub uid: Uid,
    /// Its resource version.
    pub version: Version,
    /// The version of its group in which it was read, for references to it.
    pub api: &'static str,
    /// The Cluster has a deletion timestamp.
    pub deleting: bool,
    /// `clusterctl move` is about to delete it here: it has moved to another management cluster.
    pub moving: bool,
    /// `spec.paused`
    pub paused: bool,
    /// The Cluster has the annotation `cluster.x-k8s.io/paused`.
    pub held: bool,
    /// Its control plane has answered once.
    pub initialised: bool,
    /// Its annotations.
    pub notes: Notes,
    /// `spec.infrastructureRef`
    pub infrastructure: Option<Reference>,
    /// `spec.controlPlaneRef`
    pub control_plane: Option<Reference>,
    /// `spec.controlPlaneEndpoint.host`, if not empty.
    pub host: Option<Box<str>>,
    /// `spec.clusterNetwork.apiServerPort`
    pub port: Option<u16>,
    /// `spec.topology.variables`, each whole; None: the Cluster has no topology.
    pub variables: Option<Vec<Value>>,
}

/// An infrastructure cluster: an object of any kind with `spec.controlPlaneEndpoint.host`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Infrastructure {
    /// What it is.
    pub reference: Reference,
    /// Its uid.
    pub uid: Uid,
    /// Its resource version.
    pub version: Version,
    /// It has a deletion timestamp.
    pub deleting: bool,
    /// It has the annotation `cluster.x-k8s.io/paused`.
    pub held: bool,
    /// `spec.controlPlaneEndpoint.host`, if not empty.
    pub host: Option<Box<str>>,
    /// `spec.controlPlaneEndpoint.port`, if not 0.
    pub port: Option<u16>,
}

/// The object of a control plane.
#[derive(Clone, Debug, PartialEq)]
pub struct ControlPlane {
    /// What it is.
    pub reference: Reference,
    /// Its uid.
    pub uid: Uid,
    /// Its resource version.
    pub version: Version,
    /// It has a deletion timestamp.
    pub deleting: bool,
    /// It has the annotation `cluster.x-k8s.io/paused`.
    pub held: bool,
    /// The control plane has answered once.
    pub initialised: bool,
    /// `certSANs`
    pub sans: Vec<Box<str>>,
    /// The other place of the address.
    pub place: Place,
}

/// The place of the address in a control plane, besides `certSANs`.
#[derive(Clone, Debug, PartialEq)]
pub enum Place {
    /// `KubeadmControlPlane`: the files of its machines.
    Files(Vec<File>),
    /// `KamajiControlPlane`: `spec.network.serviceAddress`, if not empty.
    ServiceAddress(Option<Box<str>>),
}

/// A file of a machine: `spec.kubeadmConfigSpec.files`.
#[derive(Clone, Debug, PartialEq)]
pub struct File {
    /// `path`
    pub path: Box<str>,
    /// `content`
    pub content: Option<Box<str>>,
    /// `encoding` or `contentFormat` says that the content is not the file's text.
    pub encoded: bool,
    /// `contentFrom.secret`: name and key.
    pub secret: Option<(Box<str>, Box<str>)>,
    /// The entry as it is.
    pub whole: Value,
}

impl File {
    /// Whether it may be a static pod's.
    #[must_use]
    pub fn is_manifest(&self) -> bool {
        self.path.contains("/manifests/")
    }
}

impl ControlPlane {
    /// The `Secret`s from which its machines get static pods, with their files. No `Secret` can have another name than an object has.
    pub fn secrets(&self) -> impl Iterator<Item = (&File, Companion)> {
        let files = match &self.place {
            Place::Files(files) => files.as_slice(),
            Place::ServiceAddress(_) => &[],
        };
        files.iter().filter(|file| file.is_manifest()).filter_map(|file| {
            let (name, field) = file.secret.as_ref().filter(|(name, _)| is_object_name(name))?;
            let key = Key { namespace: self.reference.key.namespace.clone(), name: (&**name).into() };
            Some((file, Companion::Secret(key, field.clone())))
        })
    }
}

/// An object that is read when it is needed, and not watched; of it one text.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Companion {
    /// A `Secret`, and a key of its `data`.
    Secret(Key, Box<str>),
    /// A `ConfigMap`, and a key of its `data`.
    ConfigMap(Key, Box<str>),
    /// A `HelmRelease`, and a field below its `spec.values`, the names joined by dots.
    HelmRelease(Key, Box<str>),
    /// A Cluster: whether it exists.
    Cluster(Key),
}

impl Companion {
    /// The object's namespace and name.
    #[must_use]
    pub const fn key(&self) -> &Key {
        match self {
            Self::Secret(key, _) | Self::ConfigMap(key, _) | Self::HelmRelease(key, _) | Self::Cluster(key) => key,
        }
    }
}

impl fmt::Display for Companion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Secret(key, field) => write!(f, "Secret {} (key {field})", key.name),
            Self::ConfigMap(key, field) => write!(f, "ConfigMap {} (key {field})", key.name),
            Self::HelmRelease(key, field) => write!(f, "HelmRelease {} (values {field})", key.name),
            Self::Cluster(key) => write!(f, "Cluster {}", key.name),
        }
    }
}

/// A companion as it was read.
#[derive(Clone, PartialEq, Eq)]
pub struct Reading {
    /// Its uid.
    pub uid: Uid,
    /// Its resource version.
    pub version: Version,
    /// The text; None: there is none in that place.
    pub text: Option<Box<str>>,
    /// Something else than a text stands in that place, or where it would be.
    pub other: bool,
}

/// Without the text: it may be a `Secret`'s.
impl fmt::Debug for Reading {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = self.text.as_ref().map(|text| text.len());
        write!(f, "Reading({}, {}, {bytes:?} bytes)", self.uid, self.version.0)
    }
}

/// An `IPAddressClaim` that is for a Cluster: it has our marks, or the name of a claim that the Cluster would get.
#[derive(Clone, Debug)]
pub struct Claim {
    /// As the allocation protocol has it.
    pub shown: Arc<protocol::Claim>,
    /// The address of the `IPAddress` to which the claim is bound.
    pub address: Option<IpAddr>,
    /// The Cluster that it is for.
    pub cluster: Key,
}

impl Claim {
    /// A claim that is for a Cluster; None: it is for none. `is_cluster`: whether a Cluster of this name was shown.
    pub fn new(
        shown: Arc<protocol::Claim>,
        address: Option<IpAddr>,
        is_cluster: impl Fn(&Key) -> bool,
    ) -> Option<Self> {
        let of = |name: &str| Key { namespace: shown.key.namespace.clone(), name: name.into() };
        let mark = shown.retained.endpoint.as_deref();
        let by_name = || {
            let names = [Some(&*shown.key.name), service_addresses::cluster(&shown.key.name)];
            names.into_iter().flatten().map(of).find(|key| is_cluster(key))
        };
        let marked = mark.and_then(ForCluster::cluster).map(|name| of(name));
        let cluster = marked.or_else(by_name).or_else(|| mark.map(|_| shown.key.clone()))?;
        Some(Self { shown, address, cluster })
    }

    /// What the claim says about its Cluster, if it has our label or finalizer.
    #[must_use]
    pub fn mark(&self) -> Option<&ForCluster> {
        self.retained.endpoint.as_deref()
    }

    /// Whether it has the finalizer [`words::IN_USE`].
    #[must_use]
    pub fn in_use(&self) -> bool {
        self.retained.finalizers.iter().any(|one| **one == *words::IN_USE)
    }

    /// Whether it is a Cluster's for certain: a label is easily put on by mistake, an owner and our finalizer are not.
    #[must_use]
    pub fn is_of_a_cluster(&self) -> bool {
        self.in_use() || self.mark().is_some_and(|mark| mark.owner.is_some())
    }

    /// The address that it had before, as its metadata says.
    #[must_use]
    pub fn had(&self) -> Option<IpAddr> {
        self.had.as_ref().map(|block| block.address())
    }

    /// The address that it asks for.
    #[must_use]
    pub fn asks_for(&self) -> Option<IpAddr> {
        self.requested.as_deref()?.parse().ok()
    }
}

impl Deref for Claim {
    type Target = protocol::Claim;

    fn deref(&self) -> &protocol::Claim {
        &self.shown
    }
}
