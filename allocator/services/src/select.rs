//! The choice of the pool for a Service's address.
//!
//! The order is: the pool that the Service names; otherwise a pool for its namespace (one that people made, then the
//! `ConfigMap`'s); otherwise a pool for its class; otherwise a pool for all (one that people made, then the
//! `ConfigMap`'s). Among pools of the same rank, the first by name that has addresses left is chosen: so a second pool
//! enlarges the first. A pool of another rank does not step in, because it may be of another network, and a team's pool
//! may be its quota. So a pool whose spec becomes invalid keeps its rank, by the spec that it had before.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::Arc;

use mooring_allocator_core::block::{Block, Family};
use mooring_allocator_core::few::few;
use mooring_allocator_core::names::{PoolKind, PoolRef};
use mooring_allocator_core::pool::{Plan, Standing};

use crate::configmap::Config;
use crate::families::place;
use crate::objects::{Pool, Scope, Service, Source};
use crate::reason::Reason;

/// Why there is no pool: the reason, and what to do.
pub type NoPool = (Reason, String);

/// The pools, with an index of the pools for Services that name none.
#[derive(Debug, Default)]
pub struct Pools {
    all: BTreeMap<Arc<PoolRef>, Pool>,
    /// The pools for all namespaces.
    open: BTreeSet<Arc<PoolRef>>,
    /// The pools for certain namespaces.
    own: HashMap<Arc<str>, BTreeSet<Arc<PoolRef>>>,
    /// The pools for a class.
    classed: BTreeSet<Arc<PoolRef>>,
    /// The pools made from the `ConfigMap` that are in effect now.
    pub(crate) made: BTreeMap<Source, Arc<PoolRef>>,
}

impl Pool {
    /// The plan, or the plan of before while the spec is invalid.
    fn known(&self) -> Option<&Plan> {
        self.plan.as_ref().ok().or(self.before.as_ref()).map(|plan| &**plan)
    }

    /// Whether the pool serves claims of a namespace.
    #[must_use]
    pub fn serves(&self, namespace: &str) -> bool {
        !self.deleting && self.admits(namespace)
    }

    /// Whether the pool serves a Service whose claim is in `home`. Services that share across namespaces have their claim in
    /// the allocator's namespace: the pool must serve the namespace of the Service too.
    pub(crate) fn serves_both(&self, service: &Service, home: &str) -> bool {
        self.serves(home) && self.admits(&service.key.namespace)
    }

    /// Whether claims of a namespace, or Services of it, may have addresses of the pool.
    #[must_use]
    pub fn admits(&self, namespace: &str) -> bool {
        if !self.reference.kind.global() {
            return &*self.reference.namespace == namespace && !self.is_apart();
        }
        let allowed = |plan: &Plan| plan.allowed_namespaces.as_ref().is_none_or(|names| names.contains(namespace));
        self.known().is_some_and(allowed)
    }

    /// Whether the pool serves no Services: see [`mooring_allocator_core::pool::Network::serves_services`].
    #[must_use]
    pub fn is_apart(&self) -> bool {
        self.known().is_some_and(|plan| !plan.network.serves_services(self.reference.kind))
    }

    /// Why such a pool serves no Services.
    pub(crate) fn told_apart(&self) -> String {
        format!(
            "{} names a network, and Services have addresses of the cluster-wide pools' network alone",
            self.reference
        )
    }

    /// The family of the pool's addresses.
    #[must_use]
    pub fn family(&self) -> Option<Family> {
        self.known()?.family()
    }

    /// Whether the pool was made for addresses that Services had before.
    #[must_use]
    pub fn keeps(&self) -> bool {
        self.made.as_ref().is_some_and(|made| made.source.scope == Scope::Kept)
    }

    /// Whether the pool may hand out this address.
    #[must_use]
    pub fn lists(&self, ip: IpAddr) -> bool {
        self.plan.as_ref().is_ok_and(|plan| plan.standing(Block::host(ip)) == Standing::Usable)
    }
}

impl Pools {
    /// Adds or updates a pool.
    pub fn set(&mut self, mut pool: Pool) {
        let same = self.all.get(&pool.reference).filter(|before| before.uid == pool.uid && pool.plan.is_err());
        pool.before = same.and_then(|before| before.plan.as_ref().ok().or(before.before.as_ref()).cloned());
        self.forget(&pool.reference);
        let reference = pool.reference.clone();
        if pool.made.is_none() {
            if pool.class.is_some() {
                self.classed.insert(reference.clone());
            } else if pool.default {
                let names = pool.known().and_then(|plan| plan.allowed_namespaces.clone());
                if !reference.kind.global() {
                    self.own.entry(reference.namespace.clone()).or_default().insert(reference.clone());
                } else if let Some(names) = names {
                    for name in names {
                        self.own.entry(name.into()).or_default().insert(reference.clone());
                    }
                } else {
                    self.open.insert(reference.clone());
                }
            }
        }
        self.all.insert(reference, pool);
    }

    /// Removes a pool.
    pub fn remove(&mut self, reference: &PoolRef) -> Option<Pool> {
        self.forget(reference);
        self.all.remove(reference)
    }

    fn forget(&mut self, reference: &PoolRef) {
        let Some(pool) = self.all.get(reference) else { return };
        let names = pool.known().and_then(|plan| plan.allowed_namespaces.clone()).unwrap_or_default();
        let names = names.iter().map(String::as_str).chain([&*pool.reference.namespace]);
        for name in names {
            if let Some(own) = self.own.get_mut(name) {
                own.remove(reference);
            }
        }
        self.own.retain(|_, own| !own.is_empty());
        self.open.remove(reference);
        self.classed.remove(reference);
    }

    /// A pool.
    #[must_use]
    pub fn get(&self, reference: &PoolRef) -> Option<&Pool> {
        self.all.get(reference)
    }

    /// All pools.
    pub fn iter(&self) -> impl Iterator<Item = &Pool> {
        self.all.values()
    }

    /// The pools that a Service names, in the Service's order.
    fn named(&self, service: &Service) -> Option<Result<Vec<&Pool>, NoPool>> {
        let text = service.notes.pool.as_deref()?;
        let one = |name: &str| {
            let namespace = &service.key.namespace;
            let (kinds, name): (&[PoolKind], &str) = match name.split_once('/') {
                None => (&[PoolKind::InClusterIPPool, PoolKind::GlobalInClusterIPPool], name),
                Some(("InClusterIPPool", name)) => (&[PoolKind::InClusterIPPool], name),
                Some(("GlobalInClusterIPPool", name)) => (&[PoolKind::GlobalInClusterIPPool], name),
                Some((kind, _)) => {
                    let why = format!(
                        "{} names a pool of kind {kind:?}: Services get addresses from InClusterIPPool and \
                         GlobalInClusterIPPool only",
                        crate::words::POOL
                    );
                    return Err((Reason::InvalidRequest, why));
                }
            };
            let found = kinds.iter().find_map(|&kind| self.all.get(&PoolRef::new(kind, namespace, name)));
            found.ok_or_else(|| {
                let why = format!(
                    "the pool {name:?} that {} names does not exist: make it, or name another",
                    crate::words::POOL
                );
                (Reason::PoolNotUsable, why)
            })
        };
        Some(text.split(',').map(str::trim).filter(|name| !name.is_empty()).map(one).collect())
    }

    /// The pools for a Service that names none, best rank first, limited to pools that serve `namespace`.
    fn ranked<'a>(&'a self, service: &Service, namespace: &str, family: Family, config: &Config) -> Vec<Vec<&'a Pool>> {
        let own = self.own.get(&service.key.namespace).into_iter().flatten();
        let class = service.class.as_deref();
        let classed = self
            .classed
            .iter()
            .filter(|r| self.all.get(*r).is_some_and(|p| class.is_some() && p.class.as_deref() == class));
        let scope = config.scope(&service.key.namespace);
        let made = |scope: Scope| self.made.get(&Source { scope, family });
        let mut all: Vec<Vec<&Arc<PoolRef>>> = vec![own.collect()];
        if let Some(scope @ Scope::Namespace(_)) = scope {
            // A namespace with its own entry gets none of the global addresses: they may be of another network.
            all.push(made(scope).into_iter().collect());
        } else {
            all.push(classed.collect());
            all.push(self.open.iter().collect());
            all.push(made(Scope::Global).into_iter().collect());
        }
        let fits = |pool: &&Pool| pool.serves_both(service, namespace) && pool.family() == Some(family);
        let ranks = all.into_iter().map(|rank| {
            let found = rank.into_iter().filter_map(|reference| self.all.get(reference));
            found.filter(fits).collect::<Vec<_>>()
        });
        ranks.filter(|rank| !rank.is_empty()).collect()
    }

    /// The pool for a Service's address of a family. `namespace`: the claim's namespace.
    ///
    /// # Errors
    /// No pool fits, with the reason.
    pub fn choose(
        &self,
        service: &Service,
        namespace: &str,
        family: Family,
        config: &Config,
    ) -> Result<Arc<PoolRef>, NoPool> {
        if let Some(named) = self.named(service) {
            let named = named?;
            let fits = |pool: &&&Pool| {
                pool.plan.is_ok() && pool.family() == Some(family) && pool.serves_both(service, namespace)
            };
            return named
                .iter()
                .find(fits)
                .map(|pool| pool.reference.clone())
                .ok_or_else(|| (Reason::PoolNotUsable, unfit(&named, service, namespace, family)));
        }
        let ranks = self.ranked(service, namespace, family, config);
        let Some(best) = ranks.first() else { return Err(self.none(service, family, config)) };
        let usable = || best.iter().filter(|pool| pool.plan.is_ok());
        let chosen = usable().find(|pool| !pool.exhausted).or_else(|| usable().next());
        chosen.map(|pool| pool.reference.clone()).ok_or_else(|| {
            let why =
                |pool: &&Pool| pool.plan.as_ref().err().map(|why| format!("{} cannot be used: {why}", pool.reference));
            (Reason::PoolNotUsable, few(best.iter().filter_map(why)))
        })
    }

    /// The pools as good as the chosen one: the chosen pool and the others of its rank.
    #[must_use]
    pub fn alike(
        &self,
        service: &Service,
        namespace: &str,
        chosen: &Arc<PoolRef>,
        config: &Config,
    ) -> Vec<Arc<PoolRef>> {
        let family = self.get(chosen).and_then(Pool::family);
        let ranks = match family {
            Some(family) if service.notes.pool.is_none() => self.ranked(service, namespace, family, config),
            _ => Vec::new(),
        };
        let rank = ranks.into_iter().find(|rank| rank.iter().any(|pool| pool.reference == *chosen));
        rank.map_or_else(|| vec![chosen.clone()], |rank| rank.iter().map(|pool| pool.reference.clone()).collect())
    }

    /// The pool with an address that a Service asks for.
    ///
    /// # Errors
    /// No pool that the Service may use has the address.
    pub fn listing(
        &self,
        service: &Service,
        namespace: &str,
        ip: IpAddr,
        config: &Config,
    ) -> Result<Arc<PoolRef>, NoPool> {
        let family = Family::of(ip);
        if let Some(named) = self.named(service) {
            let named = named?;
            let found = named.iter().find(|pool| pool.serves_both(service, namespace) && pool.lists(ip));
            return found.map(|pool| pool.reference.clone()).ok_or_else(|| {
                let all: Vec<String> = named.iter().map(|pool| pool.reference.to_string()).collect();
                (
                    Reason::AddressNotInPool,
                    format!(
                        "{ip} is not in {}, which the Service names: ask for another address, name another pool, \
                      or add it",
                        all.join(", ")
                    ),
                )
            });
        }
        let ranked = self.ranked(service, namespace, family, config);
        let others = self.all.values().filter(|pool| pool.serves_both(service, namespace));
        let found = ranked.into_iter().flatten().chain(others).find(|pool| pool.lists(ip));
        found.map(|pool| pool.reference.clone()).ok_or_else(|| {
            (
                Reason::AddressNotInPool,
                format!(
                    "{ip} is in no pool that namespace {namespace} may use: ask for another address, or add it to one, unless it is \
                     the control plane's or a node's, which no Service gets"
                ),
            )
        })
    }

    /// A pool made for addresses that Services had before, with this address. It counts whichever pool the Service names:
    /// no Service loses an address that carries traffic.
    #[must_use]
    pub fn keeping(&self, service: &Service, namespace: &str, ip: IpAddr) -> Option<Arc<PoolRef>> {
        let kept = self.all.values().filter(|pool| pool.keeps());
        let mut kept = kept.filter(|pool| pool.serves_both(service, namespace) && pool.lists(ip));
        kept.next().map(|pool| pool.reference.clone())
    }

    /// The pools that a Service names, as text, if none of them lists this address.
    #[must_use]
    pub fn named_without(&self, service: &Service, ip: IpAddr) -> Option<String> {
        let named = self.named(service)?.ok()?;
        let all: Vec<String> = named.iter().map(|pool| pool.reference.to_string()).collect();
        (!named.is_empty() && !named.iter().any(|pool| pool.lists(ip))).then(|| all.join(", "))
    }

    /// Whether a pool for Services serves the Service's namespace, in any family.
    #[must_use]
    pub fn offer(&self, service: &Service, config: &Config) -> bool {
        let namespace = &service.key.namespace;
        [Family::V4, Family::V6].into_iter().any(|family| !self.ranked(service, namespace, family, config).is_empty())
    }

    /// Whether a pool that the Service names, or a pool for Services, has this address for the Service. Pools for other
    /// purposes do not count. `namespace`: the claim's namespace.
    #[must_use]
    pub fn offer_this(&self, service: &Service, namespace: &str, ip: IpAddr, config: &Config) -> bool {
        if let Some(named) = self.named(service) {
            return named
                .is_ok_and(|all| all.iter().any(|pool| pool.serves_both(service, namespace) && pool.lists(ip)));
        }
        let ranks = self.ranked(service, namespace, Family::of(ip), config);
        ranks.into_iter().flatten().any(|pool| pool.lists(ip))
    }

    fn none(&self, service: &Service, family: Family, config: &Config) -> NoPool {
        let namespace = &service.key.namespace;
        if let Some(scope) = config.scope(namespace) {
            let made =
                self.made.get(&Source { scope: scope.clone(), family }).and_then(|reference| self.all.get(reference));
            let has = config.ranges.get(&scope).is_some_and(|ranges| !ranges[place(family)].is_empty());
            return match made {
                Some(Pool { plan: Err(why), .. }) => {
                    (Reason::NoPool, format!("the pool made from the ConfigMap for {scope} cannot be used: {why}"))
                }
                Some(pool) => {
                    let why = format!(
                        "{} is for {scope} alone: Services that share an address across namespaces need a pool for all",
                        pool.reference
                    );
                    (Reason::NoPool, why)
                }
                None if has => {
                    (Reason::Allocating, format!("the {family} pool for {scope} is being made from the ConfigMap"))
                }
                None => {
                    let why = "add some to its cidr- or range- entry";
                    (Reason::NoPool, format!("the ConfigMap has no {family} address for {scope}: {why}"))
                }
            };
        }
        let why = format!(
            "no pool has {family} addresses for Services of namespace {namespace}: set the annotation {}=true on one, name one in {}, or \
             write cidr-global into the ConfigMap kubevip",
            crate::words::SERVICE_DEFAULT,
            crate::words::POOL
        );
        (Reason::NoPool, why)
    }
}

/// Why none of the pools that a Service names fits.
fn unfit(named: &[&Pool], service: &Service, namespace: &str, family: Family) -> String {
    let own = &service.key.namespace;
    let why = |pool: &&Pool| match &pool.plan {
        Err(why) => format!("{} cannot be used: {why}", pool.reference),
        Ok(_) if pool.deleting => format!("{} is being deleted", pool.reference),
        Ok(_) if pool.is_apart() => pool.told_apart(),
        Ok(_) if !pool.admits(own) => format!("{} does not serve namespace {own}", pool.reference),
        Ok(_) if !pool.serves(namespace) => format!("{} does not serve namespace {namespace}", pool.reference),
        Ok(_) => format!("{} has no {family} address", pool.reference),
    };
    format!("{}: name another in {}", few(named.iter().map(why)), crate::words::POOL)
}

#[cfg(test)]
mod tests {
    use mooring_allocator_core::pool::PoolSpec;

    use super::*;
    use crate::machine::testing::{pool, service};

    fn pools(list: &[Pool]) -> Pools {
        let mut pools = Pools::default();
        for pool in list {
            pools.set(pool.clone());
        }
        pools
    }

    fn named(pool: Pool, name: &str) -> Pool {
        Pool { reference: Arc::new(PoolRef::new(pool.reference.kind, &pool.reference.namespace, name)), ..pool }
    }

    fn chosen(pools: &Pools, service: &Service) -> Result<String, Reason> {
        let config = Config::default();
        let chosen = pools.choose(service, &service.key.namespace, Family::V4, &config);
        chosen.map(|r| r.name.to_string()).map_err(|(reason, _)| reason)
    }

    #[test]
    fn the_pool_it_names_its_namespaces_its_class_then_all() {
        let all = pool("all", &["10.0.0.1-10.0.0.9"]);
        let mut team = pool("team", &["10.1.0.1-10.1.0.9"]);
        let allowed = PoolSpec { addresses: vec!["10.1.0.1-10.1.0.9".into()], prefix: 24, ..PoolSpec::default() };
        let mut allowed = allowed.plan().unwrap();
        allowed.allowed_namespaces = Some(BTreeSet::from(["team".to_owned()]));
        team.plan = Ok(Arc::new(allowed));
        let mut class = pool("class", &["10.2.0.1-10.2.0.9"]);
        class.class = Some("c".into());
        let mut plain = named(pool("plain", &["10.3.0.1-10.3.0.9"]), "plain");
        plain.default = false;
        let mut pools = pools(&[all, team.clone(), class, plain]);

        let (mut other, mut own) = (service("other", "web"), service("team", "web"));
        assert_eq!(chosen(&pools, &other).as_deref(), Ok("all"));
        other.class = Some("c".into());
        assert_eq!(chosen(&pools, &other).as_deref(), Ok("class"));
        assert_eq!(chosen(&pools, &own).as_deref(), Ok("team"));
        own.notes.pool = Some("plain".into());
        assert_eq!(chosen(&pools, &own).as_deref(), Ok("plain"));
        own.notes.pool = Some("GlobalInClusterIPPool/plain".into());
        assert_eq!(chosen(&pools, &own).as_deref(), Ok("plain"));
        for (name, reason) in [
            ("none", Reason::PoolNotUsable),
            ("Pod/plain", Reason::InvalidRequest),
            ("InClusterIPPool/plain", Reason::PoolNotUsable),
        ] {
            own.notes.pool = Some(name.into());
            assert_eq!(chosen(&pools, &own), Err(reason), "{name}");
        }
        other.notes.pool = Some("team".into());
        assert_eq!(chosen(&pools, &other), Err(Reason::PoolNotUsable));
        // It no longer serves the team: the index forgets it.
        team.default = false;
        pools.set(team);
        own.notes.pool = None;
        assert_eq!(chosen(&pools, &own).as_deref(), Ok("all"));
    }

    #[test]
    fn a_namespaces_entry_without_the_family_does_not_fall_back() {
        let mut pools = Pools::default();
        let global = pool("kubevip-global-ipv4", &["10.0.0.1-10.0.0.9"]);
        pools.made.insert(Source { scope: Scope::Global, family: Family::V4 }, global.reference.clone());
        pools.set(Pool {
            made: Some(crate::objects::Made {
                source: Source { scope: Scope::Global, family: Family::V4 },
                spec: PoolSpec::default(),
                interface: None,
            }),
            ..global
        });
        let data = [("cidr-global", "10.0.0.0/28"), ("cidr-team", "fd00::/112")];
        let config = Config::read(&data.map(|(k, v)| (k.to_owned(), v.to_owned())).into());
        let of = |namespace: &str| pools.choose(&service(namespace, "web"), namespace, Family::V4, &config);
        assert!(of("other").is_ok());
        let (reason, why) = of("team").unwrap_err();
        assert!(reason == Reason::NoPool && why.contains("no IPv4 address for namespace/team"), "{why}");
    }
}
