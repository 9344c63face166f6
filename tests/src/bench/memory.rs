//! The memory of an allocator that serves everything at once, at its peak: at a start among many Clusters, as many machines, and a pool of
//! a full phpIPAM subnet.

use std::net::Ipv4Addr;

use anyhow::{Context as _, Result};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use serde_json::json;

use super::endpoints::{at_rest, pooled};
use super::phpipam::{self, KIND};
use super::stats::{Figure, Statistic};
use super::{Order, peak, resident};
use crate::ipam::allocators::Allocator;
use crate::ipam::cluster_parts::Parts;
use crate::ipam::endpoint;
use crate::ipam::machines::{self, Machines, device};
use crate::ipam::phpipam::{APP, PhpIpam};
use crate::ipam::scope::{POOL, Scope};
use crate::ipam::server::{Crds, IPAM};
use crate::progress;
use crate::rig::allocator::AllocatorRig;

/// Clusters, and machines, when nobody says how many.
const COUNT: usize = 5_000;
/// Requests at once, of who creates them.
const CREATING: usize = 16;
/// The pool of phpIPAM.
const FULL: &str = "full";
const ARGS: [&str; 6] = [
    "--leader-election=false",
    "--services=off",
    "--endpoints=on",
    "--machine-addresses=on",
    "--phpipam=on",
    "--secrets-namespace=mooring-system",
];

/// The peak at such a start, and what stays.
pub(super) async fn measure(order: &Order) -> Result<Vec<Figure>> {
    let count = order.count.unwrap_or(COUNT);
    let (mut peaks, mut stays) = (vec![], vec![]);
    for _ in 0..order.runs {
        let rig = AllocatorRig::with(Crds::ClusterApi, order.allocator.clone(), true).await?;
        let phpipam = prepare(&rig).await?;
        let scope = pooled(&rig).await?;
        let of_machines = rig.scope().await?;
        fill(&scope, &of_machines, &phpipam, count).await?;
        progress::line(format_args!(
            "{count} Clusters and machines are there; the allocator gives them their addresses"
        ));
        let allocator = rig.start_with("allocator", &ARGS).await?;
        at_rest(&scope, count).await?;
        allocator.stop().await?;
        progress::line(format_args!("the allocator starts again"));
        let allocator = rig.start_with("allocator-again", &ARGS).await?;
        all_is_read(&scope, &allocator).await?;
        peaks.push(peak(allocator.process())?);
        stays.push(resident(allocator.process())?);
        allocator.stop().await?;
    }
    Ok(vec![
        Figure::new("allocator-peak-rss", "MB", &peaks)?.goal(Statistic::Max, 200.0),
        Figure::new("allocator-rss", "MB", &stays)?,
    ])
}

/// Adds to Cluster API's kinds those of endpoints, machines and phpIPAM, the rights, and a phpIPAM.
async fn prepare(rig: &AllocatorRig) -> Result<PhpIpam> {
    endpoint::prepare(rig).await?;
    machines::install(&rig.server).await?;
    phpipam::installed(rig).await
}

/// Makes so many Clusters and machines, and a pool whose subnet is full.
async fn fill(scope: &Scope<'_>, of_machines: &Scope<'_>, phpipam: &PhpIpam, count: usize) -> Result<()> {
    let subnet = phpipam.subnet([172, 20, 0, 0], 16, None);
    let first = u32::from(Ipv4Addr::new(172, 20, 0, 1));
    phpipam.fill(subnet, (0..65_534).map(|number| Ipv4Addr::from(first + number).into()));
    let spec = json!({"endpoint": phpipam.endpoint(), "appId": APP, "credentialsRef": {"name": "phpipam"}, "subnets": [subnet]});
    let pool =
        json!({"apiVersion": "ipam.cluster.x-k8s.io/v1alpha1", "kind": KIND, "metadata": {"name": FULL}, "spec": spec});
    scope.rig.server.create(&format!("{IPAM}/v1alpha1/phpipamippools"), &pool).await?;
    let machines = Machines { scope: of_machines };
    machines.prepare(&json!({})).await?;
    let devices = json!([device("vm-network")]);
    let one = async |number: usize| {
        Parts { scope, name: format!("c{number}") }.create_inline().await?;
        machines.create(&format!("m{number}"), &devices).await
    };
    stream::iter(0..count).map(one).buffer_unordered(CREATING).try_collect().await
}

/// Waits until a claim of each pool is answered: the lists have come by then.
async fn all_is_read(scope: &Scope<'_>, allocator: &Allocator) -> Result<()> {
    scope.claim_with("more", KIND, FULL, json!({})).await?;
    scope.refused("more", "PoolExhausted").await.context("the full pool")?;
    scope.claim_with("one", POOL, "endpoints", json!({})).await?;
    scope.bound("one").await?;
    allocator.ready().await
}
