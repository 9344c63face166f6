//! An API server that keeps versions, an allocator that gives the lowest free address, and a garbage collector.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use mooring_allocator_core::block::Block;
use mooring_allocator_core::clusters::{Clusters, Pause};
use mooring_allocator_core::names::{Key, PoolRef, Uid, Version};
use mooring_allocator_core::protocol::{self, Hold};
use mooring_allocator_core::retained_meta::{ClusterOwner, ForCluster, Owner, RetainedMeta};
use mooring_allocator_core::work::Moment;

use crate::machine::flaws::{Flaw, planted};
use crate::machine::{Action, Event, Failure, Kind, Machine, NewClaim, Report, Settings, Write};
use crate::objects::{Claim, Cluster, Companion, ControlPlane, Infrastructure, Place, Reading, Reference};
use crate::words;

use super::objects::{INFRASTRUCTURE, PLANE, carries, key, reference};

/// A claim, as a store keeps it.
#[expect(clippy::struct_excessive_bools, reason = "as its object has them")]
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Stored {
    pub(super) key: Key,
    pub(super) uid: Uid,
    pub(super) version: Version,
    pub(super) label: Option<Arc<str>>,
    pub(super) owner: Option<ClusterOwner>,
    pub(super) given: bool,
    pub(super) in_use: bool,
    pub(super) deleting: bool,
    pub(super) pool: Arc<PoolRef>,
    pub(super) requested: Option<IpAddr>,
    /// What it was given before, as a claim says that is restored.
    pub(super) had: Option<IpAddr>,
    pub(super) address: Option<IpAddr>,
    pub(super) refused: bool,
    pub(super) condition: Option<(Box<str>, Box<str>)>,
    /// The address that stood everywhere once, as its condition says.
    pub(super) stood: Option<IpAddr>,
    /// A machine owns it.
    pub(super) of_a_machine: bool,
}

impl Stored {
    pub(super) fn is_owned_by(&self, uid: &Uid) -> bool {
        self.owner.as_ref().is_some_and(|owner| owner.uid == *uid)
    }

    fn shown(&self) -> protocol::Claim {
        let finalizers: Vec<Box<str>> = self.in_use.then(|| words::IN_USE.into()).into_iter().collect();
        let endpoint = (self.label.is_some() || self.in_use).then(|| {
            let (label, owner, condition) = (self.label.clone(), self.owner.clone(), self.condition.clone());
            let machine = Owner {
                api_version: "infrastructure.cluster.x-k8s.io/v1beta1".into(),
                kind: "VSphereVM".into(),
                name: "vm".into(),
                uid: "vm".into(),
                controller: Some(true),
                block_owner_deletion: None,
            };
            let owners = self.of_a_machine.then_some(machine).into_iter().collect();
            Box::new(ForCluster { label, owner, given: self.given, owners, condition, stood: self.stood })
        });
        let refused = protocol::Condition {
            ready: false,
            reason: protocol::Reason::PoolExhausted,
            message: "no free address".to_owned(),
        };
        protocol::Claim {
            key: self.key.clone(),
            uid: self.uid.clone(),
            version: self.version.clone(),
            created: 0,
            pool: self.pool.clone(),
            deleting: self.deleting,
            finalizer: true,
            others: self.in_use,
            bound: self.address.map(|_| self.key.name.clone()),
            voided: 0,
            had: self.had.filter(|_| self.address.is_none()).map(|ip| Box::new(Block::host(ip))),
            requested: self.requested.map(|ip| ip.to_string().into()),
            hold: Hold::None,
            condition: self.refused.then_some(refused),
            retained: RetainedMeta {
                finalizers: finalizers.into(),
                endpoint,
                owned: self.owner.is_some() || self.of_a_machine,
                ..RetainedMeta::default()
            },
        }
    }
}

/// What claims depend on of a Cluster.
fn pause(one: &Cluster) -> Pause {
    match one.paused || one.held {
        false => Pause::None,
        true if one.host.is_some() && (one.held || !one.notes.paused_for_endpoint) => Pause::WithEndpoint,
        true => Pause::BeforeEndpoint,
    }
}

/// What the machine was shown.
impl Machine {
    /// Whether it knows a control plane as it is.
    fn shows(&self, one: &ControlPlane) -> bool {
        self.control_planes.get(&one.reference).is_some_and(|seen| seen.version == one.version)
    }

    /// Whether it has read a companion as it is, or not at all.
    fn read_so(&self, what: &Companion, is: &Reading) -> bool {
        let mut read = self.slots.values().filter_map(|slot| slot.known.get(what));
        read.all(|known| known.reading.as_ref() == Some(is))
    }

    /// The Clusters whose machines get a `Secret`.
    pub(super) fn users_of(&self, what: &Companion) -> Vec<Key> {
        let gets = |one: &Cluster| {
            let plane = one.control_plane.as_ref().and_then(|reference| self.control_planes.get(reference));
            !one.deleting && plane.is_some_and(|one| !one.deleting && one.secrets().any(|(_, secret)| secret == *what))
        };
        let clusters = self.slots.values().filter_map(|slot| slot.cluster.as_deref());
        clusters.filter(|one| gets(one)).map(|one| one.key.clone()).collect()
    }
}

#[derive(Debug)]
pub(super) struct World {
    pub(super) machine: Machine,
    pub(super) now: Duration,
    revision: u64,
    pub(super) clusters: BTreeMap<Key, Cluster>,
    pub(super) infrastructures: BTreeMap<Reference, Infrastructure>,
    pub(super) planes: BTreeMap<Reference, ControlPlane>,
    pub(super) texts: BTreeMap<Companion, Reading>,
    pub(super) claims: BTreeMap<Key, Stored>,
    pub(super) defaults: BTreeMap<Arc<str>, Box<str>>,
    /// Names of claims that exist and are not shown: of another provider's pools.
    pub(super) foreign: BTreeSet<Key>,
    /// `IPAddress` objects that have come from elsewhere, for claims that are not bound yet.
    pub(super) moved: BTreeMap<Key, IpAddr>,
    /// Clusters that have come from elsewhere, and the addresses that are still to come.
    pub(super) arriving: BTreeMap<Key, IpAddr>,
    /// Kinds that may not be listed.
    pub(super) denied: BTreeSet<Kind>,
    /// The addresses of each pool.
    pub(super) pools: BTreeMap<Box<str>, BTreeSet<IpAddr>>,
    /// What the allocator has not seen yet, of each kind in order.
    queues: BTreeMap<Kind, VecDeque<Event>>,
    own: VecDeque<Event>,
    lists: Vec<(Kind, u64)>,
    pub(super) todo: VecDeque<(u64, Write)>,
    reads: VecDeque<(u64, Companion)>,
    /// Writes of an allocator that led before, and was frozen.
    pub(super) ghosts: Vec<Write>,
    /// Clusters of which somebody has edited a part: what stands there is not the allocator's doing alone.
    pub(super) touched: BTreeSet<Key>,
    /// Puts back what was written, as an admission webhook does.
    pub(super) reverts: bool,
    /// Refuses every write, as an admission policy does.
    pub(super) refuses: bool,
    /// Fails at every write but of conditions, and says this: a webhook is down.
    pub(super) fails: Option<String>,
    pub(super) writes: usize,
    /// How often machines could have been made without the address: the Cluster went on once, is not paused, and a place lacks it.
    pub(super) exposed: usize,
    /// Since when this is so, of each Cluster of which it is so.
    pub(super) lacking: BTreeMap<Key, Duration>,
    /// The longest time for which it was so.
    pub(super) longest: Duration,
    /// Another controller puts back a control plane's object as soon as it is written.
    pub(super) fought: Option<ControlPlane>,
    /// Clusters, and the addresses that have stood in all places but the host.
    stood: BTreeSet<(Key, IpAddr)>,
    pub(super) reports: Vec<Report>,
    traces: bool,
}

/// Infrastructure clusters, or control planes.
pub(super) fn parts((group, name): (&str, &str)) -> Kind {
    Kind::Parts(group.into(), name.into())
}

pub(super) fn settings() -> Settings {
    Settings { kinds: [(INFRASTRUCTURE.0.into(), INFRASTRUCTURE.1.into())].into() }
}

impl World {
    pub(super) fn new(addresses: u8) -> Self {
        let ips = |third: u8, count: u8| (1..=count).map(move |last| IpAddr::from([10, 0, third, last])).collect();
        let mut world = Self {
            machine: Machine::new(settings()),
            now: Duration::from_secs(100),
            revision: 0,
            clusters: BTreeMap::new(),
            infrastructures: BTreeMap::new(),
            planes: BTreeMap::new(),
            texts: BTreeMap::new(),
            claims: BTreeMap::new(),
            defaults: BTreeMap::new(),
            foreign: BTreeSet::new(),
            moved: BTreeMap::new(),
            arriving: BTreeMap::new(),
            denied: BTreeSet::new(),
            pools: [("cp".into(), ips(0, addresses)), ("lb".into(), ips(1, 99))].into(),
            queues: BTreeMap::new(),
            own: VecDeque::new(),
            lists: Vec::new(),
            todo: VecDeque::new(),
            reads: VecDeque::new(),
            ghosts: Vec::new(),
            touched: BTreeSet::new(),
            reverts: false,
            refuses: false,
            fails: None,
            writes: 0,
            exposed: 0,
            lacking: BTreeMap::new(),
            longest: Duration::ZERO,
            fought: None,
            stood: BTreeSet::new(),
            reports: Vec::new(),
            traces: std::env::var_os("ENDPOINTS_TRACE").is_some(),
        };
        world.start();
        world
    }

    pub(super) fn trace(&self, what: &str) {
        if self.traces {
            eprintln!("{:?} {what}", self.now);
        }
    }

    /// The allocator is killed, and another one starts and leads.
    pub(super) fn start(&mut self) {
        self.trace("start");
        self.machine = Machine::new(settings());
        self.ghosts.extend(self.todo.drain(..).map(|(_, write)| write));
        (self.queues, self.own) = (BTreeMap::new(), VecDeque::new());
        self.reads.clear();
        self.lists.clear();
        self.own.push_back(Event::Leading(Some(Duration::MAX)));
    }

    fn fresh(&mut self) -> Version {
        self.revision += 1;
        Version::from(&*self.revision.to_string())
    }

    pub(super) fn uid(&mut self) -> Uid {
        self.revision += 1;
        Uid::from(&*format!("uid-{}", self.revision))
    }

    fn push(&mut self, kind: Kind, event: Event) {
        self.queues.entry(kind).or_default().push_back(event);
    }

    // What is stored, by whomever.

    pub(super) fn put_cluster(&mut self, mut cluster: Cluster) {
        cluster.version = self.fresh();
        self.clusters.insert(cluster.key.clone(), cluster.clone());
        self.expose(&cluster.key);
        self.push(Kind::Clusters, Event::Cluster(Box::new(cluster)));
    }

    pub(super) fn put_infrastructure(&mut self, mut one: Infrastructure) {
        one.version = self.fresh();
        self.infrastructures.insert(one.reference.clone(), one.clone());
        self.push(parts(INFRASTRUCTURE), Event::Infrastructure(Box::new(one)));
    }

    pub(super) fn put_plane(&mut self, mut one: ControlPlane) {
        one.version = self.fresh();
        self.planes.insert(one.reference.clone(), one.clone());
        self.expose(&one.reference.key);
        self.push(parts(PLANE), Event::ControlPlane(Box::new(one)));
    }

    /// What machines of this Cluster would be made from has changed.
    fn expose(&mut self, key: &Key) {
        let Some(one) = self.clusters.get(key) else { return };
        let Some(claim) = self.claims.get(key).filter(|claim| claim.is_owned_by(&one.uid)) else { return };
        let Some(ip) = claim.address else { return };
        let carries = carries(self, one, ip);
        let begun = one.initialised || self.stood.iter().any(|(one, _)| one == key);
        if !carries && begun && !one.paused && !one.held {
            self.exposed += 1;
            self.lacking.entry(key.clone()).or_insert(self.now);
        } else if let Some(since) = self.lacking.remove(key) {
            self.longest = self.longest.max(self.now.saturating_sub(since));
        }
        if carries {
            self.stood.insert((key.clone(), ip));
        }
    }

    /// Somebody deletes a Cluster's infrastructure cluster and makes it again: another object of the same name.
    pub(super) fn replace_infrastructure(&mut self, new: Infrastructure) {
        if let Some(one) = self.infrastructures.remove(&new.reference) {
            self.push(parts(INFRASTRUCTURE), Event::Gone(one.reference, one.uid));
        }
        let uid = self.uid();
        self.put_infrastructure(Infrastructure { uid, ..new });
    }

    /// The same with its control plane.
    pub(super) fn replace_plane(&mut self, new: ControlPlane) {
        self.remove_plane(&new.reference.key.name);
        let uid = self.uid();
        self.put_plane(ControlPlane { uid, ..new });
    }

    /// Somebody deletes a Cluster's control plane.
    pub(super) fn remove_plane(&mut self, name: &str) -> ControlPlane {
        let one = self.planes.remove(&reference(PLANE, name)).expect("there is one");
        self.push(parts(PLANE), Event::Gone(one.reference.clone(), one.uid.clone()));
        one
    }

    pub(super) fn put_text(&mut self, what: &Companion, text: &str) {
        let (uid, version) = (Uid::from(&*format!("uid-{what}")), self.fresh());
        self.texts.insert(what.clone(), Reading { uid, version, text: Some(text.into()), other: false });
        self.expose(&super::objects::cluster_of(what.key()));
    }

    pub(super) fn put_claim(&mut self, mut claim: Stored) {
        claim.version = self.fresh();
        if claim.deleting && !claim.in_use {
            self.claims.remove(&claim.key);
            self.law_of_release(&claim);
            return self.push(Kind::Claims, Event::ClaimGone(claim.key, claim.uid));
        }
        self.push(Kind::Claims, Event::Claim(Box::new(self.shown(&claim))));
        self.claims.insert(claim.key.clone(), claim);
    }

    fn shown(&self, claim: &Stored) -> Claim {
        let new = |is_cluster: &dyn Fn(&Key) -> bool| Claim::new(Arc::new(claim.shown()), claim.address, is_cluster);
        new(&|key| self.clusters.contains_key(key)).or_else(|| new(&|_| true)).unwrap()
    }

    /// An address is released when its Cluster is gone, or does not have it: as its endpoint, or where machines get it from.
    fn law_of_release(&self, claim: &Stored) {
        let Some(cluster) = self.clusters.values().find(|one| claim.is_owned_by(&one.uid)) else { return };
        let Some(ip) = claim.address.filter(|_| claim.key.name == cluster.key.name) else { return };
        // Somebody may set the host to the address at the very moment.
        let part = cluster.infrastructure.as_ref().and_then(|reference| self.infrastructures.get(reference));
        let current = part.is_none_or(|one| self.machine.infrastructures.get(&one.reference) == Some(one));
        assert!(!current || self.host(&cluster.key) != Some(ip), "the endpoint of {} goes: {claim:?}", cluster.key);
        let plane = cluster.control_plane.as_ref().and_then(|reference| self.planes.get(reference));
        if let Some(one) = plane.filter(|one| self.machine.shows(one)) {
            assert!(!one.sans.iter().any(|san| **san == *ip.to_string()), "{ip} stands in certSANs: {one:?}");
            let quoted = format!("\"{ip}\"");
            let Place::Files(files) = &one.place else { return };
            let inline = files.iter().filter_map(|file| file.content.as_deref());
            let secrets = one
                .secrets()
                .filter_map(|(_, what)| self.texts.get(&what).filter(|it| self.machine.read_so(&what, it)));
            let all = inline.chain(secrets.filter_map(|reading| reading.text.as_deref()));
            assert!(
                !all.into_iter().any(|text| text.contains(&quoted)),
                "{ip} is released, and machines get it: {one:?}"
            );
        }
        let seen = self.machine.seen(&cluster.key);
        assert!(!seen.is_some_and(|one| one.initialised), "{ip} is released, and machines may have it: {cluster:?}");
    }

    /// Somebody takes the finalizers off a claim by hand.
    pub(super) fn gone(&mut self, claim: &Stored) {
        self.push(Kind::Claims, Event::ClaimGone(claim.key.clone(), claim.uid.clone()));
    }

    /// The Cluster's last finalizer is taken off.
    pub(super) fn remove_cluster(&mut self, key: &Key) {
        let Some(cluster) = self.clusters.remove(key) else { return };
        self.push(Kind::Clusters, Event::ClusterGone(key.clone(), cluster.uid.clone()));
        for reference in cluster.infrastructure.iter().chain(&cluster.control_plane) {
            let uids = [
                self.infrastructures.remove(reference).map(|one| one.uid),
                self.planes.remove(reference).map(|one| one.uid),
            ];
            for uid in uids.into_iter().flatten() {
                let kind = Kind::Parts(reference.group.clone(), reference.kind.clone());
                self.push(kind, Event::Gone(reference.clone(), uid));
            }
        }
        self.touched.remove(key);
        // The garbage collector.
        let owned = self.claims.values().filter(|claim| claim.is_owned_by(&cluster.uid)).cloned();
        for claim in owned.collect::<Vec<_>>() {
            self.put_claim(Stored { deleting: true, ..claim });
        }
    }

    pub(super) fn host(&self, key: &Key) -> Option<IpAddr> {
        let cluster = self.clusters.get(key)?;
        let one = cluster.infrastructure.as_ref().and_then(|reference| self.infrastructures.get(reference));
        one.and_then(|one| one.host.as_ref()).or(cluster.host.as_ref())?.parse().ok()
    }

    // What goes on.

    fn list(&self, kind: &Kind) -> Event {
        match kind {
            Kind::Clusters => Event::Clusters(self.clusters.values().cloned().collect()),
            Kind::Namespaces => Event::Namespaces(self.defaults.clone()),
            Kind::Claims => Event::Claims(self.claims.values().map(|claim| self.shown(claim)).collect()),
            Kind::Parts(group, name) if **name == *INFRASTRUCTURE.1 => {
                Event::Infrastructures(group.clone(), name.clone(), self.infrastructures.values().cloned().collect())
            }
            Kind::Parts(group, name) => {
                let all = self.planes.values().filter(|one| one.reference.kind == *name).cloned().collect();
                Event::ControlPlanes(group.clone(), name.clone(), all)
            }
        }
    }

    fn step(&mut self, event: Event) {
        let moment = Moment { now: self.now, wall: 0 };
        for action in self.machine.step(moment, event) {
            match action {
                Action::Write { id, write } => {
                    self.trace(&format!("{id}: {write:?}"));
                    self.law_of_what_was_seen(&write);
                    self.writes += 1;
                    assert!(self.writes < 20_000, "it writes for ever");
                    self.todo.push_back((id, write));
                }
                Action::Read { id, what } => self.reads.push_back((id, what)),
                Action::List(asked) => {
                    self.queues.clear();
                    let all = settings().all().into_iter().filter(|kind| !self.denied.contains(kind));
                    self.lists = all.map(|kind| (kind, asked)).collect();
                }
                Action::Report(report) => {
                    self.trace(&format!("{report:?}"));
                    self.reports.push(report);
                }
            }
        }
    }

    /// What must hold for a write, as far as the allocator has seen.
    fn law_of_what_was_seen(&self, write: &Write) {
        let of = |key: &Key| self.machine.seen(key);
        let (key, to_places) = match write {
            Write::CreateClaim(new) => {
                let cluster = of(&new.key);
                let paused = |one: &&Cluster| (one.paused || one.held) && !one.notes.paused_for_endpoint;
                let paused = cluster.filter(paused).filter(|_| new.requested.is_some());
                return assert!(paused.is_none(), "a claim for a host under a foreign pause: {new:?}");
            }
            Write::Text(_, what @ Companion::Secret(..), text) => {
                let users = self.machine.users_of(what);
                // Of several, the one whose endpoint it is gets its own back.
                let has = |user: &&Key| {
                    let address = self.claims.get(*user).and_then(|claim| claim.address);
                    let runs = of(user).is_some_and(|one| !one.paused);
                    runs && address.is_some_and(|address| text.contains(&address.to_string()))
                };
                let user = if users.len() < 2 { users.first() } else { users.iter().find(has) };
                assert!(user.is_some() || users.is_empty(), "{what} is written, and {users:?} get it");
                let Some(user) = user else { return };
                return self.law_of_places(write, user, true);
            }
            Write::ControlPlane(target, ..) => (&target.key, true),
            Write::Host(target, ..) | Write::Variables(target, _) | Write::Unpause(target) => (&target.key, false),
            _ => return,
        };
        self.law_of_places(write, &super::objects::cluster_of(key), to_places);
    }

    fn law_of_places(&self, write: &Write, key: &Key, to_places: bool) {
        let Some(cluster) = self.machine.seen(key) else { return };
        if matches!(write, Write::Unpause(_)) && cluster.deleting {
            return assert!(!cluster.held && !cluster.moving, "{write:?} under a foreign pause: {cluster:?}");
        }
        assert!(!cluster.deleting, "{write:?} for a Cluster that is being deleted");
        let for_us = cluster.paused && cluster.notes.paused_for_endpoint;
        assert!(!cluster.held && (!cluster.paused || for_us), "{write:?} under a foreign pause: {cluster:?}");
        if to_places && cluster.initialised && !for_us {
            self.law_of_filling(write, key);
        }
    }

    /// Machines run: what they are made from gets back what it had, and nothing else.
    fn law_of_filling(&self, write: &Write, key: &Key) {
        let is_empty = |text: &Option<Box<str>>| text.as_ref().is_some_and(|text| text.contains(super::objects::EMPTY));
        match write {
            Write::Text(target, what, _) => {
                let now = self.texts.get(what).filter(|one| one.version == target.version);
                assert!(now.is_none_or(|one| is_empty(&one.text)), "{what} has another address: {now:?}");
            }
            Write::ControlPlane(target, reference, new) => {
                let Some(now) = self.planes.get(reference).filter(|one| one.version == target.version) else { return };
                let (Some(all), Place::Files(files)) = (&new.files, &now.place) else {
                    let stood = self.stood.iter().any(|(one, _)| one == key);
                    return assert!(new.sans.is_none() || stood, "{key} never had it: {write:?}");
                };
                for (file, new) in files.iter().zip(all).filter(|(file, new)| file.whole != **new) {
                    assert!(is_empty(&file.content), "another address: {file:?}, {new}");
                }
            }
            _ => {}
        }
    }

    /// One thing that goes on by itself; whether there was any. `at`: chooses among several.
    pub(super) fn go_on(&mut self, at: usize) -> bool {
        if let Some(event) = self.own.pop_front() {
            self.step(event);
            return true;
        }
        if !self.lists.is_empty() {
            let (kind, asked) = self.lists.swap_remove(at % self.lists.len());
            let list = self.list(&kind);
            self.step(list);
            self.queues.remove(&kind);
            self.step(Event::Listed(kind, asked));
            return true;
        }
        let busy: Vec<Kind> =
            self.queues.iter().filter(|(_, all)| !all.is_empty()).map(|(kind, _)| kind.clone()).collect();
        let choices = busy.len() + usize::from(!self.todo.is_empty()) + usize::from(!self.reads.is_empty()) + 1;
        match at % choices {
            which if which < busy.len() => {
                if let Some(event) = self.queues.get_mut(&busy[which]).and_then(VecDeque::pop_front) {
                    self.step(event);
                }
            }
            which if which == busy.len() && !self.todo.is_empty() => self.execute(at / choices),
            which if which + 1 < choices && !self.reads.is_empty() => self.answer_read(),
            _ => return self.allocate() || choices > 1,
        }
        true
    }

    /// The watch of a kind comes before the others.
    pub(super) fn deliver(&mut self, kind: &Kind) {
        while let Some(event) = self.queues.get_mut(kind).and_then(VecDeque::pop_front) {
            self.step(event);
        }
    }

    fn answer_read(&mut self) {
        let Some((id, what)) = self.reads.pop_front() else { return };
        let reading = match &what {
            Companion::Cluster(key) => self.clusters.get(key).map(|one| Reading {
                uid: one.uid.clone(),
                version: one.version.clone(),
                text: None,
                other: false,
            }),
            _ => self.texts.get(&what).cloned(),
        };
        self.step(Event::Read { id, result: Ok(reading) });
    }

    /// The first read that waits is lost, or refused.
    pub(super) fn fail_read(&mut self, error: Failure) {
        if let Some((id, _)) = self.reads.pop_front() {
            self.step(Event::Read { id, result: Err(error) });
        }
    }

    /// The first write that waits reaches the store, or is lost; nothing else goes on.
    pub(super) fn execute_first(&mut self, lost: bool) {
        self.execute(usize::from(lost));
    }

    /// A write reaches the store, or is lost before or after that.
    fn execute(&mut self, fate: usize) {
        let Some((id, write)) = self.todo.pop_front() else { return };
        let result = match fate % 16 {
            1 => Err(Failure::Unknown),
            2 => self.apply(&write).and(Err(Failure::Unknown)),
            3 => Err(Failure::Conflict),
            4 => Err(Failure::Refused("a policy".to_owned())),
            _ if self.fails.is_some() && !matches!(write, Write::Condition(..)) => Err(Failure::Unknown),
            _ if self.refuses => Err(Failure::Refused("a policy".to_owned())),
            _ => self.apply(&write),
        };
        self.trace(&format!("{id}: {result:?}"));
        let said = self.fails.clone().filter(|_| matches!(result, Err(Failure::Unknown)));
        self.step(Event::Answer { id, result, said });
    }

    /// The Clusters on which claims depend, as the allocation protocol knows them.
    fn pauses(&self) -> Clusters {
        let mut clusters = Clusters::default();
        self.clusters.values().for_each(|one| clusters.listed(one.key.clone(), pause(one)));
        clusters.list_ends();
        clusters
    }

    /// The allocation protocol gives one claim its address; whether there was any to be had.
    pub(super) fn allocate(&mut self) -> bool {
        let used: BTreeSet<IpAddr> = self.claims.values().filter_map(|claim| claim.address).collect();
        let pauses = self.pauses();
        let waiting = self.claims.values().filter(|claim| claim.address.is_none() && !claim.deleting);
        let free = waiting.filter(|claim| pauses.hold(&claim.shown()) == Hold::None).cloned();
        for claim in free.collect::<Vec<_>>() {
            if let Some(ip) = self.moved.remove(&claim.key) {
                self.put_claim(Stored { address: Some(ip), refused: false, ..claim });
                return true;
            }
            let pool = self.pools.get(&*claim.pool.name).cloned().unwrap_or_default();
            let wanted = |ip: &&IpAddr| !used.contains(*ip) && claim.requested.is_none_or(|asked| asked == **ip);
            let before = claim.had.and_then(|had| pool.get(&had)).filter(wanted);
            if let Some(ip) = before.or_else(|| pool.iter().find(wanted)) {
                self.put_claim(Stored { address: Some(*ip), refused: false, ..claim });
                return true;
            }
            if !claim.refused {
                self.put_claim(Stored { refused: true, ..claim });
                return true;
            }
        }
        false
    }

    /// Everything that goes on by itself, in order, and then time passes; until nothing is to be waited for within this time.
    pub(super) fn settle(&mut self, within: Duration) {
        let end = self.now + within;
        for _ in 0..200_000 {
            let mut at = 0;
            while at < 8 && !self.go_on(at) {
                at += 1;
            }
            if at < 8 {
                continue;
            }
            match self.machine.next_tick().filter(|tick| *tick <= end) {
                Some(tick) => {
                    self.now = self.now.max(tick);
                    self.step(Event::Tick);
                }
                None => return self.now = end,
            }
        }
        panic!("it does not come to rest");
    }

    pub(super) fn tick(&mut self) {
        self.step(Event::Tick);
    }

    // What the store does with a write.

    fn same(uid: &Uid, version: &Version, target: &crate::machine::Target) -> Result<(), Failure> {
        let same = *uid == target.uid && *version == target.version;
        if same || planted(Flaw::NoPreconditions) { Ok(()) } else { Err(Failure::Conflict) }
    }

    pub(super) fn apply(&mut self, write: &Write) -> Result<crate::machine::Done, Failure> {
        self.store(write)?;
        let version = self.version_of(write).unwrap_or_else(|| Version::from("gone"));
        if let (Write::ControlPlane(..), Some(one)) = (write, self.fought.clone()) {
            self.put_plane(one);
        }
        Ok(crate::machine::Done::There(version))
    }

    /// The version at which a write has left its object: the same as before, if it changed nothing.
    fn version_of(&self, write: &Write) -> Option<Version> {
        Some(match write {
            Write::CreateClaim(new) => self.claims.get(&new.key)?.version.clone(),
            Write::AdoptClaim(target, _)
            | Write::ReleaseClaim(target)
            | Write::DeleteClaim(target)
            | Write::Condition(target, ..) => self.claims.get(&target.key)?.version.clone(),
            Write::Text(_, what, _) => self.texts.get(what)?.version.clone(),
            Write::ControlPlane(_, reference, _) => self.planes.get(reference)?.version.clone(),
            Write::Host(_, reference, ..) => self.infrastructures.get(reference)?.version.clone(),
            Write::Variables(target, _) | Write::Unpause(target) | Write::Unmark(target) => {
                self.clusters.get(&target.key)?.version.clone()
            }
        })
    }

    fn create(&mut self, new: &NewClaim) {
        let uid = self.uid();
        self.put_claim(Stored {
            key: new.key.clone(),
            uid,
            version: Version::from(""),
            label: Some(new.parent.name.clone()),
            owner: Some(ClusterOwner { name: new.parent.name.clone(), uid: new.parent.uid.clone() }),
            given: new.requested.is_some(),
            in_use: !planted(Flaw::NoFinalizer),
            deleting: false,
            pool: new.pool.clone(),
            requested: new.requested,
            had: None,
            address: None,
            refused: false,
            condition: None,
            stood: None,
            of_a_machine: false,
        });
        // The owner may be gone by now: then the garbage collector takes the claim.
        if !self.clusters.values().any(|one| one.uid == new.parent.uid)
            && let Some(claim) = self.claims.get(&new.key).cloned()
        {
            self.put_claim(Stored { deleting: true, ..claim });
        }
    }

    fn store(&mut self, write: &Write) -> Result<(), Failure> {
        match write {
            Write::CreateClaim(new) => {
                if self.claims.contains_key(&new.key) || self.foreign.contains(&new.key) {
                    return Err(Failure::Exists);
                }
                self.create(new);
                Ok(())
            }
            Write::AdoptClaim(target, _)
            | Write::ReleaseClaim(target)
            | Write::DeleteClaim(target)
            | Write::Condition(target, ..) => {
                let mut claim = self.claims.get(&target.key).cloned().ok_or(Failure::NotFound)?;
                Self::same(&claim.uid, &claim.version, target)?;
                match write {
                    Write::AdoptClaim(_, parent) => {
                        claim.label = Some(parent.name.clone());
                        claim.owner = Some(ClusterOwner { name: parent.name.clone(), uid: parent.uid.clone() });
                        claim.in_use = !planted(Flaw::NoFinalizer);
                    }
                    Write::ReleaseClaim(_) => claim.in_use = false,
                    Write::DeleteClaim(_) => {
                        let lives = self.clusters.values().any(|one| claim.is_owned_by(&one.uid));
                        let has = claim.address.is_some();
                        assert!(!lives || !has, "{claim:?} is deleted although its Cluster lives");
                        claim.deleting = true;
                    }
                    Write::Condition(_, condition, stood) => {
                        claim.stood = stood.or(claim.stood);
                        let (reason, message) = (condition.reason.name(), condition.message.as_str());
                        claim.condition = Some((reason.into(), message.into()));
                    }
                    _ => {}
                }
                self.put_claim(claim);
                Ok(())
            }
            Write::Text(target, what, text) => {
                let reading = self.texts.get(what).ok_or(Failure::NotFound)?;
                Self::same(&reading.uid, &reading.version, target)?;
                if !self.reverts {
                    self.put_text(what, text);
                }
                Ok(())
            }
            Write::ControlPlane(target, reference, change) => {
                let mut one = self.planes.get(reference).cloned().ok_or(Failure::NotFound)?;
                Self::same(&one.uid, &one.version, target)?;
                super::objects::change(&mut one, change);
                self.put_plane(one);
                Ok(())
            }
            Write::Host(target, reference, ip, port) => {
                let mut one = self.infrastructures.get(reference).cloned().ok_or(Failure::NotFound)?;
                Self::same(&one.uid, &one.version, target)?;
                assert!(one.host.is_none(), "a host was overwritten: {one:?} by {ip}");
                self.law_of_order(&super::objects::cluster_of(&reference.key), *ip);
                let twice = self.infrastructures.values().any(|other| other.host.as_deref() == Some(&*ip.to_string()));
                assert!(!twice || !self.touched.is_empty(), "two Clusters have {ip}");
                one.host = Some(ip.to_string().into());
                one.port = one.port.or(*port);
                assert!(one.port.is_some(), "{one:?}");
                self.put_infrastructure(one);
                Ok(())
            }
            Write::Variables(target, _) | Write::Unpause(target) | Write::Unmark(target) => {
                let mut cluster = self.clusters.get(&target.key).cloned().ok_or(Failure::NotFound)?;
                Self::same(&cluster.uid, &cluster.version, target)?;
                match write {
                    Write::Variables(_, all) => cluster.variables = Some(all.clone()),
                    Write::Unpause(_) => self.law_of_unpausing(&mut cluster),
                    _ => {}
                }
                if !matches!(write, Write::Variables(..)) {
                    cluster.notes.paused_for_endpoint = false;
                }
                self.put_cluster(cluster);
                Ok(())
            }
        }
    }

    /// The host comes last, and is the address that the Cluster's claim has.
    fn law_of_order(&self, key: &Key, ip: IpAddr) {
        let Some(cluster) = self.clusters.get(key).filter(|_| !self.touched.contains(key)) else { return };
        let claim = self.claims.get(key);
        assert!(claim.is_some_and(|claim| claim.address == Some(ip)), "{key} gets {ip}, and has {claim:?}");
        assert!(cluster.initialised || carries(self, cluster, ip), "the host of {key} before the other places");
    }

    fn law_of_unpausing(&self, cluster: &mut Cluster) {
        assert!(cluster.paused && cluster.notes.paused_for_endpoint, "{} was paused by somebody else", cluster.key);
        if !self.touched.contains(&cluster.key) && !cluster.deleting {
            let ip = self.claims.get(&cluster.key).and_then(|claim| claim.address);
            let everywhere = ip.is_some_and(|ip| carries(self, cluster, ip));
            let has_host = cluster.variables.is_some() || self.host(&cluster.key) == ip;
            assert!(everywhere && has_host, "{} is unpaused too early", cluster.key);
        }
        cluster.paused = false;
    }

    /// Somebody's hand: a claim that a chart makes.
    pub(super) fn chart_claim(&mut self, name: &str) {
        let pool = super::objects::pool("cp");
        let (uid, version) = (self.uid(), Version::from(""));
        let (key, none) = (key(name), None);
        self.put_claim(Stored {
            key,
            uid,
            version,
            label: none,
            owner: None,
            given: false,
            in_use: false,
            deleting: false,
            pool,
            requested: None,
            had: None,
            address: None,
            refused: false,
            condition: None,
            stood: None,
            of_a_machine: false,
        });
    }
}
