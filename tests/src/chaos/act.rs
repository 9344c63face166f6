//! Starts faults and ends them.

use std::time::Duration;

use anyhow::Result;
use mooring_agent::core::time::Time;

use super::agents::Agents;
use super::class::{Class, Stage};
use super::draw::{Order, Role};
use crate::cluster::ETCD;
use crate::fault::Fault;
use crate::host::{Error as HostError, Process};
use crate::observe::now;
use crate::progress;
use crate::rig::control_plane::ControlPlaneRig;

/// A killed process ends within this time.
const GONE: Duration = Duration::from_secs(10);
/// A second SIGKILL, with SIGCONT, must end it within this time.
const GONE_AT_LAST: Duration = Duration::from_secs(30);
/// Pause between two agents of an upgrade: the other agents must know the new agent before the next one leaves.
const BETWEEN: Duration = Duration::from_millis(1_500);

/// A fault with host names instead of roles.
#[derive(Clone, Debug)]
pub struct Cast {
    /// The fault that was drawn.
    pub order: Order,
    /// The host; empty if the class has no host.
    pub host: String,
    /// The other end of a cut.
    pub peer: Option<String>,
}

impl Cast {
    /// Replaces the roles by hosts: `holder` has the VIP now.
    #[must_use]
    pub fn of(order: Order, holder: &str, control_planes: &[String]) -> Self {
        let mut others = control_planes.iter().filter(|name| *name != holder);
        let (second, third) = (others.next(), others.next());
        let name = |role: Role| match role {
            Role::Holder => holder.to_owned(),
            Role::Second => second.cloned().unwrap_or_default(),
            Role::Third => third.cloned().unwrap_or_default(),
        };
        let host = if order.class.has_host() { name(order.on) } else { String::new() };
        Self { order, host, peer: order.peer.map(name) }
    }

    /// A short description.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = self.order.class.name().to_owned();
        for host in [Some(&self.host), self.peer.as_ref()].into_iter().flatten().filter(|host| !host.is_empty()) {
            text = format!("{text} {host}");
        }
        text
    }

    /// Starts the fault now. Answers `false` if there is nothing to act on (a VIP that is not there cannot be deleted).
    ///
    /// # Errors
    /// The lab refuses.
    pub async fn begin(&self, rig: &mut ControlPlaneRig, agents: &mut Agents) -> Result<bool> {
        if self.order.class == Class::AgentsUpgraded {
            upgrade(rig, agents).await?;
        }
        if self.order.class.ends_the_agent() {
            agents.excuse(&self.host);
        }
        for fault in self.faults(rig) {
            match rig.apply(&fault) {
                Err(error) if matches!(fault, Fault::DeleteAddress { .. }) && is_absent(&error) => return Ok(false),
                done => _ = done?,
            }
        }
        Ok(true)
    }

    /// Ends the fault.
    ///
    /// # Errors
    /// The lab refuses.
    pub async fn end(&self, rig: &mut ControlPlaneRig, agents: &mut Agents) -> Result<Time> {
        if self.order.class == Class::AgentRestarted {
            agents.ends_well(rig, &self.host).await?;
        }
        for opposite in self.faults(rig).iter().filter_map(Fault::opposite) {
            if let Fault::Start { host, process } = &opposite {
                gone(&rig.lab.process(host, process)?).await?;
            }
            rig.apply(&opposite)?;
        }
        if self.order.class.ends_the_agent() {
            agents.expect(&self.host);
        }
        Ok(now())
    }

    fn faults(&self, rig: &ControlPlaneRig) -> Vec<Fault> {
        let etcds = etcds(rig).iter().map(|etcd| etcd.host().to_owned()).collect();
        let on = Stage { vip: rig.lab.vip(), control_planes: rig.lab.control_planes(), etcds };
        let peer = self.peer.as_deref().unwrap_or_default();
        self.order.class.faults(&on, &self.host, peer, self.order.amount)
    }
}

/// Waits for the end of a process that was killed. The kernel may take long to end one on a busy machine, and meanwhile nothing
/// answers on the sockets that are still open: for agents, the process is stopped.
async fn gone(process: &Process) -> Result<()> {
    if process.ended(GONE).await.is_err() {
        progress::line(format_args!("{} on {} was killed and goes on", process.name(), process.host()));
        // They fail if the process has ended by now.
        drop((process.kill(), process.thaw()));
        process.ended(GONE_AT_LAST).await?;
    }
    Ok(())
}

/// Whether the error says that there is no such address.
fn is_absent(error: &anyhow::Error) -> bool {
    let error = error.downcast_ref();
    matches!(error, Some(crate::fault::Error::Host(HostError::Unknown { .. })))
}

/// Every etcd member that runs.
pub fn etcds(rig: &ControlPlaneRig) -> Vec<Process> {
    let all = rig.lab.hosts().into_iter().filter_map(|host| host.process(ETCD).ok());
    all.filter(Process::is_running).collect()
}

/// Restarts every agent, one after another, the holder last, as an upgrade does. The new agents do not remember earlier
/// moves.
///
/// # Errors
/// One cannot be started.
pub async fn upgrade(rig: &mut ControlPlaneRig, agents: &mut Agents) -> Result<()> {
    // Two hosts may have the VIP, or none: the order is valid in any case.
    let holders = rig.timeline();
    let holder = holders.holders_at(now()).first().map(|holder| (*holder).to_owned()).unwrap_or_default();
    let (last, first): (Vec<_>, Vec<_>) = rig.lab.control_planes().into_iter().partition(|name| *name == holder);
    for name in first.into_iter().chain(last) {
        agents.excuse(&name);
        rig.lab.agent(&name)?.terminate()?;
        agents.ends_well(rig, &name).await?;
        agents.start(rig, &name)?;
        tokio::time::sleep(BETWEEN).await;
    }
    Ok(())
}
