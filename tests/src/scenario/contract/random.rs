//! Everything that people and programs do to claims and pools, in random order, compared with a model of the expected
//! result.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context as _, Result, ensure};
use mooring_api::annotations::PAUSED;
use mooring_api::finalizers::RELEASE_ADDRESS;
use serde_json::{Value, json};

use super::super::story;
use crate::ipam::allocators::Allocator;
use crate::ipam::audit::{ready, twice};
use crate::ipam::scope::{ADDRESS, CLAIM, POOL, Scope};
use crate::ipam::server::Crds;
use crate::ipam::world::{Change, State};
use crate::rig::allocator::AllocatorRig;
use crate::runner::{Ctx, Test};
use crate::scenario::dice::Dice;

/// Steps of an order, in every round and in the nightly one.
const STEPS: [usize; 2] = [250, 1_500];
/// Somebody else's finalizer.
const THEIRS: &str = "example.com/machine";
const POOLS: [&str; 3] = ["p-0", "p-1", "p-2"];

/// Before the first seed of the nightly round's orders.
static BEFORE: AtomicU64 = AtomicU64::new(0);

pub fn all() -> Vec<Test<()>> {
    vec![
        story!("random", short, "operations-beside-a-model", 10),
        story!("random", first, "long-operations-beside-a-model-1", 40).nightly(),
        story!("random", second, "long-operations-beside-a-model-2", 40).nightly(),
        story!("random", third, "long-operations-beside-a-model-3", 40).nightly(),
    ]
}

/// The nightly round's orders have the seeds after this one.
pub fn begin_after(seed: u64) {
    BEFORE.store(seed, Ordering::Relaxed);
}

async fn short(ctx: &mut Ctx<()>) -> Result<()> {
    run(ctx, 1, STEPS[0]).await
}

async fn first(ctx: &mut Ctx<()>) -> Result<()> {
    long(ctx, 1).await
}

async fn second(ctx: &mut Ctx<()>) -> Result<()> {
    long(ctx, 2).await
}

async fn third(ctx: &mut Ctx<()>) -> Result<()> {
    long(ctx, 3).await
}

async fn long(ctx: &Ctx<()>, number: u64) -> Result<()> {
    let before = BEFORE.load(Ordering::Relaxed);
    let again = || format!("cargo lab nightly {} --from {before}", ctx.name);
    run(ctx, before + number, STEPS[1]).await.with_context(again)
}

/// What the model knows of a claim.
#[derive(Clone, Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "they are independent facts, not one state")]
struct Known {
    pool: String,
    paused: bool,
    held: bool,
    deleting: bool,
    /// The address may be released: at some moment since the delete, none of the claim's own conditions kept it. A
    /// condition that is set later comes too late, or comes between the release of the address and of the claim's
    /// finalizer. The allocator reads a pool's pause and the claim's delete from different watches, in either order.
    going: bool,
    /// The address that the claim was seen with: it never changes.
    has: Option<String>,
}

/// The model of a pool: the last parts of its addresses; each pool has a hundred numbers of its own.
#[derive(Clone, Debug, Default)]
struct Room {
    last: u8,
    paused: bool,
}

struct Model<'a> {
    scope: Scope<'a>,
    claims: BTreeMap<String, Known>,
    pools: BTreeMap<String, Room>,
    made: usize,
}

async fn run(ctx: &Ctx<()>, seed: u64, steps: usize) -> Result<()> {
    let rig = AllocatorRig::up(Crds::ClusterApi).await?;
    let allocator = rig.start("allocator").await?;
    let scope = rig.scope().await?;
    let mut model = Model { scope, claims: BTreeMap::new(), pools: BTreeMap::new(), made: 0 };
    let mut dice = Dice(seed);
    for step in 0..steps {
        let said = model.step(&mut dice, &allocator).await.with_context(|| format!("step {step}"))?;
        ctx.note(&format!("{step}: {said}"));
        model.awake();
        model.safe()?;
        if dice.roll(5) == 0 || step + 1 == steps {
            model.settled().await.with_context(|| format!("after step {step}, {said}"))?;
        }
    }
    // All holds and pauses are removed: nothing is left over.
    for (name, room) in &mut model.pools {
        room.paused = false;
        model.scope.merge(POOL, name, json!({"metadata": {"annotations": {PAUSED: null}}})).await?;
    }
    model.settled().await?;
    let names: Vec<String> = model.claims.keys().cloned().collect();
    for name in names {
        model.scope.merge(CLAIM, &name, json!({"metadata": {"annotations": {PAUSED: null}}})).await?;
        model.let_go(&name).await?;
        model.delete(&name).await?;
    }
    model.settled().await?;
    ensure!(model.scope.rig.world.look(|state| state.all(ADDRESS, &model.scope.ns).count()) == 0, "some are left");
    allocator.stop().await
}

impl Model<'_> {
    /// Makes one random change, and describes it.
    async fn step(&mut self, dice: &mut Dice, allocator: &Allocator) -> Result<String> {
        let names: Vec<String> = self.claims.keys().cloned().collect();
        let live: Vec<String> =
            self.claims.iter().filter(|(_, one)| !one.deleting).map(|(name, _)| name.clone()).collect();
        Ok(match dice.roll(20) {
            0..7 => {
                let pool = dice.pick(&POOLS).copied().unwrap_or_default();
                let name = format!("c-{:03}", self.made);
                self.made += 1;
                self.scope.claim(&name, pool).await?;
                self.claims.insert(name.clone(), Known { pool: pool.to_owned(), ..Known::default() });
                format!("{name} of {pool}")
            }
            7..11 => match dice.pick(&live) {
                Some(name) => {
                    self.delete(name).await?;
                    format!("delete {name}")
                }
                None => "nothing".to_owned(),
            },
            11..13 => match dice.pick(&names) {
                Some(name) => self.pause(name).await?,
                None => "nothing".to_owned(),
            },
            13..15 => match dice.pick(&names) {
                Some(name) => self.hold(name).await?,
                None => "nothing".to_owned(),
            },
            15..17 => {
                let pool = dice.pick(&POOLS).copied().unwrap_or_default();
                self.resize(pool, dice).await?
            }
            17 => match dice.pick(&POOLS) {
                Some(pool) => self.pause_pool(pool).await?,
                None => "nothing".to_owned(),
            },
            18 => match dice.pick(&live) {
                // Deleted by hand: the address stays, or comes back unchanged.
                Some(name) if self.scope.seen(ADDRESS, name).is_some() => {
                    let done = self.scope.delete(ADDRESS, name).await;
                    ensure!(done.as_ref().map_or_else(|error| error.code == 404, |_| true), "{done:?}");
                    format!("delete the address of {name}")
                }
                _ => "nothing".to_owned(),
            },
            _ => {
                allocator.kill().await?;
                allocator.start_again()?;
                "kill -9".to_owned()
            }
        })
    }

    /// Notes which deleted claims have no own condition left that keeps their address.
    fn awake(&mut self) {
        for known in self.claims.values_mut().filter(|known| known.deleting && !known.held && !known.paused) {
            known.going = true;
        }
    }

    async fn delete(&mut self, name: &str) -> Result<()> {
        let done = self.scope.delete(CLAIM, name).await;
        ensure!(done.as_ref().map_or_else(|error| error.code == 404, |_| true), "{done:?}");
        if let Some(known) = self.claims.get_mut(name) {
            known.deleting = true;
        }
        Ok(())
    }

    async fn pause(&mut self, name: &str) -> Result<String> {
        let Some(known) = self.claims.get_mut(name) else { return Ok("nothing".to_owned()) };
        let paused = !known.paused;
        let value = if paused { json!("") } else { Value::Null };
        match self.scope.merge(CLAIM, name, json!({"metadata": {"annotations": {PAUSED: value}}})).await {
            Ok(_) => known.paused = paused,
            Err(error) => ensure!(error.code == 404 && known.deleting, "{error}"),
        }
        Ok(format!("{name}: paused {paused}"))
    }

    /// Adds another program's finalizer, while that is allowed, or removes it.
    async fn hold(&mut self, name: &str) -> Result<String> {
        let Some(known) = self.claims.get(name).cloned() else { return Ok("nothing".to_owned()) };
        if known.held {
            self.let_go(name).await?;
            return Ok(format!("{name} is let go"));
        }
        if known.deleting {
            return Ok("nothing".to_owned());
        }
        loop {
            let seen = self.scope.rig.server.get(&self.scope.path(CLAIM, name)).await?;
            let mut all = finalizers(&seen);
            all.push(THEIRS.to_owned());
            let version = &seen["metadata"]["resourceVersion"];
            match self
                .scope
                .merge(CLAIM, name, json!({"metadata": {"resourceVersion": version, "finalizers": all}}))
                .await
            {
                Err(error) if error.code == 409 => {}
                other => break other.map(drop)?,
            }
        }
        if let Some(known) = self.claims.get_mut(name) {
            known.held = true;
        }
        Ok(format!("{name} is held"))
    }

    async fn let_go(&mut self, name: &str) -> Result<()> {
        loop {
            let seen = match self.scope.rig.server.get(&self.scope.path(CLAIM, name)).await {
                Err(error) if error.code == 404 => break,
                other => other?,
            };
            let mut all = finalizers(&seen);
            all.retain(|one| one != THEIRS);
            let version = &seen["metadata"]["resourceVersion"];
            match self
                .scope
                .merge(CLAIM, name, json!({"metadata": {"resourceVersion": version, "finalizers": all}}))
                .await
            {
                Err(error) if error.code == 409 => {}
                Err(error) if error.code == 404 => break,
                other => break other.map(drop)?,
            }
        }
        if let Some(known) = self.claims.get_mut(name) {
            known.held = false;
        }
        Ok(())
    }

    async fn resize(&mut self, pool: &str, dice: &mut Dice) -> Result<String> {
        let first = first_of(pool);
        let last = first + u8::try_from(dice.roll(12))?;
        let spec = self.scope.range(first, last);
        if let Some(room) = self.pools.get_mut(pool) {
            self.scope.merge(POOL, pool, json!({"spec": spec})).await?;
            room.last = last;
        } else {
            self.scope.pool(pool, spec).await?;
            self.pools.insert(pool.to_owned(), Room { last, paused: false });
        }
        Ok(format!("{pool} has {} addresses", last - first + 1))
    }

    async fn pause_pool(&mut self, pool: &str) -> Result<String> {
        let Some(room) = self.pools.get_mut(pool) else { return Ok("nothing".to_owned()) };
        room.paused = !room.paused;
        let value = if room.paused { json!("") } else { Value::Null };
        self.scope.merge(POOL, pool, json!({"metadata": {"annotations": {PAUSED: value}}})).await?;
        Ok(format!("{pool}: paused {}", room.paused))
    }

    /// The conditions that hold at any moment: no address is given out twice, and no claim loses an address that it
    /// needs.
    fn safe(&mut self) -> Result<()> {
        let ns = &self.scope.ns;
        let (double, seen) = self.scope.rig.world.look(|state| {
            let history: Vec<_> = state.history.iter().filter(|one| one.id.1 == *ns).cloned().collect();
            let seen: Vec<(String, Option<String>)> =
                self.claims.keys().map(|name| (name.clone(), has(state, ns, name))).collect();
            (twice(&history), seen)
        });
        ensure!(double.is_empty(), "given twice: {double:?}");
        for (name, ip) in seen {
            let Some(known) = self.claims.get_mut(&name) else { continue };
            match (&known.has, ip) {
                (None, Some(ip)) => known.has = Some(ip),
                (Some(before), Some(ip)) => ensure!(*before == ip, "{name} had {before} and has {ip}"),
                _ => {}
            }
        }
        Ok(())
    }

    /// Waits until the state is as the model says.
    async fn settled(&mut self) -> Result<()> {
        let world = &self.scope.rig.world;
        let mut last = Vec::new();
        let settled = world.until("the model and the cluster to agree", |state| {
            last = self.differs(state);
            last.is_empty().then_some(())
        });
        settled.await.with_context(|| format!("{last:?}"))?;
        let gone: Vec<String> = world.look(|state| {
            let there = |name: &String| state.get(CLAIM, &self.scope.ns, name).is_some();
            self.claims.keys().filter(|name| !there(name)).cloned().collect()
        });
        for name in gone {
            self.claims.remove(&name);
        }
        self.safe()
    }

    fn asleep(&self, known: &Known) -> bool {
        known.paused || self.pools.get(&known.pool).is_some_and(|room| room.paused)
    }

    fn differs(&self, state: &State) -> Vec<String> {
        let ns = &self.scope.ns;
        let mut wrong = Vec::new();
        let mut taken: BTreeSet<String> =
            state.all(ADDRESS, ns).filter_map(|one| one["spec"]["address"].as_str().map(str::to_owned)).collect();
        // The address of a bound claim that must be left alone stays reserved, even if its object was deleted by hand.
        let alone = self.claims.iter().filter(|(name, known)| {
            let bound =
                state.get(CLAIM, ns, name).is_some_and(|claim| claim.pointer("/status/addressRef/name").is_some());
            bound && (known.deleting || self.asleep(known))
        });
        // A claim that was deleted at once may have had its address between two looks.
        taken.extend(alone.filter_map(|(name, known)| known.has.clone().or_else(|| had(state, ns, name))));
        for (name, known) in &self.claims {
            let room = self.pools.get(&known.pool);
            let asleep = self.asleep(known);
            let claim = state.get(CLAIM, ns, name);
            let ip = has(state, ns, name);
            if known.deleting {
                if !known.held && !asleep && claim.is_some() {
                    wrong.push(format!("{name} is not gone"));
                }
                if !known.going && known.has.is_some() && ip.is_none() && claim.is_some() {
                    wrong.push(format!("{name} lost {:?}", known.has));
                }
                continue;
            }
            let Some(claim) = claim else {
                wrong.push(format!("{name} is not there"));
                continue;
            };
            if asleep || ip.is_some() {
                continue;
            }
            let said = ready(claim);
            let reason = said.as_ref().map(|(_, reason, _)| reason.as_str());
            match room {
                None if reason != Some("PoolNotReady") => wrong.push(format!("{name} of no pool says {said:?}")),
                None => {}
                Some(room) => {
                    let first = first_of(&known.pool);
                    let free: Vec<String> =
                        (first..=room.last).map(|last| self.scope.ip(last)).filter(|ip| !taken.contains(ip)).collect();
                    if !free.is_empty() {
                        wrong.push(format!("{name} has none, and {free:?} are free; it says {said:?}"));
                    } else if reason != Some("PoolExhausted") {
                        wrong.push(format!("{name} of a full pool says {said:?}"));
                    }
                }
            }
        }
        for address in state.all(ADDRESS, ns) {
            let name = address["metadata"]["name"].as_str().unwrap_or_default();
            // A write of a killed allocator may take effect when its claim is already gone: a paused pool takes no
            // address back.
            let pool = address["spec"]["poolRef"]["name"].as_str().and_then(|pool| self.pools.get(pool));
            if state.get(CLAIM, ns, name).is_none() && pool.is_none_or(|room| !room.paused) {
                wrong.push(format!("the address {name} is left"));
            }
        }
        for (name, room) in self.pools.iter().filter(|(_, room)| !room.paused) {
            let used = state.all(ADDRESS, ns).filter(|one| one["spec"]["poolRef"]["name"] == name.as_str()).count();
            let counts = state.get(POOL, ns, name).and_then(|pool| pool.pointer("/status/ipAddresses"));
            let total = u64::from(room.last - first_of(name) + 1);
            let says = |key: &str| counts.and_then(|counts| counts[key].as_u64());
            if says("used") != u64::try_from(used).ok() || says("total") != Some(total) {
                wrong.push(format!("{name} counts {counts:?}: {used} of {total} are used"));
            }
        }
        wrong
    }
}

/// The address of a claim that is bound.
fn has(state: &State, ns: &str, claim: &str) -> Option<String> {
    let to = state.get(CLAIM, ns, claim)?.pointer("/status/addressRef/name")?.as_str()?;
    Some(state.get(ADDRESS, ns, to)?["spec"]["address"].as_str()?.to_owned())
}

/// The address that a claim's `IPAddress` had when it was last seen.
fn had(state: &State, ns: &str, claim: &str) -> Option<String> {
    let its = |one: &&Change| one.id.0 == ADDRESS && one.id.1 == ns && one.id.2 == claim;
    let says = state.history.iter().rev().filter(its).find_map(|one| one.says.as_deref())?;
    says.split_once('/').map(|(address, _)| address.to_owned())
}

fn finalizers(object: &Value) -> Vec<String> {
    let all = object["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
    let all: Vec<String> = all.iter().filter_map(|one| one.as_str().map(str::to_owned)).collect();
    debug_assert!(all.iter().all(|one| one == RELEASE_ADDRESS || one == THEIRS), "{all:?}");
    all
}

fn first_of(pool: &str) -> u8 {
    pool.bytes().last().map_or(10, |digit| 10 + (digit - b'0') * 60)
}
