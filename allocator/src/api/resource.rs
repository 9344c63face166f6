//! The watched kinds: their names, versions and paths.

use mooring_allocator_core::names::{ClaimKind, PoolKind};
use mooring_api::GROUP;
use mooring_api::address::IpAddress;
use mooring_api::claim::IpAddressClaim;
use mooring_api::cluster::{self, Cluster};
use mooring_api::pool::{
    FLOATING_IP_POOLS, GlobalInClusterIpPool, GlobalInClusterPrefixPool, InClusterIpPool, InClusterPrefixPool,
    METAL3_ADDRESSES, METAL3_CLAIMS, METAL3_POOLS, METAL3_VERSION, PhpIpamIpPool,
};
use mooring_api::versions::{ClusterVersion, IpamVersion, OutsideVersion, PoolVersion, Version as _};
use mooring_names::{metal3, openstack};

/// A kind of object that Clusters name: infrastructure clusters, or control planes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PartKind {
    /// The API group.
    pub group: &'static str,
    /// The kind.
    pub kind: &'static str,
    /// The name in URLs. By Cluster API's contract it follows from the kind (`CalculateCRDName` in its `util/contract`).
    pub plural: &'static str,
    /// Whether it is of control planes; otherwise of infrastructure clusters.
    pub of_control_planes: bool,
}

/// The kinds of control planes that are followed.
pub const CONTROL_PLANES: [PartKind; 2] = [
    PartKind {
        group: "controlplane.cluster.x-k8s.io",
        kind: "KubeadmControlPlane",
        plural: "kubeadmcontrolplanes",
        of_control_planes: true,
    },
    PartKind {
        group: "controlplane.cluster.x-k8s.io",
        kind: "KamajiControlPlane",
        plural: "kamajicontrolplanes",
        of_control_planes: true,
    },
];

/// The versions in which such a kind may be served, newest first. The fields that are read are the same in all.
const PART_VERSIONS: [&str; 5] = ["v1beta2", "v1beta1", "v1", "v1alpha2", "v1alpha1"];

/// A kind that is watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Resource {
    /// `Cluster`
    Clusters,
    /// `IPAddressClaim`
    Claims,
    /// `IPAddress`
    Addresses,
    /// One of the kinds of pools.
    Pools(PoolKind),
    /// metal3's own `IPClaim`
    Metal3Claims,
    /// metal3's own `IPAddress`
    Metal3Addresses,
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
    /// A kind that Clusters name.
    Parts(PartKind),
    /// `VSphereMachine`
    Machines,
    /// `VSphereMachineTemplate`
    MachineTemplates,
}

/// The kinds of pools that are always followed.
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
            Self::Pools(PoolKind::Metal3IPPool) => METAL3_POOLS,
            Self::Metal3Claims => METAL3_CLAIMS,
            Self::Metal3Addresses => METAL3_ADDRESSES,
            Self::Pools(PoolKind::PHPIPAMIPPool) => PhpIpamIpPool::PLURAL,
            Self::Pools(PoolKind::OpenStackFloatingIPPool) => FLOATING_IP_POOLS,
            Self::Namespaces => "namespaces",
            Self::Services => "services",
            Self::Endpoints => "endpointslices",
            Self::Nodes => "nodes",
            Self::Config | Self::ClusterInfo => "configmaps",
            Self::Parts(kind) => kind.plural,
            Self::Machines => "vspheremachines",
            Self::MachineTemplates => "vspheremachinetemplates",
        }
    }

    /// The name for people.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Config => "the ConfigMap of addresses for Services",
            Self::ClusterInfo => "the ConfigMap kube-public/cluster-info",
            Self::Pools(PoolKind::Metal3IPPool) => "IPPools of metal3's",
            Self::Metal3Claims => "IPClaims of metal3's",
            Self::Metal3Addresses => "IPAddresses of metal3's own claims",
            _ => self.plural(),
        }
    }

    /// Whether it is of metal3's group.
    #[must_use]
    pub const fn of_metal3(self) -> bool {
        matches!(self, Self::Pools(PoolKind::Metal3IPPool) | Self::Metal3Claims | Self::Metal3Addresses)
    }

    /// The claims of this kind.
    #[must_use]
    pub const fn claims(of: ClaimKind) -> Self {
        match of {
            ClaimKind::ClusterApi => Self::Claims,
            ClaimKind::Metal3 => Self::Metal3Claims,
        }
    }

    /// The addresses of claims of this kind.
    #[must_use]
    pub const fn addresses(of: ClaimKind) -> Self {
        match of {
            ClaimKind::ClusterApi => Self::Addresses,
            ClaimKind::Metal3 => Self::Metal3Addresses,
        }
    }

    /// Whether only Services' addresses depend on it.
    #[must_use]
    pub const fn for_services(self) -> bool {
        matches!(self, Self::Services | Self::Endpoints | Self::Nodes | Self::Config | Self::ClusterInfo)
    }

    /// The group of a kind of Clusters, of what these name, of machines, of metal3, or of the provider for OpenStack.
    const fn foreign_group(self) -> Option<&'static str> {
        match self {
            Self::Clusters => Some(cluster::GROUP),
            Self::Parts(kind) => Some(kind.group),
            Self::Machines | Self::MachineTemplates => Some(mooring_names::machines::GROUP),
            _ if self.of_metal3() => Some(metal3::GROUP),
            Self::Pools(PoolKind::OpenStackFloatingIPPool) => Some(openstack::GROUP),
            _ => None,
        }
    }

    /// The versions that can be read, newest first.
    #[must_use]
    pub fn versions(self) -> Vec<&'static str> {
        match self {
            Self::Clusters => ClusterVersion::ALL.iter().rev().map(|one| one.name()).collect(),
            Self::Claims | Self::Addresses => IpamVersion::ALL.iter().rev().map(|one| one.name()).collect(),
            Self::Pools(PoolKind::Metal3IPPool) | Self::Metal3Claims | Self::Metal3Addresses => vec![METAL3_VERSION],
            Self::Pools(kind) if kind.is_remote() => OutsideVersion::ALL.iter().rev().map(|one| one.name()).collect(),
            Self::Pools(_) => PoolVersion::ALL.iter().rev().map(|one| one.name()).collect(),
            Self::Parts(_) | Self::Machines | Self::MachineTemplates => PART_VERSIONS.into(),
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
            _ => format!("/apis/{}/{version}/{}", self.foreign_group().unwrap_or(GROUP), self.plural()),
        }
    }

    /// The path of one object of the kind, in this version. For claims, addresses, pools, Services, Clusters and what these name.
    #[must_use]
    pub fn object(self, version: &str, namespace: &str, name: &str) -> String {
        let plural = self.plural();
        if self == Self::Services {
            format!("/api/v1/namespaces/{namespace}/{plural}/{name}")
        } else if let Some(group) = self.foreign_group() {
            format!("/apis/{group}/{version}/namespaces/{namespace}/{plural}/{name}")
        } else if namespace.is_empty() {
            format!("/apis/{GROUP}/{version}/{plural}/{name}")
        } else {
            format!("/apis/{GROUP}/{version}/namespaces/{namespace}/{plural}/{name}")
        }
    }
}
