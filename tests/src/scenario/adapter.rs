//! Addresses of `VSphereMachine`s, on a real API server: from a pool that labels name to the devices, and back with the machine.

use std::collections::BTreeSet;

use anyhow::{Context as _, Result, ensure};
use serde_json::json;

use super::story;
use crate::ipam::allocators::Allocator;
use crate::ipam::endpoint::kill_again_and_again;
use crate::ipam::machines::{ARGS, Machines, device, up};
use crate::ipam::scope::{ADDRESS, CLAIM, POOL};
use crate::rig::allocator::AllocatorRig;
use crate::runner::{Ctx, Test};

/// The stories of this theme.
pub fn all() -> Vec<Test<()>> {
    vec![
        story!("adapter", one_address, "an-address-that-is-released-with-its-machine", 10).quick(),
        story!("adapter", several, "both-families-no-label-and-paused", 10),
        story!("adapter", killed, "killed-again-and-again-nothing-leaks", 10).nightly(),
    ]
}

async fn one_address(_: &mut Ctx<()>) -> Result<()> {
    let rig = up().await?;
    let allocator = rig.start_with("allocator", &ARGS).await?;
    let scope = rig.scope().await?;
    let machines = Machines { scope: &scope };
    let notes = json!({"annotations": {"mooring.dev/nameservers": "10.0.0.53, 10.0.0.54", "mooring.dev/search-domains": "example.com"}});
    let spec =
        json!({"addresses": [format!("{}-{}", scope.ip(10), scope.ip(20))], "prefix": 24, "gateway": scope.ip(1)});
    scope.create(POOL, "workers", spec, notes).await?;
    machines.prepare(&json!({"cluster.x-k8s.io/ip-pool-name": "workers"})).await?;
    machines.create("m", &json!([device("vm-network")])).await?;
    let devices = machines.served("m").await?;
    let expected = json!([{"networkName": "vm-network", "dhcp4": false, "mtu": 9_000, "ipAddrs": [format!("{}/24", scope.ip(10))],
        "gateway4": scope.ip(1), "nameservers": ["10.0.0.53", "10.0.0.54"], "searchDomains": ["example.com"]}]);
    ensure!(devices == expected, "{devices}");
    let claim = scope.bound("m-0").await?;
    ensure!(claim.ip() == scope.ip(10), "{}", claim.address);
    machines.says("m", "AddressWritten").await?;
    // Whoever deletes the claim: the virtual machine has the address until it is destroyed.
    scope.delete(CLAIM, "m-0").await?;
    machines.delete("m").await?;
    scope.canary().await?;
    ensure!(scope.seen(CLAIM, "m-0").is_some() && scope.seen(ADDRESS, "m-0").is_some(), "it was released too early");
    ensure!(allocator.metric("mooring_allocator_machine_writes_total", &[]).await? == Some(2.0), "other writes");
    machines.destroyed("m").await?;
    scope.gone(CLAIM, "m-0").await?;
    scope.gone(ADDRESS, "m-0").await?;
    scope.sound().await?;
    allocator.stop().await
}

/// Three stories in namespaces of their own, at the same time.
async fn several(_: &mut Ctx<()>) -> Result<()> {
    let rig = up().await?;
    let allocator = rig.start_with("allocator", &ARGS).await?;
    tokio::try_join!(
        async { families(&rig).await.context("both families, and several devices") },
        async { no_label(&rig, &allocator).await.context("no label") },
        async { paused(&rig).await.context("paused") },
    )?;
    allocator.stop().await
}

/// Two pools of a group, one of each family; and a claim that nobody deletes goes with its machine.
async fn families(rig: &AllocatorRig) -> Result<()> {
    let scope = rig.scope().await?;
    let machines = Machines { scope: &scope };
    let group = || json!({"labels": {"cluster.x-k8s.io/ip-pool-group": "prod"}});
    scope.create(POOL, "four", scope.range(10, 20), group()).await?;
    let six = json!({"addresses": [format!("{}-{}", scope.ip6("10"), scope.ip6("20"))], "prefix": 64, "gateway": scope.ip6("1")});
    scope.create(POOL, "six", six, group()).await?;
    scope.pool("other", scope.range(30, 40)).await?;
    machines.prepare(&json!({"cluster.x-k8s.io/ip-pool-group": "prod"})).await?;
    let theirs = json!([
        {"networkName": "b", "dhcp4": true},
        {"networkName": "c", "ipAddrs": ["192.0.2.7/24"], "gateway4": "192.0.2.1"},
        {"networkName": "d", "addressesFromPools": [{"apiGroup": "ipam.cluster.x-k8s.io", "kind": POOL, "name": "other"}]},
    ]);
    let mut all = vec![device("a")];
    all.extend(theirs.as_array().cloned().unwrap_or_default());
    let mut last = device("e");
    last["gateway6"] = json!("fd00::1");
    all.push(last);
    machines.create("m", &json!(all)).await?;
    let devices = machines.served("m").await?;
    // Each device has an address of each family. Which claim came first is not said.
    let address = |device: usize, at: usize| devices[device]["ipAddrs"][at].as_str().unwrap_or_default();
    let four = BTreeSet::from([address(0, 0), address(4, 0)]);
    let six = BTreeSet::from([address(0, 1), address(4, 1)]);
    let (first, second) = (format!("{}/24", scope.ip(10)), format!("{}/24", scope.ip(11)));
    ensure!(four == BTreeSet::from([&*first, &*second]), "{devices}");
    let (first, second) = (format!("{}/64", scope.ip6("10")), format!("{}/64", scope.ip6("11")));
    ensure!(six == BTreeSet::from([&*first, &*second]), "{devices}");
    ensure!(
        [0, 4].iter().all(|device| devices[*device]["ipAddrs"].as_array().is_some_and(|all| all.len() == 2)),
        "{devices}"
    );
    ensure!(devices[0]["gateway6"] == scope.ip6("1") && devices[4]["gateway6"] == "fd00::1", "{devices}");
    for (at, device) in theirs.as_array().into_iter().flatten().enumerate() {
        ensure!(devices[at + 1] == *device, "it was left to others: {}", devices[at + 1]);
    }
    let claims = ["m-0", "m-0-v6", "m-4", "m-4-v6"];
    for name in claims {
        scope.bound(name).await?;
    }
    machines.delete("m").await?;
    machines.destroyed("m").await?;
    for name in claims {
        scope.gone(CLAIM, name).await?;
    }
    scope.sound().await
}

/// No label is an error that says so; a label that the template gets later ends it.
async fn no_label(rig: &AllocatorRig, allocator: &Allocator) -> Result<()> {
    let scope = rig.scope().await?;
    let machines = Machines { scope: &scope };
    scope.pool("any", scope.range(10, 20)).await?;
    machines.prepare(&json!({})).await?;
    machines.create("m", &json!([device("vm-network")])).await?;
    let said = machines.says("m", "NoSelector").await?;
    ensure!(
        said.contains("cluster.x-k8s.io/ip-pool-name") && said.contains("VSphereMachineTemplate workers"),
        "{said}"
    );
    ensure!(scope.seen(CLAIM, "m-0").is_none(), "it has a claim of some pool");
    ensure!(machines.devices("m").await? == json!([device("vm-network")]), "it was written");
    let waiting = allocator.metric("mooring_allocator_machines", &["NoSelector"]).await?;
    ensure!(waiting == Some(1.0), "{waiting:?}");
    machines.label_template(&json!({"cluster.x-k8s.io/ip-pool-name": "any"})).await?;
    machines.served("m").await?;
    Ok(())
}

/// While the Cluster is paused nothing is written, and nothing released.
async fn paused(rig: &AllocatorRig) -> Result<()> {
    let scope = rig.scope().await?;
    let machines = Machines { scope: &scope };
    scope.pool("workers", scope.range(10, 20)).await?;
    machines.prepare(&json!({"cluster.x-k8s.io/ip-pool-name": "workers"})).await?;
    scope.merge_cluster("prod", json!({"spec": {"paused": true}})).await?;
    scope.canary().await?;
    machines.create("m", &json!([device("vm-network")])).await?;
    machines.says("m", "Paused").await?;
    ensure!(scope.seen(CLAIM, "m-0").is_none(), "it has a claim");
    scope.merge_cluster("prod", json!({"spec": {"paused": null}})).await?;
    machines.served("m").await?;
    scope.merge_cluster("prod", json!({"metadata": {"annotations": {"cluster.x-k8s.io/paused": ""}}})).await?;
    scope.canary().await?;
    machines.delete("m").await?;
    machines.destroyed("m").await?;
    scope.canary().await?;
    ensure!(
        scope.seen(CLAIM, "m-0").is_some_and(|one| one["metadata"]["deletionTimestamp"].is_null()),
        "it was released"
    );
    scope.merge_cluster("prod", json!({"metadata": {"annotations": {"cluster.x-k8s.io/paused": null}}})).await?;
    scope.gone(CLAIM, "m-0").await
}

/// Kills the allocator, again and again, while 50 machines get their addresses and half of them go.
async fn killed(_: &mut Ctx<()>) -> Result<()> {
    const MACHINES: usize = 50;
    let rig = up().await?;
    let allocator = rig.start_with("allocator", &ARGS).await?;
    let scope = rig.scope().await?;
    let machines = Machines { scope: &scope };
    scope.pool("workers", scope.range(10, 80)).await?;
    machines.prepare(&json!({"cluster.x-k8s.io/ip-pool-name": "workers"})).await?;
    let names: Vec<String> = (0..MACHINES).map(|n| format!("m{n}")).collect();
    let (gone, left) = names.split_at(MACHINES / 2);
    let work = async {
        for name in &names {
            machines.create(name, &json!([device("vm-network")])).await?;
        }
        for name in &names {
            machines.served(name).await?;
        }
        for name in gone {
            machines.delete(name).await?;
            machines.destroyed(name).await?;
        }
        for name in gone {
            scope.gone(CLAIM, &format!("{name}-0")).await?;
        }
        Ok::<_, anyhow::Error>(())
    };
    tokio::select! {
        ended = work => ended?,
        ended = kill_again_and_again(&allocator) => ended?,
    }
    allocator.kill().await.ok();
    allocator.start_again()?;
    allocator.ready().await?;
    let mut had = BTreeSet::new();
    for name in left {
        let devices = machines.devices(name).await?;
        let bound = scope.bound(&format!("{name}-0")).await?;
        ensure!(
            devices[0]["ipAddrs"] == json!([format!("{}/24", bound.ip())]),
            "{name}: {devices}, and {}",
            bound.address
        );
        had.insert(bound.ip().to_owned());
    }
    ensure!(had.len() == left.len(), "an address twice: {had:?}");
    scope.sound().await?;
    let count = |kind| rig.world.look(|state| state.all(kind, &scope.ns).count());
    ensure!((count(CLAIM), count(ADDRESS)) == (left.len(), left.len()), "something leaked");
    scope.counts(POOL, "workers", [71, 71 - 25, 25, 0]).await?;
    allocator.stop().await
}
