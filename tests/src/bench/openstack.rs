//! Pools of OpenStack's floating IPs: how fast claims are bound beside what Neutron's stand-in does alone.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper_util::rt::TokioIo;
use mooring_neutron::{NETWORK, USER};
use serde_json::{Value, json};

use super::stats::{Figure, Statistic};
use super::{Order, outside};
use crate::host::Host;
use crate::ipam::server::Crds;
use crate::openstack::StandIn;
use crate::rig::allocator::AllocatorRig;
use crate::scenario::openstack::{ARGS, claim, install, pool, secret};

/// How long each change takes in the stand-in, two at once: a real Neutron with `MariaDB` and two processes makes eight floating IPs a
/// second, whatever is asked of it at once.
const TAKES: Duration = Duration::from_millis(60);
/// More than are asked for: as many as the stand-in has.
const ADDRESSES: u8 = 250;

/// A client that does nothing else.
struct Bare {
    host: Host,
    at: String,
    token: String,
}

impl Bare {
    async fn send(&self, method: &str, path: &str, body: &Value) -> Result<(http::HeaderMap, Value)> {
        let uri: http::Uri = format!("{}{path}", self.at).parse()?;
        let stream = crate::cluster::client::connect(self.host.netns(), &uri).await?;
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        let request = http::Request::builder().method(method).uri(uri.path()).header("host", "127.0.0.1");
        let request = request.header("x-auth-token", &self.token).header("content-type", "application/json");
        let answer = sender.send_request(request.body(Full::new(Bytes::from(body.to_string())))?).await?;
        let (head, body) = answer.into_parts();
        let body = body.collect().await?.to_bytes();
        ensure!(head.status.is_success(), "{method} {path}: {} {body:?}", head.status);
        Ok((head.headers, serde_json::from_slice(&body).unwrap_or_default()))
    }

    async fn log_in(host: Host, cloud: &StandIn) -> Result<Self> {
        let mut bare = Self { host, at: cloud.url(), token: String::new() };
        let user = json!({"name": USER.0, "password": USER.1, "domain": {"id": "default"}});
        let scope = json!({"project": {"name": USER.0, "domain": {"id": "default"}}});
        let auth = json!({"auth": {"identity": {"methods": ["password"], "password": {"user": user}}, "scope": scope}});
        let (headers, _) = bare.send("POST", "/v3/auth/tokens", &auth).await?;
        headers.get("x-subject-token").context("no token")?.to_str()?.clone_into(&mut bare.token);
        Ok(bare)
    }

    /// A floating IP, and its tag: what the allocator asks for.
    async fn one(&self) -> Result<()> {
        let wanted = json!({"floatingip": {"floating_network_id": NETWORK, "description": "floor"}});
        let (_, made) = self.send("POST", "/v2.0/floatingips", &wanted).await?;
        let id = made["floatingip"]["id"].as_str().context("no id")?;
        self.send("POST", &format!("/v2.0/floatingips/{id}/tags"), &json!({"tags": ["floor"]})).await.map(drop)
    }
}

/// `openstack`: rate, floor and their ratio.
pub(super) async fn measure(order: &Order) -> Result<Vec<Figure>> {
    let count = order.count.unwrap_or(outside::CLAIMS).min(usize::from(ADDRESSES) - 1);
    let (mut rates, mut floors, mut ratios) = (vec![], vec![], vec![]);
    for _ in 0..order.runs {
        let rig = AllocatorRig::with(Crds::ClusterApi, order.allocator.clone(), true).await?;
        install(&rig).await?;
        let host = rig.server.lab().host("client")?;
        let cloud = StandIn::start(&host, ADDRESSES)?;
        cloud.cloud.changes_take(TAKES);
        let bare = Bare::log_in(host, &cloud).await?;
        let many = async |count, at_once| {
            let rate = outside::rate_of(count, at_once, |_| bare.one()).await?;
            for one in cloud.cloud.floating_ips() {
                cloud.cloud.delete(&one.id);
            }
            Ok(rate)
        };
        let floor = outside::floor(count, many).await?;
        let allocator = rig.start_with("allocator", &ARGS).await?;
        let scope = rig.scope().await?;
        secret(&scope, &cloud.clouds(USER.1)).await?;
        pool(&scope, "fips", json!({"reclaimPolicy": "Delete"})).await?;
        let rate = outside::rate(&scope, count, async |name| claim(&scope, &name, "fips").await).await?;
        rates.push(rate);
        floors.push(floor);
        ratios.push(rate / floor);
        allocator.stop().await?;
    }
    Ok(vec![
        Figure::new("openstack-rate", "1/s", &rates)?,
        Figure::new("openstack-floor", "1/s", &floors)?,
        Figure::new("openstack-ratio", "", &ratios)?.at_least(Statistic::Median, 0.8),
    ])
}
