//! One run: the objects at its start, and the order of events.

use std::sync::Arc;
use std::time::Duration;

use crate::names::{Key, PoolKind, PoolRef, Version};
use crate::pool::{Metal3Entry, Metal3Spec, Network, Plan, PoolSpec, PrefixSpec, SpecError};
use crate::protocol::{Address, Claim, Hold, Links, Pool};
use crate::remote::{Drift, Orphans, RemoteSpec};
use crate::retained_meta::RetainedMeta;

use super::Dice;
use super::store::{Store, named_after};
use super::writer::Writer;

pub(super) struct World {
    pub(super) dice: Dice,
    pub(super) store: Store,
    pub(super) writers: Vec<Writer>,
    pub(super) now: Duration,
    pub(super) pools: Vec<Arc<PoolRef>>,
    /// People change what the entries of the outside system say.
    pub(super) changed: bool,
    pub(super) trace: Vec<String>,
}

fn plan(addresses: &str, network: Network, quarantine_seconds: i64) -> Plan {
    let prefix = if addresses.contains(':') { 120 } else { 24 };
    let mut spec = PoolSpec { addresses: vec![addresses.into()], prefix, ..PoolSpec::default() };
    spec.policy.network = network;
    spec.policy.quarantine_seconds = quarantine_seconds;
    spec.policy.conflict_quarantine_seconds = Some(4);
    spec.plan().unwrap()
}

/// Two entries with prefixes of their own, in the order of their addresses.
fn entries(of: [(u8, u8, i64); 2], quarantine_seconds: i64) -> Plan {
    let entry = |(first, last, prefix)| Metal3Entry {
        start: Some(format!("10.0.0.{first}")),
        end: Some(format!("10.0.0.{last}")),
        prefix,
        ..Metal3Entry::default()
    };
    let mut spec = Metal3Spec { pools: of.map(entry).into(), ..Metal3Spec::default() };
    spec.policy.quarantine_seconds = quarantine_seconds;
    spec.policy.conflict_quarantine_seconds = Some(4);
    spec.plan().unwrap()
}

fn prefixes(of: &str, length: i64, quarantine_seconds: i64) -> Plan {
    let mut spec = PrefixSpec { prefixes: vec![of.into()], allocation_prefix_length: length, ..PrefixSpec::default() };
    spec.policy.quarantine_seconds = quarantine_seconds;
    spec.policy.conflict_quarantine_seconds = Some(4);
    spec.plan().unwrap()
}

/// The pool of an outside system.
pub(super) const OUTSIDE: usize = 7;

/// From this seed on, the world has that pool too.
pub(super) const OUTSIDE_FROM: u64 = 1 << 32;

/// From this seed on, people also change what its entries say.
pub(super) const CHANGED_FROM: u64 = 2 << 32;

/// What the pool of an outside system says about its use.
fn use_of(pool: usize) -> Option<RemoteSpec> {
    let (orphans, drift) = (Orphans::Release, Drift::PutBack);
    (pool == OUTSIDE).then(|| RemoteSpec { calls: 2, orphans, drift, warning: String::new() })
}

/// A pool's plan before and after an edit; the last edit is invalid.
pub(super) fn plan_of(pool: usize, edit: u64) -> Result<Plan, Vec<SpecError>> {
    let apart = || Network::Named("apart".into());
    Ok(match (pool, edit) {
        (_, 3) => return Err(vec![SpecError::Empty { field: "addresses" }]),
        (0, 0) => plan("10.0.0.1-10.0.0.4", Network::Common, 0),
        (0, _) => plan("10.0.0.2-10.0.0.3", Network::Common, 0),
        (1, 0) => entries([(3, 5, 24), (6, 7, 25)], 5),
        (1, _) => entries([(4, 5, 24), (6, 6, 25)], 3),
        (2, 0) => plan("10.0.0.1-10.0.0.3", apart(), 0),
        (2, _) => plan("10.0.0.1-10.0.0.2", apart(), 1),
        (3, 0) => plan("fd00::1-fd00::6", Network::Common, 0),
        (3, _) => plan("fd00::3-fd00::9", Network::Common, 0),
        (OUTSIDE, _) => Plan::of_outside(Network::Common, None),
        // Two tenants with one range.
        (5 | 6, _) => plan("10.0.0.6-10.0.0.7", Network::Namespace(format!("t{}", pool - 4)), 0),
        (_, 0) => prefixes("fd00::/124", 126, 0),
        _ => prefixes("fd00::/125", 126, 2),
    })
}

impl World {
    pub(super) fn new(seed: u64) -> Self {
        let store = Store { wall: 1_000_000, ..Store::default() };
        let kinds = [
            PoolKind::InClusterIPPool,
            PoolKind::Metal3IPPool,
            PoolKind::InClusterIPPool,
            PoolKind::GlobalInClusterIPPool,
            PoolKind::InClusterPrefixPool,
            PoolKind::InClusterIPPool,
            PoolKind::InClusterIPPool,
            PoolKind::PHPIPAMIPPool,
        ];
        let namespace = |i| match i {
            5 => "t1",
            6 => "t2",
            _ => "ns",
        };
        let references = kinds.iter().zip(0..).map(|(&kind, i)| PoolRef::new(kind, namespace(i), &format!("p{i}")));
        let outside = seed >= OUTSIDE_FROM;
        let pools = references.map(Arc::new).take(if outside { OUTSIDE + 1 } else { OUTSIDE }).collect();
        let mut dice = Dice(seed.wrapping_mul(1 << 20));
        let writers = (0..=dice.roll(3)).map(|i| Writer::new(seed * 10 + i)).collect();
        let changed = seed >= CHANGED_FROM;
        let mut world = Self { dice, store, writers, now: Duration::ZERO, pools, changed, trace: Vec::new() };
        world.store.backend.alone = world.writers.len() == 1;
        for pool in 0..world.pools.len() {
            world.make_pool(pool);
        }
        if world.dice.one_in(3) {
            world.take_over();
        }
        world
    }

    pub(super) fn make_pool(&mut self, pool: usize) {
        let (uid, version) = (self.store.uid(), Version("".into()));
        self.store.put_pool(Pool {
            reference: self.pools[pool].clone(),
            uid,
            version,
            generation: 1,
            plan: plan_of(pool, 0),
            remote: use_of(pool),
            paused: None,
            deleting: false,
            finalizer: false,
            status: None,
        });
    }

    /// Adds what another provider leaves behind: claims bound to objects without our annotation. Some addresses are used
    /// twice, because the provider's pools overlap.
    fn take_over(&mut self) {
        for i in 0..self.dice.roll(5) {
            let pool = self.dice.pick(2);
            let name = format!("c{i}");
            let of_metal3 = pool == 1 && self.dice.one_in(2);
            let key = if of_metal3 { Key::of_metal3("ns", &name) } else { Key::new("ns", &name) };
            let at = if pool == 0 { 1 + i } else { 3 + i };
            let ip = format!("10.0.0.{at}").parse().unwrap();
            let object = of_metal3.then(|| named_after(ip));
            let uid = self.store.uid();
            let address = self.store.uid();
            let bound = self.dice.roll(4) > 0;
            self.store.put_claim(Claim {
                key: key.clone(),
                uid: uid.clone(),
                version: Version("".into()),
                created: self.store.wall,
                pool: self.pools[pool].clone(),
                deleting: false,
                finalizer: true,
                others: self.dice.one_in(2),
                bound: bound.then(|| object.clone().unwrap_or_else(|| key.name.clone())),
                voided: 0,
                had: None,
                requested: None,
                hold: Hold::None,
                condition: None,
                retained: RetainedMeta::default(),
            });
            self.store.old_duplicates.insert(address.clone());
            self.store.put_address(Address {
                key: key.clone(),
                object,
                uid: address,
                version: Version("".into()),
                pool: self.pools[pool].clone(),
                address: Some(ip),
                prefix: 24,
                claim: key.name.clone(),
                owner: Some(uid),
                deleting: false,
                finalizer: true,
                attempt: None,
                rest: None,
                conflict: None,
                holder: None,
                hints: None,
                links: Links::default(),
            });
        }
    }

    pub(super) fn elapse(&mut self, millis: u64) {
        let before = self.now.as_secs();
        self.now += Duration::from_millis(millis);
        self.store.wall += self.now.as_secs() - before;
    }

    /// Does one random thing.
    fn happen(&mut self, quiesce: bool) -> Result<(), String> {
        let millis = match self.dice.roll(20) {
            0 => 1500,
            1..4 => 100,
            _ => 2,
        };
        self.elapse(millis);
        if !quiesce {
            if self.dice.one_in(9) {
                self.claimants();
            }
            if self.dice.one_in(80) {
                self.pool_owners();
            }
            if self.dice.one_in(60) {
                self.meddlers();
            }
            if self.pools.len() > OUTSIDE && self.dice.one_in(70) {
                self.administrators();
            }
            if self.changed && self.dice.one_in(60) {
                self.editors();
            }
            if self.dice.one_in(1500) {
                self.move_all();
            }
        }
        let i = self.dice.pick(self.writers.len());
        self.writers[i].happen(&mut self.dice, &mut self.store, self.now, quiesce, &mut self.trace)
    }

    pub(super) fn run(&mut self) -> Result<(), String> {
        for _ in 0..900 {
            self.happen(false)?;
        }
        // From now on there are no more actions of people, and no faults.
        self.make_good();
        for writer in &mut self.writers {
            writer.recover();
        }
        let before = self.store.revision;
        let mut quiet = 0;
        for _ in 0..30_000 {
            self.happen(true)?;
            quiet = if self.writers.iter().all(|w| w.is_quiet(&self.store)) { quiet + 1 } else { 0 };
            if quiet > 60 {
                if self.final_check().is_ok() {
                    break;
                }
                if self.pools.len() > OUTSIDE {
                    // What is looked for regularly is found in time.
                    self.elapse(5000);
                }
            }
        }
        if self.store.revision > before + 3000 {
            return Err(format!("{} changes after all had come to rest", self.store.revision - before));
        }
        self.final_check()?;
        self.stays_quiet()
    }

    /// What cannot be done is not tried again and again, whatever the API server answers: a budget of calls.
    fn stays_quiet(&mut self) -> Result<(), String> {
        let asked = |world: &Self| world.writers.iter().map(Writer::asked).sum::<usize>();
        let (before, minutes) = (asked(self), 5);
        for _ in 0..minutes * 60 {
            self.elapse(1000);
            for i in 0..self.writers.len() {
                self.writers[i].let_pass(&mut self.dice, &mut self.store, self.now, &mut self.trace)?;
            }
        }
        let (calls, claims) = (asked(self) - before, self.store.claims.len());
        let budget = (claims + 2) * self.writers.len() * minutes * 4;
        if calls > budget { Err(format!("{calls} calls in {minutes} minutes for {claims} claims")) } else { Ok(()) }
    }
}
