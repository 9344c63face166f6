//! A stage with agents, as a bench needs it: settled before each fault, and with fresh agents where their memory counts.

use std::time::Duration;

use anyhow::{Context, Result};
use mooring_agent::core::time::Time;

use super::Order;
use crate::agents::{AgentBinary, AgentOptions};
use crate::lab::Shape;
use crate::observe::now;
use crate::observe::probes::{Gap, Probes};
use crate::stage::Stage;

/// An agent that does not end within this on SIGTERM is stuck.
const STOPPED: Duration = Duration::from_secs(20);
/// Nothing happens for at least this long before a fault: candidates have seen the holder renew, and it has announced.
const QUIET: Duration = Duration::from_secs(3);
/// Default time between two renewals: faults fall on any moment of it.
const RENEWAL: Duration = Duration::from_secs(2);

/// See the module's text.
pub(super) struct Rig {
    /// The lab and its observers.
    pub stage: Stage,
}

impl Rig {
    /// Brings it up; an agent runs on every control plane.
    pub async fn up(order: &Order, shape: Shape, options: AgentOptions) -> Result<Self> {
        let shape = shape.with_agent(AgentBinary::Path(order.agent.clone()));
        let stage = Stage::up(shape, options).await?;
        stage.start_agents()?;
        stage.holder().await?;
        Ok(Self { stage })
    }

    /// Waits for the holder and a quiet time, that ends at any moment between two renewals. Answers who holds.
    pub async fn settled(&self) -> Result<String> {
        self.stage.holder().await?;
        let phase = Duration::from_nanos(now().as_nanos() % 997).as_secs_f64() * 1e9 / 997.0;
        tokio::time::sleep(QUIET + RENEWAL.mul_f64(phase)).await;
        self.stage.holder().await
    }

    /// Ends and starts every agent, so that none remembers earlier runs (it moves a VIP early a few times only within
    /// some minutes); then as [`Rig::settled`].
    pub async fn fresh(&self) -> Result<String> {
        let holder = self.stage.holder().await?;
        // The holder last: it has nobody to hand over to then.
        let (last, first): (Vec<_>, Vec<_>) =
            self.stage.lab.control_planes().into_iter().partition(|name| *name == holder);
        let all: Vec<String> = first.into_iter().chain(last).collect();
        for name in &all {
            let agent = self.stage.lab.agent(name)?;
            if agent.is_running() {
                agent.stop(STOPPED).await.with_context(|| format!("the agent of {name} does not end"))?;
            }
        }
        for name in &all {
            self.stage.lab.agent(name)?.start_again()?;
        }
        self.settled().await
    }

    /// Waits until every API server answers.
    pub async fn apis_ready(&self) -> Result<()> {
        Ok(self.stage.lab.cluster()?.ready().await?)
    }

    /// Power is back at a host that crashed; returns when its API server answers.
    pub async fn revive(&mut self, name: &str) -> Result<()> {
        self.stage.revive(name)?;
        Ok(self.stage.lab.cluster()?.api_ready(&self.stage.lab.host(name)?).await?)
    }
}

/// The longest time that a client heard nothing for, between two moments.
pub(super) fn longest_gap(probes: &Probes, from: Time, to: Time) -> Duration {
    probes.between(from, to).longest_gap().as_ref().map_or(Duration::ZERO, Gap::length)
}
