//! What the core alone costs: claims through their lives against a store that does at once what it is asked, at a few
//! numbers of addresses in use; and the memory that so many bound claims keep.
//!
//! `cargo run --release --example claims -- [BOUND]` (default 50,000)

use std::error::Error;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use mooring_allocator_core::in_cluster::InCluster;
use mooring_allocator_core::names::{Key, PoolKind, PoolRef, Uid, Version};
use mooring_allocator_core::pool::PoolSpec;
use mooring_allocator_core::protocol::{
    Action, Address, Attempt, Claim, Condition, Done, Event, Hold, Links, Machine, Moment, Object, Pool, Reason, Write,
};
use mooring_allocator_core::retained_meta::RetainedMeta;

/// What the store knows of a claim and its object: little, so that the memory measured is the machine's.
#[derive(Clone, Copy, Default)]
struct Record {
    uid: u64,
    version: u64,
    deleting: bool,
    finalizer: bool,
    bound: bool,
    object: Stored,
}

#[derive(Clone, Copy, Default)]
struct Stored {
    uid: u64,
    version: u64,
    address: u32,
    deleting: bool,
    finalizer: bool,
}

/// The store, and the machine that works on it.
struct World {
    machine: Machine<InCluster>,
    records: Vec<Record>,
    revision: u64,
    now: Duration,
    inside: Duration,
    writes: u64,
}

fn uid(number: u64) -> Uid {
    Uid(format!("0f7c1d52-9a5e-4b7e-8a53-{number:012x}").into())
}

fn version(number: u64) -> Version {
    Version(format!("{number:09}").into())
}

fn key(at: usize) -> Key {
    Key::new("default", &format!("machine-deployment-{at:06}"))
}

fn number(key: &Key) -> usize {
    key.name.rsplit('-').next().and_then(|n| n.parse().ok()).unwrap_or(0)
}

impl Record {
    /// Texts of its own, as those of an object that was just decoded.
    fn claim(&self, at: usize) -> Claim {
        let message = Ipv4Addr::from_bits(self.object.address).to_string();
        let condition = Condition { ready: true, reason: Reason::AddressAllocated, message };
        Claim {
            key: key(at),
            uid: uid(self.uid),
            version: version(self.version),
            created: 0,
            pool: pool(),
            deleting: self.deleting,
            finalizer: self.finalizer,
            others: false,
            bound: self.bound.then(|| key(at).name),
            voided: 0,
            had: None,
            requested: None,
            hold: Hold::None,
            condition: self.bound.then_some(condition),
            retained: RetainedMeta::default(),
        }
    }

    fn address(&self, at: usize) -> Address {
        Address {
            object: None,
            key: key(at),
            uid: uid(self.object.uid),
            version: version(self.object.version),
            pool: pool(),
            address: Some(IpAddr::V4(Ipv4Addr::from_bits(self.object.address))),
            prefix: 8,
            claim: key(at).name,
            owner: Some(uid(self.uid)),
            deleting: self.object.deleting,
            finalizer: self.object.finalizer,
            attempt: Some(Attempt { claim: uid(self.uid), number: 0, adopted: false }),
            rest: None,
            conflict: None,
            holder: None,
            hints: None,
            links: Links::default(),
        }
    }
}

impl World {
    fn new() -> Result<Self, Box<dyn Error>> {
        let mut world = Self {
            machine: Machine::new(InCluster::default(), 1),
            records: Vec::new(),
            revision: 0,
            now: Duration::ZERO,
            inside: Duration::ZERO,
            writes: 0,
        };
        world.step(Event::Leading(Some(Duration::MAX)));
        world.step(Event::Claims(Vec::new()));
        world.step(Event::Addresses(Vec::new(), None));
        let spec = PoolSpec { addresses: vec!["10.0.0.0/8".into()], prefix: 8, ..PoolSpec::default() };
        let plan = spec.plan().map_err(|errors| format!("{errors:?}"))?;
        world.step(Event::Pools(vec![Pool {
            reference: pool(),
            uid: "pool".into(),
            version: "1".into(),
            generation: 1,
            plan: Ok(plan),
            remote: None,
            paused: None,
            deleting: false,
            finalizer: true,
            status: None,
        }]));
        Ok(world)
    }

    fn step(&mut self, event: Event) {
        let mut todo = vec![event];
        while let Some(event) = todo.pop() {
            self.now += Duration::from_micros(10);
            let begin = Instant::now();
            let actions = self.machine.step(Moment { now: self.now, wall: self.now.as_secs() }, event);
            self.inside += begin.elapsed();
            for action in actions {
                if let Action::Write { id, write } = action {
                    self.writes += 1;
                    self.write(id, &write, &mut todo);
                }
            }
        }
    }

    /// Does a write. What the watch shows comes first, then the answer.
    fn write(&mut self, id: u64, write: &Write, todo: &mut Vec<Event>) {
        self.revision += 1;
        let revision = self.revision;
        let mut answer = |done| todo.push(Event::Answer { id, result: Ok(done) });
        match write {
            Write::AddFinalizer(t, _) | Write::RemoveFinalizer(t) | Write::Bind(t, ..) => {
                let at = number(&t.key);
                let record = &mut self.records[at];
                record.version = revision;
                match write {
                    Write::AddFinalizer(..) => record.finalizer = true,
                    Write::Bind(..) => record.bound = true,
                    _ => record.finalizer = false,
                }
                if record.deleting && !record.finalizer {
                    answer(Done::Gone);
                    todo.push(Event::ClaimGone(key(at), uid(record.uid)));
                    *record = Record::default();
                } else {
                    answer(Done::There(Object::Claim(record.claim(at))));
                    todo.push(Event::Claim(record.claim(at)));
                }
            }
            Write::Create(new) => {
                let at = number(&new.key);
                let IpAddr::V4(address) = new.address else { return };
                let address = address.to_bits();
                self.records[at].object =
                    Stored { uid: revision, version: revision, address, deleting: false, finalizer: true };
                answer(Done::There(Object::Address(self.records[at].address(at))));
                todo.push(Event::Address(self.records[at].address(at)));
            }
            Write::RemoveAddressFinalizer(t) | Write::DeleteAddress(t) => {
                let at = number(&t.key);
                let record = &mut self.records[at];
                record.object.version = revision;
                match write {
                    Write::DeleteAddress(_) => record.object.deleting = true,
                    _ => record.object.finalizer = false,
                }
                if record.object.deleting && !record.object.finalizer {
                    answer(Done::Gone);
                    todo.push(Event::AddressGone(uid(record.object.uid)));
                } else {
                    answer(Done::There(Object::Address(record.address(at))));
                    todo.push(Event::Address(record.address(at)));
                }
            }
            _ => answer(Done::There(Object::NotShown)),
        }
    }

    fn claim(&mut self, at: usize) {
        self.revision += 1;
        if self.records.len() <= at {
            self.records.resize(at + 1, Record::default());
        }
        self.records[at] = Record { uid: self.revision, version: self.revision, ..Record::default() };
        self.step(Event::Claim(self.records[at].claim(at)));
    }

    fn delete(&mut self, at: usize) {
        self.revision += 1;
        self.records[at].deleting = true;
        self.records[at].version = self.revision;
        self.step(Event::Claim(self.records[at].claim(at)));
    }
}

fn pool() -> Arc<PoolRef> {
    Arc::new(PoolRef::new(PoolKind::InClusterIPPool, "default", "pool"))
}

/// The resident set, in MB.
fn resident() -> Result<f64, Box<dyn Error>> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|l| l.strip_prefix("VmRSS:")).ok_or("no VmRSS")?;
    let kilobytes: f64 = line.trim().trim_end_matches(" kB").trim().parse()?;
    Ok(kilobytes / 1024.0)
}

fn main() -> Result<(), Box<dyn Error>> {
    let bound: usize = std::env::args().nth(1).map_or(Ok(50_000), |n| n.parse())?;
    let before = resident()?;
    let mut world = World::new()?;
    let mut at = 0;
    for used in [1_000, bound] {
        while at < used {
            world.claim(at);
            at += 1;
        }
        let (inside, writes) = (world.inside, world.writes);
        let lives: u32 = 10_000;
        for life in 0..lives as usize {
            world.claim(at + life % 7);
            world.delete(at + life % 7);
        }
        let spent = world.inside.saturating_sub(inside);
        println!(
            "{used} bound: {:.1} us a life ({:.0} lives/s), {:.2} writes a life",
            spent.as_secs_f64() * 1e6 / f64::from(lives),
            f64::from(lives) / spent.as_secs_f64(),
            f64::from(u32::try_from(world.writes - writes)?) / f64::from(lives)
        );
    }
    let counts = world.machine.provider().book().find(&pool()).map(|id| world.machine.provider().book().counts(id));
    println!("{counts:?}");
    println!("memory of the machine with {bound} bound claims: {:.1} MB resident", resident()? - before);
    Ok(())
}
