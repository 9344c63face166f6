//! Pools of phpIPAM: how fast claims are bound beside what phpIPAM's stand-in does alone, and what a phpIPAM that hangs costs the
//! claims of other pools.

use anyhow::{Context as _, Result, ensure};
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper_util::rt::TokioIo;
use serde_json::json;

use super::stats::{Figure, Statistic, percentile};
use super::{Order, outside};
use crate::cluster::client;
use crate::ipam::phpipam::{APP, Faults, PASSWORD, PhpIpam, USER};
use crate::ipam::scope::{POOL, Scope};
use crate::ipam::server::{Crds, IPAM, documents_in};
use crate::observe::now;
use crate::rig::allocator::AllocatorRig;

/// Claims of the other pool, one after the other.
const ALONE: usize = 100;
const ARGS: [&str; 4] =
    ["--leader-election=false", "--services=off", "--phpipam=on", "--secrets-namespace=mooring-system"];
pub(super) const KIND: &str = "PHPIPAMIPPool";

/// Requests of a bare client for free addresses, so many at once; returns how many were answered a second.
async fn bare(rig: &AllocatorRig, phpipam: &PhpIpam, subnet: u64, count: usize, workers: usize) -> Result<f64> {
    let host = rig.server.lab().host("client")?;
    let uri: http::Uri = format!("{}/{APP}/addresses/first_free/{subnet}/", phpipam.endpoint()).parse()?;
    let body = json!({"hostname": "floor", "description": "floor", "owner": "floor"}).to_string();
    let one = |_| async {
        let stream = client::connect(host.netns(), &uri).await?;
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        let request = http::Request::post(uri.path()).header("host", "127.0.0.1").header("token", phpipam.token());
        let answer = sender.send_request(request.body(Full::new(Bytes::from(body.clone())))?).await?;
        let status = answer.status();
        answer.into_body().collect().await?;
        ensure!(status.as_u16() == 201, "{status}");
        Ok(())
    };
    let rate = outside::rate_of(count, workers, one).await?;
    phpipam.clear();
    Ok(rate)
}

/// The median time of claims of a pool of the cluster, one after the other, in milliseconds.
async fn latency(scope: &Scope<'_>, pool: &str, prefix: &str) -> Result<f64> {
    let mut times = Vec::new();
    for number in 0..ALONE {
        let (name, begin) = (format!("{prefix}{number}"), now());
        scope.claim_with(&name, POOL, pool, json!({})).await?;
        scope.bound(&name).await?;
        times.push(now().since(begin).as_secs_f64() * 1_000.0);
    }
    times.sort_unstable_by(f64::total_cmp);
    percentile(&times, 50).context("no claim")
}

/// A phpIPAM, with its kind of pools, the allocator's rights and the credential.
pub(super) async fn installed(rig: &AllocatorRig) -> Result<PhpIpam> {
    rig.server.install("crds/phpipam").await?;
    for object in documents_in("allocator/phpipam/rbac.yaml")? {
        rig.server.apply(&object).await?;
    }
    let phpipam = PhpIpam::start(&rig.server.lab().host("client")?)?;
    let meta = json!({"name": "phpipam", "namespace": "mooring-system"});
    let data = json!({"endpoint": phpipam.endpoint(), "username": USER, "password": PASSWORD});
    rig.server.apply(&json!({"apiVersion": "v1", "kind": "Secret", "metadata": meta, "stringData": data})).await?;
    Ok(phpipam)
}

/// `phpipam`: rate, floor and their ratio; and the latency of another pool's claims with a phpIPAM that hangs and without.
pub(super) async fn measure(order: &Order) -> Result<Vec<Figure>> {
    let count = order.count.unwrap_or(outside::CLAIMS);
    let (mut rates, mut floors, mut ratios) = (vec![], vec![], vec![]);
    let (mut free, mut hanging, mut slower) = (vec![], vec![], vec![]);
    for _ in 0..order.runs {
        let rig = AllocatorRig::with(Crds::ClusterApi, order.allocator.clone(), true).await?;
        let phpipam = installed(&rig).await?;
        let subnet = phpipam.subnet([10, 200, 0, 0], 20, None);
        let many = async |count, at_once| bare(&rig, &phpipam, subnet, count, at_once).await;
        let floor = outside::floor(count, many).await?;

        let allocator = rig.start_with("allocator", &ARGS).await?;
        let scope = rig.scope().await?;
        let pool = format!("{}-pool", scope.ns);
        let spec = json!({"endpoint": phpipam.endpoint(), "appId": APP, "credentialsRef": {"name": "phpipam"},
            "subnets": [subnet]});
        let object = json!({"apiVersion": "ipam.cluster.x-k8s.io/v1alpha1", "kind": KIND,
            "metadata": {"name": pool}, "spec": spec});
        rig.server.create(&format!("{IPAM}/v1alpha1/phpipamippools"), &object).await?;
        let claim = async |name: String| scope.claim_with(&name, KIND, &pool, json!({})).await;
        let rate = outside::rate(&scope, count, claim).await?;
        rates.push(rate);
        floors.push(floor);
        ratios.push(rate / floor);

        // Another pool's claims, alone, and while a phpIPAM hangs for which as many claims wait.
        let other = rig.scope().await?;
        other.pool("here", other.range(10, 250)).await?;
        let alone = latency(&other, "here", "alone").await?;
        phpipam.faults(Faults { hangs: true, ..Faults::default() });
        outside::create((0..count).map(|number| format!("waits{number}")).collect(), claim).await?;
        let beside = latency(&other, "here", "beside").await?;
        free.push(alone);
        hanging.push(beside);
        slower.push(beside / alone);
        allocator.stop().await?;
    }
    Ok(vec![
        Figure::new("phpipam-rate", "1/s", &rates)?,
        Figure::new("phpipam-floor", "1/s", &floors)?,
        Figure::new("phpipam-ratio", "", &ratios)?.at_least(Statistic::Median, 0.8),
        Figure::new("phpipam-others-latency", "ms", &free)?,
        Figure::new("phpipam-others-latency-hanging", "ms", &hanging)?,
        Figure::new("phpipam-others-slower", "", &slower)?.goal(Statistic::Median, 1.2),
    ])
}
