//! Pools: the typed object to the plan of what the pool may hand out.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use mooring_allocator_core::names::{PoolRef, Uid, Version};
use mooring_allocator_core::pool::{
    LegacySpec, Metal3Entry, Metal3Spec, Network, Plan, Policy, PoolSpec, PrefixSpec, SpecError, Strategy,
};
use mooring_allocator_core::protocol::Paused;
use mooring_allocator_services::objects::{Made, Source};
use mooring_allocator_services::words;
use mooring_api::annotations;
use mooring_api::pool::{
    AllowedNamespaces, DEFAULT_PREFIX_LENGTH, FloatingIpPoolSpec, FloatingIpPoolStatus, IpPoolSpec, Metal3PoolSpec,
    Metal3PoolStatus, PhpIpamIpPoolSpec, PoolStatus, PrefixPoolSpec, Quarantine,
};
use serde::Deserialize;

use super::kinds::pool_finalizer;
use super::{floating_ips, outside};

/// A pool of any kind, as the API server sends it.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, bound(deserialize = "S: Deserialize<'de> + Default, T: Deserialize<'de> + Default"))]
pub struct PoolJson<S, T = PoolStatus> {
    /// The object's metadata.
    pub metadata: ObjectMeta,
    /// The pool's spec.
    pub spec: S,
    /// The pool's status.
    pub status: Option<T>,
}

/// The labels of namespaces, by name. Needed only if a pool selects namespaces by label.
pub type Namespaces = BTreeMap<String, BTreeMap<String, String>>;

/// A pool of any kind.
#[derive(Clone, Debug)]
pub struct Seen {
    /// The object's metadata, without `managedFields`.
    pub meta: ObjectMeta,
    /// The pool's status.
    pub status: Option<PoolStatus>,
    /// The pool's spec.
    pub spec: Spec,
}

/// A pool's spec.
#[derive(Clone, Debug, PartialEq)]
pub enum Spec {
    /// A pool of addresses.
    Addresses(Box<IpPoolSpec>),
    /// A pool of prefixes.
    Prefixes(Box<PrefixPoolSpec>),
    /// A pool of metal3's, and the addresses by claim in its status.
    Metal3(Box<Metal3PoolSpec>, BTreeMap<String, String>),
    /// A pool whose addresses phpIPAM gives.
    PhpIpam(Box<PhpIpamIpPoolSpec>),
    /// A pool of floating IPs, and its status.
    FloatingIps(Box<FloatingIpPoolSpec>, Box<FloatingIpPoolStatus>),
}

impl From<PoolJson<IpPoolSpec>> for Seen {
    fn from(pool: PoolJson<IpPoolSpec>) -> Self {
        Self { meta: lean(pool.metadata), status: pool.status, spec: Spec::Addresses(Box::new(pool.spec)) }
    }
}

impl From<PoolJson<PrefixPoolSpec>> for Seen {
    fn from(pool: PoolJson<PrefixPoolSpec>) -> Self {
        Self { meta: lean(pool.metadata), status: pool.status, spec: Spec::Prefixes(Box::new(pool.spec)) }
    }
}

impl From<PoolJson<Metal3PoolSpec, Metal3PoolStatus>> for Seen {
    fn from(pool: PoolJson<Metal3PoolSpec, Metal3PoolStatus>) -> Self {
        let indexes = pool.status.map(|status| status.indexes).unwrap_or_default();
        Self { meta: lean(pool.metadata), status: None, spec: Spec::Metal3(Box::new(pool.spec), indexes) }
    }
}

impl From<PoolJson<PhpIpamIpPoolSpec>> for Seen {
    fn from(pool: PoolJson<PhpIpamIpPoolSpec>) -> Self {
        Self { meta: lean(pool.metadata), status: pool.status, spec: Spec::PhpIpam(Box::new(pool.spec)) }
    }
}

impl From<PoolJson<FloatingIpPoolSpec, FloatingIpPoolStatus>> for Seen {
    fn from(pool: PoolJson<FloatingIpPoolSpec, FloatingIpPoolStatus>) -> Self {
        let status = Box::new(pool.status.unwrap_or_default());
        Self { meta: lean(pool.metadata), status: None, spec: Spec::FloatingIps(Box::new(pool.spec), status) }
    }
}

fn lean(meta: ObjectMeta) -> ObjectMeta {
    ObjectMeta { managed_fields: None, ..meta }
}

impl Seen {
    /// Whether the pool's own annotation pauses the pool.
    #[must_use]
    pub fn is_paused(&self) -> bool {
        self.meta.annotations.as_ref().is_some_and(|all| all.contains_key(annotations::PAUSED))
    }

    /// The pool's uid.
    #[must_use]
    pub fn uid(&self) -> Uid {
        Uid::from(self.meta.uid.as_deref().unwrap_or_default())
    }

    /// Whether the pool selects namespaces by label.
    #[must_use]
    pub fn needs_labels(&self) -> bool {
        self.allowed().is_some_and(AllowedNamespaces::needs_labels)
    }

    fn allowed(&self) -> Option<&AllowedNamespaces> {
        match &self.spec {
            Spec::Addresses(spec) => spec.allowed_namespaces.as_ref(),
            Spec::Prefixes(spec) => spec.allowed_namespaces.as_ref(),
            Spec::PhpIpam(spec) => spec.allowed_namespaces.as_ref(),
            Spec::Metal3(..) | Spec::FloatingIps(..) => None,
        }
    }

    /// The spec of a pool of metal3's.
    #[must_use]
    pub const fn metal3(&self) -> Option<&Metal3PoolSpec> {
        match &self.spec {
            Spec::Metal3(spec, _) => Some(spec),
            _ => None,
        }
    }

    /// The protocol's pool. `generation` must change whenever the plan may have changed.
    #[must_use]
    pub fn pool(
        &self,
        reference: Arc<PoolRef>,
        namespaces: &Namespaces,
        generation: u64,
        paused: Option<Paused>,
        status: Option<mooring_allocator_core::protocol::PoolStatus>,
    ) -> mooring_allocator_core::protocol::Pool {
        let has = |name| self.meta.finalizers.as_ref().is_some_and(|all| all.iter().any(|one| one == name));
        mooring_allocator_core::protocol::Pool {
            uid: self.uid(),
            version: Version::from(self.meta.resource_version.as_deref().unwrap_or_default()),
            generation,
            plan: self.plan(namespaces),
            remote: match &self.spec {
                Spec::Addresses(_) | Spec::Prefixes(_) | Spec::Metal3(..) => None,
                Spec::PhpIpam(spec) => Some(outside::use_of(spec)),
                Spec::FloatingIps(_, status) => Some(floating_ips::use_of(&status.conditions)),
            },
            paused,
            deleting: self.meta.deletion_timestamp.is_some(),
            finalizer: has(pool_finalizer(reference.kind)),
            status,
            reference,
        }
    }

    /// The source of a pool that this program made for Services, and the pool's current spec. None for other pools. All made
    /// pools are cluster-wide: in a namespace, tenants can write any label and annotation.
    #[must_use]
    pub fn made(&self, namespaces: &Namespaces) -> Option<Made> {
        if self.meta.namespace.as_deref().is_some_and(|namespace| !namespace.is_empty()) {
            return None;
        }
        let label = self.meta.labels.as_ref()?.get(words::MADE_FROM)?;
        if label != words::MADE_FROM_VALUE {
            return None;
        }
        let source = Source::read(self.meta.annotations.as_ref()?.get(words::SOURCE)?)?;
        let allowed = self.allowed().map(|allowed| allowed_names(allowed, namespaces)).transpose();
        let Spec::Addresses(spec) = &self.spec else { return None };
        // A spec that cannot be read differs from the wanted spec, so it is rewritten.
        let spec = allowed.ok().and_then(|allowed| addresses(spec, self.network(), allowed).ok()).unwrap_or_default();
        Some(Made { source, spec, interface: self.annotation(annotations::INTERFACE).map(Arc::from) })
    }

    /// The pool's spec as JSON.
    ///
    /// # Errors
    /// The spec cannot be encoded: a bug in the program.
    pub fn spec_value(&self) -> Result<serde_json::Value, serde_json::Error> {
        match &self.spec {
            Spec::Addresses(spec) => serde_json::to_value(spec),
            Spec::Prefixes(spec) => serde_json::to_value(spec),
            Spec::Metal3(spec, _) => serde_json::to_value(spec),
            Spec::PhpIpam(spec) => serde_json::to_value(spec),
            Spec::FloatingIps(spec, _) => serde_json::to_value(spec),
        }
    }

    /// The value of an annotation of the pool.
    #[must_use]
    pub fn annotation(&self, name: &str) -> Option<&str> {
        self.meta.annotations.as_ref()?.get(name).map(String::as_str)
    }

    /// The plan of what the pool may hand out.
    ///
    /// # Errors
    /// All errors in the spec.
    pub fn plan(&self, namespaces: &Namespaces) -> Result<Plan, Vec<SpecError>> {
        let allowed = self.allowed().map(|allowed| allowed_names(allowed, namespaces)).transpose();
        let allowed = allowed.map_err(|error| vec![error])?;
        match &self.spec {
            Spec::Addresses(spec) => addresses(spec, self.network(), allowed)?.plan(),
            Spec::Prefixes(spec) => prefixes(spec, self.network(), allowed)?.plan(),
            Spec::Metal3(spec, _) => metal3(spec, self.network())?.plan(),
            Spec::PhpIpam(spec) => outside::phpipam(spec, self.network(), allowed),
            Spec::FloatingIps(spec, _) => floating_ips::plan(spec, self.network()),
        }
    }

    /// The pool's network. A namespace's pool for Services is of the network of the cluster-wide pools: all Services have
    /// the same nodes.
    #[must_use]
    pub fn network(&self) -> Network {
        let named = match &self.spec {
            Spec::Addresses(spec) => spec.network.as_ref(),
            Spec::Prefixes(spec) => spec.network.as_ref(),
            Spec::Metal3(..) | Spec::FloatingIps(..) => None,
            Spec::PhpIpam(spec) => spec.network.as_ref(),
        };
        let for_services = self.annotation(words::SERVICE_DEFAULT) == Some("true")
            || self.annotation(words::SERVICE_CLASS).is_some_and(|class| !class.is_empty());
        match (named, self.meta.namespace.as_deref()) {
            (Some(name), _) => Network::Named(name.clone()),
            (None, Some(namespace)) if !namespace.is_empty() && !for_services => {
                Network::Namespace(namespace.to_owned())
            }
            (None, _) => Network::Common,
        }
    }
}

/// The namespaces that may claim from the pool. An invalid selector is an error of the pool: it admits no namespace.
fn allowed_names(allowed: &AllowedNamespaces, namespaces: &Namespaces) -> Result<BTreeSet<String>, SpecError> {
    let mut names: BTreeSet<String> = allowed.names.iter().cloned().collect();
    if allowed.needs_labels() {
        for (name, labels) in namespaces {
            match allowed.allows(name, labels) {
                Ok(true) => {
                    names.insert(name.clone());
                }
                Ok(false) => {}
                Err(_) => {
                    return Err(SpecError::Legacy("allowedNamespaces.selector makes no sense: correct it"));
                }
            }
        }
    }
    Ok(names)
}

fn addresses(
    spec: &IpPoolSpec,
    network: Network,
    allowed: Option<BTreeSet<String>>,
) -> Result<PoolSpec, Vec<SpecError>> {
    let Ok(listed) = spec.listed() else {
        // The v1alpha1 form: its own reader finds the errors and their fields.
        let legacy = LegacySpec {
            addresses: Vec::new(),
            subnet: spec.subnet.clone(),
            start: spec.start.clone(),
            end: spec.end.clone(),
            prefix: spec.prefix.unwrap_or(0),
            gateway: spec.gateway.clone(),
        };
        let why = "subnet, start and end name no addresses: write addresses and prefix instead";
        return Err(legacy.modern().err().unwrap_or_else(|| vec![SpecError::Legacy(why)]));
    };
    let policy = policy(spec.strategy.as_ref(), &spec.pre_allocations, network, spec.quarantine, allowed)?;
    Ok(PoolSpec {
        addresses: listed.addresses.into_owned(),
        excluded_addresses: spec.excluded_addresses.clone(),
        prefix: listed.prefix.unwrap_or(0),
        gateway: spec.gateway.clone(),
        allocate_reserved_ip_addresses: spec.allocate_reserved_ip_addresses.unwrap_or(false),
        address_reuse_grace_period_seconds: spec.address_reuse_grace_period_seconds.unwrap_or(0).into(),
        policy,
    })
}

fn prefixes(
    spec: &PrefixPoolSpec,
    network: Network,
    allowed: Option<BTreeSet<String>>,
) -> Result<PrefixSpec, Vec<SpecError>> {
    let policy = policy(spec.strategy.as_ref(), &spec.pre_allocations, network, spec.quarantine, allowed)?;
    Ok(PrefixSpec {
        prefixes: spec.prefixes.clone(),
        excluded_prefixes: spec.excluded_prefixes.clone(),
        allocation_prefix_length: spec.allocation_prefix_length.unwrap_or_else(|| DEFAULT_PREFIX_LENGTH.into()),
        gateway: spec.gateway.clone(),
        policy,
    })
}

fn metal3(spec: &Metal3PoolSpec, network: Network) -> Result<Metal3Spec, Vec<SpecError>> {
    use mooring_api::pool::Strategy as Api;
    let strategy = match spec.allocation_strategy.as_deref() {
        None | Some("" | "sequential") => Api::LowestFree,
        Some("random") => Api::Random,
        Some(other) => Api::Unknown(other.to_owned()),
    };
    let policy = policy(Some(&strategy), &spec.pre_allocations, network, None, None)?;
    let entry = |one: &mooring_api::pool::Metal3PoolEntry| Metal3Entry {
        start: one.start.clone(),
        end: one.end.clone(),
        subnet: one.subnet.clone(),
        prefix: one.prefix.unwrap_or(0),
        gateway: one.gateway.clone(),
    };
    let pools = spec.pools.iter().map(entry).collect();
    Ok(Metal3Spec { pools, prefix: spec.prefix.unwrap_or(0), gateway: spec.gateway.clone(), policy })
}

fn policy(
    strategy: Option<&mooring_api::pool::Strategy>,
    pre_allocations: &BTreeMap<String, String>,
    network: Network,
    quarantine: Option<Quarantine>,
    allowed_namespaces: Option<BTreeSet<String>>,
) -> Result<Policy, Vec<SpecError>> {
    use mooring_api::pool::Strategy as Api;
    let strategy = match strategy {
        None | Some(Api::LowestFree) => Strategy::Lowest,
        Some(Api::HighestFree) => Strategy::Highest,
        Some(Api::Random) => Strategy::Random,
        Some(Api::LeastRecentlyUsed) => Strategy::LeastRecentlyUsed,
        Some(Api::Unknown(_)) => {
            let why = "strategy is one that this allocator does not know: give another, or a newer allocator";
            return Err(vec![SpecError::Legacy(why)]);
        }
    };
    Ok(Policy {
        strategy,
        pre_allocations: pre_allocations.clone(),
        network,
        quarantine_seconds: quarantine.and_then(|q| q.after_release_seconds).unwrap_or(0).into(),
        conflict_quarantine_seconds: quarantine.and_then(|q| q.after_conflict_seconds).map(i64::from),
        allowed_namespaces,
    })
}

/// The spec of a pool that this program makes for Services. [`Seen::made`] reads the same fields.
#[must_use]
pub fn made_spec(spec: &PoolSpec) -> IpPoolSpec {
    use mooring_api::pool::Strategy as Api;
    let policy = &spec.policy;
    IpPoolSpec {
        addresses: spec.addresses.clone(),
        prefix: Some(spec.prefix),
        allocate_reserved_ip_addresses: spec.allocate_reserved_ip_addresses.then_some(true),
        strategy: (policy.strategy == Strategy::Highest).then_some(Api::HighestFree),
        allowed_namespaces: policy
            .allowed_namespaces
            .as_ref()
            .map(|names| AllowedNamespaces { names: names.iter().cloned().collect(), selector: None }),
        ..IpPoolSpec::default()
    }
}

#[cfg(test)]
mod tests {
    use mooring_allocator_core::block::Family;
    use mooring_allocator_services::configmap::{Config, NewPool, pools};

    use super::*;

    #[test]
    fn what_is_made_is_read_as_it_was_made() {
        let data = [
            ("cidr-global", "10.0.0.0/24,fd00::/112"),
            ("range-team", "10.1.0.5-10.1.0.9"),
            ("search-order", "desc"),
            ("interface-team", "eth1"),
        ];
        let config = Config::read(&data.map(|(k, v)| (k.to_owned(), v.to_owned())).into());
        let all = pools(&config, &BTreeSet::new());
        assert_eq!(all.len(), 3);
        for (source, made) in all {
            let new = NewPool::new(made.clone(), None);
            let interface = made.interface.iter().map(|name| (annotations::INTERFACE.to_owned(), name.to_string()));
            let meta = ObjectMeta {
                name: Some(new.reference.name.to_string()),
                labels: Some([(words::MADE_FROM.to_owned(), words::MADE_FROM_VALUE.to_owned())].into()),
                annotations: Some(interface.chain([(words::SOURCE.to_owned(), source.to_string())]).collect()),
                ..ObjectMeta::default()
            };
            // As the API server returns it.
            let text = serde_json::to_string(&made_spec(&made.spec)).unwrap();
            let spec = Spec::Addresses(serde_json::from_str(&text).unwrap());
            let mut seen = Seen { meta, status: None, spec };
            assert_eq!(seen.made(&Namespaces::new()), Some(made), "{source}");
            assert!(source.family == Family::V6 || seen.plan(&Namespaces::new()).is_ok());
            // One of a tenant that says the same is the tenant's.
            seen.meta.namespace = Some("tenant".into());
            assert_eq!(seen.made(&Namespaces::new()), None, "{source}");
            seen.meta.namespace = None;
            seen.meta.labels = None;
            assert_eq!(seen.made(&Namespaces::new()), None);
        }
    }
}
