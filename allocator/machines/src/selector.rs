//! Which pools a machine's labels name, and which of them a device gets its addresses from.

use mooring_allocator_core::block::Family;

use crate::objects::{Labels, Pool};

/// What labels ask for. There is no empty selector: it would match any pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Selector<'a> {
    /// The pool of this name.
    Name(&'a str),
    /// Pools with these labels.
    Labels {
        /// The group, if one is named.
        group: Option<&'a str>,
        /// The network, if one is named.
        network: Option<&'a str>,
    },
}

/// From where a device may get its addresses.
#[derive(Clone, Copy, Debug)]
pub struct Reach<'a> {
    /// The machine's namespace.
    pub namespace: &'a str,
    /// The namespace of pools that the Cluster names.
    pub pool_namespace: Option<&'a str>,
    /// The device's network.
    pub network: &'a str,
}

/// The pools that a device may get its addresses from, the best first.
#[derive(Debug)]
pub struct Choice<'a>(Vec<&'a Pool>);

impl<'a> Selector<'a> {
    /// What these labels ask for; None: nothing. A name counts before a group.
    #[must_use]
    pub fn of(labels: &'a Labels) -> Option<Self> {
        if let Some(name) = &labels.pool {
            return Some(Self::Name(name));
        }
        let (group, network) = (labels.group.as_deref(), labels.network.as_deref());
        (group.is_some() || network.is_some()).then_some(Self::Labels { group, network })
    }

    fn matches(&self, pool: &Pool) -> bool {
        let is = |wanted: Option<&str>, has: &Option<Box<str>>| wanted.is_none() || wanted == has.as_deref();
        match self {
            Self::Name(name) => *pool.reference.name == **name,
            Self::Labels { group, network } => is(*group, &pool.labels.group) && is(*network, &pool.labels.network),
        }
    }

    /// The pools among these that a device may get its addresses from.
    pub fn choose(&self, pools: impl Iterator<Item = &'a Pool>, reach: &Reach<'_>) -> Choice<'a> {
        let mut all: Vec<&Pool> = pools.filter(|pool| self.matches(pool) && reach.includes(pool)).collect();
        match self {
            // The namespace's own pool hides a cluster-wide one.
            Self::Name(_) => {
                let own = all.iter().any(|pool| !pool.reference.kind.global());
                all.retain(|pool| pool.reference.kind.global() != own);
            }
            Self::Labels { network: None, .. } => {
                let is_its = |pool: &&Pool| pool.labels.network.as_deref() == Some(reach.network);
                if all.iter().any(is_its) {
                    all.retain(is_its);
                }
            }
            Self::Labels { .. } => {}
        }
        all.sort_by(|a, b| (a.deleting, &a.reference).cmp(&(b.deleting, &b.reference)));
        Choice(all)
    }

    /// In words, for messages.
    #[must_use]
    pub fn words(&self) -> String {
        let of = |label: &str, value: &str| format!("{label}={value}");
        match self {
            Self::Name(name) => of(crate::words::POOL_NAME, name),
            Self::Labels { group, network } => {
                let all = [
                    group.map(|group| of(crate::words::POOL_GROUP, group)),
                    network.map(|network| of(crate::words::NETWORK_NAME, network)),
                ];
                all.into_iter().flatten().collect::<Vec<_>>().join(", ")
            }
        }
    }
}

impl Reach<'_> {
    /// Whether the namespace's own pools are among those that the Cluster names.
    #[must_use]
    pub fn own_pools(&self) -> bool {
        self.pool_namespace.is_none_or(|named| named == self.namespace)
    }

    /// A claim is in its machine's namespace, and can name pools of that namespace and cluster-wide pools that serve it.
    fn includes(&self, pool: &Pool) -> bool {
        let allowed = pool.allowed.as_ref().is_none_or(|all| all.contains(self.namespace));
        allowed && (pool.reference.kind.global() || (self.own_pools() && *pool.reference.namespace == *self.namespace))
    }
}

impl<'a> Choice<'a> {
    /// All pools.
    #[must_use]
    pub fn all(&self) -> &[&'a Pool] {
        &self.0
    }

    /// The pool of a family.
    #[must_use]
    pub fn of(&self, family: Family) -> Option<&'a Pool> {
        self.0.iter().find(|pool| pool.family == Some(family)).copied()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use mooring_allocator_core::names::{PoolKind, PoolRef};
    use mooring_allocator_core::range_set::RangeSet;

    use super::*;

    fn pool(kind: PoolKind, name: &str, group: &str, network: &str, family: Family) -> Pool {
        Pool {
            reference: Arc::new(PoolRef::new(kind, "n", name)),
            labels: Labels { pool: None, group: crate::objects::kept(group), network: crate::objects::kept(network) },
            family: Some(family),
            addresses: RangeSet::default(),
            allowed: None,
            gateway: None,
            nameservers: Ok(Vec::new()),
            search: Vec::new(),
            deleting: false,
        }
    }

    fn names(selector: &Selector<'_>, pools: &[Pool], reach: &Reach<'_>) -> Vec<String> {
        selector.choose(pools.iter(), reach).all().iter().map(|pool| pool.reference.to_string()).collect()
    }

    const REACH: Reach<'static> = Reach { namespace: "n", pool_namespace: None, network: "vm-1" };

    #[test]
    fn no_label_is_no_selector() {
        assert_eq!(Selector::of(&Labels::default()), None);
        let labels = |pool: &str, group: &str| {
            Labels::read(|name| match name {
                crate::words::POOL_NAME => Some(pool),
                crate::words::POOL_GROUP => Some(group),
                _ => None,
            })
        };
        assert_eq!(Selector::of(&labels(" ", "")), None, "nor is an empty one");
        let both = labels("p", "g");
        assert_eq!(Selector::of(&both), Some(Selector::Name("p")));
    }

    #[test]
    fn by_name_the_namespaces_own_pool_comes_before_a_cluster_wide_one() {
        use PoolKind::{GlobalInClusterIPPool as Global, InClusterIPPool as Own};
        let pools = [
            pool(Global, "p", "", "", Family::V4),
            pool(Own, "p", "", "", Family::V4),
            pool(Own, "q", "", "", Family::V4),
        ];
        assert_eq!(names(&Selector::Name("p"), &pools, &REACH), ["InClusterIPPool p"]);
        let elsewhere = Reach { pool_namespace: Some("other"), ..REACH };
        assert_eq!(names(&Selector::Name("p"), &pools, &elsewhere), ["GlobalInClusterIPPool p"]);
        assert!(names(&Selector::Name("q"), &pools, &elsewhere).is_empty(), "not of another namespace");
        let other = Reach { namespace: "m", ..REACH };
        assert!(names(&Selector::Name("q"), &pools, &other).is_empty());
        let closed = [Pool { allowed: Some(["m".to_owned()].into()), ..pools[0].clone() }];
        assert!(names(&Selector::Name("p"), &closed, &REACH).is_empty());
        assert_eq!(names(&Selector::Name("p"), &closed, &other).len(), 1);
    }

    #[test]
    fn by_labels_each_family_has_its_pool_and_each_network_its_own() {
        use PoolKind::InClusterIPPool as Own;
        let pools = [
            pool(Own, "b6", "g", "", Family::V6),
            pool(Own, "a4", "g", "vm-2", Family::V4),
            pool(Own, "c4", "h", "vm-1", Family::V4),
        ];
        let group = Selector::Labels { group: Some("g"), network: None };
        let choice = group.choose(pools.iter(), &REACH);
        let of = |choice: &Choice<'_>, family| choice.of(family).map(|pool| pool.reference.name.to_string());
        assert_eq!((of(&choice, Family::V4), of(&choice, Family::V6)), (Some("a4".into()), Some("b6".into())));
        // Only the pools of the device's network, where there are any.
        let choice = group.choose(pools.iter(), &Reach { network: "vm-2", ..REACH });
        assert_eq!((of(&choice, Family::V4), of(&choice, Family::V6)), (Some("a4".into()), None));
        let network = Selector::Labels { group: None, network: Some("vm-1") };
        assert_eq!(names(&network, &pools, &REACH), ["InClusterIPPool c4"]);
        let both = Selector::Labels { group: Some("g"), network: Some("vm-1") };
        assert!(names(&both, &pools, &REACH).is_empty());
        assert_eq!(both.words(), "cluster.x-k8s.io/ip-pool-group=g, cluster.x-k8s.io/network-name=vm-1");
    }
}
