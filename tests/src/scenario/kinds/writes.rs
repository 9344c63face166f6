//! Patches change only our parts, and fail if the object differs from the one that was read.

use anyhow::{Context, Result, ensure};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use kube::Api;
use kube::api::{DeleteParams, PatchParams, PostParams};
use mooring_api::address::IpAddress;
use mooring_api::claim::{IpAddressClaim, IpAddressClaimSpec};
use mooring_api::conditions::{ADDRESS_ALLOCATED, Condition, READY};
use mooring_api::finalizers::RELEASE_ADDRESS;
use mooring_api::patch::{self, MetaChange};
use mooring_api::pool::PoolKind;
use mooring_api::versions::{IpamVersion, Version as _};
use serde_json::json;

use crate::ipam::server::{Server, place};
use crate::runner::Ctx;

fn claim(version: IpamVersion, name: &str) -> IpAddressClaim {
    let spec = IpAddressClaimSpec { pool_ref: PoolKind::Ip.reference("p"), ..Default::default() };
    IpAddressClaim { version, ..IpAddressClaim::new(name, spec) }
}

fn conflict<T>(result: Result<T, kube::Error>) -> Result<()> {
    match result {
        Ok(_) => anyhow::bail!("what was not seen was written to"),
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
        Err(error) => Err(error.into()),
    }
}

pub async fn locked(_: &mut Ctx<()>) -> Result<()> {
    let server = Server::up().await?;
    let claims = Api::<IpAddressClaim>::namespaced(server.client.clone(), "default");
    let (post, params) = (PostParams::default(), PatchParams::default());
    let seen = claims.create(&post, &claim(IpamVersion::V1beta2, "c")).await?;

    // Somebody else's finalizer and label stay.
    let theirs = json!({"metadata": {"finalizers": ["example.com/theirs"], "labels": {"their": "label"}}});
    let path = format!("{}/c", place("v1beta2", "IPAddressClaim"));
    server.merge(&path, &theirs).await?;
    let change = MetaChange::new().finalizer(RELEASE_ADDRESS).label("cluster.x-k8s.io/cluster-name", "w");
    let stale = change.of(&seen.metadata)?.context("no change")?;
    conflict(claims.patch("c", &params, &stale.patch()).await)?;
    let seen = claims.get("c").await?;
    let seen = claims.patch("c", &params, &change.of(&seen.metadata)?.context("no change")?.patch()).await?;
    let finalizers = seen.metadata.finalizers.clone().unwrap_or_default();
    ensure!(finalizers == ["example.com/theirs", RELEASE_ADDRESS], "{finalizers:?}");
    ensure!(seen.metadata.labels.as_ref().is_some_and(|labels| labels.len() == 2), "{:?}", seen.metadata.labels);
    ensure!(change.of(&seen.metadata)?.is_none(), "a second patch would be sent");

    // The same name again, while a writer slept: the writer's patches do not change the new object.
    let release = MetaChange::new().without_finalizer(RELEASE_ADDRESS).of(&seen.metadata)?.context("no change")?;
    let ready = Condition::new(READY, true, ADDRESS_ALLOCATED, "", &Time(Timestamp::now()));
    let bind = patch::claim_status(&seen, Some("c"), std::slice::from_ref(&ready))?.context("no change")?;
    server.merge(&path, &json!({"metadata": {"finalizers": null}})).await?;
    claims.delete("c", &DeleteParams::default()).await?;
    let again = claims.create(&post, &claim(IpamVersion::V1beta2, "c")).await?;
    ensure!(again.metadata.uid != seen.metadata.uid, "it is the old one");
    conflict(claims.patch("c", &params, &release.patch()).await)?;
    conflict(claims.patch_status("c", &params, &bind.patch()).await)?;
    conflict(claims.delete("c", &patch::delete(&seen.metadata)?).await)?;
    let untouched = claims.get("c").await?;
    ensure!(untouched == again, "{untouched:?}");
    claims.delete("c", &patch::delete(&again.metadata)?).await?;
    Ok(())
}

pub async fn statuses(_: &mut Ctx<()>) -> Result<()> {
    let server = Server::up().await?;
    let post = PostParams::default();
    for version in IpamVersion::ALL {
        let name = version.name();
        let all = place(name, "IPAddressClaim");
        let read = |value| serde_json::from_value::<IpAddressClaim>(value);
        let made = read(server.create(&all, &serde_json::to_value(claim(*version, name))?).await?)?;
        ensure!(made.version == *version && made.bound_to().is_none(), "{made:?}");
        let foreign = json!({"status": {"conditions": [{
            "type": "Theirs", "status": "True", "reason": "R", "message": "m", "lastTransitionTime": "2026-01-01T00:00:00Z",
        }]}});
        let one = format!("{all}/{name}");
        server.merge(&format!("{one}/status"), &foreign).await?;
        let seen = read(server.get(&one).await?)?;
        let ready = Condition::new(READY, true, ADDRESS_ALLOCATED, "10.0.0.1", &Time(Timestamp::now()));
        let bind = patch::claim_status(&seen, Some(name), std::slice::from_ref(&ready))?.context("no change")?;
        let bound = read(server.merge(&format!("{one}/status"), bind.body()).await?)?;
        ensure!(bound.bound_to() == Some(name), "{bound:?}");
        let conditions = &bound.status.as_ref().context("no status")?.conditions;
        let types: Vec<&str> = conditions.iter().map(|one| one.type_.as_str()).collect();
        ensure!(types == ["Theirs", READY], "{name}: {types:?}");
        ensure!(conditions[1].is_true() && conditions[1].reason == ADDRESS_ALLOCATED, "{conditions:?}");
        if *version == IpamVersion::V1beta2 {
            ensure!(
                patch::claim_status(&bound, Some(name), std::slice::from_ref(&ready))?.is_none(),
                "a second patch would be sent"
            );
        }
        // All versions show it.
        let newest = Api::<IpAddressClaim>::namespaced(server.client.clone(), "default").get(name).await?;
        ensure!(newest.bound_to() == Some(name) && newest.version == IpamVersion::V1beta2, "{newest:?}");
        ensure!(newest.ready().is_some_and(Condition::is_true), "{newest:?}");
    }
    // An address has no status, and cannot be changed.
    let addresses = Api::<IpAddress>::namespaced(server.client.clone(), "default");
    let spec = serde_json::from_value(json!({
        "claimRef": {"name": "c"}, "poolRef": {"apiGroup": "ipam.cluster.x-k8s.io", "kind": "InClusterIPPool", "name": "p"},
        "address": "10.0.0.1", "prefix": 24,
    }))?;
    let made = addresses.create(&post, &IpAddress::new("a", spec)).await?;
    let mut other = made.clone();
    "10.0.0.2".clone_into(&mut other.spec.address);
    let refused = addresses.replace("a", &post, &other).await;
    ensure!(matches!(&refused, Err(kube::Error::Api(s)) if s.message.contains("spec is immutable")), "{refused:?}");
    Ok(())
}
