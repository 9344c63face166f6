//! The objects, as far as Services need them. Names, uids and versions are the allocator core's.

use std::collections::BTreeSet;
use std::fmt;
use std::net::IpAddr;
use std::ops::Deref;
use std::sync::Arc;

use mooring_allocator_core::block::Family;
use mooring_allocator_core::names::{Key, PoolRef, Uid, Version};
use mooring_allocator_core::pool::{Plan, PoolSpec};
use mooring_allocator_core::protocol;
pub use mooring_allocator_core::protocol::Address;
pub use mooring_allocator_core::retained_meta::{GivenClass, Member};

use crate::notes::Notes;
use crate::ports::Port;
use crate::reason::Condition;

/// A Service as one read or watch event showed it. Services of every type are passed on.
#[expect(clippy::struct_excessive_bools, reason = "as its object has them")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Service {
    /// Its namespace and name.
    pub key: Key,
    /// Its uid.
    pub uid: Uid,
    /// Its resource version.
    pub version: Version,
    /// When it was created, in seconds since 1970; 0: unknown.
    pub created: u64,
    /// The Service has a deletion timestamp.
    pub deleting: bool,
    /// The Service has the finalizer [`crate::words::CLEANUP`].
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
    /// `spec.loadBalancerIP`, if not empty.
    pub load_balancer_ip: Option<Box<str>>,
    /// Its annotations.
    pub notes: Notes,
    /// The Service has the label `implementation=kube-vip`.
    pub implementation: bool,
    /// The addresses in `status.loadBalancer.ingress`.
    pub ingress: Vec<Ingress>,
    /// The other entries of the ingress list, as JSON: host names that others wrote. They stay.
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
    /// Both families, or one if only one is available.
    PreferDualStack,
    /// Both families or nothing.
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

/// An `IPAddressClaim` with the label [`crate::words::SERVICE_FAMILY`]: the allocation protocol's claim, as Services read it.
#[derive(Clone, Debug)]
pub struct Claim {
    shown: Arc<protocol::Claim>,
    /// The label's value.
    pub family: Family,
    /// The address that its annotation `mooring.dev/requested-address` asks for.
    pub requested: Option<IpAddr>,
}

impl Claim {
    /// Reads a claim that was shown; None: the claim has no such label.
    #[must_use]
    pub fn of(shown: &Arc<protocol::Claim>) -> Option<Self> {
        let family = shown.retained.service.as_ref()?.family;
        let requested = shown.requested.as_deref().and_then(|text| text.parse().ok());
        Some(Self { shown: shown.clone(), family, requested })
    }

    /// Its annotation [`crate::words::SERVICES`], in order.
    #[must_use]
    pub fn members(&self) -> &[Member] {
        self.shown.retained.service.as_ref().map_or(&[], |service| &service.members)
    }

    /// Its annotation [`crate::words::GIVEN_CLASSES`]: the class for which a Service was given the claim.
    #[must_use]
    pub fn given_class(&self, member: &Member) -> Option<&str> {
        let service = self.shown.retained.service.as_ref()?;
        let at = service.members.iter().position(|one| one == member)?;
        service.classes.get(at)?.as_deref()
    }

    /// Its annotation [`crate::words::GIVEN_CLASSES`], for each of [`Self::members`].
    #[must_use]
    pub fn given_classes(&self) -> &[GivenClass] {
        self.shown.retained.service.as_ref().map_or(&[], |service| &service.classes)
    }

    /// Reason and message of the claim's `Ready` condition, if the condition is `False`.
    #[must_use]
    pub fn refused(&self) -> Option<(&'static str, &str)> {
        let refused = self.shown.condition.as_ref().filter(|condition| !condition.ready);
        refused.map(|condition| (condition.reason.name(), condition.message.as_str()))
    }
}

impl Deref for Claim {
    type Target = protocol::Claim;

    fn deref(&self) -> &protocol::Claim {
        &self.shown
    }
}

/// A pool of addresses (not of prefixes).
#[derive(Clone, Debug)]
pub struct Pool {
    /// The pool's name.
    pub reference: Arc<PoolRef>,
    /// Its uid.
    pub uid: Uid,
    /// Its resource version.
    pub version: Version,
    /// Changes whenever the pool's plan or one of the fields below may have changed: `metadata.generation` alone does
    /// not show this.
    pub generation: u64,
    /// The plan of what the pool may hand out, or the error in its spec.
    pub plan: Result<Arc<Plan>, Box<str>>,
    /// The plan of before, while the spec is invalid; [`crate::select::Pools`] keeps it.
    pub before: Option<Arc<Plan>>,
    /// Its annotation [`crate::words::SERVICE_DEFAULT`] is `true`.
    pub default: bool,
    /// Its annotation [`crate::words::SERVICE_CLASS`].
    pub class: Option<Box<str>>,
    /// What the pool was made from, if Mooring made it from the `ConfigMap` or for old addresses.
    pub made: Option<Made>,
    /// The pool's status says that nothing is left.
    pub exhausted: bool,
    /// The pool has a deletion timestamp.
    pub deleting: bool,
}

/// The source of a made pool, and its present spec.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Made {
    /// The source.
    pub source: Source,
    /// The spec.
    pub spec: PoolSpec,
    /// The interface that the pool names: its annotation `mooring.dev/interface`.
    pub interface: Option<Arc<str>>,
}

/// The source of a made pool; as text, the annotation [`crate::words::SOURCE`].
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Source {
    /// The Services that the addresses are for.
    pub scope: Scope,
    /// The family of the addresses.
    pub family: Family,
}

/// The Services that a `ConfigMap` entry's addresses are for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    /// `…-global`: all namespaces without an entry of their own.
    Global,
    /// `…-NAMESPACE`.
    Namespace(Arc<str>),
    /// No entry: addresses in no pool, which Services had when Mooring came.
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

impl Scope {
    /// Where people change the addresses: an entry of the `ConfigMap`, if there is one.
    #[must_use]
    pub fn entry(&self) -> Option<String> {
        let end = match self {
            Self::Global => "global",
            Self::Namespace(name) => name,
            Self::Kept => return None,
        };
        Some(format!("cidr-{end} or range-{end} in the ConfigMap kubevip"))
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.scope, self.family)
    }
}

impl Source {
    /// Reads the text that [`fmt::Display`] writes; None for any other text.
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

/// Why an address is not for Services, although no `IPAddress` has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reserved {
    /// A node of this name has the address.
    Node(Arc<str>),
    /// The API server answers on the address.
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
