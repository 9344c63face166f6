//! The objects, as far as Services need them. Names, uids and versions are the allocator core's.

use std::collections::BTreeSet;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use mooring_allocator_core::block::Family;
use mooring_allocator_core::names::{Key, PoolRef, Uid, Version};
use mooring_allocator_core::pool::{Plan, PoolSpec};

use crate::notes::Notes;
use crate::ports::Port;
use crate::reason::Condition;

/// A Service as one read or watch event showed it; all are told, of whatever type.
#[expect(clippy::struct_excessive_bools, reason = "as its object has them")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Service {
    /// Its namespace and name.
    pub key: Key,
    /// Its uid.
    pub uid: Uid,
    /// Its resource version.
    pub version: Version,
    /// It has a deletion timestamp.
    pub deleting: bool,
    /// It has the finalizer [`crate::words::CLEANUP`].
    pub cleanup: bool,
    /// `spec.type` is `LoadBalancer`.
    pub load_balancer: bool,
    /// `spec.loadBalancerClass`.
    pub class: Option<Box<str>>,
    /// `spec.ipFamilies`.
    pub families: Vec<Family>,
    /// `spec.ipFamilyPolicy`.
    pub policy: FamilyPolicy,
    /// `spec.externalTrafficPolicy` is `Local`.
    pub local: bool,
    /// `spec.ports`.
    pub ports: BTreeSet<Port>,
    /// `spec.loadBalancerIP`, where it is not empty.
    pub load_balancer_ip: Option<Box<str>>,
    /// Its annotations.
    pub notes: Notes,
    /// It has the label `implementation=kube-vip`.
    pub implementation: bool,
    /// `status.loadBalancer.ingress`, as far as those are addresses.
    pub ingress: Vec<Ingress>,
    /// The other entries there, as JSON: names that others wrote. They stay.
    pub names: Vec<Box<str>>,
    /// Its condition [`crate::words::CONDITION`].
    pub condition: Option<Condition>,
}

/// `spec.ipFamilyPolicy`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FamilyPolicy {
    /// One family.
    #[default]
    SingleStack,
    /// Both, or one where there is no more to be had.
    PreferDualStack,
    /// Both or nothing.
    RequireDualStack,
}

/// An address in a Service's status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ingress {
    /// `ip`.
    pub ip: IpAddr,
    /// `ipMode` is `VIP`.
    pub vip: bool,
}

/// A Service that has, or shares, a claim.
pub type Member = (Key, Uid);

/// An `IPAddressClaim` with the label [`crate::words::SERVICE_FAMILY`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// Its namespace and name.
    pub key: Key,
    /// Its uid.
    pub uid: Uid,
    /// Its resource version.
    pub version: Version,
    /// The label's value.
    pub family: Family,
    /// `spec.poolRef`.
    pub pool: Arc<PoolRef>,
    /// The address that its annotation `mooring.dev/requested-address` asks for.
    pub requested: Option<IpAddr>,
    /// Its annotation [`crate::words::SERVICES`], in order.
    pub members: Vec<Member>,
    /// `status.addressRef.name`.
    pub bound: Option<Arc<str>>,
    /// Its `Ready` condition where that is `False`: reason and message.
    pub refused: Option<(Box<str>, Box<str>)>,
    /// It has a deletion timestamp.
    pub deleting: bool,
}

/// An `IPAddress`, whoever has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// Its namespace and name.
    pub key: Key,
    /// Its uid.
    pub uid: Uid,
    /// Its resource version.
    pub version: Version,
    /// `spec.claimRef.name`.
    pub claim: Arc<str>,
    /// `spec.address`, as far as it can be read; IPv4 as IPv4.
    pub address: Option<IpAddr>,
    /// The node that is written on it as its holder.
    pub holder: Option<Arc<str>>,
}

/// A pool of addresses (not of prefixes).
#[derive(Clone, Debug)]
pub struct Pool {
    /// Which.
    pub reference: Arc<PoolRef>,
    /// Its uid.
    pub uid: Uid,
    /// Its resource version.
    pub version: Version,
    /// Another one whenever its plan or what follows here may be another: `metadata.generation` alone does not tell.
    pub generation: u64,
    /// What it may hand out, or what is wrong with it.
    pub plan: Result<Arc<Plan>, Box<str>>,
    /// Its annotation [`crate::words::SERVICE_DEFAULT`] is `true`.
    pub default: bool,
    /// Its annotation [`crate::words::SERVICE_CLASS`].
    pub class: Option<Box<str>>,
    /// It was made here.
    pub made: Option<Made>,
    /// Its status says that it has nothing left.
    pub exhausted: bool,
    /// It has a deletion timestamp.
    pub deleting: bool,
}

/// What a pool was made from, and its spec as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Made {
    /// From what.
    pub source: Source,
    /// Its spec.
    pub spec: PoolSpec,
    /// The interface that it names: its annotation `mooring.dev/interface`.
    pub interface: Option<Arc<str>>,
}

/// What a pool is made from; as text the annotation [`crate::words::SOURCE`].
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Source {
    /// Whose addresses.
    pub scope: Scope,
    /// Of which family.
    pub family: Family,
}

/// For whom the addresses of a `ConfigMap` entry are.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    /// `…-global`: for all namespaces that have none of their own.
    Global,
    /// `…-NAMESPACE`.
    Namespace(Arc<str>),
    /// No entry: addresses in no pool that Services had when Mooring came.
    Kept,
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Global => f.write_str("global"),
            Self::Namespace(name) => write!(f, "namespace/{name}"),
            Self::Kept => f.write_str("kept"),
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.scope, self.family)
    }
}

impl Source {
    /// Reads what [`fmt::Display`] writes; nonsense is nothing.
    #[must_use]
    pub fn read(text: &str) -> Option<Self> {
        let (scope, family) = text.split_once(' ')?;
        let family = match family {
            "IPv4" => Family::V4,
            "IPv6" => Family::V6,
            _ => return None,
        };
        let scope = match scope {
            "global" => Scope::Global,
            "kept" => Scope::Kept,
            _ => Scope::Namespace(scope.strip_prefix("namespace/").filter(|n| !n.is_empty())?.into()),
        };
        Some(Self { scope, family })
    }
}

/// Why an address is not for Services, though no `IPAddress` says so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reserved {
    /// A node of this name has it.
    Node(Arc<str>),
    /// The API server answers on it.
    ControlPlane,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_is_read_as_written() {
        for scope in [Scope::Global, Scope::Kept, Scope::Namespace("global".into()), Scope::Namespace("kept".into())] {
            for family in [Family::V4, Family::V6] {
                let source = Source { scope: scope.clone(), family };
                assert_eq!(Source::read(&source.to_string()), Some(source));
            }
        }
        for text in ["", "global", "global IPv5", "namespace/ IPv4", "other IPv4"] {
            assert_eq!(Source::read(text), None, "{text}");
        }
    }
}
