//! The demo's act about claims: the pool and the claim of every tutorial.

use anyhow::Result;
use serde_json::json;

use crate::ipam::scope::reference;
use crate::ipam::server::{Server, object, place};
use crate::ipam::table::{get, set};
use crate::lab::Lab;
use crate::observe::now;
use crate::report::{Report, Tone};
use crate::rig::allocator::AllocatorRig;

const POOL: &str = "GlobalInClusterIPPool";
const CLAIM: &str = "IPAddressClaim";

/// Starts an allocator on the lab's cluster, and shows what `kubectl get` prints.
///
/// # Errors
/// The lab's, or a claim gets no address.
pub async fn act(report: &mut Report<std::io::Stdout>, lab: &Lab) -> Result<()> {
    let server = Server::of(lab.clone()).await?;
    server.install("crds").await?;
    server.install("crds/standalone").await?;
    let rig = AllocatorRig::of(server).await?;
    let allocator = rig.start_with("mooring-allocator", &[]).await?;
    report.event(Tone::Good, "an allocator is ready");
    let spec = json!({"addresses": ["10.10.222.232-10.10.222.238"], "prefix": 24, "gateway": "10.10.222.1"});
    rig.server.create(&place("v1alpha2", POOL), &object("v1alpha2", POOL, "wc-cp-ips", &spec)).await?;
    claim(&rig, "the-first-cluster").await?;
    counted(&rig, 1).await?;
    show(report, &rig, "globalinclusterippools", &place("v1alpha2", POOL)).await?;
    let begin = now();
    claim(&rig, "give-me-an-ip").await?;
    report.event(Tone::Good, &format!("give-me-an-ip has its address after {} ms", now().since(begin).as_millis()));
    counted(&rig, 2).await?;
    show(report, &rig, "ipaddresses.ipam.cluster.x-k8s.io", &place("v1beta2", "IPAddress")).await?;
    show(report, &rig, "globalinclusterippools", &place("v1alpha2", POOL)).await?;
    allocator.stop().await
}

async fn show(report: &mut Report<std::io::Stdout>, rig: &AllocatorRig, what: &str, path: &str) -> Result<()> {
    let lines = get(&rig.server, path).await?;
    report.detail(&format!("$ kubectl get {what}\n{}", set(&lines)));
    Ok(())
}

async fn claim(rig: &AllocatorRig, name: &str) -> Result<()> {
    let spec = json!({"poolRef": reference(POOL, "wc-cp-ips")});
    rig.server.create(&place("v1beta2", CLAIM), &object("v1beta2", CLAIM, name, &spec)).await?;
    let what = format!("{name} to be bound");
    let bound =
        rig.world.until(&what, |state| state.get(CLAIM, "default", name)?.pointer("/status/addressRef").map(|_| ()));
    bound.await
}

async fn counted(rig: &AllocatorRig, used: i64) -> Result<()> {
    let counted = rig.world.until("the pool's counts", |state| {
        let counts = state.get(POOL, "", "wc-cp-ips")?.pointer("/status/ipAddresses")?;
        (counts["used"] == used).then_some(())
    });
    counted.await
}
