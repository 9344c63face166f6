//! What Cluster API's in-cluster provider tolerates, when it is replaced by Mooring.

use anyhow::{Result, ensure};
use mooring_api::finalizers::PROTECT_ADDRESS;
use serde_json::{Value, json};

use super::provider::{
    Before, CLUSTER, Pair, all_go, delete_in_the_foreground, machine_gone, of_pool, owner, ready_with, strangers,
    strangers_go, switch,
};
use crate::ipam::allocators::Allocator;
use crate::ipam::scope::{ADDRESS, CLAIM, POOL, Scope};

/// The claims that have their addresses, whatever is odd about the objects.
const BOUND: [&str; 12] = [
    "no-status",
    "no-owners",
    "no-owners-no-status",
    "restored",
    "restored-bound",
    "pool-not-an-owner",
    "old-versions",
    "no-finalizers",
    "no-labels",
    "others-finalizer",
    "outside",
    "deleted-by-hand",
];

/// The address has lost the owner reference to its pool.
fn no_pool(pair: &mut Pair) {
    let claim = pair.address["metadata"]["ownerReferences"][0].take();
    pair.address["metadata"]["ownerReferences"] = json!([claim]);
}

/// Leaves the claims of [`BOUND`].
async fn leave_linked(scope: &Scope<'_>, p: &Value) -> Result<()> {
    let owners = |pair: &mut Pair| pair.address["metadata"]["ownerReferences"].take();
    let restored = |pair: &mut Pair| {
        for at in [0, 1] {
            pair.address["metadata"]["ownerReferences"][at]["uid"] = format!("of-the-backup-{at}").into();
        }
    };
    let pair = |claim: &str, last: u8| Pair::of(p, claim, &scope.ip(last));
    let all = [
        pair("no-status", 10).but(|pair| pair.status = Value::Null),
        pair("no-owners", 11).but(|pair| drop(owners(pair))),
        pair("no-owners-no-status", 12).but(|pair| drop((owners(pair), pair.status.take()))),
        pair("restored", 13).but(|pair| drop((restored(pair), pair.status.take()))),
        pair("restored-bound", 14).but(restored),
        pair("pool-not-an-owner", 15).but(no_pool),
        pair("old-versions", 16).but(|pair| {
            for at in [0, 1] {
                pair.address["metadata"]["ownerReferences"][at]["apiVersion"] = "ipam.cluster.x-k8s.io/v1alpha1".into();
            }
        }),
        pair("no-finalizers", 17).but(|pair| {
            pair.address["metadata"]["finalizers"].take();
            pair.claim["metadata"]["finalizers"].take();
        }),
        pair("no-labels", 18).but(|pair| {
            pair.address["metadata"]["labels"].take();
            pair.claim["metadata"]["labels"].take();
        }),
        pair("others-finalizer", 19).but(|pair| {
            pair.address["metadata"]["finalizers"] = json!(["example.com/theirs", PROTECT_ADDRESS]);
        }),
        pair("outside", 99),
        pair("deleted-by-hand", 20),
    ];
    for pair in all {
        pair.leave(scope).await?;
    }
    // Its claim keeps it.
    scope.delete(ADDRESS, "deleted-by-hand").await?;
    Ok(())
}

/// Leaves claims without an address, addresses without a claim, and deletions half-way.
async fn leave_half(scope: &Scope<'_>, p: &Value) -> Result<()> {
    let pair = |claim: &str, last: u8| Pair::of(p, claim, &scope.ip(last));
    pair("torn-out", 21).but(|pair| pair.address = Value::Null).leave(scope).await?;
    pair("orphan", 22).but(|pair| pair.claim = Value::Null).leave(scope).await?;
    let links = json!([owner(p, false)]);
    let stripped = |pair: &mut Pair| {
        pair.claim = Value::Null;
        pair.address["metadata"]["ownerReferences"] = links.clone();
    };
    pair("waits-for-a-claim", 23).but(stripped).leave(scope).await?;
    pair("deleted-orphan", 24).but(stripped).leave(scope).await?;
    scope.delete(ADDRESS, "deleted-orphan").await?;
    // Deletions half-way. The garbage collector has taken the claim's owner reference off, and the machine is there.
    pair("in-the-foreground", 25).leave(scope).await?;
    scope.delete(CLAIM, "in-the-foreground").await?;
    scope.merge(ADDRESS, "in-the-foreground", json!({"metadata": {"ownerReferences": links}})).await?;
    // The garbage collector waits for the address.
    pair("in-the-foreground-alone", 26).but(no_pool).leave(scope).await?;
    delete_in_the_foreground(scope, "in-the-foreground-alone").await?;
    scope.delete(ADDRESS, "in-the-foreground-alone").await?;
    machine_gone(scope, "in-the-foreground-alone").await?;
    // The provider has stopped between its writes.
    let no_finalizer = |pair: &mut Pair| drop(pair.address["metadata"]["finalizers"].take());
    pair("released", 27).but(no_finalizer).leave(scope).await?;
    pair("released-and-gone", 28).but(|pair| pair.address = Value::Null).leave(scope).await?;
    for claim in ["released", "released-and-gone"] {
        scope.delete(CLAIM, claim).await?;
        machine_gone(scope, claim).await?;
    }
    Ok(())
}

/// What the provider tolerates: claims and addresses that are not linked, half deleted, restored, or not there at all.
pub async fn odd(scope: &Scope<'_>, allocator: &Allocator) -> Result<()> {
    allocator.stop().await?;
    scope.cluster(CLUSTER, json!({})).await?;
    let spec =
        json!({"addresses": [format!("{}-{}", scope.ip(10), scope.ip(39))], "prefix": 24, "gateway": scope.ip(1)});
    let p = scope.create(POOL, "p", spec, of_pool()).await?;
    leave_linked(scope, &p).await?;
    leave_half(scope, &p).await?;
    let strangers = strangers(scope).await?;

    let before = Before::read(scope, &strangers).await?;
    switch(allocator).await?;
    ready_with(scope, &BOUND, &before.ips()).await?;
    for name in ["released", "released-and-gone"] {
        scope.gone(CLAIM, name).await?;
    }
    for name in ["released", "orphan", "deleted-orphan", "in-the-foreground-alone"] {
        scope.gone(ADDRESS, name).await?;
    }
    // The garbage collector's part.
    scope.merge(CLAIM, "in-the-foreground-alone", json!({"metadata": {"finalizers": null}})).await?;
    scope.gone(CLAIM, "in-the-foreground-alone").await?;
    // Nobody gets an address of another, though all free ones are claimed.
    let torn_out = scope.bound("torn-out").await?.ip().to_owned();
    let others = before.ips();
    let lives = |ip: &str| {
        others.iter().any(|(name, of)| of == ip && (BOUND.contains(&&**name) || name == "waits-for-a-claim"))
    };
    ensure!(!lives(&torn_out), "torn-out has {torn_out}");
    for number in 0..16 {
        let claim = format!("more-{number}");
        scope.claim(&claim, "p").await?;
        let ip = scope.bound(&claim).await?.ip().to_owned();
        ensure!(!lives(&ip) && ip != torn_out && ip != scope.ip(25), "{claim} has {ip}");
    }
    // 30 addresses: 11 of the first claims, torn-out's, and two that wait for a claim or a machine.
    scope.claim("one-too-many", "p").await?;
    scope.refused("one-too-many", "PoolExhausted").await?;
    before.kept(scope, &BOUND, true).await?;
    before.kept(scope, &["in-the-foreground", "waits-for-a-claim"], false).await?;
    before.strangers_are_untouched(scope).await?;
    // The machine is gone: so is its claim, and another claim has the address.
    machine_gone(scope, "in-the-foreground").await?;
    scope.gone(CLAIM, "in-the-foreground").await?;
    ensure!(scope.bound("one-too-many").await?.ip() == scope.ip(25), "the address is lost");
    strangers_go(scope).await?;
    // The claim comes for which the address waits.
    scope.claim("waits-for-a-claim", "p").await?;
    ensure!(scope.bound("waits-for-a-claim").await?.ip() == scope.ip(23), "it was not kept");
    scope.merge(ADDRESS, "others-finalizer", json!({"metadata": {"finalizers": [PROTECT_ADDRESS]}})).await?;
    scope.sound().await?;
    all_go(scope).await?;
    scope.counts(POOL, "p", [30, 30, 0, 0]).await
}

/// A paused Cluster: nothing is written on its claims and addresses, and nobody else gets them.
pub async fn paused(scope: &Scope<'_>, allocator: &Allocator) -> Result<()> {
    allocator.stop().await?;
    scope.cluster(CLUSTER, json!({"paused": true})).await?;
    let p = scope.create(POOL, "p", scope.range(10, 15), of_pool()).await?;
    let pair = |claim: &str, last: u8| Pair::of(&p, claim, &scope.ip(last));
    pair("bound", 10).leave(scope).await?;
    pair("no-status", 11).but(|pair| pair.status = Value::Null).leave(scope).await?;
    pair("no-owners", 12).but(|pair| drop(pair.address["metadata"]["ownerReferences"].take())).leave(scope).await?;
    pair("going", 13).leave(scope).await?;
    scope.delete(CLAIM, "going").await?;
    machine_gone(scope, "going").await?;
    let names = ["bound", "no-status", "no-owners", "going"];
    let before = Before::read(scope, &[]).await?;
    switch(allocator).await?;
    for (claim, last) in [("new-a", 14), ("new-b", 15)] {
        scope.claim(claim, "p").await?;
        ensure!(scope.bound(claim).await?.ip() == scope.ip(last), "it has another");
    }
    scope.claim("new-c", "p").await?;
    scope.refused("new-c", "PoolExhausted").await?;
    scope.canary().await?;
    before.untouched(scope, &names).await?;
    scope.merge_cluster(CLUSTER, json!({"spec": {"paused": false}})).await?;
    ready_with(scope, &names[..3], &before.ips()).await?;
    before.kept(scope, &names[..3], true).await?;
    scope.gone(CLAIM, "going").await?;
    ensure!(scope.bound("new-c").await?.ip() == scope.ip(13), "the released address is lost");
    scope.sound().await?;
    all_go(scope).await?;
    scope.counts(POOL, "p", [6, 6, 0, 0]).await
}
