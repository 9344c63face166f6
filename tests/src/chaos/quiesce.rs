//! Waits until the cluster is healthy again: by condition, not by a fixed sleep.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use http::Request;
use k8s_openapi::api::coordination::v1::Lease;
use kube::{Api, Client};
use mooring_agent::core::time::Time;

use super::act::etcds;
use crate::agents::AGENT;
use crate::observe::now;
use crate::observe::prober::Prober;
use crate::rig::control_plane::ControlPlaneRig;

/// One holder must be alone for this long, with every API server ready. In this time candidates have probed the holder
/// and have seen it renew, and agents have asked their API server twice.
pub const QUIET: Duration = Duration::from_secs(2);
/// How long one answer of the API, or of the VIP, may take.
const ANSWER: Duration = Duration::from_secs(1);
/// Between two looks.
const PAUSE: Duration = Duration::from_millis(100);
/// An API server that is not ready after this time is restarted.
const STUCK: Duration = Duration::from_secs(40);
/// API servers start within this.
const READY: Duration = Duration::from_mins(2);

/// The state after every API server is ready, and where the VIP has settled, if it has.
#[derive(Clone, Debug)]
pub struct After {
    /// When the last API server was ready: agents do not affect how long API servers take to start.
    pub ready: Time,
    /// `None`: the VIP did not settle in time.
    pub settled: Option<Settled>,
}

/// One holder that the Lease names.
#[derive(Clone, Debug)]
pub struct Settled {
    /// Who has the VIP.
    pub holder: String,
    /// When the Lease was seen to name it.
    pub named: Time,
}

/// Waits until every API server is ready; then, for at most `limit`, until one host alone has had the VIP for
/// [`QUIET`], the client hears it, and the Lease names it.
///
/// # Errors
/// The API servers do not get ready.
pub async fn come(rig: &ControlPlaneRig, prober: &Prober, limit: Duration) -> Result<After> {
    let client = apis_ready(rig).await?;
    let ready = now();
    while now() < ready + limit {
        let at = now();
        let timeline = rig.timeline();
        let holders = timeline.holders_at(at);
        if let (1, Some(holder)) = (holders.len(), holders.first()) {
            let own = timeline.holds().iter().rfind(|hold| hold.host == *holder).map(|hold| hold.from);
            let left = timeline.holds().iter().filter_map(|hold| hold.to).max();
            let since = own.into_iter().chain(left).fold(ready, Time::max);
            let quiet = at.since(since) >= QUIET;
            if quiet && prober.answer_after(at, Some(holder), ANSWER).await.is_ok() {
                let named = holder_in_lease(&client).await.ok().flatten();
                if named.as_deref() == Some(*holder) {
                    let settled = Settled { holder: (*holder).to_owned(), named: now() };
                    return Ok(After { ready, settled: Some(settled) });
                }
            }
        }
        tokio::time::sleep(PAUSE).await;
    }
    Ok(After { ready, settled: None })
}

/// Waits for every API server; restarts each that has ended (an API server that finds no etcd ends). Answers with a
/// client of the first.
async fn apis_ready(rig: &ControlPlaneRig) -> Result<Client> {
    let deadline = now() + READY;
    let mut first = None;
    let cluster = rig.lab.cluster()?;
    let admin = cluster.pki().super_admin()?;
    for (host, server) in rig.lab.control_planes().into_iter().zip(cluster.servers()) {
        let mut stuck = now() + STUCK;
        loop {
            let process = cluster.api(&host)?;
            if now() > stuck {
                // The API server's connection to etcd may be dead for minutes without the API server noticing.
                stuck = deadline;
                process.kill()?;
                process.ended(ANSWER * 10).await?;
            }
            if !process.is_running() {
                process.start()?;
            }
            // A new client each time: an old connection may lead nowhere.
            let client = cluster.client(&admin, &server).await?;
            if is_ready(&client).await {
                first.get_or_insert(client);
                break;
            }
            if now() > deadline {
                bail!("the API server of {host} is not ready within {} s:{}", READY.as_secs(), process.log_tail(8));
            }
            tokio::time::sleep(PAUSE).await;
        }
    }
    first.context("the lab has no API server")
}

async fn is_ready(client: &Client) -> bool {
    let Ok(request) = Request::get("/readyz").body(Vec::new()) else {
        return false;
    };
    matches!(tokio::time::timeout(ANSWER, client.request_text(request)).await, Ok(Ok(_)))
}

async fn holder_in_lease(client: &Client) -> Result<Option<String>> {
    let leases = Api::<Lease>::namespaced(client.clone(), "kube-system");
    let lease = tokio::time::timeout(ANSWER, leases.get("plndr-cp-lock")).await??;
    Ok(lease.spec.and_then(|spec| spec.holder_identity))
}

/// Ends every fault that may still be active, and starts every program that does not run. For a round that went wrong.
///
/// # Errors
/// A host cannot be booted, or its interface not made.
pub fn restore(rig: &mut ControlPlaneRig) -> Result<()> {
    let lab = rig.lab.clone();
    lab.heal_all()?;
    // There may be no stranger: then there is nothing to undo.
    drop(lab.stranger_leaves(lab.vip()));
    for etcd in etcds(rig) {
        etcd.thaw()?;
    }
    for name in lab.control_planes() {
        if lab.host(&name)?.is_up() {
            lab.thaw_host(&name)?;
            if lab.netns(&name)?.index("eth0").is_err() {
                lab.create_interface(&name)?;
            }
        } else {
            rig.revive(&name)?;
        }
        lab.port_up(&name)?;
        let zero = Duration::ZERO;
        for process in [AGENT, crate::cluster::API_SERVER] {
            // Ends a repeated pause, if there is one.
            lab.slow_process(&name, process, zero)?;
            lab.process(&name, process)?.start()?;
        }
    }
    Ok(())
}
