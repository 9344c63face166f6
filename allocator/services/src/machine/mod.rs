//! From Services to claims, and back: `step(moment, event) -> actions`.
//!
//! Level-triggered, as the allocation protocol is: an event changes what is known, and marks the Services and claims that it
//! concerns; each of these is then looked at anew, and has at most one write under way. Who waits says for what, and is
//! looked at when that changes: an event costs what it concerns, however many Services there are.
//!
//! What is written on the claim is the point of decision. A Service has an address once the store has shown a claim that
//! names it, and that is bound; everything on the Service itself is written after that and for people. So whatever of it is
//! lost or edited is put right, and a restart finds out from claims who has what.

mod action;
mod answers;
mod claims;
mod decide;
mod event;
mod intake;
mod join;
mod place;
mod pools;
mod publish;
mod release;
mod slots;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use mooring_allocator_core::block::Family;
use mooring_allocator_core::names::{Key, PoolRef};
use mooring_allocator_core::protocol::Moment;

use crate::class::ClassRules;
use crate::configmap::Config;
use crate::objects::{Reserved, Service, Source};
use crate::ports::Port;
use crate::reason::Condition;
use crate::select::Pools;

pub use action::{Action, NewClaim, Notice, PoolTarget, Report, Status, Target, Write};
pub use event::{Done, Event, Failure};

use self::pools::PoolWrites;
use self::slots::{Addresses, ClaimSlot, Slot, Topic};

/// A claim that was created but not shown for so long is created again.
const SHOWN_WITHIN: Duration = Duration::from_secs(3);
/// After a conflict, the watch shows what it was about within this; else the write is tried again.
const STALE_WITHIN: Duration = Duration::from_secs(10);
/// What passes by itself is written into a condition only when it lasts so long: of a thousand Services that are made at once,
/// none is written to only to say that it waits.
const LASTING: Duration = Duration::from_secs(5);
/// A failed write is tried again after this, doubled each time, up to [`RETRY_LAST`].
const RETRY_FIRST: Duration = Duration::from_millis(50);
const RETRY_LAST: Duration = Duration::from_secs(30);

/// What the machine goes by.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Which Services are ours.
    pub classes: ClassRules,
    /// The namespace of the claims that Services of several namespaces may share: the allocator's own.
    pub home: Arc<str>,
}

/// Claims, lowest address first.
type Ranked = BTreeSet<(u128, Key)>;

/// Who is to be looked at.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Who {
    Pools,
    Service(Key),
    Claim(Key),
}

/// From Services to claims, and back.
#[derive(Debug)]
pub struct Machine {
    settings: Settings,
    moment: Moment,
    leads: Option<Duration>,
    /// What each claim belongs to is known.
    restored: bool,
    /// Services, claims, addresses, pools, the `ConfigMap` and what is reserved were listed.
    listed: [bool; 6],
    services: HashMap<Key, Slot>,
    claims: HashMap<Key, ClaimSlot>,
    addresses: Addresses,
    pools: Pools,
    pool_writes: BTreeMap<Arc<PoolRef>, PoolWrites>,
    config: Config,
    reserved: BTreeMap<IpAddr, Reserved>,
    endpoints: HashMap<Key, BTreeSet<Arc<str>>>,
    /// There are Services for whose sharing it matters where endpoints are.
    wants_endpoints: bool,
    /// All endpoints were told.
    endpoints_listed: bool,
    /// Claims by pool, by the address they ask for, and by the key of those who share them.
    by_pool: BTreeMap<Arc<PoolRef>, BTreeSet<Key>>,
    by_request: HashMap<IpAddr, BTreeSet<Key>>,
    by_group: HashMap<(Arc<str>, Family), Ranked>,
    /// How many claims of a group have a port.
    by_port: HashMap<(Arc<str>, Family, Port), usize>,
    /// Services that have an address from before and have not claimed it yet: nobody gets any address meanwhile.
    unsettled: BTreeSet<Key>,
    /// But not beyond this.
    settles_by: Option<Duration>,
    /// Addresses from before that are in no pool.
    kept: BTreeMap<IpAddr, BTreeSet<Key>>,
    /// Pools made from the `ConfigMap`, as they should be.
    wanted_pools: BTreeMap<Source, crate::objects::Made>,
    waiting: BTreeMap<Topic, BTreeSet<Key>>,
    writes: HashMap<u64, (Who, Write)>,
    timers: BTreeSet<(Duration, Who)>,
    dirty: BTreeSet<Who>,
    actions: Vec<Action>,
    ids: u64,
}

impl Machine {
    /// A machine that knows nothing yet.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            moment: Moment::default(),
            leads: None,
            restored: false,
            listed: [false; 6],
            services: HashMap::new(),
            claims: HashMap::new(),
            addresses: Addresses::default(),
            pools: Pools::default(),
            pool_writes: BTreeMap::new(),
            config: Config::default(),
            reserved: BTreeMap::new(),
            endpoints: HashMap::new(),
            wants_endpoints: false,
            endpoints_listed: false,
            by_pool: BTreeMap::new(),
            by_request: HashMap::new(),
            by_group: HashMap::new(),
            by_port: HashMap::new(),
            unsettled: BTreeSet::new(),
            settles_by: None,
            kept: BTreeMap::new(),
            wanted_pools: BTreeMap::new(),
            waiting: BTreeMap::new(),
            writes: HashMap::new(),
            timers: BTreeSet::new(),
            dirty: BTreeSet::new(),
            actions: Vec::new(),
            ids: 0,
        }
    }

    /// When a [`Event::Tick`] is wanted at the latest; None: none is.
    #[must_use]
    pub fn next_tick(&self) -> Option<Duration> {
        self.timers.first().map(|(at, _)| *at)
    }

    /// What is to be said of a Service; None: it is not ours, or was not looked at yet.
    #[must_use]
    pub fn standing(&self, service: &Key) -> Option<&Condition> {
        self.services.get(service)?.verdict.as_ref().map(|(condition, _)| condition)
    }

    /// A Service as it was told last.
    #[must_use]
    pub fn seen(&self, service: &Key) -> Option<&Service> {
        Some(&*self.services.get(service)?.service)
    }

    /// Whether [`Event::Endpoints`] are wanted: only what may share among `externalTrafficPolicy: Local` depends on them. Once
    /// they are wanted they stay so.
    #[must_use]
    pub const fn wants_endpoints(&self) -> bool {
        self.wants_endpoints
    }

    /// How many Services there are of each reason: for a metric.
    #[must_use]
    pub fn counts(&self) -> BTreeMap<&str, usize> {
        let mut counts = BTreeMap::new();
        for (condition, _) in self.services.values().filter_map(|slot| slot.verdict.as_ref()) {
            *counts.entry(&*condition.reason).or_default() += 1;
        }
        counts
    }

    /// What the `ConfigMap` says, and what is wrong with it.
    #[must_use]
    pub const fn config(&self) -> &Config {
        &self.config
    }

    /// Whether such a pool is wanted.
    #[cfg(test)]
    pub(crate) fn wants(&self, made: &crate::objects::Made) -> bool {
        self.wanted_pools.values().any(|wanted| wanted == made)
    }

    /// Something happened: what is to be done?
    pub fn step(&mut self, moment: Moment, event: Event) -> Vec<Action> {
        self.moment = moment;
        self.take_in(event);
        while self.timers.first().is_some_and(|(at, _)| *at <= moment.now) {
            if let Some((_, who)) = self.timers.pop_first() {
                self.dirty.insert(who);
            }
        }
        if self.listed == [true; 6] && self.leading() {
            if !self.restored {
                self.restore();
            }
            while let Some(who) = self.dirty.pop_first() {
                match who {
                    Who::Service(key) => self.look_at_service(&key),
                    Who::Claim(key) => self.look_at_claim(&key),
                    Who::Pools => self.look_at_pools(),
                }
            }
        }
        std::mem::take(&mut self.actions)
    }

    fn leading(&self) -> bool {
        self.leads.is_some_and(|until| self.moment.now < until)
    }

    fn mark_service(&mut self, key: &Key) {
        self.dirty.insert(Who::Service(key.clone()));
    }

    fn mark_claim(&mut self, key: &Key) {
        self.dirty.insert(Who::Claim(key.clone()));
    }

    fn later(&mut self, at: Duration, who: Who) {
        self.timers.insert((at, who));
    }

    fn write(&mut self, who: Who, write: Write) -> u64 {
        self.ids += 1;
        self.writes.insert(self.ids, (who, write.clone()));
        self.actions.push(Action::Write { id: self.ids, write });
        self.ids
    }

    fn report(&mut self, report: Report) {
        self.actions.push(Action::Report(report));
    }

    /// Those who wait for this are looked at.
    fn wake(&mut self, topic: &Topic) {
        for key in self.waiting.remove(topic).into_iter().flatten() {
            self.dirty.insert(Who::Service(key));
        }
    }

    fn wait(&mut self, service: &Key, topic: Topic) {
        let Some(slot) = self.services.get_mut(service) else { return };
        if !slot.waits.contains(&topic) {
            slot.waits.push(topic.clone());
        }
        self.waiting.entry(topic).or_default().insert(service.clone());
    }

    fn wait_no_more(&mut self, service: &Key) {
        let Some(slot) = self.services.get_mut(service) else { return };
        for topic in std::mem::take(&mut slot.waits) {
            if let Some(keys) = self.waiting.get_mut(&topic) {
                keys.remove(service);
                if keys.is_empty() {
                    self.waiting.remove(&topic);
                }
            }
        }
    }
}
