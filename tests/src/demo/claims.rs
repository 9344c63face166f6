//! The demo's act about claims: the pool and the claim of every tutorial.

use anyhow::Result;
use serde_json::json;

use crate::ipam::scope::reference;
use crate::ipam::server::{Server, object, place};
use crate::ipam::stage::Stage;
use crate::ipam::table::{get, set};
use crate::lab::Lab;
use crate::observe::now;
use crate::report::{Report, Tone};

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
    let stage = Stage::of(server).await?;
    let allocator = stage.start_with("mooring-allocator", &[]).await?;
    report.event(Tone::Good, "an allocator is ready");
    let spec = json!({"addresses": ["10.10.222.232-10.10.222.238"], "prefix": 24, "gateway": "10.10.222.1"});
    stage.server.create(&place("v1alpha2", POOL), &object("v1alpha2", POOL, "wc-cp-ips", &spec)).await?;
    claim(&stage, "the-first-cluster").await?;
    counted(&stage, 1).await?;
    show(report, &stage, "globalinclusterippools", &place("v1alpha2", POOL)).await?;
    let begin = now();
    claim(&stage, "give-me-an-ip").await?;
    report.event(Tone::Good, &format!("give-me-an-ip has its address after {} ms", now().since(begin).as_millis()));
    counted(&stage, 2).await?;
    show(report, &stage, "ipaddresses.ipam.cluster.x-k8s.io", &place("v1beta2", "IPAddress")).await?;
    show(report, &stage, "globalinclusterippools", &place("v1alpha2", POOL)).await?;
    allocator.stop().await
}

async fn show(report: &mut Report<std::io::Stdout>, stage: &Stage, what: &str, path: &str) -> Result<()> {
    let lines = get(&stage.server, path).await?;
    report.detail(&format!("$ kubectl get {what}\n{}", set(&lines)));
    Ok(())
}

async fn claim(stage: &Stage, name: &str) -> Result<()> {
    let spec = json!({"poolRef": reference(POOL, "wc-cp-ips")});
    stage.server.create(&place("v1beta2", CLAIM), &object("v1beta2", CLAIM, name, &spec)).await?;
    let what = format!("{name} to be bound");
    let bound =
        stage.world.until(&what, |state| state.get(CLAIM, "default", name)?.pointer("/status/addressRef").map(|_| ()));
    bound.await
}

async fn counted(stage: &Stage, used: i64) -> Result<()> {
    let counted = stage.world.until("the pool's counts", |state| {
        let counts = state.get(POOL, "", "wc-cp-ips")?.pointer("/status/ipAddresses")?;
        (counts["used"] == used).then_some(())
    });
    counted.await
}
