//! The known API objects, for all controllers.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use mooring_allocator_core::clusters::Clusters;
use mooring_allocator_core::foreign_finalizers::ForeignFinalizers;
use mooring_allocator_core::names::{ClaimKind, Key, PoolKind, PoolRef, Uid, Version};
use mooring_allocator_core::protocol::{Address, Claim, Machine};
use mooring_allocator_core::providers::Providers;
use mooring_allocator_core::scope::Scope;
use mooring_allocator_core::written_status::WrittenStatus;
use mooring_api::GROUP;
use mooring_api::address::IpAddress;
use mooring_api::claim::IpAddressClaim;
use mooring_api::pool::{METAL3_CLAIM, METAL3_VERSION};
use mooring_api::versions::{IpamVersion, PoolVersion, Version as _};
use mooring_names::metal3;

use super::claims::floating_ips::Looks;
use super::claims::metal3::Metal3;
use crate::api::POOLS;
use crate::decode::kinds::group;
use crate::decode::names::Names;
use crate::decode::pool::{Namespaces, Seen};
use crate::events::Regarding;

/// The known state. The allocation protocol holds claims and addresses, once; the other controllers read them there.
#[derive(Debug)]
pub struct Index {
    /// The allocation protocol, with the claims, addresses and pools that were shown.
    pub protocol: Machine<Providers>,
    /// Texts that are stored once.
    pub names: Names,
    /// The claims that were shown and are not gone, by uid; also claims of an unfinished list.
    pub claims: HashMap<Uid, Key>,
    /// Since when each claim has waited for an address.
    pub waiting_since: HashMap<Uid, Duration>,
    /// The finalizers of addresses that have others besides ours.
    pub foreign_finalizers: ForeignFinalizers,
    /// Clusters, and the claims that wait for them.
    pub clusters: Clusters,
    /// Pools, complete.
    pub pools: HashMap<Arc<PoolRef>, KnownPool>,
    /// The status that was written last to each pool.
    pub written: WrittenStatus,
    /// The API version in which each kind of pool is served.
    pub pools_served: BTreeMap<PoolKind, PoolVersion>,
    /// The kinds of pools that are served.
    pub pool_kinds: Vec<PoolKind>,
    /// Namespaces and their labels, once a pool needs them.
    pub namespaces: Namespaces,
    /// The pages of an unfinished list of namespaces.
    pub namespaces_listing: Namespaces,
    /// Namespaces were listed.
    pub namespaces_listed: bool,
    /// How often the namespaces have changed.
    pub namespaces_changed: u64,
    /// The API version in which claims and addresses are served.
    pub served: IpamVersion,
    /// Which claims belong to this allocator.
    pub scope: Scope,
    /// The pools of all namespaces that name no network are of one network.
    pub one_network: bool,
    /// What metal3's pools depend on.
    pub metal3: Metal3,
    /// What pools of floating IPs have shown of themselves.
    pub floating_ips: Looks,
}

/// A pool as it was shown.
#[derive(Clone, Debug)]
pub struct KnownPool {
    /// The object.
    pub seen: Seen,
    /// The API version of the object.
    pub api: PoolVersion,
}

impl Index {
    /// Creates an empty index. `seed`: any number, different for each process.
    pub fn new(scope: Scope, seed: u64) -> Self {
        Self {
            protocol: Machine::new(Providers::new(seed), seed),
            names: Names::default(),
            claims: HashMap::new(),
            waiting_since: HashMap::new(),
            foreign_finalizers: ForeignFinalizers::default(),
            clusters: Clusters::default(),
            pools: HashMap::new(),
            written: WrittenStatus::default(),
            pools_served: BTreeMap::new(),
            pool_kinds: POOLS.into(),
            namespaces: Namespaces::default(),
            namespaces_listing: Namespaces::default(),
            namespaces_listed: false,
            namespaces_changed: 0,
            served: IpamVersion::default(),
            scope,
            one_network: false,
            metal3: Metal3::default(),
            floating_ips: Looks::default(),
        }
    }

    /// Also serves a kind of pools.
    pub fn serve(&mut self, kind: PoolKind) {
        self.pool_kinds.push(kind);
        self.names.serve(kind);
    }

    /// The claim with this uid.
    pub fn claim(&self, uid: &Uid) -> Option<&Arc<Claim>> {
        self.protocol.claim(self.claims.get(uid)?).filter(|claim| claim.uid == *uid)
    }

    /// The claim with this uid, if this version of it is known.
    pub fn claim_at(&self, uid: &Uid, version: &Version) -> Option<&Arc<Claim>> {
        self.claim(uid).filter(|claim| claim.version == *version)
    }

    /// The `IPAddress` to which a claim is bound, if it is shown and has an address.
    pub fn address_of(&self, claim: &Claim) -> Option<&Arc<Address>> {
        let its =
            |one: &&Arc<Address>| claim.is_bound_to(one.name()) && one.claim == claim.key.name && one.address.is_some();
        self.protocol.addresses_named(&claim.object_key()).find(its)
    }

    /// Updates whether a claim is held, by its Cluster and its annotations.
    pub fn held(&self, mut claim: Claim) -> Claim {
        claim.hold = self.clusters.hold(&claim);
        claim
    }

    /// The API version in which a kind of pool is served.
    pub fn pool_version(&self, kind: PoolKind) -> PoolVersion {
        self.pools_served.get(&kind).copied().unwrap_or_default()
    }

    /// Whether a pool selects namespaces by label.
    pub fn needs_labels(&self) -> bool {
        self.pools.values().any(|pool| pool.seen.needs_labels())
    }

    /// A claim, for an Event.
    pub fn regarding_claim(&self, key: &Key, uid: &str) -> Regarding {
        let (group, version, kind) = match key.claim_kind() {
            ClaimKind::ClusterApi => (GROUP, self.served.name(), IpAddressClaim::KIND),
            ClaimKind::Metal3 => (metal3::GROUP, METAL3_VERSION, METAL3_CLAIM),
        };
        let (namespace, name) = (key.namespace.to_string(), key.object().to_owned());
        Regarding { group, version, kind, namespace, name, uid: uid.to_owned() }
    }

    /// An address, for an Event.
    pub fn regarding_address(&self, key: &Key) -> Regarding {
        Regarding { kind: IpAddress::KIND, ..self.regarding_claim(key, "") }
    }

    /// A pool, for an Event.
    pub fn regarding_pool(&self, reference: &PoolRef) -> Option<Regarding> {
        let pool = self.pools.get(reference)?;
        Some(Regarding {
            group: group(reference.kind),
            version: pool.api.name(),
            kind: reference.kind.name(),
            namespace: reference.namespace.to_string(),
            name: reference.name.to_string(),
            uid: pool.seen.meta.uid.clone().unwrap_or_default(),
        })
    }
}
