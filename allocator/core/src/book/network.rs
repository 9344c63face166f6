//! The networks: which pools share one view of what is used.
//!
//! Cluster-wide pools share one network. The pools of a namespace share it with them and with each other, and not with the
//! pools of other namespaces. A named network is shared by the pools that name it.
//!
//! *Strays* are blocks outside all networks: addresses of pools that are not known (yet), and prefixes that their pool cannot
//! have handed out. Pools pass over strays when they choose a unit; the free units do not count them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::block::Block;
use crate::pool::Network;

use super::coverage::Coverage;
use super::used::{Holder, Used};

/// No place.
pub(super) const NOWHERE: usize = usize::MAX;
/// The strays of unknown cluster-wide pools: every pool sees them.
pub(super) const UNKNOWN: usize = 0;
/// The strays of all unknown pools of namespaces: cluster-wide pools and pools of named networks see them. The pools of
/// their namespace see them in the namespace's own place.
const UNKNOWN_OF_NAMESPACES: usize = 1;
/// The network of the cluster-wide pools.
const COMMON: usize = 2;
/// The network of the cluster-wide pools, and those of all namespaces: what a cluster-wide pool sees.
const EVERYONE: usize = 3;

/// The places where a block counts; [`NOWHERE`] fills the array.
pub(super) type Places = [usize; 2];

/// All places.
///
/// Invariants: a block of the common network or of a namespace's network is also at [`EVERYONE`]; only networks have a
/// coverage, and a pool's ranges are covered where the pool's own blocks count.
#[derive(Debug)]
pub(super) struct Networks {
    all: Vec<Place>,
    by_network: BTreeMap<Network, usize>,
    /// The strays of each namespace.
    local: BTreeMap<Arc<str>, usize>,
}

#[derive(Debug)]
struct Place {
    kind: Kind,
    used: Used,
    coverage: Coverage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Strays,
    Common,
    Everyone,
    Namespace,
    Named,
}

impl Default for Networks {
    fn default() -> Self {
        let mut new = Self { all: Vec::new(), by_network: BTreeMap::new(), local: BTreeMap::new() };
        // In the order of the constants.
        for kind in [Kind::Strays, Kind::Strays, Kind::Common, Kind::Everyone] {
            new.add(kind);
        }
        new.by_network.insert(Network::Common, COMMON);
        new
    }
}

impl Networks {
    fn add(&mut self, kind: Kind) -> usize {
        self.all.push(Place { kind, used: Used::default(), coverage: Coverage::default() });
        self.all.len() - 1
    }

    /// The index of a network; a new index for a new network.
    pub(super) fn of(&mut self, network: &Network) -> usize {
        if let Some(&known) = self.by_network.get(network) {
            return known;
        }
        let kind = if matches!(network, Network::Named(_)) { Kind::Named } else { Kind::Namespace };
        let new = self.add(kind);
        self.by_network.insert(network.clone(), new);
        new
    }

    /// The place of a namespace's strays; a new place for a new namespace.
    pub(super) fn local(&mut self, namespace: &Arc<str>) -> usize {
        if let Some(&known) = self.local.get(namespace) {
            return known;
        }
        let new = self.add(Kind::Strays);
        self.local.insert(namespace.clone(), new);
        new
    }

    fn kind(&self, place: usize) -> Kind {
        self.all.get(place).map_or(Kind::Strays, |place| place.kind)
    }

    /// Where the blocks of a network's own pools count. Not for pools that are not known.
    pub(super) fn own(&self, network: usize) -> Places {
        let also = matches!(self.kind(network), Kind::Common | Kind::Namespace);
        [network, if also { EVERYONE } else { NOWHERE }]
    }

    /// Where a block of a pool of this network counts. `local`: the strays of the pool's namespace.
    pub(super) fn places(&self, network: usize, local: usize) -> Places {
        match network {
            UNKNOWN if local == NOWHERE => [UNKNOWN, NOWHERE],
            UNKNOWN => [UNKNOWN_OF_NAMESPACES, local],
            _ => self.own(network),
        }
    }

    /// Whether these are the places of strays.
    pub(super) fn are_strays(&self, places: Places) -> bool {
        self.kind(places[0]) == Kind::Strays
    }

    /// The networks that the pools of a network see. Symmetrical: pools of the seen networks see this network.
    fn seen(&self, network: usize) -> Places {
        match self.kind(network) {
            Kind::Strays => [NOWHERE; 2],
            Kind::Common | Kind::Everyone => [EVERYONE, NOWHERE],
            Kind::Namespace => [network, COMMON],
            Kind::Named => [network, NOWHERE],
        }
    }

    fn at(&self, places: impl IntoIterator<Item = usize>) -> impl Iterator<Item = &Place> {
        places.into_iter().filter_map(|place| self.all.get(place))
    }

    /// The used blocks that the pools of a network see, without strays.
    pub(super) fn seen_from(&self, network: usize) -> impl Iterator<Item = &Used> {
        self.at(self.seen(network)).map(|place| &place.used)
    }

    /// The strays that a pool sees.
    pub(super) fn strays_seen_from(&self, network: usize, local: usize) -> impl Iterator<Item = &Used> {
        let of_namespaces = if self.kind(network) == Kind::Namespace { NOWHERE } else { UNKNOWN_OF_NAMESPACES };
        self.at([UNKNOWN, of_namespaces, local]).map(|place| &place.used)
    }

    /// All used blocks that a pool sees. A pool that is not known may be of any network that its namespace can have.
    pub(super) fn all_seen_from(&self, network: usize, local: usize, namespace: &str) -> Vec<&Used> {
        if network != UNKNOWN {
            return self.seen_from(network).chain(self.strays_seen_from(network, local)).collect();
        }
        let named = self.all.iter().filter(|place| place.kind == Kind::Named);
        let own = self.by_network.get(&Network::Namespace(namespace.to_owned())).copied().unwrap_or(NOWHERE);
        let rest = if local == NOWHERE { [UNKNOWN, UNKNOWN_OF_NAMESPACES, EVERYONE] } else { [UNKNOWN, local, COMMON] };
        let own = if local == NOWHERE { NOWHERE } else { own };
        named.chain(self.at(rest)).chain(self.at([own])).map(|place| &place.used).collect()
    }

    pub(super) fn insert(&mut self, places: Places, block: Block, holder: Holder) {
        for place in places {
            if let Some(place) = self.all.get_mut(place) {
                place.used.insert(block, holder);
            }
        }
    }

    pub(super) fn remove(&mut self, places: Places, block: Block, holder: Holder) {
        for place in places {
            if let Some(place) = self.all.get_mut(place) {
                place.used.remove(block, holder);
            }
        }
    }

    pub(super) fn cover(&mut self, network: usize, pool: u32, first: u128, last: u128) {
        for place in self.own(network) {
            if let Some(place) = self.all.get_mut(place) {
                place.coverage.add(pool, first, last);
            }
        }
    }

    pub(super) fn uncover(&mut self, network: usize, pool: u32, first: u128, last: u128) {
        for place in self.own(network) {
            if let Some(place) = self.all.get_mut(place) {
                place.coverage.remove(pool, first, last);
            }
        }
    }

    /// The pools whose free units count a block at these places as used.
    pub(super) fn pools_that_count(&self, places: Places, block: Block) -> Vec<u32> {
        self.at(self.seen(places[0])).flat_map(|place| place.coverage.pools(block.first(), block.last())).collect()
    }

    /// All pools that have an address of a block.
    pub(super) fn all_pools(&self, block: Block) -> Vec<u32> {
        let networks = self.all.iter().filter(|place| matches!(place.kind, Kind::Everyone | Kind::Named));
        networks.flat_map(|place| place.coverage.pools(block.first(), block.last())).collect()
    }

    /// The pools with an address in these ranges that share one view with a pool of this network.
    pub(super) fn pools_seen_from(&self, network: usize, ranges: &[(u128, u128)]) -> BTreeSet<u32> {
        let seen: Vec<&Place> = self.at(self.seen(network)).collect();
        let pools =
            |&(first, last): &(u128, u128)| seen.iter().flat_map(move |place| place.coverage.pools(first, last));
        ranges.iter().flat_map(pools).collect()
    }

    /// The pools of all namespaces, and the cluster-wide ones, with an address in these ranges, if the network is a
    /// namespace's.
    pub(super) fn pools_of_namespaces(&self, network: usize, ranges: &[(u128, u128)]) -> BTreeSet<u32> {
        if self.kind(network) != Kind::Namespace {
            return BTreeSet::new();
        }
        ranges.iter().flat_map(|&(first, last)| self.all[EVERYONE].coverage.pools(first, last)).collect()
    }
}
