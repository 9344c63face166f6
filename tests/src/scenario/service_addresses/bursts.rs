//! Many at once, and an allocator that dies meanwhile: no address twice, none leaked, nobody forgotten.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use futures::stream::{self, StreamExt as _, TryStreamExt as _};
use serde_json::{Value, json};

use super::super::story;
use crate::ipam::allocators::Allocator;
use crate::ipam::scope::{ADDRESS, CLAIM, Scope};
use crate::ipam::server::{Crds, Refused};
use crate::ipam::services::{SERVICE, annotation, ingress};
use crate::ipam::stage::{Stage, name};
use crate::ipam::world::State;
use crate::runner::{Ctx, Test};

/// Requests of people under way at a time.
const WORKERS: usize = 16;
/// How long the last of them may take.
const CALM: Duration = Duration::from_mins(5);

pub fn all() -> Vec<Test<()>> {
    vec![
        story!("service-addresses", thousand, "a-thousand-at-once", 10),
        story!("service-addresses", killed, "killed-during-bursts", 10),
    ]
}

/// Waits until `look` finds something. Not after each change anew, as `World::until` does: all objects are gone through.
async fn calmly<T>(stage: &Stage, what: &str, look: impl Fn(&State) -> Option<T>) -> Result<T> {
    let deadline = Instant::now() + CALM;
    loop {
        if let Some(found) = stage.world.look(&look) {
            return Ok(found);
        }
        ensure!(Instant::now() < deadline, "waited {} s for {what}", CALM.as_secs());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Keeps the allocator's log for whoever looks at a failure.
async fn kept(ctx: &Ctx<()>, allocator: &Allocator, work: impl Future<Output = Result<()>>) -> Result<()> {
    let done = work.await;
    if done.is_err() {
        std::fs::copy(allocator.process().log(), ctx.dir.join("allocator.log")).context("keep the log")?;
    }
    done
}

/// How many Services of a namespace show addresses.
fn answer(state: &State, ns: &str) -> usize {
    state.all(SERVICE, ns).filter(|one| !ingress(one).is_empty()).count()
}

/// What is wrong when nothing is under way.
fn wrong(state: &State, ns: &str, shares: bool) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut users: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for service in state.all(SERVICE, ns) {
        let all = ingress(service);
        if all.len() != 1 {
            wrong.push(format!("{} shows {all:?}", name(service)));
        }
        for ip in all {
            let there = state.all(ADDRESS, "").filter(|one| one["spec"]["address"] == ip.as_str()).count();
            if there != 1 {
                wrong.push(format!("{there} IPAddresses of {ip}"));
            }
            users.entry(ip).or_default().push(name(service));
        }
    }
    let twice = users.iter().filter(|(_, names)| names.len() > 1 && !shares);
    wrong.extend(twice.map(|(ip, names)| format!("{ip} has {names:?}")));
    let theirs =
        |kind| state.all(kind, "").filter(|one| one["metadata"]["labels"].get("mooring.dev/service-family").is_some());
    for claim in theirs(CLAIM) {
        let text = annotation(claim, "mooring.dev/services").unwrap_or_default();
        let gone = text.split(',').filter_map(|one| one.split_once('=')).filter(|(key, uid)| {
            let (ns, service) = key.split_once('/').unwrap_or_default();
            state.get(SERVICE, ns, service).is_none_or(|one| one["metadata"]["uid"] != *uid)
        });
        let gone: Vec<_> = gone.collect();
        if text.is_empty() || !gone.is_empty() {
            wrong.push(format!("the claim {} is for {text:?}, of which {gone:?} are gone", name(claim)));
        }
    }
    let (claims, addresses) = (theirs(CLAIM).count(), theirs(ADDRESS).count());
    if claims != users.len() || addresses != users.len() {
        wrong.push(format!("{claims} claims and {addresses} addresses for {} in use", users.len()));
    }
    wrong
}

async fn thousand(ctx: &mut Ctx<()>) -> Result<()> {
    const SERVICES: u16 = 1_000;
    let stage = Stage::up(Crds::Standalone).await?;
    let allocator = stage.start("allocator").await?;
    let scope = stage.scope().await?;
    scope.configure(json!({"range-global": "172.20.0.1-172.20.7.254"})).await?;
    let work = async {
        let begin = Instant::now();
        make(&scope, usize::from(SERVICES)).await?;
        let made = begin.elapsed();
        let all = |state: &State| (answer(state, &scope.ns) == usize::from(SERVICES)).then_some(());
        let known = || stage.world.look(|state| format!("{} have one", answer(state, &scope.ns)));
        calmly(&stage, "all Services to have addresses", all).await.with_context(known)?;
        let took = begin.elapsed();
        let seconds = allocator.metric("mooring_allocator_service_assignment_seconds_sum", &[]).await?;
        let mean = seconds.unwrap_or_default() / f64::from(SERVICES);
        ctx.note(&format!(
            "{SERVICES} Services made in {made:?}, all in status after {took:?}; from seen to annotated {mean:.3} s on average"
        ));
        let (_, page) = allocator.get("/metrics").await?;
        page.lines().filter(|line| line.contains("_api_calls_total{")).for_each(|line| ctx.note(line));
        let found = stage.world.look(|state| wrong(state, &scope.ns, false));
        ensure!(found.is_empty(), "{} wrong: {:?}", found.len(), found.iter().take(5).collect::<Vec<_>>());
        let begin = Instant::now();
        scope.no_services().await?;
        let empty = |state: &State| (state.all(ADDRESS, "").count() == 0).then_some(());
        calmly(&stage, "all addresses to be free", empty).await?;
        ctx.note(&format!("all given back after {:?}", begin.elapsed()));
        Ok(())
    };
    kept(ctx, &allocator, scope.with_agents(work)).await
}

async fn make(scope: &Scope<'_>, count: usize) -> Result<()> {
    let one = |n: usize| async move {
        let place = format!("/api/v1/namespaces/{}/services", scope.ns);
        let object = json!({"apiVersion": "v1", "kind": SERVICE, "metadata": {"name": format!("s-{n:04}")},
            "spec": scope.balanced(80, "TCP")});
        patiently(|| scope.stage.server.create(&place, &object)).await
    };
    stream::iter((0..count).map(one)).buffer_unordered(WORKERS).try_collect::<()>().await
}

/// Asks a busy API server until it has answered. That something is done already, or gone, is as good.
async fn patiently<F: Future<Output = Result<Value, Refused>>>(mut ask: impl FnMut() -> F) -> Result<()> {
    let mut tries = 0;
    loop {
        tries += 1;
        match ask().await {
            Ok(_) => return Ok(()),
            Err(refused) if [404, 409].contains(&refused.code) => return Ok(()),
            Err(refused) if [0, 429, 500, 503, 504].contains(&refused.code) && tries < 10 => {}
            Err(refused) => return Err(refused.into()),
        }
    }
}

/// Services come, change their wishes and go while the allocator is killed again and again.
async fn killed(ctx: &mut Ctx<()>) -> Result<()> {
    const SERVICES: usize = 240;
    const KILLS: u64 = 8;
    let stage = Stage::up(Crds::Standalone).await?;
    let allocator = stage.start("allocator").await?;
    let scope = stage.scope().await?;
    // Fewer than there are Services at a time: what is released is given again at once.
    scope.configure(json!({"range-global": "172.21.0.1-172.21.0.200"})).await?;
    let work = async {
        let bursts = async {
            let one = |n: usize| {
                let scope = &scope;
                async move {
                    let name = format!("s-{n:04}");
                    let notes = match n % 6 {
                        0 => json!({"mooring.dev/sharing-key": format!("k{}", n / 24)}),
                        // From the top, each its own: what is given unasked comes from below.
                        1 => json!({"kube-vip.io/loadbalancerIPs": format!("172.21.0.{}", 200 - n / 6)}),
                        _ => json!({}),
                    };
                    let port = 1_000 + u16::try_from(n)?;
                    let place = format!("/api/v1/namespaces/{}/services", scope.ns);
                    let object = json!({"apiVersion": "v1", "kind": SERVICE, "spec": scope.balanced(port, "TCP"),
                        "metadata": {"name": name, "annotations": notes}});
                    patiently(|| scope.stage.server.create(&place, &object)).await?;
                    match n % 4 {
                        0 => patiently(|| scope.delete_service(&name)).await?,
                        1 => {
                            let patch = json!({"spec": {"type": "ClusterIP", "allocateLoadBalancerNodePorts": null}});
                            patiently(|| scope.merge_service(&name, patch.clone())).await?;
                            tokio::time::sleep(Duration::from_millis(50)).await;
                            patiently(|| scope.delete_service(&name)).await?;
                        }
                        _ => {}
                    }
                    anyhow::Ok(())
                }
            };
            stream::iter((0..SERVICES).map(one)).buffer_unordered(6).try_collect::<()>().await
        };
        let kills = async {
            for n in 0..KILLS {
                tokio::time::sleep(Duration::from_millis(150 + 37 * (n * 7 % 11))).await;
                allocator.kill().await?;
                allocator.start_again()?;
            }
            anyhow::Ok(())
        };
        tokio::try_join!(bursts, kills)?;
        allocator.ready().await?;
        // Those whose wish another has, wait for ever: they go.
        let calm = |state: &State| {
            let said = |one: &&Value| {
                crate::ipam::services::said(one)
                    .is_some_and(|(_, reason, _)| ["AddressTaken", "AllocationFailed"].contains(&&*reason))
            };
            let refused = state.all(SERVICE, &scope.ns).filter(said).count();
            let all = state.all(SERVICE, &scope.ns).count();
            (all > 0 && answer(state, &scope.ns) + refused == all).then_some(())
        };
        let known = || {
            stage.world.look(|state| {
                let dark: Vec<_> =
                    state.all(SERVICE, &scope.ns).filter(|one| ingress(one).is_empty()).take(3).collect();
                format!("{} of {} have one; {dark:?}", answer(state, &scope.ns), state.all(SERVICE, &scope.ns).count())
            })
        };
        calmly(&stage, "all Services to have addresses", calm).await.with_context(known)?;
        let refused: BTreeSet<String> = stage.world.look(|state| {
            let dark = state.all(SERVICE, &scope.ns).filter(|one| ingress(one).is_empty());
            dark.map(|one| name(one).to_owned()).collect()
        });
        for service in &refused {
            patiently(|| scope.delete_service(service)).await?;
        }
        ctx.note(&format!("{} were refused", refused.len()));
        let rest = |state: &State| wrong(state, &scope.ns, true).is_empty().then_some(());
        let known = || stage.world.look(|state| format!("{:?}", wrong(state, &scope.ns, true)));
        calmly(&stage, "nothing to be wrong", rest).await.with_context(known)?;
        let double = stage.world.look(|state| crate::ipam::audit::twice(&state.history));
        ensure!(double.is_empty(), "{double:?}");
        scope.no_services().await?;
        let empty = |state: &State| (state.all(ADDRESS, "").count() + state.all(CLAIM, "").count() == 0).then_some(());
        calmly(&stage, "all addresses to be free", empty).await
    };
    kept(ctx, &allocator, scope.with_agents(work)).await
}
