//! TLS, an app's code, IPv6; and pools and objects that the earlier provider has left.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use mooring_api::finalizers::{PROTECT_ADDRESS, RELEASE_ADDRESS};
use serde_json::{Value, json};

use super::life::LONGEST;
use super::{ARGS, KIND, all_bound, claim, delete_all, nothing_is_told, pool_is, pool_with, told, up, with_kind};
use crate::ipam::audit::ready;
use crate::ipam::phpipam::{APP, CODE, CODE_APP, PASSWORD, PhpIpam, USER};
use crate::ipam::scope::{ADDRESS, CLAIM, Scope, reference};
use crate::ipam::server::IPAM;
use crate::observe::now;
use crate::runner::Ctx;

/// Whoever may write pools names a server of their own, for a Secret with another server's credential, with none, and for the token of a
/// service account.
pub async fn to_its_server_alone(_: &mut Ctx<()>) -> Result<()> {
    let (rig, phpipam) = up().await?;
    let other = PhpIpam::start(&rig.server.lab().host("client")?)?;
    let (subnet, elsewhere) = (phpipam.subnet([10, 9, 0, 0], 22, None), other.subnet([192, 0, 2, 16], 28, None));
    let both = format!("https://ipam.example.com/api\n{}/", phpipam.endpoint());
    for (name, data) in [
        ("nobodys", json!({"username": USER, "password": PASSWORD})),
        ("several", json!({"endpoint": both, "username": USER, "password": PASSWORD})),
        ("token", json!({"token": "a token of a service account"})),
    ] {
        let meta = json!({"name": name, "namespace": "mooring-system"});
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": meta, "stringData": data});
        rig.server.apply(&secret).await?;
    }
    let allocator = rig.start_with("allocator", &ARGS).await?;
    let scope = rig.scope().await?;
    let spec = |server: &PhpIpam, secret: &str, subnet: u64| json!({"endpoint": server.endpoint(), "appId": APP, "credentialsRef": {"name": secret}, "subnets": [subnet]});
    for (secret, name) in [("phpipam", "theirs"), ("nobodys", "none"), ("token", "sa")] {
        let pool = pool_with(&scope, name, spec(&other, secret, elsewhere)).await?;
        claim(&scope, name, &pool).await?;
        scope.refused_with(name, "PoolNotReady", "does not name").await?;
    }
    let pool = pool_with(&scope, "right", spec(&phpipam, "several", subnet)).await?;
    claim(&scope, "right", &pool).await?;
    all_bound(&scope, &phpipam, 1).await?;
    ensure!(other.logins() == 0, "{} log-ins at a server that no Secret names", other.logins());
    // The Secret names another server from now on. It is read again within 15 s, when something is to be done.
    let data = json!({"endpoint": other.endpoint(), "username": USER, "password": "another"});
    let meta = json!({"name": "several", "namespace": "mooring-system"});
    rig.server.apply(&json!({"apiVersion": "v1", "kind": "Secret", "metadata": meta, "stringData": data})).await?;
    for n in 0.. {
        let name = format!("later{n}");
        claim(&scope, &name, &pool).await?;
        let what = format!("claim {name} to be bound or refused");
        let decided = rig.world.until(&what, |state| {
            let claim = state.get(CLAIM, &scope.ns, &name)?;
            let refused = ready(claim).is_some_and(|(is, why, _)| !is && why == "PoolNotReady");
            let bound = claim.pointer("/status/addressRef/name").is_some();
            (bound || refused).then_some(refused)
        });
        if decided.await? {
            break;
        }
        ensure!(n < 900, "the credential goes on being sent to the server that the Secret named before");
    }
    let before = phpipam.requests();
    claim(&scope, "last", &pool).await?;
    scope.refused_with("last", "PoolNotReady", "does not name").await?;
    // The claims that were refused are tried again, and the Secret is not read each time.
    for _ in 0..3 {
        ensure!(!phpipam.asked(1).await, "an address was entered with the credential of before");
    }
    ensure!(phpipam.requests() == before, "the Secret does not name the server any more");
    allocator.stop().await
}

pub async fn tls_and_ipv6(_: &mut Ctx<()>) -> Result<()> {
    let rig = with_kind().await?;
    let lab = rig.server.lab();
    let phpipam = PhpIpam::start_tls(&lab.host("client")?, &lab.dir().join("phpipam-pki"))?;
    let subnet = phpipam.subnet([0xfd00, 9, 0, 0, 0, 0, 0, 0], 64, None);
    let ca = phpipam.ca.clone().context("no authority")?;
    let server = phpipam.endpoint();
    for (name, more) in [
        ("code", json!({"endpoint": server, "token": CODE, "ca.crt": ca})),
        ("no-ca", json!({"endpoint": server, "token": CODE})),
    ] {
        let meta = json!({"name": name, "namespace": "mooring-system"});
        rig.server.apply(&json!({"apiVersion": "v1", "kind": "Secret", "metadata": meta, "stringData": more})).await?;
    }
    let allocator = rig.start_with("allocator", &ARGS).await?;
    let scope = rig.scope().await?;
    let spec = |secret: &str| {
        json!({"endpoint": phpipam.endpoint(), "appId": CODE_APP, "credentialsRef": {"name": secret},
            "subnets": [subnet]})
    };
    let distrusts = pool_with(&scope, "no-ca", spec("no-ca")).await?;
    claim(&scope, "distrusts", &distrusts).await?;
    scope.refused_with("distrusts", "PoolNotReady", "cannot be reached").await?;
    scope.delete(CLAIM, "distrusts").await?;
    let pool = pool_with(&scope, "pool", spec("code")).await?;
    claim(&scope, "c0", &pool).await?;
    claim(&scope, "c1", &pool).await?;
    for name in ["c0", "c1"] {
        let bound = scope.bound(name).await?;
        ensure!(bound.ip() != "fd00:9::" && bound.address["spec"]["prefix"] == 64, "{}", bound.address);
    }
    ensure!(phpipam.logins() == 0, "a log-in with an app's code");
    for name in ["c0", "c1"] {
        scope.delete(CLAIM, name).await?;
    }
    scope.gone(CLAIM, "c0").await?;
    scope.gone(CLAIM, "c1").await?;
    // The address of all routers is entered once, for nobody.
    let rows = phpipam.rows();
    ensure!(rows.len() == 1 && rows[0].hostname == "subnet-router-anycast" && rows[0].owner.is_empty(), "{rows:?}");
    nothing_is_told(&scope, &allocator).await?;
    allocator.stop().await
}

/// A claim that capi-phpipam has bound to an address.
async fn bound_before(
    scope: &Scope<'_>,
    phpipam: &PhpIpam,
    subnet: u64,
    pool: &str,
    name: &str,
    ip: &str,
) -> Result<()> {
    phpipam.add(subnet, ip, &format!("{name}.{}", scope.ns))?;
    let claim = scope.claim_with(name, KIND, pool, json!({"finalizers": [RELEASE_ADDRESS]})).await?;
    let owner = json!({"apiVersion": "ipam.cluster.x-k8s.io/v1beta2", "kind": CLAIM, "name": name,
        "uid": claim["metadata"]["uid"], "controller": true, "blockOwnerDeletion": true});
    let spec = json!({"claimRef": {"name": name}, "poolRef": reference(KIND, pool), "address": ip, "prefix": 24});
    scope.create(ADDRESS, name, spec, json!({"ownerReferences": [owner], "finalizers": [PROTECT_ADDRESS]})).await?;
    let status = json!({"status": {"addressRef": {"name": name}}});
    scope.rig.server.merge(&format!("{}/status", scope.path(CLAIM, name)), &status).await?;
    Ok(())
}

pub async fn taken_over(_: &mut Ctx<()>) -> Result<()> {
    let (rig, phpipam) = up().await?;
    let subnet = phpipam.subnet([192, 0, 2, 0], 24, None);
    let scope = rig.scope().await?;
    let credentials = json!({"username": USER, "password": PASSWORD, "app_id": APP, "endpoint": phpipam.endpoint()});
    let pool = pool_with(&scope, "old", json!({"subnetid": subnet, "credentials": credentials})).await?;
    bound_before(&scope, &phpipam, subnet, &pool, "old", "192.0.2.77").await?;
    let path = format!("{IPAM}/v1alpha1/phpipamippools/{pool}");
    let uid = rig.server.get(&path).await?["metadata"]["uid"].as_str().unwrap_or_default().replace('-', "");
    // An entry of ours that belongs to nobody.
    phpipam.add(subnet, "192.0.2.99", "gone.nowhere")?;
    phpipam.describe("192.0.2.99", "mooring:11112222-3333-4444-5555-666677778888");
    phpipam.own("192.0.2.99", &format!("mooring-{}", &uid[..16]));
    let allocator = rig.start_with("allocator", &ARGS).await?;
    claim(&scope, "new", &pool).await?;
    scope.bound("new").await?;
    marked(&scope, &phpipam, "old", "192.0.2.77").await?;
    ensure!(scope.bound("old").await?.ip() == "192.0.2.77", "it was moved");
    all_bound(&scope, &phpipam, 2).await?;
    told(&scope, "OrphanedEntry", "192.0.2.99").await?;
    let warns = |answer: Option<&Value>| {
        let (is, _, message) = answer.and_then(ready).unwrap_or_default();
        is && message.contains("credentialsRef") && message.contains("192.0.2.99")
    };
    pool_is(&rig, &path, LONGEST, warns).await?;
    delete_all(&scope).await?;
    let left = phpipam.rows();
    ensure!(left.len() == 1 && left[0].ip.to_string() == "192.0.2.99", "only what is to be judged by people: {left:?}");
    nothing_is_told(&scope, &allocator).await?;
    allocator.stop().await
}

/// Waits until an entry bears the mark of its claim.
pub(super) async fn marked(scope: &Scope<'_>, phpipam: &PhpIpam, name: &str, ip: &str) -> Result<()> {
    let uid = scope.bound(name).await?.claim["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
    let (mark, deadline) = (format!("mooring:{uid}"), now() + Duration::from_mins(1));
    while !phpipam.rows().iter().any(|row| row.ip.to_string() == ip && row.description == mark) {
        ensure!(now() < deadline, "{ip} does not bear the mark of {name}: {:?}", phpipam.rows());
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    Ok(())
}
