//! The frame of benches of the control plane's VIP: settle, probe, act, wait, measure, so many times.

use std::ops::{Deref, DerefMut};
use std::time::Duration;

use anyhow::{Context, Result};
use mooring_agent::core::time::Time;

use super::Order;
use crate::agents::{AgentBinary, AgentOptions};
use crate::lab::Shape;
use crate::observe::now;
use crate::observe::prober::Prober;
use crate::observe::probes::{Gap, Probes};
use crate::rig::control_plane::ControlPlaneRig;

/// An agent that does not end within this on SIGTERM is stuck.
const STOPPED: Duration = Duration::from_secs(20);
/// Nothing happens for at least this long before a fault: candidates have seen the holder renew, and it has announced.
const QUIET: Duration = Duration::from_secs(3);
/// Default time between two renewals: faults fall on any moment of it.
const RENEWAL: Duration = Duration::from_secs(2);

/// What the clients' first packets, which look for the neighbour, take at most.
const WARM: Duration = Duration::from_millis(500);

/// What agents remember of earlier runs. (They move a VIP early a few times only within some minutes.)
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Memory {
    /// It does not matter.
    Kept,
    /// It would: they are started anew before each run but the first.
    Fresh,
}

/// A lab with agents, measured.
pub(super) struct Rig {
    rig: ControlPlaneRig,
}

impl Deref for Rig {
    type Target = ControlPlaneRig;
    fn deref(&self) -> &ControlPlaneRig {
        &self.rig
    }
}

impl DerefMut for Rig {
    fn deref_mut(&mut self) -> &mut ControlPlaneRig {
        &mut self.rig
    }
}

impl Rig {
    /// Brings it up; an agent runs on every control plane.
    pub async fn up(order: &Order, shape: Shape, options: AgentOptions) -> Result<Self> {
        let shape = shape.with_agent(AgentBinary::Path(order.agent.clone()));
        let rig = ControlPlaneRig::up(shape, options).await?;
        rig.start_agents()?;
        rig.holder().await?;
        Ok(Self { rig })
    }

    /// So many runs: waits until all is settled, starts a client's prober, and lets `act` do something to the holder that it is
    /// told, wait, and measure.
    pub async fn runs<T>(
        &mut self,
        order: &Order,
        memory: Memory,
        mut act: impl AsyncFnMut(&mut Self, String, Prober) -> Result<T>,
    ) -> Result<Vec<T>> {
        let mut values = Vec::new();
        for run in 0..order.runs {
            let holder = if run > 0 && memory == Memory::Fresh { self.fresh().await? } else { self.settled().await? };
            let prober = self.prober()?;
            values.push(act(self, holder, prober).await?);
        }
        Ok(values)
    }

    /// As [`Rig::runs`]; the client knows its neighbour before `act` begins.
    pub async fn warm_runs<T>(
        &mut self,
        order: &Order,
        memory: Memory,
        mut act: impl AsyncFnMut(&mut Self, String, Prober) -> Result<T>,
    ) -> Result<Vec<T>> {
        let warmed = async |rig: &mut Self, holder: String, prober: Prober| {
            tokio::time::sleep(WARM).await;
            act(rig, holder, prober).await
        };
        self.runs(order, memory, warmed).await
    }

    /// Waits for the holder and a quiet time, that ends at any moment between two renewals. Answers who holds.
    pub async fn settled(&self) -> Result<String> {
        self.rig.holder().await?;
        let phase = Duration::from_nanos(now().as_nanos() % 997).as_secs_f64() * 1e9 / 997.0;
        tokio::time::sleep(QUIET + RENEWAL.mul_f64(phase)).await;
        self.rig.holder().await
    }

    /// Ends and starts every agent, so that none remembers earlier runs; then as [`Rig::settled`].
    pub async fn fresh(&self) -> Result<String> {
        let holder = self.rig.holder().await?;
        // The holder last: it has nobody to hand over to then.
        let (last, first): (Vec<_>, Vec<_>) =
            self.rig.lab.control_planes().into_iter().partition(|name| *name == holder);
        let all: Vec<String> = first.into_iter().chain(last).collect();
        for name in &all {
            let agent = self.rig.lab.agent(name)?;
            if agent.is_running() {
                agent.stop(STOPPED).await.with_context(|| format!("the agent of {name} does not end"))?;
            }
        }
        for name in &all {
            self.rig.lab.agent(name)?.start_again()?;
        }
        self.settled().await
    }

    /// Waits until every API server answers.
    pub async fn apis_ready(&self) -> Result<()> {
        Ok(self.rig.lab.cluster()?.ready().await?)
    }

    /// Power is back at a host that crashed; returns when its API server answers.
    pub async fn repaired(&mut self, name: &str) -> Result<()> {
        self.rig.revive(name)?;
        Ok(self.rig.lab.cluster()?.api_ready(&self.rig.lab.host(name)?).await?)
    }
}

/// The longest time that a client heard nothing for, between two moments.
pub(super) fn longest_gap(probes: &Probes, from: Time, to: Time) -> Duration {
    probes.between(from, to).longest_gap().as_ref().map_or(Duration::ZERO, Gap::length)
}
