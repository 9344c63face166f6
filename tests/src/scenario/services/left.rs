//! A Service that Mooring has left to another controller: neither agents nor the allocator take that controller's address, though nobody
//! answers for it at the moment.

use std::net::IpAddr;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use super::changes::{Both, SERVICES};
use crate::ipam::services::{ADDRESSES, annotation, ingress};
use crate::observe::echo;
use crate::observe::now;
use crate::rig::worker::vip;
use crate::runner::{Ctx, Test};
use crate::scenario::rig::pass;
use crate::scenario::story;
use crate::segment;

/// All of them.
pub fn all() -> Vec<Test<()>> {
    vec![
        story!("services", by_lease, "what-is-left-to-another-controller-is-not-carried-by-the-shared-lease", 5),
        story!("services", by_leases, "what-is-left-to-another-controller-is-not-carried-by-a-lease-per-service", 5),
    ]
}

const MARK: &str = "mooring.dev/served-by-another";
/// How long a wrong address is looked for: agents took a silent one within ten seconds.
const WATCHED: u64 = 15;

async fn by_lease(ctx: &mut Ctx<()>) -> Result<()> {
    left(ctx, "global-lease").await
}

async fn by_leases(ctx: &mut Ctx<()>) -> Result<()> {
    left(ctx, "lease-per-service").await
}

async fn left(ctx: &mut Ctx<()>, placement: &str) -> Result<()> {
    let both = Both::set(ctx, placement).await?;
    // Another controller's address, in no pool. Its host is silent all the time.
    let theirs: IpAddr = segment::ip4(230).into();
    for (name, port, annotations) in [("any", 0, json!({})), ("asks", 1, json!({ADDRESSES: vip(2).to_string()}))] {
        both.make(name, echo::PORT + port, annotations).await?;
        both.served(name).await?;
        insists(&both, name, theirs).await?;
    }
    pass(WATCHED).await;
    for name in ["any", "asks"] {
        let service = both.get(name).await?;
        let touched =
            ["kube-vip.io/vipHost", "mooring.dev/ip-addresses"].into_iter().find_map(|key| annotation(&service, key));
        ensure!(ingress(&service) == [theirs.to_string()] && touched.is_none(), "{service}; {}", both.logs());
    }
    for node in &both.rig.nodes {
        let vips = both.rig.status(node).await?.services.context("nothing about Services")?.vips;
        ensure!(vips.iter().all(|one| one.address != theirs), "{node} takes {theirs}: {vips:?}; {}", both.logs());
    }
    // People take the mark off, and the other controller is gone.
    for (name, address) in [("any", None), ("asks", Some(vip(2)))] {
        let path = format!("{SERVICES}/{name}");
        both.rig.server.merge(&format!("{path}/status"), &status(None)).await?;
        both.rig.server.merge(&path, &json!({"metadata": {"annotations": {MARK: null}}})).await?;
        let has = both.served(name).await?;
        ensure!(has != theirs && address.is_none_or(|address| has == address), "{name} has {has}; {}", both.logs());
    }
    Ok(())
}

/// Another controller writes its address into a Service's status until Mooring leaves the Service to it.
async fn insists(both: &Both, name: &str, theirs: IpAddr) -> Result<()> {
    let deadline = now() + Duration::from_mins(1);
    loop {
        let service = both.get(name).await?;
        let shown = ingress(&service) == [theirs.to_string()];
        if !shown {
            both.rig.server.merge(&format!("{SERVICES}/{name}/status"), &status(Some(theirs))).await?;
        } else if annotation(&service, MARK) == Some("true") {
            return Ok(());
        }
        ensure!(now() < deadline, "{name} is not left to the other controller: {service}; {}", both.logs());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

fn status(address: Option<IpAddr>) -> Value {
    let ingress: Vec<Value> = address.iter().map(|ip| json!({"ip": ip.to_string(), "ipMode": "VIP"})).collect();
    json!({"status": {"loadBalancer": {"ingress": ingress}}})
}
