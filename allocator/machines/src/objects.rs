//! The objects, as far as addresses of machines need them. Names, uids and versions are the allocator core's.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::ops::Deref;
use std::sync::Arc;

use mooring_allocator_core::block::{Block, Family};
use mooring_allocator_core::names::{Key, PoolKind, PoolRef, Uid, Version};
use mooring_allocator_core::protocol;
use mooring_allocator_core::range_set::RangeSet;
use mooring_allocator_core::retained_meta::{ForMachine, MachineOwner};

use crate::device::Device;
use crate::machine::flaws::{Flaw, planted};
use crate::{naming, words};

/// The kinds of pools from which machines get addresses.
pub const POOL_KINDS: [PoolKind; 2] = [PoolKind::InClusterIPPool, PoolKind::GlobalInClusterIPPool];

/// The longest text that is kept, in bytes: tenants write it.
const LONGEST: usize = 1024;

/// Keeps a text that somebody wrote: long ones are cut, empty ones are absent.
#[must_use]
pub fn kept(text: &str) -> Option<Box<str>> {
    let text = text.trim();
    let cut = &text[..text.floor_char_boundary(LONGEST)];
    (!cut.is_empty()).then(|| Box::from(cut))
}

/// The entries of a list as people write it: separated by commas.
#[must_use]
pub fn entries(text: &str) -> Vec<Box<str>> {
    text.split(',').map(str::trim).filter(|one| !one.is_empty()).map(Box::from).collect()
}

/// A Cluster as one read or watch event showed it. It is never written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cluster {
    /// Its namespace and name.
    pub key: Key,
    /// `spec.paused`, or the annotation `cluster.x-k8s.io/paused`.
    pub paused: bool,
    /// [`words::POOL_NAMESPACE`]
    pub pool_namespace: Option<Box<str>>,
}

/// The labels that say which pools a machine uses, or which machines use a pool.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Labels {
    /// [`words::POOL_NAME`]
    pub pool: Option<Box<str>>,
    /// [`words::POOL_GROUP`]
    pub group: Option<Box<str>>,
    /// [`words::NETWORK_NAME`]
    pub network: Option<Box<str>>,
}

impl Labels {
    /// Reads the labels; `get` finds a label by its name.
    pub fn read<'a>(get: impl Fn(&str) -> Option<&'a str>) -> Self {
        let text = |name: &str| kept(get(name)?);
        Self { pool: text(words::POOL_NAME), group: text(words::POOL_GROUP), network: text(words::NETWORK_NAME) }
    }
}

/// A `VSphereMachineTemplate` as one read or watch event showed it. It is never written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    /// Its namespace and name.
    pub key: Key,
    /// Its labels.
    pub labels: Labels,
    /// [`words::MACHINE_SEARCH_DOMAINS`]
    pub search: Option<Box<str>>,
}

/// A `VSphereMachine` as one read or watch event showed it.
#[derive(Clone, Debug, PartialEq)]
pub struct VSphereMachine {
    /// Its namespace and name.
    pub key: Key,
    /// Its uid.
    pub uid: Uid,
    /// Its resource version.
    pub version: Version,
    /// The version of its group in which it was read, for references to it.
    pub api: &'static str,
    /// It has a deletion timestamp.
    pub deleting: bool,
    /// It has the annotation `cluster.x-k8s.io/paused`.
    pub held: bool,
    /// The name of its Cluster: the label `cluster.x-k8s.io/cluster-name`.
    pub cluster: Option<Arc<str>>,
    /// Its own labels.
    pub labels: Labels,
    /// [`words::MACHINE_SEARCH_DOMAINS`]
    pub search: Option<Box<str>>,
    /// The template that it was made from: [`words::CLONED_FROM`].
    pub template: Option<Arc<str>>,
    /// `spec.network.devices`
    pub devices: Vec<Device>,
}

impl VSphereMachine {
    /// Whether an address stands in one of the devices.
    #[must_use]
    pub fn carries(&self, ip: IpAddr) -> bool {
        self.devices.iter().any(|device| device.addresses.contains(&ip))
    }
}

/// A pool, as far as machines depend on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pool {
    /// Its kind and name.
    pub reference: Arc<PoolRef>,
    /// Its labels.
    pub labels: Labels,
    /// The family of its addresses; None: it has none, or cannot be used.
    pub family: Option<Family>,
    /// Its addresses, by number.
    pub addresses: RangeSet,
    /// The namespaces that may claim from it; None: all.
    pub allowed: Option<BTreeSet<String>>,
    /// The gateway of its addresses.
    pub gateway: Option<IpAddr>,
    /// [`words::NAMESERVERS`]; an error is the entry that is no address.
    pub nameservers: Result<Vec<IpAddr>, Box<str>>,
    /// [`words::SEARCH_DOMAINS`]
    pub search: Vec<Box<str>>,
    /// It has a deletion timestamp.
    pub deleting: bool,
}

impl Pool {
    /// Whether it hands out this address.
    #[must_use]
    pub fn has(&self, ip: IpAddr) -> bool {
        self.addresses.contains(Block::host(ip).first()) && self.family == Some(Family::of(ip))
    }
}

/// Reads [`words::NAMESERVERS`].
///
/// # Errors
/// The entry that is no address.
pub fn nameservers(text: &str) -> Result<Vec<IpAddr>, Box<str>> {
    entries(text).into_iter().map(|one| one.parse().map_err(|_| kept(&one).unwrap_or_default())).collect()
}

/// An `IPAddressClaim` that is for a machine: a machine owns it, or it has our finalizer.
#[derive(Clone, Debug)]
pub struct Claim {
    /// As the allocation protocol has it.
    pub shown: Arc<protocol::Claim>,
    /// The address and the prefix length of the `IPAddress` to which the claim is bound.
    pub address: Option<(IpAddr, u8)>,
    /// The machine that it is for.
    pub machine: Key,
}

impl Claim {
    /// A claim that is for a machine; None: it is for none. The owner says for which; without one, the name. Others may make claims that a
    /// machine owns: those have neither our finalizer nor a name of ours.
    #[must_use]
    pub fn new(shown: Arc<protocol::Claim>, address: Option<(IpAddr, u8)>) -> Option<Self> {
        let mark = shown.retained.machine.as_ref()?;
        let by_name = naming::machine(&shown.key.name);
        let name = match &mark.owner {
            Some(owner) => owner.name.clone(),
            None => by_name.map_or_else(|| shown.key.name.clone(), Arc::from),
        };
        let named = by_name == Some(&*name);
        let machine = Key { namespace: shown.key.namespace.clone(), name };
        Some(Self { shown, address, machine }).filter(|claim| claim.in_use() || named)
    }

    fn mark(&self) -> Option<&ForMachine> {
        self.retained.machine.as_deref()
    }

    /// The machine that owns the claim.
    #[must_use]
    pub fn owner(&self) -> Option<&MachineOwner> {
        self.mark()?.owner.as_ref()
    }

    /// Whether it has the finalizer [`words::IN_USE`].
    #[must_use]
    pub fn in_use(&self) -> bool {
        self.retained.finalizers.iter().any(|one| **one == *words::IN_USE)
    }

    /// The address that it has; or, while it is bound to none, that it had before, as its metadata says.
    #[must_use]
    pub fn has_or_had(&self) -> Option<IpAddr> {
        let had = || self.had.as_ref().filter(|_| self.bound.is_none()).map(|block| block.address());
        self.address.map(|(ip, _)| ip).or_else(had)
    }

    /// The address that it asks for.
    #[must_use]
    pub fn asks_for(&self) -> Option<IpAddr> {
        self.requested.as_deref()?.parse().ok()
    }

    /// Whether the claim is this very machine's. After a backup was restored, the machine has another uid than the owner that the
    /// claim names: then the claim is the machine's if the machine has its address.
    #[must_use]
    pub fn is_of(&self, machine: &VSphereMachine) -> bool {
        let carried = || self.has_or_had().is_some_and(|ip| machine.carries(ip));
        self.owner().is_none_or(|owner| owner.uid == machine.uid) || (carried() && !planted(Flaw::ForgetsWhatItHad))
    }
}

impl Deref for Claim {
    type Target = protocol::Claim;

    fn deref(&self) -> &protocol::Claim {
        &self.shown
    }
}
