//! Turns the `ConfigMap` into pools.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use mooring_allocator_core::block::{Family, address, number};
use mooring_allocator_core::names::{PoolKind, PoolRef};
use mooring_allocator_core::pool::{Policy, PoolSpec, Strategy};
use mooring_allocator_core::range_set::RangeSet;

use crate::families::place;
use crate::objects::{Made, Scope, Source};

use super::Config;
use super::entries::RANGES;

/// A pool to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewPool {
    /// The pool's kind and name.
    pub reference: Arc<PoolRef>,
    /// The pool's source and spec.
    pub made: Made,
}

/// The pools of a `ConfigMap`, without addresses that others have (for example nodes).
#[must_use]
pub fn pools(config: &Config, others: &BTreeSet<IpAddr>) -> BTreeMap<Source, Made> {
    let mut all = BTreeMap::new();
    for (scope, ranges) in &config.ranges {
        for family in [Family::V4, Family::V6] {
            let mut set = ranges[place(family)].clone();
            for &ip in others {
                set.remove(number(ip), number(ip));
            }
            if let Some(mut spec) = spec(&set, family) {
                spec.policy = Policy {
                    strategy: if config.from_the_end { Strategy::Highest } else { Strategy::Lowest },
                    allowed_namespaces: match scope {
                        Scope::Namespace(name) => Some(BTreeSet::from([name.to_string()])),
                        Scope::Global | Scope::Kept => None,
                    },
                    ..Policy::default()
                };
                let source = Source { scope: scope.clone(), family };
                let interface = config.interface_of(scope).cloned();
                all.insert(source.clone(), Made { source, spec, interface });
            }
        }
    }
    all
}

/// The pool for these addresses, which Services had when Mooring came, and which are in no other pool.
#[must_use]
pub fn kept<'a>(ips: impl Iterator<Item = &'a IpAddr>, family: Family) -> Option<Made> {
    let set = RangeSet::of(ips.filter(|&&ip| Family::of(ip) == family).map(|&ip| (number(ip), number(ip))));
    Some(Made { source: Source { scope: Scope::Kept, family }, spec: spec(&set, family)?, interface: None })
}

/// A spec that lists these addresses. A pool must name one network that contains all addresses: use the smallest.
fn spec(set: &RangeSet, family: Family) -> Option<PoolSpec> {
    let lowest = set.first()?;
    let highest = set.iter().last().map_or(lowest, |(_, last)| last);
    let common = i64::from((lowest ^ highest).leading_zeros());
    let (prefix, bits) = (common - if family == Family::V4 { 96 } else { 0 }, i64::from(family.bits()));
    Some(PoolSpec {
        // So many addresses of nodes between those of a pool are rare: the highest addresses go unused then.
        addresses: set.iter().take(RANGES).map(|(first, last)| entry(first, last)).collect(),
        prefix: prefix.clamp(0, bits),
        // Every listed address may be handed out.
        allocate_reserved_ip_addresses: true,
        ..PoolSpec::default()
    })
}

/// The text that people would write: an address, or a range.
fn entry(first: u128, last: u128) -> String {
    if first == last { address(first).to_string() } else { format!("{}-{}", address(first), address(last)) }
}

impl NewPool {
    /// Names the pool `kubevip-global-ipv4` or `kubevip-TEAM-ipv4`. `suffix`: used if this name is taken.
    #[must_use]
    pub fn new(made: Made, suffix: Option<&str>) -> Self {
        let scope = match &made.source.scope {
            Scope::Global => "global",
            Scope::Namespace(name) => name,
            // A namespace's name cannot have a dot.
            Scope::Kept => "kept.addresses",
        };
        let family = if made.source.family == Family::V4 { "ipv4" } else { "ipv6" };
        let suffix = suffix.map(|s| format!(".{s}")).unwrap_or_default();
        let name = format!("kubevip-{scope}-{family}{suffix}");
        Self { reference: Arc::new(PoolRef::new(PoolKind::GlobalInClusterIPPool, "", &name)), made }
    }
}
