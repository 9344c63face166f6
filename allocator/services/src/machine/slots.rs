//! What is known of each Service and each claim.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use mooring_allocator_core::block::Family;
use mooring_allocator_core::names::{Key, PoolRef, Uid, Version};

use crate::objects::{Address, Claim, Member, Service};
use crate::ports::Port;
use crate::reason::Condition;

/// Writes about one object: one at a time, each on a version that has been seen.
#[derive(Clone, Debug, Default)]
pub(super) struct Writes {
    pub(super) pending: Option<u64>,
    /// A write at this version has taken effect, or found another: the watch will show a newer one.
    pub(super) stale: Option<Version>,
    /// ... but is not waited for beyond this, where it was merely said so.
    pub(super) stale_until: Option<Duration>,
    pub(super) not_before: Duration,
    pub(super) failures: u32,
}

impl Writes {
    /// What should have been shown by now, and was not, is waited for no longer.
    pub(super) fn freshen(&mut self, now: Duration) {
        if self.stale_until.is_some_and(|until| until <= now) {
            self.stale = None;
            self.stale_until = None;
        }
    }
}

/// A Service's claims of one family.
#[derive(Clone, Debug, Default)]
pub(super) struct Held {
    /// Whose address it has, or will have.
    pub(super) current: Option<Key>,
    /// Whose it will have instead, once that is advertised.
    pub(super) next: Option<Key>,
    /// Whose it had, as long as it still says so.
    pub(super) old: Vec<Key>,
}

impl Held {
    pub(super) fn all(&self) -> impl Iterator<Item = &Key> {
        self.current.iter().chain(&self.next).chain(&self.old)
    }
}

/// What a Service waits for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Topic {
    /// Pools, or the `ConfigMap`.
    Pools,
    /// An address, or what is said of it.
    Ip(IpAddr),
    /// A claim, or those who share it.
    Claim(Key),
    /// Those of a sharing key.
    Group(Arc<str>),
    /// Services that had an address before have claimed it.
    Settled,
    /// The endpoints of all Services.
    Endpoints,
}

#[derive(Debug)]
pub(super) struct Slot {
    pub(super) service: Arc<Service>,
    pub(super) held: [Held; 2],
    pub(super) writes: Writes,
    pub(super) waits: Vec<Topic>,
    /// What is to be said of it, and since when.
    pub(super) verdict: Option<(Condition, Duration)>,
    /// What was told of it last.
    pub(super) told: Option<Condition>,
}

impl Slot {
    pub(super) fn new(service: Service) -> Self {
        Self {
            service: Arc::new(service),
            held: [Held::default(), Held::default()],
            writes: Writes::default(),
            waits: Vec::new(),
            verdict: None,
            told: None,
        }
    }
}

#[derive(Debug)]
pub(super) struct ClaimSlot {
    pub(super) family: Family,
    pub(super) pool: Arc<PoolRef>,
    pub(super) requested: Option<IpAddr>,
    /// Services of several namespaces may share it.
    pub(super) across: bool,
    /// Whose it is.
    pub(super) members: BTreeMap<Key, Uid>,
    /// The key of those who share it.
    pub(super) group: Option<Arc<str>>,
    /// Its place among them: its address, as a number.
    pub(super) rank: u128,
    /// All ports of those who share it.
    pub(super) ports: BTreeSet<Port>,
    pub(super) seen: Option<Claim>,
    pub(super) writes: Writes,
    /// It is being deleted, though that was not shown yet.
    pub(super) doomed: bool,
    /// Why it could not be created.
    pub(super) refused: Option<Box<str>>,
    /// It was said of this `IPAddress` that it is another's; or tried, at this version.
    pub(super) exchanged: Option<(Uid, Option<Version>)>,
}

impl ClaimSlot {
    /// As one that was seen.
    pub(super) fn of(claim: Claim, home: &str) -> Self {
        Self {
            family: claim.family,
            pool: claim.pool.clone(),
            requested: claim.requested,
            across: *claim.key.namespace == *home,
            members: BTreeMap::new(),
            group: None,
            rank: u128::MAX,
            ports: BTreeSet::new(),
            writes: Writes::default(),
            doomed: false,
            refused: None,
            exchanged: None,
            seen: Some(claim),
        }
    }

    /// Nobody can have it any more.
    pub(super) fn going(&self) -> bool {
        self.doomed || self.seen.as_ref().is_some_and(|claim| claim.deleting)
    }

    /// Whether the store shows it as this Service's: only then does its address count.
    pub(super) fn belongs_to(&self, member: &Member) -> bool {
        !self.going() && self.seen.as_ref().is_some_and(|claim| claim.members.contains(member))
    }

    pub(super) fn wanted_members(&self) -> Vec<Member> {
        self.members.iter().map(|(key, uid)| (key.clone(), uid.clone())).collect()
    }
}

/// The addresses that were shown.
#[derive(Debug, Default)]
pub(super) struct Addresses {
    all: HashMap<Uid, Address>,
    by_key: HashMap<Key, Uid>,
    by_ip: HashMap<IpAddr, BTreeSet<Uid>>,
}

impl Addresses {
    /// What was known of it before.
    pub(super) fn set(&mut self, address: Address) -> Option<Address> {
        let before = self.remove(&address.uid);
        self.by_key.insert(address.key.clone(), address.uid.clone());
        if let Some(ip) = address.address {
            self.by_ip.entry(ip).or_default().insert(address.uid.clone());
        }
        self.all.insert(address.uid.clone(), address);
        before
    }

    pub(super) fn remove(&mut self, uid: &Uid) -> Option<Address> {
        let address = self.all.remove(uid)?;
        if self.by_key.get(&address.key) == Some(uid) {
            self.by_key.remove(&address.key);
        }
        if let Some(ip) = address.address
            && let Some(uids) = self.by_ip.get_mut(&ip)
        {
            uids.remove(uid);
            if uids.is_empty() {
                self.by_ip.remove(&ip);
            }
        }
        Some(address)
    }

    pub(super) fn named(&self, key: &Key) -> Option<&Address> {
        self.all.get(self.by_key.get(key)?)
    }

    pub(super) fn at(&self, ip: IpAddr) -> impl Iterator<Item = &Address> {
        self.by_ip.get(&ip).into_iter().flatten().filter_map(|uid| self.all.get(uid))
    }

    pub(super) fn uids(&self) -> Vec<Uid> {
        self.all.keys().cloned().collect()
    }
}
