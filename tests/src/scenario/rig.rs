//! The base of a scenario of the control plane's VIP: a lab with agents, with helpers that wait and assert.

use std::fs;
use std::ops::{Deref, DerefMut};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::events::v1::Event;
use kube::{Api, Client};
use mooring_agent::core::time::Time;

use crate::agents::{AGENT, AgentOptions, RECORD};
use crate::host::Process;
use crate::lab::Shape;
use crate::observe::now;
use crate::observe::probes::Probes;
use crate::observe::timeline::total;
use crate::rig::control_plane::ControlPlaneRig;
use crate::rig::shared;
use crate::runner::Ctx;

/// The limit for steps that take well below a second on an idle machine.
pub const SOON: Duration = Duration::from_secs(5);

/// Two owners for longer than this are a failure: the benches' 100 ms, plus what a busy machine may add.
const SHARED: Duration = Duration::from_millis(500);

/// A [`ControlPlaneRig`] that leaves its agents' logs and records in the test's folder.
pub struct ScenarioRig {
    rig: ControlPlaneRig,
    dir: PathBuf,
}

impl Deref for ScenarioRig {
    type Target = ControlPlaneRig;
    fn deref(&self) -> &ControlPlaneRig {
        &self.rig
    }
}

impl DerefMut for ScenarioRig {
    fn deref_mut(&mut self) -> &mut ControlPlaneRig {
        &mut self.rig
    }
}

impl ScenarioRig {
    /// A lab without agents.
    pub async fn set(ctx: &Ctx<()>, shape: Shape, options: AgentOptions) -> Result<Self> {
        let (lab, _) = shared::lab(shape, false).await?;
        Ok(Self { rig: ControlPlaneRig::on(lab, options)?, dir: ctx.dir.clone() })
    }

    /// A lab with agents after an election: answers with the elected one.
    pub async fn elected(ctx: &Ctx<()>, shape: Shape, options: AgentOptions) -> Result<(Self, String)> {
        let rig = Self::set(ctx, shape, options).await?;
        rig.start_agents()?;
        let holder = rig.settled().await?;
        // A holder is judged by the segment once it has answered each candidate's own probe, every 100 ms: its announcements do not count.
        pass(1).await;
        ctx.note(&format!("{holder} is elected"));
        Ok((rig, holder))
    }

    /// Three API servers, one etcd, default settings.
    pub async fn usual(ctx: &Ctx<()>) -> Result<(Self, String)> {
        Self::elected(ctx, Shape::external(), AgentOptions::default()).await
    }

    /// Waits until the holder of the VIP is the one that the Lease names, and the client hears it.
    pub async fn settled(&self) -> Result<String> {
        let deadline = now() + Duration::from_mins(1);
        loop {
            let holder = self.holder().await?;
            let named = self.lease().await.ok().and_then(|lease| lease.spec?.holder_identity);
            if named.as_deref() == Some(&holder) {
                self.prober()?.answer_after(now(), Some(&holder), SOON).await?;
                return Ok(holder);
            }
            if now() > deadline {
                bail!("{holder} carries the VIP, and the Lease names {named:?}; {}", self.logs());
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// A client of the first API server that runs, with all rights.
    pub async fn client_of_api(&self) -> Result<Client> {
        let cluster = self.lab.cluster()?;
        let admin = cluster.pki().super_admin()?;
        let up = self.lab.control_planes().into_iter().zip(cluster.servers());
        let mut up = up.filter(|(host, _)| cluster.api(host).is_ok_and(|api| api.is_running()));
        let (_, server) = up.next().context("no API server runs")?;
        Ok(cluster.client(&admin, &server).await?)
    }

    /// The Lease.
    pub async fn lease(&self) -> Result<Lease> {
        let leases = Api::<Lease>::namespaced(self.client_of_api().await?, "kube-system");
        Ok(tokio::time::timeout(SOON, leases.get("plndr-cp-lock")).await??)
    }

    /// Waits until every control plane is named on the Lease as one that takes part: from then on each knows how many there are.
    pub async fn all_take_part(&self) -> Result<()> {
        let deadline = now() + SOON;
        let hosts = self.lab.control_planes();
        loop {
            let annotations = self.lease().await?.metadata.annotations.unwrap_or_default();
            let named = annotations.get("mooring.dev/participants").cloned().unwrap_or_default();
            if hosts.iter().all(|host| named.contains(&format!("\"{host}\""))) {
                // The watches show it, and the first probes are answered.
                pass(1).await;
                return Ok(());
            }
            ensure!(now() < deadline, "only these take part: {named}; {}", self.logs());
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Waits for an Event with that reason.
    pub async fn event(&self, reason: &str, limit: Duration) -> Result<()> {
        let events = Api::<Event>::all(self.client_of_api().await?);
        let deadline = now() + limit;
        loop {
            let seen: Vec<String> = events
                .list(&kube::api::ListParams::default())
                .await?
                .items
                .into_iter()
                .filter_map(|one| one.reason)
                .collect();
            if seen.iter().any(|one| one == reason) {
                return Ok(());
            }
            ensure!(now() < deadline, "no Event {reason} within {} s, only {seen:?}", limit.as_secs());
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// Fails if two hosts had the VIP between `from` and now for longer than a handover takes.
    pub fn never_shared(&self, from: Time) -> Result<()> {
        let shared = self.timeline().two_owners(from, now());
        ensure!(total(&shared) < SHARED, "two owners: {shared:?}; {}", self.logs());
        Ok(())
    }

    /// Fails if any host other than `holder` has the VIP, or had it since `from`.
    pub fn still(&self, holder: &str, from: Time) -> Result<()> {
        let timeline = self.timeline();
        let with = timeline.holders_at(now());
        ensure!(with.len() == 1 && with.contains(holder), "the VIP is with {with:?}, not {holder}; {}", self.logs());
        let gone = timeline.nobody(from, now());
        ensure!(gone.is_empty(), "nobody had the VIP: {gone:?}; {}", self.logs());
        let moved: Vec<_> = timeline.holds().iter().filter(|hold| hold.host != holder && hold.from >= from).collect();
        ensure!(moved.is_empty(), "others had the VIP: {moved:?}; {}", self.logs());
        Ok(())
    }

    /// Fails if a probe was lost.
    pub fn nothing_lost(&self, probes: &Probes) -> Result<()> {
        ensure!(probes.answered_in_time() > 0, "no probe was answered");
        ensure!(probes.lost() == 0, "{} probes lost: {:?}; {}", probes.lost(), probes.outages(), self.logs());
        Ok(())
    }

    /// A control plane other than these.
    pub fn other_than(&self, those: &[&str]) -> Result<String> {
        let mut all = self.lab.control_planes().into_iter();
        all.find(|one| !those.contains(&one.as_str())).context("no other control plane")
    }
}

impl Drop for ScenarioRig {
    fn drop(&mut self) {
        for name in self.rig.lab.control_planes() {
            if let Ok(agent) = self.rig.lab.process(&name, AGENT) {
                let record = agent.log().with_file_name(RECORD);
                for (from, what) in [(agent.log().to_owned(), "log"), (record, "jsonl")] {
                    let to = self.dir.join(format!("{name}-agent.{what}"));
                    if let Err(error) = fs::copy(from, &to) {
                        tracing::warn!(%error, to = %to.display(), "what an agent said is not kept");
                    }
                }
            }
        }
        shared::leave(&self.dir, self.rig.lab.clone(), false);
    }
}

/// Lets time pass in which something must not happen.
pub async fn pass(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

/// Waits until a process has written a text to its log.
pub async fn says(process: &Process, text: &str) -> Result<()> {
    let deadline = now() + 4 * SOON;
    loop {
        let log = std::fs::read_to_string(process.log())?;
        if log.contains(text) {
            return Ok(());
        }
        ensure!(now() < deadline, "{text:?} is not in the log: {}", process.log_tail(25));
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
