//! When all is as it should be again: awaited, not slept for.

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
use crate::stage::Stage;

/// So long one holder must be alone, with every API server ready: candidates have probed it, and have seen it renew; agents
/// have asked their API server twice.
pub const QUIET: Duration = Duration::from_secs(2);
/// One answer of the API, or of the VIP.
const ANSWER: Duration = Duration::from_secs(1);
/// Between two looks.
const PAUSE: Duration = Duration::from_millis(100);
/// An API server that is not ready by then is started anew.
const STUCK: Duration = Duration::from_secs(40);
/// API servers start within this.
const READY: Duration = Duration::from_mins(2);

/// Every API server is ready; and calm, if it has come.
#[derive(Clone, Debug)]
pub struct After {
    /// When the last API server was ready: agents can do nothing about how long they take to start.
    pub ready: Time,
    /// `None`: it did not come in time.
    pub calm: Option<Calm>,
}

/// Calm has come.
#[derive(Clone, Debug)]
pub struct Calm {
    /// Who has the VIP.
    pub holder: String,
    /// When the Lease was seen to name it.
    pub named: Time,
}

/// Waits until every API server is ready; then, for at most `limit`, until one host alone has had the VIP for [`QUIET`], the
/// client hears it, and the Lease names it.
///
/// # Errors
/// The API servers do not get ready.
pub async fn come(stage: &Stage, prober: &Prober, limit: Duration) -> Result<After> {
    let client = apis_ready(stage).await?;
    let ready = now();
    while now() < ready + limit {
        let at = now();
        let timeline = stage.timeline();
        let holders = timeline.holders_at(at);
        if let (1, Some(holder)) = (holders.len(), holders.first()) {
            let own = timeline.holds().iter().rfind(|hold| hold.host == *holder).map(|hold| hold.from);
            let left = timeline.holds().iter().filter_map(|hold| hold.to).max();
            let since = own.into_iter().chain(left).fold(ready, Time::max);
            let quiet = at.since(since) >= QUIET;
            if quiet && prober.answer_after(at, Some(holder), ANSWER).await.is_ok() {
                let named = holder_in_lease(&client).await.ok().flatten();
                if named.as_deref() == Some(*holder) {
                    let calm = Calm { holder: (*holder).to_owned(), named: now() };
                    return Ok(After { ready, calm: Some(calm) });
                }
            }
        }
        tokio::time::sleep(PAUSE).await;
    }
    Ok(After { ready, calm: None })
}

/// Waits for every API server; starts those that have ended, as one does that finds no etcd. Answers with a client of the
/// first.
async fn apis_ready(stage: &Stage) -> Result<Client> {
    let deadline = now() + READY;
    let mut first = None;
    let cluster = stage.lab.cluster()?;
    let admin = cluster.pki().super_admin()?;
    for (host, server) in stage.lab.control_planes().into_iter().zip(cluster.servers()) {
        let mut stuck = now() + STUCK;
        loop {
            let process = cluster.api(&host)?;
            if now() > stuck {
                // Its connection to etcd may be dead for minutes, which it would not notice.
                stuck = deadline;
                process.kill()?;
                process.ended(ANSWER * 10).await?;
            }
            if !process.is_running() {
                process.start()?;
            }
            // A new client each time: a connection from before may lead nowhere.
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

/// Takes back whatever may be left of any fault, and starts what does not run. For a round that went wrong.
///
/// # Errors
/// A host cannot be booted, or its interface not made.
pub fn restore(stage: &mut Stage) -> Result<()> {
    let lab = stage.lab.clone();
    lab.heal_all()?;
    // Nobody may be there: then there is nothing to take back.
    drop(lab.stranger_leaves(lab.vip()));
    for etcd in etcds(stage) {
        etcd.thaw()?;
    }
    for name in lab.control_planes() {
        if lab.host(&name)?.is_up() {
            lab.thaw_host(&name)?;
            if lab.netns(&name)?.index("eth0").is_err() {
                lab.create_interface(&name)?;
            }
        } else {
            stage.revive(&name)?;
        }
        lab.port_up(&name)?;
        let zero = Duration::ZERO;
        for process in [AGENT, crate::cluster::API_SERVER] {
            // Ends a pause that goes on by itself, should there be one.
            lab.slow_process(&name, process, zero)?;
            lab.process(&name, process)?.start()?;
        }
    }
    Ok(())
}
