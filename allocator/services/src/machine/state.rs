//! The machine's state, divided by subject.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use mooring_allocator_core::block::Family;
use mooring_allocator_core::names::{Key, PoolRef};

use crate::configmap::Config;
use crate::invitations::Invitations;
use crate::objects::{Made, Reserved, Source};
use crate::ports::Port;
use crate::select::Pools;

use super::event::Kind;
use super::pools::PoolWrites;
use super::slots::{Addresses, ClaimSlot};

/// The objects that were shown, other than Services and claims.
#[derive(Debug)]
pub(super) struct Seen {
    /// The kinds that were not listed since this allocator leads. Nothing is decided before all are: a watch may be behind,
    /// each by another time, and the previous leader has written what they do not show yet.
    pub(super) unlisted: BTreeSet<Kind>,
    /// The number of the last request for all lists.
    pub(super) asked: u64,
    pub(super) addresses: Addresses,
    pub(super) pools: Pools,
    pub(super) config: Config,
    /// Who may use the sharing keys of other namespaces.
    pub(super) invited: Invitations,
    /// There is a `ConfigMap`, perhaps without content: kube-vip's cloud provider makes one that is empty.
    pub(super) has_config: bool,
    pub(super) reserved: BTreeMap<IpAddr, Reserved>,
    pub(super) endpoints: Endpoints,
}

impl Default for Seen {
    fn default() -> Self {
        Self {
            unlisted: Kind::ALL.into(),
            asked: 0,
            addresses: Addresses::default(),
            pools: Pools::default(),
            config: Config::default(),
            invited: Invitations::default(),
            has_config: false,
            reserved: BTreeMap::new(),
            endpoints: Endpoints::default(),
        }
    }
}

/// The nodes of the Services' endpoints. Invariant: `nodes` has no empty sets.
#[derive(Debug, Default)]
pub(super) struct Endpoints {
    pub(super) nodes: HashMap<Key, BTreeSet<Arc<str>>>,
    /// Sharing of some Services depends on where endpoints are. Once wanted, endpoints stay wanted.
    pub(super) wanted: bool,
    pub(super) listed: bool,
}

/// Claims, lowest address first.
pub(super) type Ranked = BTreeSet<(u128, Key)>;

/// The claims that were shown, or that will be made.
///
/// Invariants: each claim is filed under its pool, under the address it asks for, and under the sharing key of its
/// members, and nothing else is filed there; `by_port` counts the claims of a group that have a port. No set is empty,
/// and no count is zero.
#[derive(Debug, Default)]
pub(super) struct Claims {
    pub(super) all: HashMap<Key, ClaimSlot>,
    pub(super) by_pool: BTreeMap<Arc<PoolRef>, BTreeSet<Key>>,
    pub(super) by_request: HashMap<IpAddr, BTreeSet<Key>>,
    pub(super) by_group: HashMap<(Arc<str>, Family), Ranked>,
    pub(super) by_port: HashMap<(Arc<str>, Family, Port), usize>,
}

impl Claims {
    pub(super) fn get(&self, key: &Key) -> Option<&ClaimSlot> {
        self.all.get(key)
    }

    pub(super) fn get_mut(&mut self, key: &Key) -> Option<&mut ClaimSlot> {
        self.all.get_mut(key)
    }

    pub(super) fn contains_key(&self, key: &Key) -> bool {
        self.all.contains_key(key)
    }

    pub(super) fn keys(&self) -> impl Iterator<Item = &Key> {
        self.all.keys()
    }

    pub(super) fn values(&self) -> impl Iterator<Item = &ClaimSlot> {
        self.all.values()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&Key, &ClaimSlot)> {
        self.all.iter()
    }

    /// Adds a claim.
    pub(super) fn insert(&mut self, key: &Key, slot: ClaimSlot) {
        self.by_pool.entry(slot.pool.clone()).or_default().insert(key.clone());
        if let Some(ip) = slot.requested {
            self.by_request.entry(ip).or_default().insert(key.clone());
        }
        self.all.insert(key.clone(), slot);
    }

    /// Removes a claim. The claim is still filed under its pool and under the address it asked for.
    pub(super) fn remove(&mut self, key: &Key) -> Option<ClaimSlot> {
        self.all.remove(key)
    }
}

/// Pools made from the `ConfigMap`, and for addresses that Services had before.
#[derive(Debug, Default)]
pub(super) struct MadePools {
    /// The pools as they should be.
    pub(super) wanted: BTreeMap<Source, Made>,
    pub(super) writes: BTreeMap<Arc<PoolRef>, PoolWrites>,
    /// Until when a `ConfigMap` may come; in the past since one was seen. None: it was not looked for yet.
    pub(super) config_by: Option<Duration>,
}

/// The state left by others: claims of a previous leader, and addresses that Services had before Mooring came.
///
/// Invariants: every wait has an end, and an end is set only while somebody is waited for, once a step has evaluated
/// them; `kept` and `unclaimed` have no empty sets.
#[derive(Debug, Default)]
pub(super) struct Takeover {
    /// The owners of all claims were read from the claims.
    pub(super) restored: bool,
    /// Services that show an address from before and have not claimed it yet: no other Service gets an address meanwhile.
    pub(super) unsettled: BTreeSet<Key>,
    /// Services that ask for an address, had none when this allocator began to lead, and have not claimed it yet: no
    /// Service that asks for none gets an address meanwhile.
    pub(super) asking: BTreeSet<Key>,
    /// Those whose record names an address, when this allocator began to lead.
    pub(super) recorded: BTreeMap<IpAddr, BTreeSet<Key>>,
    /// The end of these waits.
    pub(super) settles_by: Option<Duration>,
    /// Addresses from before that are in no pool, and who had them.
    pub(super) kept: BTreeMap<IpAddr, BTreeSet<Key>>,
    /// Addresses that Services show without a claim, and these Services: given by another controller, or from before and
    /// not claimed. They carry traffic, and no other Service gets them.
    pub(super) unclaimed: BTreeMap<IpAddr, BTreeSet<Key>>,
}

impl Takeover {
    /// Ends the wait for a Service. Returns whether another Service may have waited for this.
    pub(super) fn settle(&mut self, key: &Key) -> bool {
        let mut ended = false;
        for all in [&mut self.unsettled, &mut self.asking] {
            ended |= all.remove(key) && all.is_empty();
        }
        if self.unsettled.is_empty() && self.asking.is_empty() {
            self.settles_by = None;
        }
        ended
    }
}
