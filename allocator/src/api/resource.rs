//! The watched kinds: their names, versions and paths.

use mooring_allocator_core::names::PoolKind;
use mooring_api::GROUP;
use mooring_api::address::IpAddress;
use mooring_api::claim::IpAddressClaim;
use mooring_api::cluster::{self, Cluster};
use mooring_api::pool::{GlobalInClusterIpPool, GlobalInClusterPrefixPool, InClusterIpPool, InClusterPrefixPool};
use mooring_api::versions::{ClusterVersion, IpamVersion, PoolVersion, Version as _};

/// A kind that is watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Resource {
    /// `Cluster`
    Clusters,
    /// `IPAddressClaim`
    Claims,
    /// `IPAddress`
    Addresses,
    /// One of the four kinds of pools.
    Pools(PoolKind),
    /// `Namespace`
    Namespaces,
    /// `Service`
    Services,
    /// `EndpointSlice`
    Endpoints,
    /// `Node`
    Nodes,
    /// The `ConfigMap` with the addresses for Services.
    Config,
    /// The `ConfigMap` that says where the control plane is.
    ClusterInfo,
}

/// The kinds of pools.
pub const POOLS: [PoolKind; 4] = [
    PoolKind::InClusterIPPool,
    PoolKind::GlobalInClusterIPPool,
    PoolKind::InClusterPrefixPool,
    PoolKind::GlobalInClusterPrefixPool,
];

impl Resource {
    /// The name in URLs.
    #[must_use]
    pub const fn plural(self) -> &'static str {
        match self {
            Self::Clusters => Cluster::PLURAL,
            Self::Claims => IpAddressClaim::PLURAL,
            Self::Addresses => IpAddress::PLURAL,
            Self::Pools(PoolKind::InClusterIPPool) => InClusterIpPool::PLURAL,
            Self::Pools(PoolKind::GlobalInClusterIPPool) => GlobalInClusterIpPool::PLURAL,
            Self::Pools(PoolKind::InClusterPrefixPool) => InClusterPrefixPool::PLURAL,
            Self::Pools(PoolKind::GlobalInClusterPrefixPool) => GlobalInClusterPrefixPool::PLURAL,
            Self::Namespaces => "namespaces",
            Self::Services => "services",
            Self::Endpoints => "endpointslices",
            Self::Nodes => "nodes",
            Self::Config | Self::ClusterInfo => "configmaps",
        }
    }

    /// The name for people.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Config => "the ConfigMap of addresses for Services",
            Self::ClusterInfo => "the ConfigMap kube-public/cluster-info",
            _ => self.plural(),
        }
    }

    /// Whether only Services' addresses depend on it.
    #[must_use]
    pub const fn for_services(self) -> bool {
        matches!(self, Self::Services | Self::Endpoints | Self::Nodes | Self::Config | Self::ClusterInfo)
    }

    /// The versions that can be read, newest first.
    #[must_use]
    pub fn versions(self) -> Vec<&'static str> {
        match self {
            Self::Clusters => ClusterVersion::ALL.iter().rev().map(|one| one.name()).collect(),
            Self::Claims | Self::Addresses => IpamVersion::ALL.iter().rev().map(|one| one.name()).collect(),
            Self::Pools(_) => PoolVersion::ALL.iter().rev().map(|one| one.name()).collect(),
            Self::Namespaces | Self::Services | Self::Endpoints | Self::Nodes | Self::Config | Self::ClusterInfo => {
                vec!["v1"]
            }
        }
    }

    /// The path of all objects of the kind, in this version.
    #[must_use]
    pub fn path(self, version: &str) -> String {
        match self {
            Self::Namespaces | Self::Services | Self::Nodes | Self::Config | Self::ClusterInfo => {
                format!("/api/v1/{}", self.plural())
            }
            Self::Endpoints => format!("/apis/discovery.k8s.io/{version}/{}", self.plural()),
            Self::Clusters => format!("/apis/{}/{version}/{}", cluster::GROUP, self.plural()),
            _ => format!("/apis/{GROUP}/{version}/{}", self.plural()),
        }
    }

    /// The path of one object of the kind, in this version. For claims, addresses, pools and Services.
    #[must_use]
    pub fn object(self, version: &str, namespace: &str, name: &str) -> String {
        let plural = self.plural();
        if self == Self::Services {
            format!("/api/v1/namespaces/{namespace}/{plural}/{name}")
        } else if namespace.is_empty() {
            format!("/apis/{GROUP}/{version}/{plural}/{name}")
        } else {
            format!("/apis/{GROUP}/{version}/namespaces/{namespace}/{plural}/{name}")
        }
    }
}
