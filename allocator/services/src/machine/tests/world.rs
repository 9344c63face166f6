//! An API server that keeps versions, an allocator that gives the lowest free address, and agents that hold what is bound.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use mooring_allocator_core::block::{Family, address};
use mooring_allocator_core::names::{Key, PoolRef, Uid, Version};
use mooring_allocator_core::pool::{Network, PoolSpec};
use mooring_allocator_core::protocol::{self, Moment};
use mooring_allocator_core::scope::Scope;
use mooring_allocator_core::text;

use crate::class::ClassRules;
use crate::machine::testing::{self, StoredClaim};
use crate::machine::{Action, Done, Event, Failure, Kind, Machine, Report, Settings, Write};
use crate::objects::{Address, Claim, Made, Pool, Reserved, Service};
use crate::reason::Condition;
use crate::record;
use crate::words;

/// Events by queue, with their number.
type Queues = BTreeMap<Queue, VecDeque<(u64, Event)>>;

/// Events that come in one order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Queue {
    /// Time, the lead and answers: only the allocator itself is told.
    Own,
    /// The watch of a kind.
    Of(Kind),
    /// The watch of endpoints.
    Endpoints,
}

fn queue_of(event: &Event) -> Queue {
    match event {
        Event::Tick | Event::Leading(_) | Event::Answer { .. } => Queue::Own,
        Event::Listed(kind, _) => Queue::Of(*kind),
        Event::Services(_) | Event::Service(_) | Event::ServiceGone(..) => Queue::Of(Kind::Services),
        Event::Claims(_) | Event::Claim(_) | Event::ClaimGone(..) => Queue::Of(Kind::Claims),
        Event::Addresses(_) | Event::Address(_) | Event::AddressGone(_) => Queue::Of(Kind::Addresses),
        Event::Pools(_) | Event::Pool(_) | Event::PoolGone(..) => Queue::Of(Kind::Pools),
        Event::Config(_) => Queue::Of(Kind::Config),
        Event::Reserved(_) => Queue::Of(Kind::Reserved),
        Event::AllEndpoints(_) | Event::Endpoints(..) => Queue::Endpoints,
    }
}

#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "switches of a test")]
pub(super) struct World {
    settings: Settings,
    pub(super) machine: Machine,
    /// A second allocator.
    peer: Option<Box<Peer>>,
    pub(super) now: Duration,
    version: u64,
    pub(super) services: BTreeMap<Key, Service>,
    pub(super) claims: BTreeMap<Key, StoredClaim>,
    pub(super) addresses: BTreeMap<Key, Address>,
    pub(super) pools: BTreeMap<Arc<PoolRef>, (Pool, PoolSpec)>,
    config: Option<BTreeMap<String, String>>,
    reserved: BTreeMap<IpAddr, Reserved>,
    endpoints: BTreeMap<Key, BTreeSet<Arc<str>>>,
    /// Addresses of other claims.
    pub(super) others: BTreeSet<IpAddr>,
    /// Addresses that pools keep for claims of certain names, of which there are none.
    pub(super) pre_allocated: BTreeSet<IpAddr>,
    /// A namespace in which no claim can be made.
    pub(super) without_quota: Option<&'static str>,
    /// The events that the allocator has not seen yet: each kind comes in its own order, and kinds may be late.
    queues: Queues,
    /// The events that an allocator that waits for the lead has not seen yet. It began to watch when the present leader
    /// started.
    standby: Queues,
    /// How many events there were, to deliver them in their order.
    pushed: u64,
    /// Lists that the allocator asked for and that were not made yet.
    lists: Vec<(Kind, u64)>,
    /// A claim is bound only after the allocator has seen its address.
    pub(super) two_steps: bool,
    /// Changes what the API server stores of a made pool, as a CRD that does not know a field does.
    pub(super) prunes: Option<fn(&mut Made)>,
    /// Changes what the API server stores of a Service, as an admission webhook does.
    pub(super) reverts: Option<fn(&mut Service)>,
    pub(super) todo: VecDeque<(u64, Write)>,
    /// Writes of an allocator that led before, and was frozen: nobody waits for their answers.
    pub(super) ghosts: Vec<Write>,
    pub(super) reports: Vec<Report>,
    pub(super) writes: usize,
    haunted: bool,
    traces: bool,
    /// How often an allocator has begun to lead.
    pub(super) starts: usize,
    /// Services change their classes.
    pub(super) changes_classes: bool,
    /// How long the machine has thought.
    pub(super) thought: Duration,
    /// Whether nodes advertise.
    pub(super) agents: bool,
    pub(super) allocates: bool,
    /// Whether endpoints are told of from the start.
    pub(super) lists_endpoints: bool,
}

pub(super) fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

pub(super) fn settings() -> Settings {
    Settings { classes: ClassRules::default(), home: "mooring".into(), scope: Scope::default(), outside_pools: false }
}

/// Another allocator, which leads by a Lease of its own.
#[derive(Debug)]
pub(super) struct Peer {
    settings: Settings,
    machine: Machine,
    queues: Queues,
    standby: Queues,
    lists: Vec<(Kind, u64)>,
    todo: VecDeque<(u64, Write)>,
}

/// What an allocator is told of an event, by its settings.
fn told(settings: &Settings, event: Event) -> Option<Event> {
    let has = |key: &Key| settings.scope.has_namespace(&key.namespace);
    Some(match event {
        Event::Service(service) if !has(&service.key) => return None,
        Event::Services(mut all) => {
            all.retain(|service| has(&service.key));
            Event::Services(all)
        }
        Event::Claim(claim) => Event::Claim(Box::new(judged(settings, &claim))),
        Event::Claims(all) => Event::Claims(all.iter().map(|claim| judged(settings, claim)).collect()),
        event => event,
    })
}

/// A claim, marked as another allocator's if it is.
fn judged(settings: &Settings, claim: &Claim) -> Claim {
    let mut claim = protocol::Claim::clone(claim);
    claim.retained.elsewhere = !settings.scope.has_namespace(&claim.key.namespace);
    Claim::of(&Arc::new(claim)).unwrap()
}

impl World {
    pub(super) fn new(data: &[(&str, &str)]) -> Self {
        let mut world = Self::before(data);
        world.start();
        world.run();
        world
    }

    /// One in which the allocator was not started yet.
    pub(super) fn before(data: &[(&str, &str)]) -> Self {
        Self {
            settings: settings(),
            machine: Machine::new(settings()),
            peer: None,
            now: Duration::from_secs(100),
            version: 0,
            services: BTreeMap::new(),
            claims: BTreeMap::new(),
            addresses: BTreeMap::new(),
            pools: BTreeMap::new(),
            config: Some(data.iter().map(|&(k, v)| (k.to_owned(), v.to_owned())).collect()),
            reserved: BTreeMap::new(),
            endpoints: BTreeMap::new(),
            others: BTreeSet::new(),
            pre_allocated: BTreeSet::new(),
            without_quota: None,
            queues: Queues::new(),
            standby: Queues::new(),
            pushed: 0,
            lists: Vec::new(),
            two_steps: false,
            prunes: None,
            reverts: None,
            todo: VecDeque::new(),
            ghosts: Vec::new(),
            reports: Vec::new(),
            writes: 0,
            haunted: false,
            traces: std::env::var_os("SERVICES_TRACE").is_some(),
            starts: 0,
            changes_classes: false,
            thought: Duration::ZERO,
            agents: true,
            allocates: true,
            lists_endpoints: true,
        }
    }

    /// One without kube-vip's `ConfigMap`, in which the allocator was not started yet.
    pub(super) fn without_config() -> Self {
        Self { config: None, ..Self::before(&[]) }
    }

    /// With the pool of [`Self::add_pool`].
    pub(super) fn with_pool(mut self, addresses: &str) -> Self {
        self.add_pool(addresses);
        self
    }

    /// The allocator starts (again), and leads.
    pub(super) fn start(&mut self) {
        let queues = self.fresh_views();
        self.begin(queues);
    }

    /// Another allocator takes the lead: its views are as old as its watches are late.
    pub(super) fn fail_over(&mut self) {
        let queues = std::mem::take(&mut self.standby);
        self.begin(queues);
    }

    /// From its next start, the allocator has these settings.
    pub(super) fn set(&mut self, settings: Settings) {
        self.settings = settings;
    }

    /// Another allocator starts, and leads too. It has these settings.
    pub(super) fn start_another(&mut self, settings: Settings) {
        let machine = Machine::new(settings.clone());
        let (queues, standby) = (Queues::new(), Queues::new());
        self.peer =
            Some(Box::new(Peer { settings, machine, queues, standby, lists: Vec::new(), todo: VecDeque::new() }));
        self.swap();
        self.start();
        self.swap();
    }

    /// Whether an allocator serves Services of this class.
    pub(super) fn accepts_class(&self, class: Option<&str>) -> bool {
        let settings = std::iter::once(&self.settings).chain(self.peer.iter().map(|peer| &peer.settings));
        settings.into_iter().any(|settings| settings.classes.accept(class))
    }

    /// Whether there is a second allocator.
    pub(super) fn has_peer(&self) -> bool {
        self.peer.is_some()
    }

    /// The two allocators change places, if they are to.
    pub(super) fn change_places(&mut self, really: bool) {
        if really {
            self.swap();
        }
    }

    /// The two allocators change places.
    pub(super) fn swap(&mut self) {
        let Some(peer) = &mut self.peer else { return };
        std::mem::swap(&mut self.settings, &mut peer.settings);
        std::mem::swap(&mut self.machine, &mut peer.machine);
        std::mem::swap(&mut self.queues, &mut peer.queues);
        std::mem::swap(&mut self.standby, &mut peer.standby);
        std::mem::swap(&mut self.lists, &mut peer.lists);
        std::mem::swap(&mut self.todo, &mut peer.todo);
    }

    fn begin(&mut self, queues: Queues) {
        self.starts += 1;
        self.machine = Machine::new(self.settings.clone());
        self.haunted |= !self.todo.is_empty();
        self.ghosts.extend(self.todo.drain(..).map(|(_, write)| write));
        self.lists.clear();
        self.queues = queues;
        self.standby = Queues::new();
        self.push(Event::Leading(Some(Duration::MAX)));
        self.standby = self.fresh_views();
    }

    /// Lists of all kinds, of this moment.
    fn fresh_views(&mut self) -> Queues {
        let mut queues = Queues::new();
        let mut all: Vec<Event> = Kind::ALL.map(|kind| self.list(kind)).into();
        if self.lists_endpoints {
            all.push(Event::AllEndpoints(self.endpoints.clone()));
        }
        for event in all {
            self.pushed += 1;
            queues.entry(queue_of(&event)).or_default().push_back((self.pushed, event));
        }
        queues
    }

    fn list(&self, kind: Kind) -> Event {
        let all = match kind {
            Kind::Services => Event::Services(self.services.values().cloned().collect()),
            Kind::Claims => Event::Claims(self.claims.values().map(StoredClaim::shown).collect()),
            Kind::Addresses => Event::Addresses(self.addresses.values().cloned().map(Arc::new).collect()),
            Kind::Pools => Event::Pools(self.pools.values().map(|(pool, _)| pool.clone()).collect()),
            Kind::Config => Event::Config(self.config.clone()),
            Kind::Reserved => Event::Reserved(self.reserved.clone()),
        };
        told(&self.settings, all).unwrap()
    }

    /// One of the lists that the allocator asked for is made; whether there was one.
    pub(super) fn make_list(&mut self, which: usize) -> bool {
        if self.lists.is_empty() {
            return false;
        }
        let (kind, asked) = self.lists.swap_remove(which % self.lists.len());
        let list = self.list(kind);
        // The watch goes on from the list.
        let queue = self.queues.entry(queue_of(&list)).or_default();
        queue.retain(|(_, event)| matches!(event, Event::Listed(..)));
        for event in [list, Event::Listed(kind, asked)] {
            self.pushed += 1;
            self.queues.entry(Queue::Of(kind)).or_default().push_back((self.pushed, event));
        }
        true
    }

    /// Something happened that allocators are told.
    pub(super) fn push(&mut self, event: Event) {
        self.pushed += 1;
        let queue = queue_of(&event);
        if queue == Queue::Own {
            self.queues.entry(queue).or_default().push_back((self.pushed, event));
            return;
        }
        let mut all = vec![(&self.settings, &mut self.queues), (&self.settings, &mut self.standby)];
        if let Some(peer) = &mut self.peer {
            all.push((&peer.settings, &mut peer.queues));
            all.push((&peer.settings, &mut peer.standby));
        }
        for (settings, queues) in all {
            let event = told(settings, event.clone());
            queues.entry(queue).or_default().extend(event.map(|event| (self.pushed, event)));
        }
    }

    /// An answer that comes before everything else.
    pub(super) fn push_first(&mut self, event: Event) {
        self.queues.entry(queue_of(&event)).or_default().push_front((0, event));
    }

    /// The oldest event.
    fn pop(&mut self) -> Option<Event> {
        let oldest = self.queues.iter().filter_map(|(queue, all)| Some((all.front()?.0, *queue))).min();
        self.pop_of(oldest?.1)
    }

    /// The oldest event of a queue.
    pub(super) fn pop_of(&mut self, queue: Queue) -> Option<Event> {
        Some(self.queues.get_mut(&queue)?.pop_front()?.1)
    }

    /// The queues that have events.
    pub(super) fn busy_queues(&self) -> Vec<Queue> {
        self.queues.iter().filter(|(_, all)| !all.is_empty()).map(|(queue, _)| *queue).collect()
    }

    /// Whether the allocator has seen all events about an address.
    fn has_seen_address(&self, key: &Key) -> bool {
        let about = |event: &Event| match event {
            Event::Address(address) => address.key == *key,
            Event::Addresses(_) => true,
            _ => false,
        };
        !self.queues.get(&Queue::Of(Kind::Addresses)).is_some_and(|all| all.iter().any(|(_, event)| about(event)))
    }

    /// What happened, for whoever looks for the cause of a failure (`SERVICES_TRACE=1`).
    pub(super) fn trace(&self, what: &str) {
        if self.traces {
            eprintln!("{:?} {what}", self.now);
        }
    }

    pub(super) fn fresh(&mut self) -> Version {
        self.version += 1;
        Version::from(&*self.version.to_string())
    }

    // What people do.

    pub(super) fn apply(&mut self, mut service: Service) -> Key {
        service.version = self.fresh();
        let key = service.key.clone();
        self.services.insert(key.clone(), service.clone());
        self.push(Event::Service(Box::new(service)));
        key
    }

    pub(super) fn edit(&mut self, key: &Key, change: impl FnOnce(&mut Service)) {
        let mut service = self.services[key].clone();
        change(&mut service);
        self.apply(service);
    }

    /// Without finalizers it is gone at once.
    pub(super) fn delete(&mut self, key: &Key) {
        if self.services.get(key).is_some_and(|service| service.cleanup) {
            return self.edit(key, |service| service.deleting = true);
        }
        if let Some(service) = self.services.remove(key) {
            self.push(Event::ServiceGone(key.clone(), service.uid));
        }
    }

    pub(super) fn configure(&mut self, data: &[(&str, &str)]) {
        self.config = Some(data.iter().map(|&(k, v)| (k.to_owned(), v.to_owned())).collect());
        self.push(Event::Config(self.config.clone()));
    }

    /// A pool that people made, of which Services of all namespaces get addresses.
    pub(super) fn add_pool(&mut self, addresses: &str) {
        let spec = PoolSpec { addresses: vec![addresses.to_owned()], prefix: 16, ..PoolSpec::default() };
        self.pool(testing::pool("all", &["10.0.0.1"]), spec);
    }

    /// A claim is there, or has changed.
    pub(super) fn put_claim(&mut self, claim: StoredClaim) {
        self.push(Event::Claim(Box::new(claim.shown())));
        self.claims.insert(claim.key.clone(), claim);
    }

    /// A Service as it is exported: with another uid, and without status.
    pub(super) fn exported(&self, key: &Key) -> Service {
        let (ingress, condition) = (Vec::new(), None);
        Service { ingress, condition, ..self.exported_with_status(key) }
    }

    pub(super) fn exported_with_status(&self, key: &Key) -> Service {
        let service = &self.services[key];
        Service { uid: format!("{}-again", service.uid).as_str().into(), ..service.clone() }
    }

    pub(super) fn unconfigure(&mut self) {
        self.config = None;
        self.push(Event::Config(None));
    }

    pub(super) fn reserve(&mut self, all: &[(&str, Reserved)]) {
        self.reserved = all.iter().map(|(text, by)| (ip(text), by.clone())).collect();
        self.push(Event::Reserved(self.reserved.clone()));
    }

    pub(super) fn endpoints(&mut self, key: &Key, nodes: &[&str]) {
        let nodes: BTreeSet<Arc<str>> = nodes.iter().map(|&node| node.into()).collect();
        self.endpoints.insert(key.clone(), nodes.clone());
        if self.lists_endpoints {
            self.push(Event::Endpoints(key.clone(), nodes));
        }
    }

    /// From now on all endpoints are told of.
    pub(super) fn list_endpoints(&mut self) {
        self.lists_endpoints = true;
        self.push(Event::AllEndpoints(self.endpoints.clone()));
    }

    pub(super) fn pool(&mut self, mut pool: Pool, spec: PoolSpec) {
        pool.version = self.fresh();
        pool.generation = self.version;
        pool.plan = spec.plan().map(Arc::new).map_err(|errors| errors[0].to_string().into());
        self.pools.insert(pool.reference.clone(), (pool.clone(), spec));
        self.push(Event::Pool(Box::new(pool)));
    }

    /// Somebody else's claim has an address.
    pub(super) fn taken(&mut self, text: &str) {
        self.others.insert(ip(text));
        self.taken_with(text, |_| {});
    }

    /// Somebody else's claim has an address, and that is special.
    pub(super) fn taken_with(&mut self, text: &str, special: impl FnOnce(&mut Address)) {
        let name = format!("machine-{}", text.replace([':', '.'], "-"));
        let key = Key::new("machines", &name);
        let uid = Uid::from(&*format!("uid-{name}"));
        let mut address = testing::address(key.clone(), uid, self.fresh(), ip(text));
        special(&mut address);
        self.addresses.insert(key, address.clone());
        self.push(Event::Address(Arc::new(address)));
    }

    // What others do.

    fn spans(&self, pool: &PoolRef) -> Vec<(u128, u128)> {
        let Some((_, spec)) = self.pools.get(pool) else { return Vec::new() };
        let mut spans: Vec<_> =
            spec.addresses.iter().filter_map(|a| text::span(a).ok()).map(|s| (s.first, s.last)).collect();
        spans.sort_unstable();
        spans
    }

    pub(super) fn lists(&self, pool: &PoolRef, ip: IpAddr) -> bool {
        self.pools.get(pool).is_some_and(|(pool, _)| pool.lists(ip))
    }

    /// The addresses that the pools of the common network do not hand out.
    pub(super) fn used(&self) -> BTreeSet<IpAddr> {
        let isolated = |address: &&Address| {
            let network = |pool: &Pool| pool.plan.as_ref().ok().map(|plan| plan.network.clone());
            let pool = self.pools.get(&address.pool).and_then(|(pool, _)| network(pool));
            matches!(pool, Some(Network::Named(_)))
        };
        self.addresses.values().filter(|address| !isolated(address)).filter_map(|address| address.address).collect()
    }

    pub(super) fn free(&self, pool: &PoolRef) -> Option<IpAddr> {
        let used = self.used();
        let spans = self.spans(pool);
        let all = spans.into_iter().flat_map(|(first, last)| first..=last).map(address);
        let mut free = all.filter(|ip| self.lists(pool, *ip) && !used.contains(ip) && !self.pre_allocated.contains(ip));
        free.next()
    }

    /// The allocator goes on with one claim; whether there was one.
    pub(super) fn allocate(&mut self, key: &Key) -> bool {
        let Some(claim) = self.claims.get(key).cloned() else { return false };
        if claim.deleting {
            self.claims.remove(key);
            if let Some(address) = self.addresses.remove(key) {
                self.push(Event::AddressGone(address.uid));
            }
            self.push(Event::ClaimGone(key.clone(), claim.uid));
            self.pools_go();
            return true;
        }
        if claim.bound.is_some() || claim.paused {
            return false;
        }
        let own = self.addresses.get(key).and_then(|address| address.address);
        if own.is_some() && !self.has_seen_address(key) {
            return false;
        }
        let given = match claim.requested {
            _ if let Some(own) = own => Ok(own),
            _ if self.pools.get(&claim.pool).is_none_or(|(pool, _)| pool.deleting) => {
                Err((protocol::Reason::PoolNotReady, format!("{} does not exist, or is being deleted", claim.pool)))
            }
            Some(ip) if !self.lists(&claim.pool, ip) => {
                Err((protocol::Reason::AllocationFailed, format!("{ip} is not in the pool")))
            }
            Some(ip) if self.pre_allocated.contains(&ip) => {
                Err((protocol::Reason::AllocationFailed, format!("{ip} is kept for another claim (preAllocations)")))
            }
            Some(ip) if self.used().contains(&ip) => {
                let mut holders = self.addresses.values().filter(|address| address.address == Some(ip));
                let by = holders.next().map(|address| address.claim_key().told_in(&key.namespace, "claim"));
                Err((protocol::Reason::AllocationFailed, format!("{ip} is taken by {}", by.unwrap_or_default())))
            }
            Some(ip) => Ok(ip),
            None if claim.had.is_some_and(|ip| !self.lists(&claim.pool, ip)) => {
                Err((protocol::Reason::PoolNotReady, "the pool does not have the address that it had".to_owned()))
            }
            None if claim.had.is_some_and(|ip| !self.used().contains(&ip)) => Ok(claim.had.unwrap()),
            None => {
                self.free(&claim.pool).ok_or_else(|| (protocol::Reason::PoolExhausted, "nothing is free".to_owned()))
            }
        };
        let mut new = claim.clone();
        match given {
            Ok(ip) => {
                if own.is_none() {
                    let uid = Uid::from(&*format!("uid-{}-{}", claim.uid, self.version));
                    let address = testing::address(key.clone(), uid, self.fresh(), ip);
                    self.addresses.insert(key.clone(), address.clone());
                    self.push(Event::Address(Arc::new(address)));
                    if self.two_steps {
                        return true;
                    }
                }
                new.bound = Some(key.name.clone());
                new.refused = None;
            }
            Err((reason, message)) => new.refused = Some((reason, message)),
        }
        let changed = new != claim;
        if changed {
            new.version = self.fresh();
            self.claims.insert(key.clone(), new.clone());
            self.push(Event::Claim(Box::new(new.shown())));
        }
        changed
    }

    /// A node takes one address that a Service names; whether there was one.
    pub(super) fn advertise(&mut self, key: &Key) -> bool {
        let free = |address: &&Address| address.holder.is_none() && address.conflict.is_none();
        let Some(ip) = self.addresses.get(key).filter(free).and_then(|address| address.address) else {
            return false;
        };
        // As the agents' catalog finds the Services that have an address.
        let named = |service: &Service| record::named(&service.notes).contains(&(key.clone(), ip));
        let served = self.services.values().filter(|service| service.load_balancer && !service.deleting);
        let users: Vec<&Service> = served.filter(|service| named(service)).collect();
        // A node needs an endpoint of each that is `Local`.
        let local = users.iter().filter(|service| service.local);
        let nodes = local.map(|service| self.endpoints.get(&service.key).cloned().unwrap_or_default());
        let common = nodes.reduce(|all, of_one| all.intersection(&of_one).cloned().collect());
        if users.is_empty() || common.is_some_and(|nodes| nodes.is_empty()) {
            return false;
        }
        self.hold(key)
    }

    /// A node has an address, whoever names it: people may label any address to be advertised.
    pub(super) fn hold(&mut self, key: &Key) -> bool {
        let Some(address) = self.addresses.get_mut(key).filter(|address| address.holder.is_none()) else {
            return false;
        };
        address.holder = Some("node-a".into());
        self.version += 1;
        address.version = Version::from(self.version.to_string().as_str());
        let address = Arc::new(address.clone());
        self.push(Event::Address(address));
        true
    }

    /// An agent has heard that somebody else has the address, which was asked for.
    pub(super) fn heard(&mut self, key: &Key, whose: &str) {
        let version = self.fresh();
        let Some(address) = self.addresses.get_mut(key) else { return };
        (address.conflict, address.version) = (Some(whose.into()), version);
        let address = Arc::new(address.clone());
        self.push(Event::Address(address));
    }

    /// Another host has the address: the claim gets another, unless it asked.
    pub(super) fn conflict(&mut self, key: &Key) {
        let Some(address) = self.addresses.remove(key) else { return };
        if self.claims[key].requested.is_some() {
            self.addresses.insert(key.clone(), address);
            return;
        }
        self.taken(&address.address.unwrap().to_string());
        self.push(Event::AddressGone(address.uid));
        let mut claim = self.claims[key].clone();
        claim.bound = None;
        claim.version = self.fresh();
        self.put_claim(claim);
    }

    // The API server.

    pub(super) fn deliver(&mut self, event: Event) {
        self.trace(&format!("event {event:?}"));
        let start = std::time::Instant::now();
        let actions = self.machine.step(Moment { now: self.now, wall: 0 }, event);
        self.thought += start.elapsed();
        for action in actions {
            self.tells_no_names(&action);
            match action {
                Action::Write { id, write } => self.todo.push_back((id, write)),
                Action::List(asked) => self.lists = Kind::ALL.map(|kind| (kind, asked)).into(),
                Action::Report(report) => self.reports.push(report),
            }
        }
    }

    /// What the people of a namespace read names no object of another, unless they have written the name themselves. Checked of all
    /// texts in all tests.
    fn tells_no_names(&self, action: &Action) {
        if self.services.len() > 100 {
            return;
        }
        let told: Vec<(&Key, &str)> = match action {
            Action::Write { write: Write::Status(target, status), .. } => {
                status.condition.iter().map(|condition| (&target.key, &*condition.message)).collect()
            }
            Action::Write { write: Write::Exchange(target, text), .. } => {
                let members = self.claims.get(&target.key).map_or(&[][..], |claim| &claim.members);
                members.iter().map(|(key, _)| key).chain([&target.key]).map(|key| (key, &**text)).collect()
            }
            Action::Report(Report::ConditionChanged { service, condition, .. }) => vec![(service, &condition.message)],
            Action::Report(Report::NotHonoured { service, text }) => vec![(service, text)],
            _ => return,
        };
        for (reader, text) in told {
            let notes = self.services.get(reader).map(|service| &service.notes);
            let wrote =
                notes.map(|notes| format!("{:?} {:?}", notes.sharing_key, notes.lease_name)).unwrap_or_default();
            // The name of a claim says for which Service it was made.
            let claims = self.claims.keys().map(|claim| (claim, claim.name.to_string()));
            let all = self.services.keys().chain(self.claims.keys()).chain(self.addresses.keys());
            for (of, name) in all.map(|key| (key, key.to_string())).chain(claims) {
                let names = of.namespace != reader.namespace && text.contains(&name) && !wrote.contains(&name);
                assert!(!names, "{reader} is told of {name}: {text}");
            }
        }
    }

    /// A claim is given up only after its Services have stopped to say that they have its address.
    /// (What an allocator that led before writes meanwhile, the next one learns a moment later.)
    fn nobody_says_he_has(&self, claim: &Key) {
        if self.haunted {
            return;
        }
        // One that has lost its address to another host has nothing to keep.
        let Some(has) = self.addresses.get(claim).and_then(|address| address.address) else { return };
        let members = self.claims.get(claim).map(|claim| claim.members.clone()).unwrap_or_default();
        for (key, uid) in members {
            let Some(service) = self.services.get(&key).filter(|service| service.uid == uid) else { continue };
            let says = crate::record::read(service.notes.record.as_deref());
            // An address that the claim got in place of another may be recorded, and not be in the status yet: then a late
            // watch of claims may cost the Service this address, which carries no traffic.
            let live = crate::request::shows(service, has) && says.contains(&(claim.clone(), has));
            assert!(!live, "{claim} is given up under {service:?}");
        }
    }

    /// Somebody else's claim is gone.
    pub(super) fn untaken(&mut self, text: &str) {
        self.others.remove(&ip(text));
        let key = Key::new("machines", &format!("machine-{}", text.replace([':', '.'], "-")));
        let address = self.addresses.remove(&key).unwrap();
        self.push(Event::AddressGone(address.uid));
    }

    /// Does a write; what is answered.
    #[expect(clippy::too_many_lines, reason = "one arm for each write")]
    pub(super) fn execute(&mut self, write: &Write) -> Result<Done, Failure> {
        self.writes += 1;
        self.trace(&format!("write {write:?}"));
        match write {
            Write::CreateClaim(new) => {
                if self.claims.contains_key(&new.key) {
                    return Err(Failure::Exists);
                }
                if self.without_quota == Some(&*new.key.namespace) {
                    return Err(Failure::Refused(format!("{:?} is forbidden: exceeded quota", new.key.name)));
                }
                let owned = new.members.iter().all(|(key, _)| key.namespace == new.key.namespace);
                let home = *new.key.namespace == *"mooring";
                assert!(if home { owned || !new.owned } else { owned == new.owned }, "{new:?}");
                let version = self.fresh();
                let claim = StoredClaim {
                    key: new.key.clone(),
                    uid: Uid::from(&*format!("uid-claim-{}", self.version)),
                    version: version.clone(),
                    family: new.family,
                    pool: new.pool.clone(),
                    requested: new.requested,
                    had: None,
                    members: new.members.clone(),
                    classes: new.classes.clone(),
                    bound: None,
                    refused: None,
                    deleting: false,
                    paused: false,
                };
                self.claims.insert(new.key.clone(), claim.clone());
                self.push(Event::Claim(Box::new(claim.shown())));
                Ok(Done::There(version))
            }
            Write::UpdateClaim(target, members, classes, requested) => {
                let mut claim = self.claims.get(&target.key).cloned().ok_or(Failure::NotFound)?;
                if claim.uid != target.uid || claim.version != target.version {
                    return Err(Failure::Conflict);
                }
                let before = claim.clone();
                (claim.members, claim.classes, claim.requested) = (members.clone(), classes.clone(), *requested);
                assert_ne!(claim, before, "a write that changes nothing");
                claim.version = self.fresh();
                self.claims.insert(target.key.clone(), claim.clone());
                self.push(Event::Claim(Box::new(claim.shown())));
                Ok(Done::There(claim.version))
            }
            Write::DeleteClaim(target) => {
                let mut claim = self.claims.get(&target.key).cloned().ok_or(Failure::NotFound)?;
                if claim.uid != target.uid || claim.version != target.version {
                    return Err(Failure::Conflict);
                }
                self.nobody_says_he_has(&target.key);
                claim.deleting = true;
                claim.version = self.fresh();
                self.claims.insert(target.key.clone(), claim.clone());
                self.push(Event::Claim(Box::new(claim.shown())));
                Ok(Done::Gone)
            }
            Write::Exchange(target, _) => {
                let address = self.addresses.get(&target.key).ok_or(Failure::NotFound)?;
                if address.uid != target.uid || address.version != target.version {
                    return Err(Failure::Conflict);
                }
                self.conflict(&target.key);
                Ok(Done::There(self.fresh()))
            }
            Write::Annotate(target, notice) => {
                let mut service = self.service(target)?;
                let mut texts: BTreeMap<&str, String> = BTreeMap::new();
                for name in ALL {
                    texts.extend(service.notes.written(name).map(|text| (*name, text.to_owned())));
                }
                for (name, text) in &notice.annotations {
                    match text {
                        Some(text) => drop(texts.insert(name, text.clone())),
                        None => drop(texts.remove(name)),
                    }
                }
                service.notes = crate::notes::Notes::read(|name| texts.get(name).map(String::as_str));
                service.implementation = notice.implementation.unwrap_or(service.implementation);
                if notice.clear_ip {
                    service.load_balancer_ip = None;
                }
                Ok(self.stored(service))
            }
            Write::Status(target, status) => {
                let mut service = self.service(target)?;
                assert!(
                    status.ingress.as_ref().is_none_or(|i| *i != service.ingress)
                        || status.condition != service.condition
                );
                service.condition.clone_from(&status.condition);
                if let Some(ingress) = &status.ingress {
                    service.ingress.clone_from(ingress);
                }
                if let Some(host) = &status.host {
                    assert_ne!(service.notes.host.as_deref(), Some(host.as_str()));
                    service.notes.host = Some(host.as_str().into());
                }
                Ok(self.stored(service))
            }
            Write::RemoveCleanup(target) => {
                let mut service = self.service(target)?;
                assert!(service.cleanup);
                service.cleanup = false;
                if service.deleting {
                    self.services.remove(&target.key);
                    self.push(Event::ServiceGone(target.key.clone(), target.uid.clone()));
                    return Ok(Done::Gone);
                }
                Ok(self.stored(service))
            }
            Write::CreatePool(new) => {
                if self.pools.contains_key(&new.reference) {
                    return Err(Failure::Exists);
                }
                self.made_pool(&new.reference, &new.made);
                Ok(Done::There(Version::from("")))
            }
            Write::UpdatePool(target, new) => {
                let (pool, _) = self.pools.get(&target.reference).cloned().ok_or(Failure::NotFound)?;
                if pool.version != target.version {
                    return Err(Failure::Conflict);
                }
                let mut stored = new.made.clone();
                if let Some(prunes) = self.prunes {
                    prunes(&mut stored);
                }
                if pool.made.as_ref() == Some(&stored) {
                    return Ok(Done::There(pool.version));
                }
                self.made_pool(&new.reference, &new.made);
                Ok(Done::There(self.pools[&target.reference].0.version.clone()))
            }
            Write::DeletePool(target) => {
                let (pool, _) = self.pools.get(&target.reference).cloned().ok_or(Failure::NotFound)?;
                if pool.version != target.version {
                    return Err(Failure::Conflict);
                }
                // Claims that name it are no hindrance; the allocator's finalizer holds it while there is an address of it.
                if self.is_used(&target.reference) {
                    let version = self.fresh();
                    if let Some((pool, _)) = self.pools.get_mut(&target.reference) {
                        (pool.deleting, pool.version) = (true, version);
                        let shown = pool.clone();
                        self.push(Event::Pool(Box::new(shown)));
                    }
                } else {
                    self.pools.remove(&target.reference);
                    self.push(Event::PoolGone(target.reference.clone(), pool.uid));
                }
                Ok(Done::Gone)
            }
        }
    }

    /// Whether a claim has an address of the pool.
    fn is_used(&self, pool: &PoolRef) -> bool {
        self.claims.values().any(|claim| *claim.pool == *pool && self.addresses.contains_key(&claim.key))
    }

    /// Pools that are being deleted go with their last address.
    fn pools_go(&mut self) {
        let gone = |(pool, _): &&(Pool, PoolSpec)| pool.deleting && !self.is_used(&pool.reference);
        let gone: Vec<Pool> = self.pools.values().filter(gone).map(|(pool, _)| pool.clone()).collect();
        for pool in gone {
            self.pools.remove(&pool.reference);
            self.push(Event::PoolGone(pool.reference, pool.uid));
        }
    }

    fn service(&self, target: &crate::machine::Target) -> Result<Service, Failure> {
        let service = self.services.get(&target.key).cloned().ok_or(Failure::NotFound)?;
        if service.uid != target.uid || service.version != target.version {
            return Err(Failure::Conflict);
        }
        Ok(service)
    }

    fn stored(&mut self, mut service: Service) -> Done {
        if let Some(reverts) = self.reverts {
            reverts(&mut service);
            if service == self.services[&service.key] {
                return Done::There(service.version);
            }
        }
        assert_ne!(service, self.services[&service.key], "a write that changes nothing");
        let key = self.apply(service);
        Done::There(self.services[&key].version.clone())
    }

    fn made_pool(&mut self, reference: &Arc<PoolRef>, made: &Made) {
        let mut made = made.clone();
        if let Some(prunes) = self.prunes {
            prunes(&mut made);
        }
        let mut pool = crate::machine::testing::pool(&reference.name, &[&made.spec.addresses[0]]);
        pool.default = false;
        pool.made = Some(made.clone());
        self.pool(pool, made.spec);
    }

    // Everybody.

    /// Everybody goes on until nobody has anything to do.
    pub(super) fn run(&mut self) {
        let mut swapped = false;
        for _ in 0..30_000 {
            if self.peer.is_some() && self.is_idle() {
                self.swap();
                swapped = !swapped;
            }
            if !self.go_on() {
                if swapped {
                    self.swap();
                }
                return;
            }
        }
        panic!("it never ends: {:?}", self.todo);
    }

    /// The next thing happens; whether there was any.
    pub(super) fn go_on(&mut self) -> bool {
        if let Some(event) = self.pop() {
            self.deliver(event);
        } else if self.make_list(0) {
            // The next round delivers the list.
        } else if let Some((id, write)) = self.todo.pop_front() {
            let result = self.execute(&write);
            self.push(Event::Answer { id, result });
        } else {
            return self.others_go_on();
        }
        true
    }

    /// Whether an allocator that led before may still write.
    pub(super) fn is_haunted(&self) -> bool {
        self.haunted
    }

    /// The allocator waits for others.
    fn is_idle(&self) -> bool {
        self.busy_queues().is_empty() && self.lists.is_empty() && self.todo.is_empty()
    }

    fn others_go_on(&mut self) -> bool {
        let claims: Vec<Key> = self.claims.keys().cloned().collect();
        let mut any = false;
        for key in claims {
            any |= (self.allocates && self.allocate(&key)) || (self.agents && self.advertise(&key));
        }
        any
    }

    /// And what only lasts so long is over.
    pub(super) fn later(&mut self, seconds: u64) {
        self.run();
        self.now += Duration::from_secs(seconds);
        self.tick();
        self.run();
    }

    /// Time has passed for all allocators.
    pub(super) fn tick(&mut self) {
        self.push(Event::Tick);
        if self.peer.is_some() {
            self.swap();
            self.push(Event::Tick);
            self.swap();
        }
    }

    // What there is to see.

    /// Whether an allocator wants this pool.
    pub(super) fn wants(&self, made: &Made) -> bool {
        self.machine.wants(made) || self.peer.as_ref().is_some_and(|peer| peer.machine.wants(made))
    }

    /// Whether nodes or the control plane have one of these addresses.
    pub(super) fn is_reserved(&self, addresses: &str) -> bool {
        addresses.split(',').any(|text| text.parse().is_ok_and(|ip| self.reserved.contains_key(&ip)))
    }

    /// The verdict of the allocator that handles the Service.
    pub(super) fn standing(&self, key: &Key) -> Option<&Condition> {
        let peer = || self.peer.as_ref()?.machine.standing(key);
        self.machine.standing(key).or_else(peer)
    }

    /// What the status shows, and the annotation.
    pub(super) fn shows(&self, key: &Key) -> String {
        let service = &self.services[key];
        service.ingress.iter().map(|i| i.ip.to_string()).collect::<Vec<_>>().join(",")
    }

    pub(super) fn says(&self, key: &Key) -> Option<&str> {
        self.services[key].notes.addresses.as_deref()
    }

    /// Reason and message of the condition on the object.
    pub(super) fn condition(&self, key: &Key) -> (String, String) {
        let condition = self.services[key].condition.clone().unwrap();
        (condition.reason.into(), condition.message.into())
    }

    pub(super) fn refused(&self, key: &Key, reason: &str, word: &str) {
        let (is, message) = self.condition(key);
        assert!(is == reason && message.contains(word), "{is}: {message}");
    }

    pub(super) fn claims_of(&self, key: &Key) -> Vec<&StoredClaim> {
        self.claims.values().filter(|claim| claim.members.iter().any(|(member, _)| member == key)).collect()
    }
}

/// Annotations that are written.
const ALL: &[&str] = &[
    words::ADDRESSES,
    words::VIP_HOST,
    words::INTERFACE,
    words::RECORD,
    words::MOVING,
    words::REQUESTED,
    words::GIVEN_INTERFACE,
    words::REALLOCATE,
    words::LEFT,
    words::POOL,
    words::SHARING_KEY,
    words::SHARING_NAMESPACES,
    words::LEASE_NAME,
    words::IGNORE,
];

/// Of both families.
pub(super) const BOTH: [Family; 2] = [Family::V4, Family::V6];
