//! An API server that keeps versions, an allocator that gives the lowest free address, and a garbage collector.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use mooring_allocator_core::block::{Block, Family};
use mooring_allocator_core::names::{Key, PoolRef, Uid, Version};
use mooring_allocator_core::protocol::{self, Hold};
use mooring_allocator_core::retained_meta::{ForMachine, MachineOwner, RetainedMeta};
use mooring_allocator_core::work::Moment;
use mooring_allocator_core::work::ObjectWrite as _;

use crate::device::Device;
use crate::machine::flaws::{Flaw, planted};
use crate::machine::{Action, Done, Event, Failure, Kind, Machine, Report, Target, Write};
use crate::objects::{Claim, Cluster, Pool, Template, VSphereMachine};
use crate::selector::Selector;
use crate::words;

use super::objects::{cluster, pool};

/// A claim, as a store keeps it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Stored {
    pub(super) key: Key,
    pub(super) uid: Uid,
    pub(super) version: Version,
    pub(super) owner: Option<MachineOwner>,
    pub(super) in_use: bool,
    pub(super) deleting: bool,
    pub(super) pool: Arc<PoolRef>,
    pub(super) address: Option<IpAddr>,
    pub(super) refused: bool,
    /// What it was given before, as a claim says that is restored.
    pub(super) had: Option<IpAddr>,
    pub(super) requested: Option<IpAddr>,
}

impl Stored {
    pub(super) fn is_owned_by(&self, uid: &Uid) -> bool {
        self.owner.as_ref().is_some_and(|owner| owner.uid == *uid)
    }

    fn shown(&self) -> Option<Claim> {
        let finalizers: Vec<Box<str>> = self.in_use.then(|| words::IN_USE.into()).into_iter().collect();
        let marked = self.owner.is_some() || self.in_use;
        let mark = marked.then(|| Box::new(ForMachine { owner: self.owner.clone(), owners: Vec::new() }));
        let refused = protocol::Condition {
            ready: false,
            reason: protocol::Reason::PoolExhausted,
            message: "no free address".to_owned(),
        };
        let claim = protocol::Claim {
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
            had: self.had.map(|ip| Box::new(Block::host(ip))),
            requested: self.requested.map(|ip| ip.to_string().into()),
            hold: Hold::None,
            condition: self.refused.then_some(refused),
            retained: RetainedMeta {
                finalizers: finalizers.into(),
                cluster: Some("prod".into()),
                machine: mark,
                owned: self.owner.is_some(),
                ..RetainedMeta::default()
            },
        };
        Claim::new(Arc::new(claim), self.address.map(|ip| (ip, if ip.is_ipv4() { 24 } else { 64 })))
    }
}

#[derive(Debug)]
pub(super) struct World {
    pub(super) machine: Machine,
    pub(super) now: Duration,
    revision: u64,
    pub(super) clusters: BTreeMap<Key, Cluster>,
    pub(super) templates: BTreeMap<Key, Template>,
    pub(super) machines: BTreeMap<Key, VSphereMachine>,
    pub(super) pools: BTreeMap<Arc<PoolRef>, Pool>,
    pub(super) claims: BTreeMap<Key, Stored>,
    /// Names of claims that exist and are not shown: of another provider's pools.
    pub(super) foreign: BTreeSet<Key>,
    /// The addresses of each pool.
    pub(super) addresses: BTreeMap<Box<str>, BTreeSet<IpAddr>>,
    /// Addresses that virtual machines have: they were written for a machine that is there.
    used: BTreeMap<IpAddr, Uid>,
    /// What claims had that are gone.
    kept: BTreeMap<Key, IpAddr>,
    /// Machines whose devices somebody has edited: what stands there is not the allocator's doing alone.
    pub(super) touched: BTreeSet<Key>,
    /// The garbage collector does nothing.
    pub(super) no_collector: bool,
    /// Puts back what was written, as an admission webhook does.
    pub(super) reverts: bool,
    /// What the allocator has not seen yet, of each kind in order.
    queues: BTreeMap<Kind, VecDeque<Event>>,
    own: VecDeque<Event>,
    lists: Vec<(Kind, u64)>,
    pub(super) todo: VecDeque<(u64, Write)>,
    reads: VecDeque<(u64, Key)>,
    /// Writes of an allocator that led before, and was frozen.
    pub(super) ghosts: Vec<Write>,
    pub(super) writes: usize,
    pub(super) reports: Vec<Report>,
    traces: bool,
}

impl World {
    /// With Cluster `prod`, and this many addresses in the pools `p4` and `p6` of the group `g`.
    pub(super) fn new(addresses: u8) -> Self {
        let v4 = (1..=addresses).map(|last| IpAddr::from([10, 0, 0, last])).collect();
        let v6 = (1..=addresses).map(|last| IpAddr::from([0xfd00, 0, 0, 0, 0, 0, 0, last.into()])).collect();
        let mut world = Self {
            machine: Machine::default(),
            now: Duration::from_secs(100),
            revision: 0,
            clusters: BTreeMap::new(),
            templates: BTreeMap::new(),
            machines: BTreeMap::new(),
            pools: BTreeMap::new(),
            claims: BTreeMap::new(),
            foreign: BTreeSet::new(),
            addresses: [("p4".into(), v4), ("p6".into(), v6)].into(),
            used: BTreeMap::new(),
            kept: BTreeMap::new(),
            touched: BTreeSet::new(),
            no_collector: false,
            reverts: false,
            queues: BTreeMap::new(),
            own: VecDeque::new(),
            lists: Vec::new(),
            todo: VecDeque::new(),
            reads: VecDeque::new(),
            ghosts: Vec::new(),
            writes: 0,
            reports: Vec::new(),
            traces: std::env::var_os("MACHINES_TRACE").is_some(),
        };
        world.put_cluster(cluster("prod"));
        world.put_pool(pool("p4", "g", Family::V4));
        world.put_pool(pool("p6", "g", Family::V6));
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
        self.machine = Machine::default();
        self.ghosts.extend(self.todo.drain(..).map(|(_, write)| write));
        (self.queues, self.own) = (BTreeMap::new(), VecDeque::new());
        self.reads.clear();
        self.lists.clear();
        self.own.push_back(Event::Leading(Some(Duration::MAX)));
    }

    /// The allocator leads, or does not lead any more.
    pub(super) fn leads(&mut self, leads: bool) {
        self.step(Event::Leading(leads.then_some(Duration::MAX)));
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

    pub(super) fn put_cluster(&mut self, one: Cluster) {
        self.clusters.insert(one.key.clone(), one.clone());
        self.push(Kind::Clusters, Event::Cluster(one));
    }

    pub(super) fn put_template(&mut self, one: Template) {
        self.templates.insert(one.key.clone(), one.clone());
        self.push(Kind::Templates, Event::Template(one));
    }

    pub(super) fn put_pool(&mut self, one: Pool) {
        self.pools.insert(one.reference.clone(), one.clone());
        self.push(Kind::Pools, Event::Pool(Box::new(one)));
    }

    pub(super) fn put_machine(&mut self, mut one: VSphereMachine) {
        one.version = self.fresh();
        self.machines.insert(one.key.clone(), one.clone());
        self.push(Kind::Machines, Event::Machine(Box::new(one)));
    }

    pub(super) fn put_claim(&mut self, mut claim: Stored) {
        claim.version = self.fresh();
        if claim.deleting && !claim.in_use {
            self.claims.remove(&claim.key);
            self.law_of_release(&claim);
            // So does the allocation protocol.
            self.kept.extend(claim.had.filter(|_| claim.address.is_none()).map(|had| (claim.key.clone(), had)));
            return self.push(Kind::Claims, Event::ClaimGone(claim.key, claim.uid));
        }
        let event = match claim.shown() {
            Some(shown) => Event::Claim(Box::new(shown)),
            None => Event::ClaimGone(claim.key.clone(), claim.uid.clone()),
        };
        self.push(Kind::Claims, event);
        self.claims.insert(claim.key.clone(), claim);
    }

    /// An address is released when the machine that has it is gone.
    fn law_of_release(&self, claim: &Stored) {
        let Some(ip) = claim.address else { return };
        let lives = |uid: &Uid| self.machines.values().any(|one| one.uid == *uid);
        let user = self.used.get(&ip).filter(|uid| lives(uid));
        assert!(user.is_none(), "{ip} is released, and {user:?} has it: {claim:?}");
        let owner = claim.owner.as_ref().filter(|owner| lives(&owner.uid));
        assert!(owner.is_none(), "{ip} is released, and its machine lives: {claim:?}");
    }

    /// The machine's last finalizer is taken off.
    pub(super) fn remove_machine(&mut self, key: &Key) {
        let Some(one) = self.machines.remove(key) else { return };
        self.trace(&format!("{key} is gone"));
        self.push(Kind::Machines, Event::MachineGone(key.clone(), one.uid.clone()));
        self.touched.remove(key);
        if self.no_collector {
            return;
        }
        let owned = self.claims.values().filter(|claim| claim.is_owned_by(&one.uid)).cloned();
        for claim in owned.collect::<Vec<_>>() {
            self.put_claim(Stored { deleting: true, ..claim });
        }
    }

    // What goes on.

    fn list(&self, kind: Kind) -> Event {
        match kind {
            Kind::Clusters => Event::Clusters(self.clusters.values().cloned().collect()),
            Kind::Machines => Event::Machines(self.machines.values().cloned().collect()),
            Kind::Templates => Event::Templates(self.templates.values().cloned().collect()),
            Kind::Pools => Event::Pools(self.pools.values().cloned().collect()),
            Kind::Claims => Event::Claims(self.claims.values().filter_map(Stored::shown).collect()),
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
                    assert!(self.writes < 5_000, "it writes for ever");
                    self.todo.push_back((id, write));
                }
                Action::Read { id, machine } => self.reads.push_back((id, machine)),
                Action::List(asked) => {
                    self.queues.clear();
                    self.lists = Kind::ALL.map(|kind| (kind, asked)).into();
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
        let paused = self.machine.clusters.values().any(|one| one.paused);
        assert!(!paused, "{write:?} under a pause");
        let of_machine = match write {
            Write::CreateClaim(new) => Key { name: new.parent.name.clone(), ..new.key.clone() },
            Write::Devices(target, ..) => target.key.clone(),
            _ => return,
        };
        let Some(one) = self.machine.seen(&of_machine) else { panic!("{write:?} for a machine that is not seen") };
        assert!(!one.deleting && !one.held, "{write:?} for {one:?}");
        let template = one.template.as_ref().map(|name| Key { name: name.clone(), ..of_machine.clone() });
        let labels = template.and_then(|key| self.machine.templates.get(&key)).map(|template| &template.labels);
        let named = Selector::of(&one.labels).is_some() || labels.is_some_and(|labels| Selector::of(labels).is_some());
        assert!(named, "no label names a pool: {write:?}");
    }

    /// One thing that goes on by itself; whether there was any. `at`: chooses among several.
    pub(super) fn go_on(&mut self, at: usize) -> bool {
        if let Some(event) = self.own.pop_front() {
            self.step(event);
            return true;
        }
        if !self.lists.is_empty() {
            let (kind, asked) = self.lists.swap_remove(at % self.lists.len());
            let list = self.list(kind);
            self.step(list);
            self.queues.remove(&kind);
            self.step(Event::Listed(kind, asked));
            return true;
        }
        let busy: Vec<Kind> = self.queues.iter().filter(|(_, all)| !all.is_empty()).map(|(kind, _)| *kind).collect();
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
    pub(super) fn deliver(&mut self, kind: Kind) {
        while let Some(event) = self.queues.get_mut(&kind).and_then(VecDeque::pop_front) {
            self.step(event);
        }
    }

    fn answer_read(&mut self) {
        let Some((id, key)) = self.reads.pop_front() else { return };
        let result = Ok(self.machines.get(&key).map(|one| one.uid.clone()));
        self.step(Event::Read { id, result });
    }

    /// A write reaches the store, or is lost before or after that.
    fn execute(&mut self, fate: usize) {
        let Some((id, write)) = self.todo.pop_front() else { return };
        let result = match fate % 16 {
            1 => Err(Failure::Unknown),
            2 => self.apply(&write).and(Err(Failure::Unknown)),
            _ => self.apply(&write),
        };
        self.trace(&format!("{id}: {result:?}"));
        self.step(Event::Answer { id, result });
    }

    /// The allocation protocol gives one claim its address; whether there was any to be had.
    fn allocate(&mut self) -> bool {
        if self.clusters.values().any(|one| one.paused) {
            return false;
        }
        let used: BTreeSet<IpAddr> = self.claims.values().filter_map(|claim| claim.address).collect();
        let waiting = self.claims.values().filter(|claim| claim.address.is_none() && !claim.deleting);
        for claim in waiting.cloned().collect::<Vec<_>>() {
            let pool = self.addresses.get(&*claim.pool.name).cloned().unwrap_or_default();
            let wanted = claim.requested.or(claim.had);
            let kept = |ip: &IpAddr| self.kept.iter().any(|(key, had)| had == ip && *key != claim.key);
            let may_have = |ip: &&IpAddr| !used.contains(*ip) && !kept(ip);
            if let Some(ip) =
                pool.iter().filter(may_have).find(|ip| wanted.is_none_or(|wanted| wanted == **ip)).copied()
            {
                self.kept.remove(&claim.key);
                let had = Some(ip);
                self.put_claim(Stored { address: Some(ip), refused: false, had, ..claim });
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

    fn same(uid: &Uid, version: &Version, target: &Target) -> Result<(), Failure> {
        let same = *uid == target.uid && *version == target.version;
        if same || planted(Flaw::NoPreconditions) { Ok(()) } else { Err(Failure::Conflict) }
    }

    pub(super) fn apply(&mut self, write: &Write) -> Result<Done, Failure> {
        let claim_at = |world: &Self, target: &Target| {
            let claim = world.claims.get(&target.key).cloned().ok_or(Failure::NotFound)?;
            Self::same(&claim.uid, &claim.version, target)?;
            Ok::<_, Failure>(claim)
        };
        match write {
            Write::CreateClaim(new) => {
                if self.claims.contains_key(&new.key) || self.foreign.contains(&new.key) {
                    return Err(Failure::Exists);
                }
                let owner = MachineOwner { name: new.parent.name.clone(), uid: new.parent.uid.clone() };
                let uid = self.uid();
                self.put_claim(Stored {
                    key: new.key.clone(),
                    uid,
                    version: Version::from(""),
                    owner: Some(owner),
                    in_use: !planted(Flaw::NoFinalizer),
                    deleting: false,
                    pool: new.pool.clone(),
                    address: None,
                    refused: false,
                    had: None,
                    requested: new.requested,
                });
            }
            Write::AdoptClaim(target, parent) => {
                let claim = claim_at(self, target)?;
                assert!(!claim.deleting, "a finalizer cannot be added any more: {claim:?}");
                let owner = Some(MachineOwner { name: parent.name.clone(), uid: parent.uid.clone() });
                self.put_claim(Stored { owner, in_use: true, ..claim });
            }
            Write::ReleaseClaim(target) => {
                let claim = claim_at(self, target)?;
                self.put_claim(Stored { in_use: false, ..claim });
            }
            Write::DeleteClaim(target) => {
                let claim = claim_at(self, target)?;
                self.put_claim(Stored { deleting: true, ..claim });
            }
            Write::Devices(target, all, _) => {
                let one = self.machines.get(&target.key).cloned().ok_or(Failure::NotFound)?;
                Self::same(&one.uid, &one.version, target)?;
                let devices: Vec<Device> = all.iter().map(Device::read).collect();
                self.law_of_devices(&one, &devices);
                if self.reverts {
                    self.put_machine(one);
                } else {
                    self.put_machine(VSphereMachine { devices, ..one });
                }
            }
        }
        let version = write.target().map_or_else(|| "1".to_owned(), |target| format!("after-{}", target.version.0));
        Ok(Done::There(Version::from(&*version)))
    }

    /// Only devices that want addresses are written; they keep what they have, and get what is the machine's and nobody else's.
    fn law_of_devices(&mut self, before: &VSphereMachine, after: &[Device]) {
        assert_eq!(before.devices.len(), after.len(), "{before:?}");
        for (old, new) in before.devices.iter().zip(after) {
            if !old.wants {
                assert_eq!(old, new, "{} had its addresses", before.key);
                continue;
            }
            let empty = |value: &serde_json::Value| value.as_array().is_some_and(Vec::is_empty);
            for (field, value) in old.whole.as_object().unwrap().iter().filter(|(_, value)| !empty(value)) {
                assert_eq!(new.whole.get(field), Some(value), "{} had {field}", before.key);
            }
            assert!(!new.addresses.is_empty(), "{new:?}");
            for ip in &new.addresses {
                let claim = self.claims.values().find(|claim| claim.address == Some(*ip));
                // Somebody may take the owner off at the very moment.
                let is_its = claim.is_some_and(|claim| claim.owner.is_none() || claim.is_owned_by(&before.uid));
                assert!(is_its, "{} gets {ip}: {claim:?}", before.key);
                self.used.insert(*ip, before.uid.clone());
            }
        }
    }
}
