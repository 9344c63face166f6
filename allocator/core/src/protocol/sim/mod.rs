//! The protocol against a store: several writers at once, whose watches lag, break and show old events again, whose writes
//! are lost before or after their effect or land late, who crash, freeze and thaw; and people who make and delete claims.

mod flaws;
mod store;
mod writer;

use std::sync::Arc;
use std::time::Duration;

use crate::names::{Key, PoolKind, PoolRef, Version};
use crate::pool::{Network, Plan, PoolSpec};
use crate::protocol::{Claim, Hold, Pool, Reason};

use self::store::Store;
use self::writer::Writer;

/// splitmix64, as everywhere.
pub(super) struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_add(1);
        crate::book::mix(self.0) % sides
    }

    fn one_in(&mut self, sides: u64) -> bool {
        self.roll(sides) == 0
    }
}

struct World {
    dice: Dice,
    store: Store,
    writers: Vec<Writer>,
    now: Duration,
    pools: Vec<Arc<PoolRef>>,
    trace: Vec<String>,
}

fn plan(addresses: &str, network: Network, quarantine_seconds: i64) -> Plan {
    let mut spec = PoolSpec { addresses: vec![addresses.into()], prefix: 24, ..PoolSpec::default() };
    spec.policy.network = network;
    spec.policy.quarantine_seconds = quarantine_seconds;
    spec.plan().unwrap()
}

fn plan_of(pool: usize, edit: u64) -> Plan {
    let apart = Network::Named("apart".into());
    match (pool, edit) {
        (0, 0) => plan("10.0.0.1-10.0.0.4", Network::Common, 0),
        (0, _) => plan("10.0.0.2-10.0.0.3", Network::Common, 0),
        (1, 0) => plan("10.0.0.3-10.0.0.7", Network::Common, 5),
        (1, _) => plan("10.0.0.4-10.0.0.6", Network::Common, 3),
        (_, 0) => plan("10.0.0.1-10.0.0.3", apart, 0),
        _ => plan("10.0.0.1-10.0.0.2", apart, 1),
    }
}

impl World {
    fn new(seed: u64) -> Self {
        let mut store = Store { wall: 1_000_000, ..Store::default() };
        let pools: Vec<_> =
            ["p0", "p1", "p2"].map(|n| Arc::new(PoolRef::new(PoolKind::InClusterIPPool, "ns", n))).into();
        for (i, reference) in pools.iter().enumerate() {
            let (uid, version) = (store.uid(), Version("".into()));
            store.put_pool(Pool {
                reference: reference.clone(),
                uid,
                version,
                generation: 1,
                plan: Ok(plan_of(i, 0)),
                paused: false,
                deleting: false,
                finalizer: false,
                status: None,
            });
        }
        let mut dice = Dice(seed.wrapping_mul(1 << 20));
        let writers = (0..2 + dice.roll(2)).map(|i| Writer::new(seed * 10 + i)).collect();
        Self { dice, store, writers, now: Duration::ZERO, pools, trace: Vec::new() }
    }

    fn elapse(&mut self, millis: u64) {
        let before = self.now.as_secs();
        self.now += Duration::from_millis(millis);
        self.store.wall += self.now.as_secs() - before;
    }

    /// People do something.
    fn people(&mut self) {
        let name = format!("c{}", self.dice.roll(7));
        let key = Key::new("ns", &name);
        let Some(claim) = self.store.claims.get(&key).cloned() else {
            let pool = self.pools[usize::try_from(self.dice.roll(3)).unwrap()].clone();
            let requested = self.dice.one_in(6).then(|| format!("10.0.0.{}", 1 + self.dice.roll(8)).into());
            let claim = Claim {
                key,
                uid: self.store.uid(),
                version: Version("".into()),
                created: self.store.wall,
                pool,
                deleting: false,
                finalizer: false,
                others: self.dice.one_in(3),
                bound: None,
                voided: 0,
                requested,
                hold: Hold::None,
                condition: None,
            };
            self.trace.push(format!("create {}", claim.key));
            self.store.put_claim(claim);
            return;
        };
        let change = match self.dice.roll(6) {
            0 | 1 if !claim.deleting => Claim { deleting: true, ..claim },
            2 | 3 if claim.deleting && claim.others => Claim { others: false, ..claim },
            4 if claim.hold == Hold::None => Claim { hold: Hold::Paused, ..claim },
            5 if claim.hold != Hold::None => Claim { hold: Hold::None, ..claim },
            _ => return,
        };
        self.trace.push(format!("change {}: deleting {} hold {:?}", change.key, change.deleting, change.hold));
        self.store.put_claim(change);
    }

    fn edit_pool(&mut self) {
        let i = usize::try_from(self.dice.roll(3)).unwrap();
        let Some(mut pool) = self.store.pools.get(&*self.pools[i]).cloned() else { return };
        pool.plan = Ok(plan_of(i, self.dice.roll(2)));
        pool.paused = self.dice.one_in(8);
        pool.generation += 1;
        self.store.put_pool(pool);
    }

    /// One thing happens somewhere.
    fn happen(&mut self, calm: bool) -> Result<(), String> {
        let millis = match self.dice.roll(20) {
            0 => 1500,
            1..4 => 100,
            _ => 2,
        };
        self.elapse(millis);
        if !calm {
            if self.dice.one_in(9) {
                self.people();
            }
            if self.dice.one_in(150) {
                self.edit_pool();
            }
        }
        let i = usize::try_from(self.dice.roll(self.writers.len() as u64)).unwrap();
        self.writers[i].happen(&mut self.dice, &mut self.store, self.now, calm, &mut self.trace)?;
        Ok(())
    }

    /// Nothing was leaked, and everybody has an address or knows why not.
    fn final_check(&self) -> Result<(), String> {
        for claim in self.store.claims.values() {
            if claim.deleting && !claim.others {
                return Err(format!("{} is not released", claim.key));
            }
            if !claim.deleting && claim.bound.is_none() {
                let Some(condition) = &claim.condition else { return Err(format!("{} has no condition", claim.key)) };
                if condition.ready {
                    return Err(format!("{} is ready without an address", claim.key));
                }
                let plan = self.store.pools[&*claim.pool].plan.as_ref().unwrap();
                let free = plan.usable.iter().flat_map(|(f, l)| f..=l).any(|unit| {
                    let mine = (plan.network.clone(), plan.block(unit));
                    !self.store.addresses.values().any(|a| self.store.block(a).as_ref() == Some(&mine))
                });
                if free && condition.reason == Reason::PoolExhausted {
                    return Err(format!("{} waits for what is free", claim.key));
                }
                if claim.requested.is_none() && condition.reason != Reason::PoolExhausted {
                    return Err(format!("{}: {}", claim.key, condition.message));
                }
            }
        }
        for address in self.store.addresses.values() {
            let resting = address.rest.as_ref().is_some_and(|r| r.until + 1 >= self.store.wall);
            // A machine that is not gone yet keeps what its claim has.
            let owned = self.store.claims.values().any(|c| {
                let kept = c.deleting && c.others && address.owner.as_ref() == Some(&c.uid);
                kept || self.store.own(c).is_some_and(|a| a.uid == address.uid)
            });
            if !resting && !owned {
                return Err(format!("{} is leaked: {address:?}", address.key));
            }
        }
        Ok(())
    }
}

/// One run; what went wrong in it.
fn run(seed: u64) -> Result<(), String> {
    let mut world = World::new(seed);
    let result = go(&mut world);
    if result.is_err() && std::env::var_os("SIM_TRACE").is_some() {
        for line in &world.trace {
            eprintln!("{line}");
        }
    }
    result.map_err(|why| format!("seed {seed}: {why}"))
}

fn go(world: &mut World) -> Result<(), String> {
    for _ in 0..700 {
        world.happen(false)?;
    }
    // People come to an end, and so do faults.
    let pools: Vec<_> = world.store.pools.values().cloned().collect();
    for mut pool in pools.into_iter().filter(|p| p.paused) {
        pool.paused = false;
        pool.generation += 1;
        world.store.put_pool(pool);
    }
    let claims: Vec<_> = world.store.claims.values().cloned().collect();
    for claim in claims.into_iter().filter(|c| c.hold != Hold::None) {
        world.store.put_claim(Claim { hold: Hold::None, ..claim });
    }
    for writer in &mut world.writers {
        writer.recover();
    }
    let mut quiet = 0;
    for _ in 0..30_000 {
        world.happen(true)?;
        quiet = if world.writers.iter().all(|w| w.is_quiet(&world.store)) { quiet + 1 } else { 0 };
        if quiet > 60 && world.final_check().is_ok() {
            break;
        }
    }
    world.final_check()
}

#[test]
fn whatever_happens() {
    let seeds = std::env::var("SIM_SEEDS").ok().and_then(|s| s.parse().ok()).unwrap_or(300);
    let first = std::env::var("SIM_FIRST").ok().and_then(|s| s.parse().ok()).unwrap_or(0);
    let wrong: Vec<String> = (first..first + seeds).filter_map(|seed| run(seed).err()).take(5).collect();
    assert_eq!(wrong, Vec::<String>::new());
}
