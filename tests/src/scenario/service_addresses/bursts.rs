//! Many Services at once, and an allocator that dies meanwhile: no address twice, none leaked, no Service forgotten.

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
use crate::ipam::world::State;
use crate::rig::allocator::{AllocatorRig, name};
use crate::runner::{Ctx, Test};

/// How many user requests are under way at a time.
const WORKERS: usize = 16;
/// How long the last request may take.
const EVENTUALLY: Duration = Duration::from_mins(5);

pub fn all() -> Vec<Test<()>> {
    vec![
        story!("service-addresses", thousand, "a-thousand-at-once", 10).nightly(),
        story!("service-addresses", killed, "killed-during-bursts", 10),
    ]
}

/// Waits until `look` finds something. Unlike `World::until`, does not look after every change, because `look` goes
/// through all objects.
async fn eventually<T>(rig: &AllocatorRig, what: &str, look: impl Fn(&State) -> Option<T>) -> Result<T> {
    let deadline = Instant::now() + EVENTUALLY;
    loop {
        if let Some(found) = rig.world.look(&look) {
            return Ok(found);
        }
        ensure!(Instant::now() < deadline, "waited {} s for {what}", EVENTUALLY.as_secs());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Keeps the allocator's log for the analysis of a failure.
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

/// The errors in a state in which nothing is under way.
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
    let rig = AllocatorRig::up(Crds::Standalone).await?;
    let allocator = rig.start("allocator").await?;
    let scope = rig.scope().await?;
    scope.configure(json!({"range-global": "172.20.0.1-172.20.7.254"})).await?;
    let work = async {
        let begin = Instant::now();
        make(&scope, usize::from(SERVICES)).await?;
        let made = begin.elapsed();
        let all = |state: &State| (answer(state, &scope.ns) == usize::from(SERVICES)).then_some(());
        let known = || rig.world.look(|state| format!("{} have one", answer(state, &scope.ns)));
        eventually(&rig, "all Services to have addresses", all).await.with_context(known)?;
        let took = begin.elapsed();
        let seconds = allocator.metric("mooring_allocator_service_assignment_seconds_sum", &[]).await?;
        let mean = seconds.unwrap_or_default() / f64::from(SERVICES);
        ctx.note(&format!(
            "{SERVICES} Services made in {made:?}, all in status after {took:?}; from seen to annotated {mean:.3} s on average"
        ));
        let (_, page) = allocator.get("/metrics").await?;
        page.lines().filter(|line| line.contains("_api_calls_total{")).for_each(|line| ctx.note(line));
        let found = rig.world.look(|state| wrong(state, &scope.ns, false));
        ensure!(found.is_empty(), "{} wrong: {:?}", found.len(), found.iter().take(5).collect::<Vec<_>>());
        let begin = Instant::now();
        scope.no_services().await?;
        let empty = |state: &State| (state.all(ADDRESS, "").count() == 0).then_some(());
        eventually(&rig, "all addresses to be free", empty).await?;
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
        patiently(|| scope.rig.server.create(&place, &object)).await
    };
    stream::iter((0..count).map(one)).buffer_unordered(WORKERS).try_collect::<()>().await
}

/// Repeats a request until a busy API server has answered. An answer that the change is done already, or that the
/// object is gone, counts as success.
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

/// Services are created, change their requests and are deleted while the allocator is killed again and again.
async fn killed(ctx: &mut Ctx<()>) -> Result<()> {
    const SERVICES: usize = 240;
    const KILLS: u64 = 8;
    let rig = AllocatorRig::up(Crds::Standalone).await?;
    let allocator = rig.start("allocator").await?;
    let scope = rig.scope().await?;
    // Fewer addresses than Services at a time: a released address is given out again at once.
    scope.configure(json!({"range-global": "172.21.0.1-172.21.0.200"})).await?;
    let work = async {
        let bursts = async {
            let one = |n: usize| {
                let scope = &scope;
                async move {
                    let name = format!("s-{n:04}");
                    let notes = match n % 6 {
                        0 => json!({"mooring.dev/sharing-key": format!("k{}", n / 24)}),
                        // Requested addresses come from the top, each a different one: the allocator gives out the
                        // lowest first.
                        1 => json!({"kube-vip.io/loadbalancerIPs": format!("172.21.0.{}", 200 - n / 6)}),
                        _ => json!({}),
                    };
                    let port = 1_000 + u16::try_from(n)?;
                    let place = format!("/api/v1/namespaces/{}/services", scope.ns);
                    let object = json!({"apiVersion": "v1", "kind": SERVICE, "spec": scope.balanced(port, "TCP"),
                        "metadata": {"name": name, "annotations": notes}});
                    patiently(|| scope.rig.server.create(&place, &object)).await?;
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
        // A Service whose requested address is taken waits for ever: delete such Services.
        let served = |state: &State| {
            let said = |one: &&Value| {
                crate::ipam::services::said(one)
                    .is_some_and(|(_, reason, _)| ["AddressTaken", "AllocationFailed"].contains(&&*reason))
            };
            let refused = state.all(SERVICE, &scope.ns).filter(said).count();
            let all = state.all(SERVICE, &scope.ns).count();
            (all > 0 && answer(state, &scope.ns) + refused == all).then_some(())
        };
        let known = || {
            rig.world.look(|state| {
                let dark: Vec<_> =
                    state.all(SERVICE, &scope.ns).filter(|one| ingress(one).is_empty()).take(3).collect();
                format!("{} of {} have one; {dark:?}", answer(state, &scope.ns), state.all(SERVICE, &scope.ns).count())
            })
        };
        eventually(&rig, "all Services to have addresses", served).await.with_context(known)?;
        let refused: BTreeSet<String> = rig.world.look(|state| {
            let dark = state.all(SERVICE, &scope.ns).filter(|one| ingress(one).is_empty());
            dark.map(|one| name(one).to_owned()).collect()
        });
        for service in &refused {
            patiently(|| scope.delete_service(service)).await?;
        }
        ctx.note(&format!("{} were refused", refused.len()));
        let rest = |state: &State| wrong(state, &scope.ns, true).is_empty().then_some(());
        let known = || rig.world.look(|state| format!("{:?}", wrong(state, &scope.ns, true)));
        eventually(&rig, "nothing to be wrong", rest).await.with_context(known)?;
        let double = rig.world.look(|state| crate::ipam::audit::twice(&state.history));
        ensure!(double.is_empty(), "{double:?}");
        scope.no_services().await?;
        let empty = |state: &State| (state.all(ADDRESS, "").count() + state.all(CLAIM, "").count() == 0).then_some(());
        eventually(&rig, "all addresses to be free", empty).await
    };
    kept(ctx, &allocator, scope.with_agents(work)).await
}
