//! Many claims are created and deleted while allocators are killed, doubled and frozen: no address is given out twice,
//! none is lost, and every claim gets an answer.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use futures::stream::{self, StreamExt as _, TryStreamExt as _};
use serde_json::{Value, json};

use super::super::story;
use crate::ipam::allocators::Allocator;
use crate::ipam::audit::{at_rest, twice};
use crate::ipam::scope::{ADDRESS, CLAIM, Scope, reference};
use crate::ipam::server::{Crds, Refused};
use crate::ipam::world::State;
use crate::rig::allocator::AllocatorRig;
use crate::runner::{Ctx, Test};

/// Claims under way at a time.
const WORKERS: usize = 16;
/// How long the last claim may take.
const AFTERWARDS: Duration = Duration::from_mins(5);
/// The kind of pool: room for all, in a network of its own.
const KIND: &str = "GlobalInClusterIPPool";

pub fn all() -> Vec<Test<()>> {
    vec![
        story!("storm", killed, "killed-six-times", 20),
        story!("storm", killed_often, "killed-twenty-times", 20).nightly(),
        story!("storm", doubled, "two-without-election", 20),
        story!("storm", doubled_for_long, "two-without-election-for-long", 20).nightly(),
        story!("storm", frozen, "frozen-leader-thaws-under-load", 20).nightly(),
        story!("storm", stale, "frozen-twin-thaws-under-load", 20).nightly(),
    ]
}

/// A storm of claims. Every second claim is deleted again: some at once, some when they are bound. `room`: fewer
/// addresses than claims at a time, so that released addresses are given out again at once.
struct Storm<'a> {
    scope: Scope<'a>,
    pool: String,
    begun: AtomicUsize,
}

impl<'a> Storm<'a> {
    async fn brew(rig: &'a AllocatorRig, room: usize) -> Result<Self> {
        let scope = rig.scope().await?;
        let last = u32::from(std::net::Ipv4Addr::new(172, 16, 0, 9)) + u32::try_from(room)?;
        let range = format!("172.16.0.10-{}", std::net::Ipv4Addr::from_bits(last));
        let spec = json!({"addresses": [range], "prefix": 12, "network": scope.ns});
        let pool = scope.global_pool(spec).await?;
        Ok(Self { scope, pool, begun: AtomicUsize::new(0) })
    }

    /// Makes this many claims and deletes every second one.
    async fn blow(&self, claims: usize) -> Result<()> {
        let all = stream::iter((0..claims).map(|n| self.one(n)));
        all.buffer_unordered(WORKERS).try_collect::<()>().await
    }

    async fn one(&self, n: usize) -> Result<()> {
        self.begun.fetch_add(1, Ordering::Relaxed);
        let name = format!("c-{n:05}");
        self.make(&name).await?;
        match n % 4 {
            0 => {
                let what = format!("{name} to be bound");
                let bound = self.scope.rig.world.until_within(AFTERWARDS, &what, |state| {
                    state.get(CLAIM, &self.scope.ns, &name)?.pointer("/status/addressRef").map(|_| ())
                });
                bound.await?;
                self.take(&name).await
            }
            1 => self.take(&name).await,
            _ => Ok(()),
        }
    }

    async fn make(&self, name: &str) -> Result<()> {
        let spec = json!({"poolRef": reference(KIND, &self.pool)});
        let claim = self.scope.object(CLAIM, name, spec, json!({}));
        let place = self.scope.place(CLAIM);
        let mut tries = 1;
        while !done(self.scope.rig.server.create(&place, &claim).await, tries, 409)? {
            tries += 1;
        }
        Ok(())
    }

    async fn take(&self, name: &str) -> Result<()> {
        let mut tries = 1;
        while !done(self.scope.delete(CLAIM, name).await, tries, 404)? {
            tries += 1;
        }
        Ok(())
    }

    /// Waits until this many claims were started.
    async fn begun(&self, claims: usize) {
        while self.begun.load(Ordering::Relaxed) < claims {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Waits until nothing is under way, and checks the result.
    async fn judge(&self, claims: usize, ctx: &Ctx<()>) -> Result<()> {
        let ns = &self.scope.ns;
        let left = claims / 2 + [0, 0, 0, 1][claims % 4];
        let world = &self.scope.rig.world;
        let over = world.until_within(AFTERWARDS, "the storm to be over", |state| {
            let there = state.all(CLAIM, ns).count();
            let bound = state.all(CLAIM, ns).filter(|one| one.pointer("/status/addressRef").is_some()).count();
            let addresses = state.all(ADDRESS, ns).count();
            ([there, bound, addresses] == [left; 3]).then_some(())
        });
        let known = || {
            world.look(|state| {
                let unbound: Vec<String> = state
                    .all(CLAIM, ns)
                    .filter(|one| one.pointer("/status/addressRef").is_none())
                    .take(3)
                    .map(ToString::to_string)
                    .collect();
                let (claims, addresses) = (state.all(CLAIM, ns).count(), state.all(ADDRESS, ns).count());
                format!(
                    "{claims} claims, {addresses} addresses, {left} of each expected; {unbound:?}; {:?}",
                    at_rest(state, ns).into_iter().take(5).collect::<Vec<_>>()
                )
            })
        };
        over.await.with_context(known)?;
        let (wrong, double, shown) = world.look(|state| {
            let history: Vec<_> = state.history.iter().filter(|one| one.id.1 == *ns).cloned().collect();
            (at_rest(state, ns), twice(&history), history.len())
        });
        ctx.note(&format!("{claims} claims, {shown} changes, {} wrong, {} twice", wrong.len(), double.len()));
        if let Some(first) = double.first() {
            ctx.note(&world.look(|state| told(state, ns, first)));
        }
        ensure!(double.is_empty(), "{} given twice: {:?}", double.len(), double.iter().take(5).collect::<Vec<_>>());
        ensure!(wrong.is_empty(), "{} wrong: {:?}", wrong.len(), wrong.iter().take(5).collect::<Vec<_>>());
        let used = i64::try_from(left)?;
        let total = world.look(|state| state.get(KIND, "", &self.pool)?.pointer("/status/ipAddresses/total")?.as_i64());
        let total = total.context("the pool has no counts")?;
        self.scope.counts(KIND, &self.pool, [total, total - used, used, 0]).await
    }
}

/// The history of the claims that a finding names, and of their addresses.
fn told(state: &State, ns: &str, finding: &str) -> String {
    let prefix = format!("{ns}/");
    let words = finding.split([' ', ',']);
    let names: Vec<&str> = words.filter_map(|word| word.strip_prefix(&prefix)).collect();
    let mut all: Vec<_> =
        state.history.iter().filter(|one| one.id.1 == *ns && names.contains(&one.id.2.as_str())).collect();
    all.sort_by_key(|one| one.version);
    all.iter().map(|one| format!("{one:?}")).collect::<Vec<_>>().join("\n")
}

/// Whether a request to a busy API server is done. `before`: the code that an earlier successful try leads to.
fn done(answer: Result<Value, Refused>, tries: u32, before: u16) -> Result<bool> {
    match answer {
        Ok(_) => Ok(true),
        Err(refused) if refused.code == before && tries > 1 => Ok(true),
        Err(refused) if [0, 429, 500, 503, 504].contains(&refused.code) && tries < 10 => Ok(false),
        Err(refused) => Err(refused.into()),
    }
}

/// `storm` and `faults` at the same time.
async fn under<T>(storm: impl Future<Output = Result<()>>, faults: impl Future<Output = Result<T>>) -> Result<T> {
    let ((), result) = tokio::try_join!(storm, faults)?;
    Ok(result)
}

async fn killed(ctx: &mut Ctx<()>) -> Result<()> {
    killed_each(ctx, 1_000, 600, 6).await
}

async fn killed_often(ctx: &mut Ctx<()>) -> Result<()> {
    killed_each(ctx, 3_500, 2_100, 20).await
}

/// The allocator is killed so many times while so many claims come. `room`: as of a [`Storm`].
async fn killed_each(ctx: &Ctx<()>, claims: usize, room: usize, times: usize) -> Result<()> {
    let rig = AllocatorRig::up(Crds::ClusterApi).await?;
    let allocator = rig.start("allocator").await?;
    let storm = Storm::brew(&rig, room).await?;
    let kills = async {
        for n in 1..=times {
            storm.begun(n * claims / (times + 1)).await;
            // At any moment of the allocator's work.
            tokio::time::sleep(Duration::from_millis(17 * (n as u64 * 7 % 11))).await;
            allocator.kill().await?;
            allocator.start_again()?;
        }
        Ok(())
    };
    under(storm.blow(claims), kills).await?;
    ctx.note(&format!("killed {times} times"));
    allocator.ready().await?;
    storm.judge(claims, ctx).await
}

async fn doubled(ctx: &mut Ctx<()>) -> Result<()> {
    two_serve(ctx, 700, 490).await
}

async fn doubled_for_long(ctx: &mut Ctx<()>) -> Result<()> {
    two_serve(ctx, 2_000, 1_400).await
}

/// Two allocators serve so many claims at the same time. `room`: as of a [`Storm`].
async fn two_serve(ctx: &Ctx<()>, claims: usize, room: usize) -> Result<()> {
    let rig = AllocatorRig::up(Crds::ClusterApi).await?;
    let twins = [rig.start("one").await?, rig.start("two").await?];
    let storm = Storm::brew(&rig, room).await?;
    storm.blow(claims).await?;
    ctx.note(&withdrawn(&twins).await?);
    storm.judge(claims, ctx).await
}

/// How often two allocators collided.
async fn withdrawn(all: &[Allocator]) -> Result<String> {
    let mut text = String::new();
    for one in all {
        let count = one.metric("mooring_allocator_withdrawn_total", &[]).await?.unwrap_or_default();
        text = format!("{text}{}: {count} withdrawn; ", one.process().name());
    }
    Ok(text)
}

/// The leader is frozen for longer than its Lease lasts, and then continues with its pending work.
async fn frozen(ctx: &mut Ctx<()>) -> Result<()> {
    const CLAIMS: usize = 2_000;
    let rig = AllocatorRig::up(Crds::ClusterApi).await?;
    let pair = [rig.start_with("one", &[]).await?, rig.start_with("two", &[]).await?];
    let storm = Storm::brew(&rig, 1_400).await?;
    let faults = async {
        for round in 1..=2 {
            storm.begun(round * CLAIMS / 4).await;
            let mut leader = None;
            for one in &pair {
                if one.metric("mooring_allocator_leads", &[]).await? == Some(1.0) {
                    leader = Some(one);
                }
            }
            let leader = leader.context("nobody leads")?;
            leader.process().freeze()?;
            let other = pair.iter().find(|one| one.process().name() != leader.process().name()).context("no other")?;
            let begin = std::time::Instant::now();
            while other.metric("mooring_allocator_leads", &[]).await? != Some(1.0) {
                ensure!(begin.elapsed() < Duration::from_mins(2), "nobody took over");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
            ctx.note(&format!("{} took over {:?} after the freeze", other.process().name(), begin.elapsed()));
            // Until the new leader has given out the addresses that the frozen leader was about to give.
            storm.begun((round * CLAIMS / 4 + 300).min(CLAIMS)).await;
            leader.process().thaw()?;
        }
        Ok(())
    };
    under(storm.blow(CLAIMS), faults).await?;
    ctx.note(&withdrawn(&pair).await?);
    storm.judge(CLAIMS, ctx).await
}

/// Without any election, a second allocator is frozen and resumed with an old view and a full queue, again and again.
async fn stale(ctx: &mut Ctx<()>) -> Result<()> {
    const CLAIMS: usize = 2_000;
    let rig = AllocatorRig::up(Crds::ClusterApi).await?;
    let twins = [rig.start("one").await?, rig.start("two").await?];
    let storm = Storm::brew(&rig, 1_400).await?;
    let faults = async {
        for round in 1..=8 {
            storm.begun(round * CLAIMS / 10).await;
            let twin = &twins[round % 2];
            twin.process().freeze()?;
            storm.begun(round * CLAIMS / 10 + 150).await;
            twin.process().thaw()?;
        }
        Ok(())
    };
    under(storm.blow(CLAIMS), faults).await?;
    ctx.note(&withdrawn(&twins).await?);
    storm.judge(CLAIMS, ctx).await
}
