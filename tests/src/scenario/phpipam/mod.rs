//! Pools whose addresses phpIPAM gives, against a stand-in that answers as the real one does.

mod faults;
mod forms;
mod life;

use std::collections::BTreeSet;

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use super::outside::{delete_all, none_left, pool_is};
use super::story;
use crate::ipam::allocators::Allocator;
use crate::ipam::phpipam::{APP, CODE, PASSWORD, PhpIpam, USER};
use crate::ipam::scope::{ADDRESS, CLAIM, Scope};
use crate::ipam::server::{Crds, IPAM, documents_in};
use crate::observe::now;
use crate::rig::allocator::AllocatorRig;
use crate::runner::Test;

/// The kind of pool.
const KIND: &str = "PHPIPAMIPPool";
/// The arguments of the allocator.
const ARGS: [&str; 4] =
    ["--leader-election=false", "--services=off", "--phpipam=on", "--secrets-namespace=mooring-system"];

/// The stories of this theme.
pub fn all() -> Vec<Test<()>> {
    vec![
        story!("phpipam", life::claim_to_release, "claim-to-release", 5).quick(),
        story!("phpipam", life::changed_by_people, "changed-by-people", 5),
        story!("phpipam", life::reused_by_people, "what-people-have-reused-stays", 5),
        story!("phpipam", forms::to_its_server_alone, "a-credential-goes-to-its-server-alone", 5),
        story!("phpipam", faults::at_random, "faults-at-random", 5),
        story!("phpipam", forms::tls_and_ipv6, "tls-app-code-ipv6", 5),
        story!("phpipam", forms::taken_over, "taken-over", 5),
        story!("phpipam", faults::killed, "killed-at-its-calls", 5),
        story!("phpipam", faults::hangs, "a-hanging-one-slows-nobody", 5),
    ]
}

/// A rig with the kind, the rights of the manifests, a Secret, and a phpIPAM.
async fn up() -> Result<(AllocatorRig, PhpIpam)> {
    let rig = with_kind().await?;
    let phpipam = PhpIpam::start(&rig.server.lab().host("client")?)?;
    secret(&rig, &phpipam, PASSWORD).await?;
    Ok((rig, phpipam))
}

async fn with_kind() -> Result<AllocatorRig> {
    let rig = AllocatorRig::up(Crds::ClusterApi).await?;
    rig.server.install("crds/phpipam").await?;
    for object in documents_in("allocator/phpipam/rbac.yaml")? {
        rig.server.apply(&object).await?;
    }
    Ok(rig)
}

/// The Secret with the credential, for that server.
async fn secret(rig: &AllocatorRig, phpipam: &PhpIpam, password: &str) -> Result<()> {
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "phpipam", "namespace": "mooring-system"},
        "stringData": {"endpoint": phpipam.endpoint(), "username": USER, "password": password}});
    rig.server.apply(&secret).await?;
    Ok(())
}

/// Makes a pool of these subnets; returns its name.
async fn pool(scope: &Scope<'_>, phpipam: &PhpIpam, subnets: &[u64]) -> Result<String> {
    let spec = json!({"endpoint": phpipam.endpoint(), "appId": APP, "credentialsRef": {"name": "phpipam"},
        "subnets": subnets, "orphans": "Release"});
    pool_with(scope, "pool", spec).await
}

async fn pool_with(scope: &Scope<'_>, name: &str, spec: Value) -> Result<String> {
    let name = format!("{}-{name}", scope.ns);
    let object =
        json!({"apiVersion": "ipam.cluster.x-k8s.io/v1alpha1", "kind": KIND, "metadata": {"name": name}, "spec": spec});
    scope.rig.server.create(&format!("{IPAM}/v1alpha1/phpipamippools"), &object).await?;
    Ok(name)
}

async fn claim(scope: &Scope<'_>, name: &str, pool: &str) -> Result<Value> {
    scope.claim_with(name, KIND, pool, json!({})).await
}

/// Waits until this many claims of a namespace have an address. Checks that no two have the same one, and that each is entered in
/// phpIPAM for its claim.
async fn all_bound(scope: &Scope<'_>, phpipam: &PhpIpam, many: usize) -> Result<()> {
    let minutes = std::time::Duration::from_mins(2);
    let bound = scope
        .rig
        .world
        .until_within(minutes, &format!("{many} claims to be bound"), |state| {
            let bound = |one: &&Value| one["status"]["addressRef"]["name"].is_string();
            let all: Vec<Value> = state.all(CLAIM, &scope.ns).filter(bound).cloned().collect();
            (all.len() == many).then_some(all)
        })
        .await?;
    let rows = phpipam.rows();
    let mut addresses = BTreeSet::new();
    for claim in bound {
        let (name, uid) = (claim["metadata"]["name"].as_str().unwrap_or_default(), claim["metadata"]["uid"].clone());
        let ip = scope.bound(name).await?.ip().to_owned();
        ensure!(addresses.insert(ip.clone()), "{ip} is given twice");
        let mark = format!("mooring:{}", uid.as_str().unwrap_or_default());
        let entered = rows.iter().any(|row| row.ip.to_string() == ip && row.description == mark);
        ensure!(entered, "{ip} of {name} is not in phpIPAM: {rows:?}");
    }
    Ok(())
}

/// The password is on no object and in no log.
async fn nothing_is_told(scope: &Scope<'_>, allocator: &Allocator) -> Result<()> {
    let log = std::fs::read_to_string(allocator.process().log())?;
    let secrets = [PASSWORD, CODE, "token-"];
    ensure!(!secrets.iter().any(|one| log.contains(one)), "the log has a secret");
    let events = "/apis/events.k8s.io/v1/events".to_owned();
    for path in [format!("{IPAM}/v1alpha1/phpipamippools"), scope.place(CLAIM), scope.place(ADDRESS), events] {
        let mut all = scope.rig.server.get(&path).await?;
        for one in all["items"].as_array_mut().into_iter().flatten() {
            // Where people have put it.
            if let Some(spec) = one["spec"].as_object_mut() {
                spec.remove("credentials");
            }
        }
        let all = all.to_string();
        ensure!(!secrets.iter().any(|secret| all.contains(secret)), "an object has a secret: {all}");
    }
    Ok(())
}

/// Waits until something about a namespace's objects, or about pools, was told for this reason, with this text.
async fn told(scope: &Scope<'_>, reason: &str, part: &str) -> Result<()> {
    let deadline = now() + std::time::Duration::from_mins(1);
    loop {
        let all = scope.rig.server.get("/apis/events.k8s.io/v1/events").await?;
        let has =
            |event: &Value| event["reason"] == reason && event["note"].as_str().unwrap_or_default().contains(part);
        if all["items"].as_array().is_some_and(|all| all.iter().any(has)) {
            return Ok(());
        }
        ensure!(now() < deadline, "no Event {reason} with {part:?}: {all}");
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
}
