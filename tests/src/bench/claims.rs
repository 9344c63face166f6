//! Claims: how fast they are bound, beside the floor: a bare client that makes the same claims and does the same writes for
//! them, with as many requests at once as serve it best.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use http::Request;
use serde::Deserialize;
use serde_json::{Value, json};

use super::stats::{Figure, Statistic};
use super::{Order, resident};
use crate::assets;
use crate::host::Spec;
use crate::ipam::allocators::Allocator;
use crate::ipam::server::{Crds, documents_in};
use crate::progress;
use crate::rig::allocator::AllocatorRig;

/// How many claims, when nobody says.
const CLAIMS: usize = 10_000;
/// Claims of metal3's, when nobody says.
const METAL3: usize = 2_000;
/// Addresses in use for the figures about growth, when nobody says.
const GROWN: usize = 50_000;
/// Claims of one measurement of growth.
const SAMPLE: usize = 2_000;
/// Requests at once that are tried for the floor.
const WORKERS: [usize; 4] = [16, 32, 64, 128];
/// Claims with which they are tried.
const TRIAL: usize = 1_000;
/// Objects a page, when all are read.
const PAGE: usize = 1_000;
/// Claims one after the other, for the time that one takes when nothing else happens.
const ALONE: usize = 300;
/// How long one load may take.
const LIMIT: Duration = Duration::from_mins(30);
/// Pool status and Events are written behind: they are counted this long after the last claim.
const BEHIND: Duration = Duration::from_secs(3);
/// The namespace of all of it.
const NAMESPACE: &str = "bench";

/// What `tests/claimload` prints.
#[derive(Clone, Copy, Debug, Deserialize)]
struct Load {
    rate: f64,
    p50: f64,
    p99: f64,
}

/// Which claims.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Cluster API's, of an `InClusterIPPool`.
    ClusterApi,
    /// metal3's own, of its `IPPool`.
    Metal3,
}

impl Kind {
    const fn name(self) -> &'static str {
        match self {
            Self::ClusterApi => "cluster-api",
            Self::Metal3 => "metal3",
        }
    }

    const fn group(self) -> &'static str {
        match self {
            Self::ClusterApi => "ipam.cluster.x-k8s.io",
            Self::Metal3 => "ipam.metal3.io",
        }
    }

    /// The collection of pools in a namespace, and a pool of a large network.
    fn pool(self) -> (String, Value) {
        let group = self.group();
        match self {
            Self::ClusterApi => (
                format!("/apis/{group}/v1alpha2/namespaces/{NAMESPACE}/inclusterippools"),
                json!({
                    "apiVersion": format!("{group}/v1alpha2"), "kind": "InClusterIPPool", "metadata": {"name": "p"},
                    "spec": {"addresses": ["10.0.0.0/8"], "prefix": 8, "gateway": "10.0.0.1"},
                }),
            ),
            Self::Metal3 => (
                format!("/apis/{group}/v1alpha1/namespaces/{NAMESPACE}/ippools"),
                json!({
                    "apiVersion": format!("{group}/v1alpha1"), "kind": "IPPool", "metadata": {"name": "p"},
                    "spec": {"pools": [{"start": "10.0.0.2", "end": "10.255.255.254"}], "prefix": 8,
                        "gateway": "10.0.0.1", "namePrefix": "p"},
                }),
            ),
        }
    }
}

/// The whole of it in a cluster of its own.
struct Rig {
    kind: Kind,
    allocators: AllocatorRig,
    load: PathBuf,
    uid: String,
    loads: usize,
    /// Addresses that the floor has given so far, from the top of the network.
    given: usize,
}

impl Rig {
    async fn up(order: &Order, kind: Kind) -> Result<Self> {
        let load = tokio::task::spawn_blocking(|| assets::go_program("claimload")).await??;
        let allocators = AllocatorRig::with(Crds::ClusterApi, order.allocator.clone(), false).await?;
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
        allocators.server.create("/api/v1/namespaces", &namespace).await?;
        if kind == Kind::Metal3 {
            allocators.server.install("crds/metal3").await?;
            for object in documents_in("allocator/metal3/rbac.yaml")? {
                allocators.server.apply(&object).await?;
            }
        }
        let (path, pool) = kind.pool();
        let made = allocators.server.create(&path, &pool).await?;
        let uid = made["metadata"]["uid"].as_str().context("a pool without uid")?.to_owned();
        // Who makes the claims is no administrator of this lab only.
        let pki = allocators.server.lab().cluster()?.pki();
        let admin = pki.super_admin()?;
        std::fs::write(allocators.server.lab().dir().join("load.crt"), admin.cert)?;
        std::fs::write(allocators.server.lab().dir().join("load.key"), admin.key)?;
        Ok(Self { kind, allocators, load, uid, loads: 0, given: 0 })
    }

    /// Runs the load program.
    async fn run(&mut self, mode: &str, count: usize, concurrency: usize, flags: &[String]) -> Result<Load> {
        self.loads += 1;
        let name = format!("load-{}", self.loads);
        let lab = self.allocators.server.lab();
        let (host, cluster) = (lab.host("client")?, lab.cluster()?);
        let file = |name: &str| lab.dir().join(name).display().to_string();
        let spec = Spec::new(&name, &self.load).args([
            format!("-server={}", cluster.servers().first().context("no API server")?),
            format!("-ca={}", cluster.pki().path("ca.crt")),
            format!("-cert={}", file("load.crt")),
            format!("-key={}", file("load.key")),
            format!("-namespace={NAMESPACE}"),
            format!("-prefix={name}"),
            format!("-kind={}", self.kind.name()),
            format!("-pool-uid={}", self.uid),
            format!("-mode={mode}"),
            format!("-count={count}"),
            format!("-concurrency={concurrency}"),
        ]);
        let process = host.start(spec.args(flags.iter().cloned()))?;
        process.ended(LIMIT).await?;
        let said = std::fs::read_to_string(process.log())?;
        let line = said.lines().last().unwrap_or_default();
        serde_json::from_str(line).with_context(|| format!("{name} ({mode}): {said}"))
    }

    /// A bare client's writes.
    async fn floor(&mut self, count: usize, concurrency: usize, finalizer: bool) -> Result<Load> {
        // Far above what an allocator that gives the lowest will reach.
        let first = (1 << 23) + self.given;
        self.given += count;
        let more = [format!("-first={first}"), format!("-finalizer={finalizer}")];
        self.run("floor", count, concurrency, &more).await
    }

    /// The best of several numbers of requests at once.
    async fn best_floor(&mut self, finalizer: bool, trial: usize) -> Result<(usize, Load)> {
        let mut best: Option<(usize, Load)> = None;
        for workers in WORKERS {
            let load = self.floor(trial, workers, finalizer).await?;
            if best.is_none_or(|(_, best)| load.rate > best.rate) {
                best = Some((workers, load));
            }
        }
        best.context("nothing was tried")
    }

    /// Writes that the API server has done: to claims, addresses and pools; and Events.
    async fn writes(&self) -> Result<(u64, u64)> {
        let request = Request::get("/metrics").body(Vec::new())?;
        let text = self.allocators.server.client.request_text(request).await?;
        let (mut ours, mut events) = (0, 0);
        for line in text.lines().filter(|line| line.starts_with("apiserver_request_total{")) {
            let has = |label: &str, values: &[&str]| {
                values.iter().any(|value| line.contains(&format!(",{label}=\"{value}\"")))
            };
            if !has("verb", &["POST", "PUT", "PATCH", "APPLY", "DELETE"]) {
                continue;
            }
            let count: f64 = line.rsplit(' ').next().unwrap_or_default().parse()?;
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count")]
            let count = count as u64;
            if has("resource", &["events"]) {
                events += count;
            } else if has("group", &[self.kind.group()]) {
                ours += count;
            }
        }
        Ok((ours, events))
    }

    async fn start(&self) -> Result<Allocator> {
        let metal3 = if self.kind == Kind::Metal3 { "--metal3=on" } else { "--metal3=off" };
        self.allocators.start_with("allocator", &["--leader-election=true", metal3]).await
    }
}

fn one(name: &str, unit: &'static str, value: f64) -> Result<Figure> {
    Figure::new(name, unit, &[value])
}

/// CPU that a process has used, in seconds.
fn cpu(allocator: &Allocator) -> Result<f64> {
    let pid = allocator.process().pid().context("the allocator does not run")?;
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // Behind the name, which may have blanks: utime and stime are the 12th and the 13th.
    let rest = text.rsplit(')').next().unwrap_or_default();
    let ticks: f64 = rest.split_whitespace().skip(11).take(2).filter_map(|word| word.parse::<f64>().ok()).sum();
    // USER_HZ is 100 on all of Linux.
    Ok(ticks / 100.0)
}

/// `claims`: rate, floor and their ratio, latency, writes a claim, memory.
pub(super) async fn measure(order: &Order) -> Result<Vec<Figure>> {
    rates(order, Kind::ClusterApi, "claims", true).await
}

/// `metal3`: the same for metal3's own claims.
pub(super) async fn of_metal3(order: &Order) -> Result<Vec<Figure>> {
    let count = Some(order.count.unwrap_or(METAL3));
    rates(&Order { count, ..order.clone() }, Kind::Metal3, "metal3", true).await
}

/// The same where the policy puts the finalizer on: two writes a claim.
pub(super) async fn with_policy(order: &Order) -> Result<Vec<Figure>> {
    rates(order, Kind::ClusterApi, "claims-policy", false).await
}

#[expect(clippy::cast_precision_loss, reason = "counts of claims")]
async fn rates(order: &Order, kind: Kind, name: &str, finalizer: bool) -> Result<Vec<Figure>> {
    let count = order.count.unwrap_or(CLAIMS);
    let trial = TRIAL.min(count.div_ceil(4));
    let (mut rates, mut floors, mut ratios, mut writes, mut events) = (vec![], vec![], vec![], vec![], vec![]);
    let (mut p50s, mut p99s, mut loaded50s, mut loaded99s) = (vec![], vec![], vec![], vec![]);
    let (mut floor50s, mut floor99s) = (vec![], vec![]);
    let (mut sizes, mut cpus) = (vec![], vec![]);
    for _ in 0..order.runs {
        let mut rig = Rig::up(order, kind).await?;
        if !finalizer {
            for policy in documents_in("policies/claim-finalizer.yaml")? {
                rig.allocators.server.apply(&policy).await?;
            }
            // A policy is minded a moment after it was made.
            rig.minded().await?;
        }
        let (workers, _) = rig.best_floor(finalizer, trial).await?;
        // As many claims as the allocator gets, since an API server that remembers more is slower; before and after it, since
        // the machine may have other things to do: the better one counts.
        let before = rig.floor(count, workers, finalizer).await?;
        let floor_alone = rig.floor(ALONE.min(trial), 1, finalizer).await?;
        let allocator = rig.start().await?;
        let alone = rig.run("one-by-one", ALONE.min(trial), 1, &[]).await?;
        tokio::time::sleep(BEHIND).await;
        let (from, from_events, cpu_before) = {
            let (ours, events) = rig.writes().await?;
            (ours, events, cpu(&allocator)?)
        };
        let load = rig.run("claims", count, workers, &[]).await?;
        let used = cpu(&allocator)? - cpu_before;
        tokio::time::sleep(BEHIND).await;
        let (to, to_events) = rig.writes().await?;
        sizes.push(resident(allocator.process())?);
        allocator.stop().await?;
        let after = rig.floor(count, workers, finalizer).await?;
        let floor = before.rate.max(after.rate);
        rates.push(load.rate);
        floors.push(floor);
        ratios.push(load.rate / floor);
        // The claims themselves are not the allocator's.
        writes.push((to - from) as f64 / count as f64 - 1.0);
        events.push((to_events - from_events) as f64 / count as f64);
        p50s.push(alone.p50);
        p99s.push(alone.p99);
        floor50s.push(floor_alone.p50);
        floor99s.push(floor_alone.p99);
        loaded50s.push(load.p50);
        loaded99s.push(load.p99);
        cpus.push(used * 1_000.0 / count as f64);
        let (before, after) = (before.rate, after.rate);
        progress::line(format_args!(
            "{workers} requests at once; the floor was {before:.0} claims/s before and {after:.0} after"
        ));
    }
    let figure = |what: &str, unit: &'static str, values: &[f64]| {
        let name = format!("{name}-{what}");
        Figure::new(&name, unit, values)
    };
    let (mut latency, mut latency_p99) = (figure("latency", "ms", &p50s)?, figure("latency-p99", "ms", &p99s)?);
    // A claim of metal3's waits for a list of Cluster API's addresses, and there are four of these a second at most.
    if kind == Kind::ClusterApi {
        latency = latency.goal(Statistic::Median, 10.0);
        latency_p99 = latency_p99.goal(Statistic::Median, 20.0);
    }
    Ok(vec![
        figure("rate", "1/s", &rates)?,
        figure("floor", "1/s", &floors)?,
        figure("ratio", "", &ratios)?.at_least(Statistic::Median, 0.8),
        latency,
        latency_p99,
        figure("latency-floor", "ms", &floor50s)?,
        figure("latency-floor-p99", "ms", &floor99s)?,
        figure("latency-loaded", "ms", &loaded50s)?,
        figure("latency-loaded-p99", "ms", &loaded99s)?,
        figure("writes", "", &writes)?.goal(Statistic::Max, if finalizer { 3.1 } else { 2.1 }),
        figure("events", "", &events)?,
        figure("cpu", "ms", &cpus)?,
        figure("rss", "MB", &sizes)?,
    ])
}

/// The floor alone, with three writes a claim and with two.
pub(super) async fn floor(order: &Order) -> Result<Vec<Figure>> {
    let count = order.count.unwrap_or(4 * TRIAL);
    let trial = TRIAL.min(count.div_ceil(4));
    let mut rig = Rig::up(order, Kind::ClusterApi).await?;
    let mut rates = [vec![], vec![]];
    for _ in 0..order.runs {
        for (finalizer, rates) in [true, false].into_iter().zip(&mut rates) {
            let (workers, trial) = rig.best_floor(finalizer, trial).await?;
            progress::line(format_args!("{workers} requests at once are the best: {:.0} claims/s", trial.rate));
            rates.push(rig.floor(count, workers, finalizer).await?.rate.max(trial.rate));
        }
    }
    let [three, two] = rates;
    let (name, policy) = ("claims-floor", "claims-policy-floor");
    Ok(vec![Figure::new(name, "1/s", &three)?, Figure::new(policy, "1/s", &two)?])
}

impl Rig {
    /// Waits until a claim gets its finalizer as it is made.
    async fn minded(&self) -> Result<()> {
        let path = format!("/apis/ipam.cluster.x-k8s.io/v1beta2/namespaces/{NAMESPACE}/ipaddressclaims?dryRun=All");
        let pool = json!({"apiGroup": "ipam.cluster.x-k8s.io", "kind": "InClusterIPPool", "name": "p"});
        let claim = json!({
            "apiVersion": "ipam.cluster.x-k8s.io/v1beta2", "kind": "IPAddressClaim", "metadata": {"name": "probe"},
            "spec": {"poolRef": pool},
        });
        let deadline = Instant::now() + Duration::from_mins(1);
        while self.allocators.server.create(&path, &claim).await?["metadata"]["finalizers"].is_null() {
            ensure!(Instant::now() < deadline, "the policy does nothing");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        Ok(())
    }
}

/// With many addresses in use: start to first allocation, memory, and the rate beside that with few.
pub(super) async fn grown(order: &Order) -> Result<Vec<Figure>> {
    let count = order.count.unwrap_or(GROWN).max(2 * SAMPLE);
    let mut rig = Rig::up(order, Kind::ClusterApi).await?;
    let (workers, _) = rig.best_floor(true, TRIAL.min(count / 50)).await?;
    let allocator = rig.start().await?;
    // As many are used now as were tried for the floor, a few thousand.
    let few = rig.run("claims", SAMPLE, workers, &[]).await?;
    allocator.stop().await?;
    let used = rig.given + SAMPLE;
    rig.floor(count.saturating_sub(used).max(1), workers, true).await?;
    // What an allocator must read at least.
    let listed = rig.run("list", PAGE, 1, &[]).await?;
    // From its start to the first claim that it binds, which is there already.
    let begin = Instant::now();
    let allocator = rig.allocators.spawn("allocator-again", &["--leader-election=false"])?;
    rig.run("one-by-one", 1, 1, &[]).await?;
    let (first, busy) = (begin.elapsed(), cpu(&allocator)?);
    let many = rig.run("claims", SAMPLE, workers, &[]).await?;
    let alone = rig.run("one-by-one", ALONE, 1, &[]).await?;
    let size = resident(allocator.process())?;
    allocator.stop().await?;
    Ok(vec![
        one("claims-few-rate", "1/s", few.rate)?,
        one("claims-grown-rate", "1/s", many.rate)?,
        one("claims-growth", "", many.rate / few.rate)?.at_least(Statistic::Median, 0.9),
        one("claims-grown-latency", "ms", alone.p50)?,
        one("claims-start", "ms", first.as_secs_f64() * 1_000.0)?.goal(Statistic::Max, 5_000.0),
        one("claims-start-cpu", "ms", busy * 1_000.0)?,
        one("claims-start-floor", "ms", listed.p50)?,
        one("claims-grown-rss", "MB", size)?.goal(Statistic::Max, 100.0),
    ])
}
