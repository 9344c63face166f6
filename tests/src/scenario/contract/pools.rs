//! The addresses that a pool may give out, in each form of pool, and the output of `kubectl get` for the pool.

use anyhow::{Context as _, Result, ensure};
use http::Method;
use serde_json::{Value, json};

use super::both;
use super::telling::event;
use crate::ipam::allocators::Allocator;
use crate::ipam::scope::{CLAIM, POOL, Scope};
use crate::ipam::server::place_in;
use crate::runner::Test;

/// What `kubectl get` asks for.
const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";

pub fn all() -> Vec<Test<()>> {
    [
        both!(tutorial, "the-pool-of-every-tutorial"),
        both!(forms, "single-addresses-ranges-and-cidrs"),
        both!(never, "gateway-excluded-and-reserved-are-never-given"),
        both!(reserved, "allocate-reserved-addresses"),
        both!(six, "ipv6"),
        both!(huge, "huge-pools"),
        both!(old_form, "old-form-of-v1alpha1"),
        both!(prefixes, "prefix-pools"),
        both!(global_prefixes, "global-prefix-pools"),
        both!(shrunk, "shrunk-pool-counts-what-is-out-of-range"),
        both!(overlapping, "overlapping-pools-share-one-view"),
        both!(networks, "pools-of-different-networks-do-not"),
        both!(apart, "pools-of-two-namespaces-with-one-range-are-told-at-once"),
        both!(held_elsewhere, "what-another-pools-claims-have-is-not-free"),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// A line of `kubectl get`, without the age.
async fn line(scope: &Scope<'_>, kind: &str, name: &str) -> Result<Vec<Value>> {
    let table = scope.rig.server.ask(Method::GET, &scope.path(kind, name), None, TABLE).await?;
    let columns = table["columnDefinitions"].as_array().context("no columns")?;
    let cells = table["rows"][0]["cells"].as_array().context("no line")?;
    let shown = |column: &Value| column["priority"] == 0 && column["name"] != "Age";
    Ok(columns.iter().zip(cells).filter(|(column, _)| shown(column)).map(|(_, cell)| cell.clone()).collect())
}

async fn tutorial(scope: &Scope<'_>, _: &Allocator) -> Result<()> {
    // Another network than in the tests before, in case some of their addresses are left.
    let spec = json!({
        "addresses": ["10.10.222.232-10.10.222.238"], "prefix": 24, "gateway": "10.10.222.1", "network": scope.ns,
    });
    let kind = "GlobalInClusterIPPool";
    let name = format!("{}-wc-cp-ips", scope.ns);
    scope.create(kind, &name, spec, json!({})).await?;
    scope.claim_with("the-first-cluster", kind, &name, json!({})).await?;
    scope.bound("the-first-cluster").await?;
    scope.counts(kind, &name, [7, 6, 1, 0]).await?;
    let addresses = json!("[\"10.10.222.232-10.10.222.238\"]");
    let seen = line(scope, kind, &name).await?;
    ensure!(seen == [json!(name), addresses.clone(), json!(7), json!(6), json!(1), json!("True")], "{seen:?}");
    scope.claim_with("give-me-an-ip", kind, &name, json!({})).await?;
    scope.bound("give-me-an-ip").await?;
    scope.counts(kind, &name, [7, 5, 2, 0]).await?;
    let seen = line(scope, kind, &name).await?;
    ensure!(seen == [json!(name), addresses, json!(7), json!(5), json!(2), json!("True")], "{seen:?}");
    let seen = line(scope, "IPAddress", "give-me-an-ip").await?;
    ensure!(seen == [json!("give-me-an-ip"), json!("10.10.222.233"), json!(name), json!(kind)], "{seen:?}");
    // Not every version of Cluster API's own definition has the column Ready.
    let seen = line(scope, CLAIM, "give-me-an-ip").await?;
    ensure!(seen.starts_with(&[json!("give-me-an-ip"), json!(name), json!(kind)]), "{seen:?}");
    Ok(())
}

/// The addresses that this number of claims get, in order.
async fn given(scope: &Scope<'_>, kind: &str, pool: &str, count: usize) -> Result<Vec<String>> {
    let mut all = Vec::new();
    for n in 0..count {
        let name = format!("{pool}-{n}");
        scope.claim_with(&name, kind, pool, json!({})).await?;
        all.push(scope.bound(&name).await?.ip().to_owned());
    }
    Ok(all)
}

async fn forms(scope: &Scope<'_>, _: &Allocator) -> Result<()> {
    let spec = json!({
        "addresses": [scope.ip(77), format!("{}-{}", scope.ip(20), scope.ip(21)), format!("{}/31", scope.ip(40))],
        "prefix": 24,
    });
    scope.pool("p", spec).await?;
    scope.counts(POOL, "p", [5, 5, 0, 0]).await?;
    let got = given(scope, POOL, "p", 5).await?;
    ensure!(got == [20, 21, 40, 41, 77].map(|last| scope.ip(last)), "{got:?}");
    scope.sound().await
}

async fn never(scope: &Scope<'_>, _: &Allocator) -> Result<()> {
    let spec = json!({
        "addresses": [format!("{}/29", scope.ip(0))], "prefix": 29, "gateway": scope.ip(1),
        "excludedAddresses": [scope.ip(3), format!("{}-{}", scope.ip(5), scope.ip(6))],
    });
    scope.pool("p", spec).await?;
    // .0 and .7 are the network's, .1 is the gateway; .3, .5 and .6 are excluded.
    scope.counts(POOL, "p", [2, 2, 0, 0]).await?;
    let got = given(scope, POOL, "p", 2).await?;
    ensure!(got == [2, 4].map(|last| scope.ip(last)), "{got:?}");
    scope.claim("more", "p").await?;
    scope.refused("more", "PoolExhausted").await?;
    Ok(())
}

async fn reserved(scope: &Scope<'_>, _: &Allocator) -> Result<()> {
    // A pool of one address, for one VIP.
    let one = |all: bool| json!({"addresses": [scope.ip(9)], "prefix": 32, "allocateReservedIPAddresses": all});
    scope.pool("with", one(true)).await?;
    let got = given(scope, POOL, "with", 1).await?;
    ensure!(got == [scope.ip(9)], "{got:?}");
    let mut net = json!({"addresses": [format!("{}/30", scope.ip(16))], "prefix": 30});
    scope.pool("without", net.clone()).await?;
    scope.counts(POOL, "without", [2, 2, 0, 0]).await?;
    net["allocateReservedIPAddresses"] = json!(true);
    scope.merge(POOL, "without", json!({"spec": net})).await?;
    scope.counts(POOL, "without", [4, 4, 0, 0]).await?;
    let got = given(scope, POOL, "without", 4).await?;
    ensure!(got == [16, 17, 18, 19].map(|last| scope.ip(last)), "{got:?}");
    Ok(())
}

async fn six(scope: &Scope<'_>, _: &Allocator) -> Result<()> {
    let spec = json!({"addresses": [format!("{}/64", scope.ip6(""))], "prefix": 64, "gateway": scope.ip6("1")});
    scope.pool("p", spec).await?;
    let got = given(scope, POOL, "p", 3).await?;
    // The first is the routers' own, the next the gateway.
    ensure!(got == ["2", "3", "4"].map(|rest| scope.ip6(rest)), "{got:?}");
    let bound = scope.bound("p-0").await?;
    ensure!(bound.address["spec"]["prefix"] == 64 && bound.address["spec"]["gateway"] == scope.ip6("1"), "{bound:?}");
    // A count that is too large is reported as the largest possible number.
    let told = scope.rig.world.until("the counts", |state| {
        let counts = state.get(POOL, &scope.ns, "p")?.pointer("/status/ipAddresses")?;
        (counts["used"] == 3).then(|| counts.clone())
    });
    let counts = told.await?;
    ensure!(counts["total"] == i64::MAX && counts["free"].as_i64().is_some_and(|free| free > i64::MAX / 2), "{counts}");
    scope.sound().await
}

async fn huge(scope: &Scope<'_>, _: &Allocator) -> Result<()> {
    let pools = [
        ("eight", json!({"addresses": ["11.0.0.0/8"], "prefix": 8, "network": scope.ns}), "11.0.0.1"),
        ("most", json!({"addresses": ["::/1"], "prefix": 1, "network": scope.ns}), "::1"),
        (
            "all",
            json!({"addresses": ["0.0.0.0-255.255.255.255"], "prefix": 0, "network": format!("{}-b", scope.ns)}),
            "0.0.0.1",
        ),
    ];
    for (name, spec, first) in pools {
        scope.pool(name, spec).await?;
        let got = given(scope, POOL, name, 2).await?;
        ensure!(got[0] == first, "{name}: {got:?}");
    }
    scope.counts(POOL, "eight", [(1 << 24) - 2, (1 << 24) - 4, 2, 0]).await?;
    scope.counts(POOL, "all", [(1 << 32) - 2, (1 << 32) - 4, 2, 0]).await
}

async fn old_form(scope: &Scope<'_>, _: &Allocator) -> Result<()> {
    let all = place_in("v1alpha1", POOL, &scope.ns);
    let pools = [
        ("subnet", json!({"subnet": format!("{}/29", scope.ip(0)), "gateway": scope.ip(1)}), [2, 3], 5),
        ("range", json!({"start": scope.ip(20), "end": scope.ip(25), "prefix": 24}), [20, 21], 6),
        (
            "both",
            json!({"subnet": format!("{}/24", scope.ip(0)), "start": scope.ip(30), "end": scope.ip(34)}),
            [30, 31],
            5,
        ),
    ];
    for (name, spec, first, total) in pools {
        let object = json!({
            "apiVersion": "ipam.cluster.x-k8s.io/v1alpha1", "kind": POOL, "metadata": {"name": name}, "spec": spec,
        });
        scope.rig.server.create(&all, &object).await?;
        scope.counts(POOL, name, [total, total, 0, 0]).await?;
        let got = given(scope, POOL, name, 2).await?;
        ensure!(got == first.map(|last| scope.ip(last)), "{name}: {got:?}");
        let bound = scope.bound(&format!("{name}-0")).await?;
        let length = if name == "subnet" { 29 } else { 24 };
        ensure!(bound.address["spec"]["prefix"] == length, "{name}: {}", bound.address);
    }
    scope.sound().await
}

async fn prefixes(scope: &Scope<'_>, _: &Allocator) -> Result<()> {
    let kind = "InClusterPrefixPool";
    // fd00:N::/62 has four networks of 64; one of them is excluded.
    let net = |n: u8| scope.ip6("").replace("::", &if n == 0 { "::".to_owned() } else { format!(":0:{n}::") });
    let spec = json!({
        "prefixes": [format!("{}/62", net(0))], "excludedPrefixes": [format!("{}/64", net(1))], "gateway": "fe80::1",
    });
    scope.create(kind, "p", spec, json!({})).await?;
    scope.counts(kind, "p", [3, 3, 0, 0]).await?;
    let got = given(scope, kind, "p", 3).await?;
    ensure!(got == [0, 2, 3].map(net), "{got:?}");
    let spec = scope.bound("p-0").await?.address["spec"].clone();
    ensure!(spec["prefix"] == 64 && spec["poolRef"]["kind"] == kind, "{spec}");
    scope.claim_with("more", kind, "p", json!({})).await?;
    scope.refused("more", "PoolExhausted").await?;
    scope.delete(CLAIM, "p-1").await?;
    let got = scope.bound("more").await?;
    ensure!(got.ip() == net(2), "{}", got.ip());
    let seen = line(scope, kind, "p").await?;
    ensure!(seen[0] == "p" && seen[2] == 3, "{seen:?}");
    scope.sound().await
}

async fn global_prefixes(scope: &Scope<'_>, _: &Allocator) -> Result<()> {
    let (kind, name) = ("GlobalInClusterPrefixPool", format!("{}-prefixes", scope.ns));
    let base = scope.ip6("");
    let spec = json!({"prefixes": [format!("{base}/48")], "allocationPrefixLength": 56});
    scope.create(kind, &name, spec, json!({})).await?;
    let got = given(scope, kind, &name, 2).await?;
    ensure!(got == [base.clone(), base.replace("::", ":0:100::")], "{got:?}");
    scope.counts(kind, &name, [256, 254, 2, 0]).await
}

async fn shrunk(scope: &Scope<'_>, _: &Allocator) -> Result<()> {
    scope.pool("p", scope.range(10, 13)).await?;
    given(scope, POOL, "p", 3).await?;
    scope.merge(POOL, "p", json!({"spec": scope.range(12, 13)})).await?;
    // No claim loses its address; the counts are as the provider counts.
    scope.counts(POOL, "p", [2, -1, 3, 2]).await?;
    let (_, message) = scope.pool_says(POOL, "p", "OutOfRange", true).await?;
    ensure!(message.contains("2 addresses"), "{message}");
    scope.claim("more", "p").await?;
    let bound = scope.bound("more").await?;
    ensure!(bound.ip() == scope.ip(13), "{}", bound.ip());
    scope.sound().await
}

async fn overlapping(scope: &Scope<'_>, _: &Allocator) -> Result<()> {
    scope.pool("p", scope.range(10, 11)).await?;
    scope.pool("q", scope.range(11, 12)).await?;
    let got = [given(scope, POOL, "q", 1).await?, given(scope, POOL, "p", 1).await?].concat();
    ensure!(got == [11, 10].map(|last| scope.ip(last)), "{got:?}");
    scope.claim("third", "p").await?;
    scope.refused("third", "PoolExhausted").await?;
    for (pool, other) in [("p", "q"), ("q", "p")] {
        let (reason, message) = scope.pool_says(POOL, pool, "Overlapping", true).await?;
        ensure!(reason == "SharedWithOtherPools" && message.contains(&format!("/{other}")), "{reason} {message}");
    }
    // An address that one pool gets back can be given out by the other.
    scope.delete(CLAIM, "q-0").await?;
    let third = scope.bound("third").await?;
    ensure!(third.ip() == scope.ip(11), "{}", third.ip());
    scope.merge(POOL, "q", json!({"spec": scope.range(12, 12)})).await?;
    scope.pool_says(POOL, "p", "Overlapping", false).await?;
    scope.sound().await
}

/// A pool for each cluster in a namespace of its own, all of one range: each may give an address of it, and people are told.
async fn apart(scope: &Scope<'_>, _: &Allocator) -> Result<()> {
    let other = scope.rig.scope().await?;
    scope.pool("p", scope.range(10, 12)).await?;
    scope.pool_says(POOL, "p", "Overlapping", false).await?;
    other.pool("p", scope.range(12, 14)).await?;
    for one in [scope, &other] {
        let (reason, message) = one.pool_says(POOL, "p", "Overlapping", true).await?;
        ensure!(reason == "SharedWithOtherPools" && message.contains("1 pool of another namespace"), "{message}");
        ensure!(message.contains("--one-network") && !message.contains("/p"), "{message}");
        let told = event(one, "p", "SharedWithOtherPools").await?;
        ensure!(told["type"] == "Warning" && told["note"].as_str() == Some(&*message), "{told}");
    }
    other.delete(POOL, "p").await?;
    scope.pool_says(POOL, "p", "Overlapping", false).await?;
    Ok(())
}

/// FREE is what claims may be given, and who waits is told which pools' claims have the addresses.
async fn held_elsewhere(scope: &Scope<'_>, _: &Allocator) -> Result<()> {
    scope.pool("has", scope.range(10, 10)).await?;
    scope.claim("first", "has").await?;
    scope.bound("first").await?;
    scope.pool("lacks", scope.range(10, 10)).await?;
    scope.counts(POOL, "lacks", [1, 0, 0, 0]).await?;
    let (_, message) = scope.pool_says(POOL, "lacks", "Exhausted", true).await?;
    ensure!(message.contains("condition Overlapping"), "{message}");
    scope.claim("second", "lacks").await?;
    scope.refused_with("second", "PoolExhausted", &format!("InClusterIPPool {}/has", scope.ns)).await?;
    scope.delete(CLAIM, "first").await?;
    scope.bound("second").await?;
    scope.counts(POOL, "lacks", [1, 0, 1, 0]).await?;
    scope.counts(POOL, "has", [1, 0, 0, 0]).await?;
    scope.sound().await
}

async fn networks(scope: &Scope<'_>, _: &Allocator) -> Result<()> {
    for network in ["a", "b"] {
        let mut spec = scope.range(10, 11);
        spec["network"] = json!(format!("{}-{network}", scope.ns));
        scope.pool(network, spec).await?;
        let got = given(scope, POOL, network, 1).await?;
        ensure!(got == [scope.ip(10)], "{network}: {got:?}");
    }
    scope.pool_says(POOL, "a", "Overlapping", false).await?;
    scope.pool_says(POOL, "b", "Overlapping", false).await?;
    Ok(())
}
