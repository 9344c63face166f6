//! The known state of each Service and each claim.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use mooring_allocator_core::block::Family;
use mooring_allocator_core::names::{Key, PoolRef, Uid, Version};

use mooring_allocator_core::work;
use mooring_names::metallb::MetalLb;

use crate::objects::{Address, Claim, Member, Service};
use crate::ports::Port;
use crate::reason::Condition;

use super::Write;
use super::contest::Contest;
use super::flaws::{Flaw, planted};

/// Writes about one object.
pub(super) type Writes = work::Writes<Write>;

/// The time before which a write may not be sent; None: it may be sent now.
pub(super) fn waits(writes: &Writes, now: Duration, write: &Write) -> Option<Duration> {
    if planted(Flaw::RepeatsAtOnce) { writes.retry.waits(now) } else { writes.waits(now, write) }
}

/// A Service's claims of one family.
#[derive(Clone, Debug, Default)]
pub(super) struct Held {
    /// The claim of the current or coming address.
    pub(super) current: Option<Key>,
    /// The claim that replaces `current` once its address is advertised.
    pub(super) next: Option<Key>,
    /// Former claims, as long as the Service still shows their addresses.
    pub(super) old: Vec<Key>,
}

impl Held {
    pub(super) fn all(&self) -> impl Iterator<Item = &Key> {
        self.current.iter().chain(&self.next).chain(&self.old)
    }
}

/// How many addresses that a claim got by chance it gives up for Services that wait for them by their records.
const GIVES_WAY: u8 = 3;

/// What a Service waits for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Topic {
    /// Pools, or the `ConfigMap`.
    Pools,
    /// An address, or facts about it.
    Ip(IpAddr),
    /// A claim, or the Services that share it.
    Claim(Key),
    /// The claims of a sharing key.
    Group(Arc<str>),
    /// The Services that had an address before have claimed it.
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
    /// The verdict about the Service, and since when it has held.
    pub(super) verdict: Option<(Condition, Duration)>,
    /// The last report about the Service.
    pub(super) reported: Option<Condition>,
    /// What the user was told of `MetalLB`'s annotations; None: the Service was not looked at yet.
    pub(super) advised: Option<MetalLb>,
    /// The addresses that the Service shows without a claim; see [`super::unclaimed`].
    pub(super) unclaimed: BTreeSet<IpAddr>,
    pub(super) contest: Contest,
    /// The write under way that replaces an address of another controller.
    pub(super) replaces: Option<u64>,
    /// Since when the Service has had a sharing key that nobody has let it use, and an address that it shares by another.
    pub(super) parted: Option<Duration>,
    /// The end of the wait for the address of each family in the Service's record; see [`super::recorded`].
    pub(super) comes_back_by: [Option<Duration>; 2],
    /// Since when the Service has waited for what is not there yet; see [`super::not_yet`].
    pub(super) not_yet: Option<Duration>,
    /// The next claim of each family, and since when the Service waits to move to it; see [`super::moving`].
    pub(super) moves: [Option<(Key, Duration)>; 2],
    /// The Service was ours and is of another class now, and what was written on it was not taken back yet.
    pub(super) leaves: bool,
    /// Since when the Service has been shown with the type and the class that it has.
    pub(super) classed_since: Duration,
}

impl Slot {
    pub(super) fn new(service: Service, classed_since: Duration) -> Self {
        Self {
            classed_since,
            service: Arc::new(service),
            held: [Held::default(), Held::default()],
            writes: Writes::default(),
            waits: Vec::new(),
            verdict: None,
            reported: None,
            advised: None,
            unclaimed: BTreeSet::new(),
            contest: Contest::default(),
            replaces: None,
            parted: None,
            comes_back_by: [None; 2],
            not_yet: None,
            moves: [None, None],
            leaves: false,
        }
    }

    /// Ends waits that were for a time only, and looks who else serves the Service.
    pub(super) fn freshen(&mut self, now: Duration) {
        self.writes.freshen(now);
        self.contest.look(&self.service, now);
    }
}

#[derive(Debug)]
pub(super) struct ClaimSlot {
    pub(super) family: Family,
    pub(super) pool: Arc<PoolRef>,
    pub(super) requested: Option<IpAddr>,
    /// Services of several namespaces may share the claim.
    pub(super) across: bool,
    /// The Services that have the claim.
    pub(super) members: BTreeMap<Key, Uid>,
    /// The sharing key of the claim: see [`super::claims`].
    pub(super) group: Option<Arc<str>>,
    /// The claim's rank in its group: its address, as a number.
    pub(super) rank: u128,
    /// All ports of the members.
    pub(super) ports: BTreeSet<Port>,
    pub(super) seen: Option<Claim>,
    pub(super) writes: Writes,
    /// The claim is being deleted, though this was not shown yet.
    pub(super) doomed: bool,
    /// Why the claim could not be created.
    pub(super) refused: Option<Box<str>>,
    /// This `IPAddress` was marked as another owner's; or the mark was tried at this version.
    pub(super) exchanged: Option<(Uid, Option<Version>)>,
    /// How many addresses the claim has given up so.
    pub(super) exchanges: u8,
    /// Until then, a claim that others made and that names an unknown Service is left alone: the watch of Services may be
    /// behind the watch of claims.
    pub(super) doubtful_until: Duration,
}

impl ClaimSlot {
    /// The slot of a claim that was seen.
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
            exchanges: 0,
            doubtful_until: Duration::ZERO,
            seen: Some(claim),
        }
    }

    /// Whether the claim is being deleted: no Service can have it any more.
    pub(super) fn going(&self) -> bool {
        self.doomed || self.seen.as_ref().is_some_and(|claim| claim.deleting)
    }

    /// Whether the claim has given up as many addresses as it does for Services that only wait for one. Each of these addresses rests
    /// for a while: without an end, records that somebody made up would empty a pool.
    pub(super) const fn has_given_way(&self) -> bool {
        self.exchanges >= GIVES_WAY
    }

    /// Whether the store shows the claim as this Service's: only then does its address count.
    pub(super) fn belongs_to(&self, member: &Member) -> bool {
        !self.going() && self.seen.as_ref().is_some_and(|claim| claim.members().contains(member))
    }

    pub(super) fn wanted_members(&self) -> Vec<Member> {
        self.members.iter().map(|(key, uid)| (key.clone(), uid.clone())).collect()
    }
}

/// The addresses that were shown.
#[derive(Debug, Default)]
pub(super) struct Addresses {
    all: HashMap<Uid, Arc<Address>>,
    by_key: HashMap<Key, Uid>,
    by_ip: HashMap<IpAddr, BTreeSet<Uid>>,
    /// Those that had a holder: agents that may not see `IPAddress` objects, and kube-vip, record none.
    held: HashSet<Uid>,
}

impl Addresses {
    /// Stores an address. Returns the previous state of the address.
    pub(super) fn set(&mut self, address: Arc<Address>) -> Option<Arc<Address>> {
        let was_held = self.held.contains(&address.uid) || address.holder.is_some();
        let before = self.remove(&address.uid);
        if was_held {
            self.held.insert(address.uid.clone());
        }
        self.by_key.insert(address.key.clone(), address.uid.clone());
        if let Some(ip) = address.address {
            self.by_ip.entry(ip).or_default().insert(address.uid.clone());
        }
        self.all.insert(address.uid.clone(), address);
        before
    }

    pub(super) fn remove(&mut self, uid: &Uid) -> Option<Arc<Address>> {
        let address = self.all.remove(uid)?;
        self.held.remove(uid);
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
        self.all.get(self.by_key.get(key)?).map(|address| &**address)
    }

    /// Whether an object has had a holder, as far as this allocator has seen.
    pub(super) fn was_held(&self, key: &Key) -> bool {
        self.by_key.get(key).is_some_and(|uid| self.held.contains(uid))
    }

    pub(super) fn at(&self, ip: IpAddr) -> impl Iterator<Item = &Arc<Address>> {
        self.by_ip.get(&ip).into_iter().flatten().filter_map(|uid| self.all.get(uid))
    }

    pub(super) fn uids(&self) -> Vec<Uid> {
        self.all.keys().cloned().collect()
    }
}
