//! Starts faults and ends them.

use std::time::Duration;

use anyhow::Result;
use mooring_agent::core::time::Time;

use super::agents::Agents;
use super::class::Class;
use super::draw::{Order, Role};
use crate::agents::AGENT;
use crate::cluster::ETCD;
use crate::fault::{ApiCut, Way};
use crate::host::{Error as HostError, Process};
use crate::observe::now;
use crate::rig::control_plane::ControlPlaneRig;
use crate::segment::GATEWAY_NAME;

/// The host that announces an address it does not have.
pub const INTRUDER: (&str, u8) = ("intruder", 66);
/// A killed process ends within this time.
const GONE: Duration = Duration::from_secs(10);
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
        let (lab, host, amount) = (rig.lab.clone(), self.host.as_str(), u64::from(self.order.amount));
        let peer = self.peer.as_deref().unwrap_or_default();
        let vip = lab.vip();
        match self.order.class {
            Class::Crash => {
                agents.excuse(host);
                rig.crash(host)?;
            }
            Class::Isolated => {
                let others = self.everybody_else(rig);
                let others: Vec<&str> = others.iter().map(String::as_str).collect();
                lab.partition(&[host], &others, Way::Both)?;
            }
            Class::PortDown => _ = lab.port_down(host)?,
            Class::InterfaceRecreated => _ = lab.delete_interface(host)?,
            Class::Cut => _ = lab.cut(host, peer, Way::Both)?,
            Class::CutOneWay => _ = lab.cut(host, peer, Way::One)?,
            Class::CutGateway => _ = lab.cut(host, GATEWAY_NAME, Way::Both)?,
            Class::Loss => _ = lab.loss(host, self.order.amount)?,
            Class::AgentFrozen => _ = lab.agent(host)?.freeze()?,
            Class::HostFrozen => _ = lab.freeze_host(host)?,
            Class::AgentStarved => _ = lab.slow_process(host, AGENT, Duration::from_millis(200 + 20 * amount))?,
            Class::AgentKilled => {
                agents.excuse(host);
                lab.agent(host)?.kill()?;
            }
            Class::AgentRestarted => {
                agents.excuse(host);
                lab.agent(host)?.terminate()?;
            }
            Class::AgentsUpgraded => upgrade(rig, agents).await?,
            Class::ApiCut => _ = lab.cut_api(host, ApiCut::Everywhere)?,
            Class::ApiCutOthers => _ = lab.cut_api(host, ApiCut::Others)?,
            Class::ApiStopped => _ = lab.stop_api(host)?,
            Class::ApiFrozen => _ = lab.freeze_api(host)?,
            Class::ApiSlow => _ = lab.slow_api(host, Duration::from_millis(50 + 20 * amount))?,
            Class::ApisStopped => _ = lab.stop_all_apis()?,
            Class::ApisFrozen => _ = lab.freeze_all_apis()?,
            Class::EtcdFrozen => {
                for etcd in etcds(rig) {
                    etcd.freeze()?;
                }
            }
            Class::AddressDeleted => match lab.delete_address(host, vip) {
                Ok(_) => {}
                Err(crate::fault::Error::Host(HostError::Unknown { .. })) => return Ok(false),
                Err(error) => return Err(error.into()),
            },
            Class::Claimed => _ = lab.announce(INTRUDER.0, vip)?,
            Class::Stranger => _ = lab.stranger(vip, true)?,
        }
        Ok(true)
    }

    /// Ends the fault.
    ///
    /// # Errors
    /// The lab refuses.
    pub async fn end(&self, rig: &mut ControlPlaneRig, agents: &mut Agents) -> Result<Time> {
        let (lab, host) = (rig.lab.clone(), self.host.as_str());
        let peer = self.peer.as_deref().unwrap_or_default();
        let none = Duration::ZERO;
        match self.order.class {
            Class::Crash => {
                rig.revive(host)?;
                agents.expect(host);
            }
            Class::Isolated => {
                for other in self.everybody_else(rig) {
                    lab.heal(host, &other)?;
                }
            }
            Class::PortDown => _ = lab.port_up(host)?,
            Class::InterfaceRecreated => _ = lab.create_interface(host)?,
            Class::Cut | Class::CutOneWay => _ = lab.heal(host, peer)?,
            Class::CutGateway => _ = lab.heal(host, GATEWAY_NAME)?,
            Class::Loss => _ = lab.loss(host, 0)?,
            Class::AgentFrozen => _ = lab.agent(host)?.thaw()?,
            Class::HostFrozen => _ = lab.thaw_host(host)?,
            Class::AgentStarved => _ = lab.slow_process(host, AGENT, none)?,
            Class::AgentKilled => {
                lab.agent(host)?.process()?.ended(GONE).await?;
                agents.start(rig, host)?;
            }
            Class::AgentRestarted => {
                agents.ends_well(rig, host).await?;
                agents.start(rig, host)?;
            }
            Class::ApiCut | Class::ApiCutOthers => _ = lab.heal_api(host)?,
            Class::ApiStopped => restart(&lab.cluster()?.api(host)?).await?,
            Class::ApiFrozen => _ = lab.thaw_api(host)?,
            Class::ApiSlow => _ = lab.slow_api(host, none)?,
            Class::ApisStopped => {
                for host in lab.control_planes() {
                    restart(&lab.cluster()?.api(&host)?).await?;
                }
            }
            Class::ApisFrozen => _ = lab.thaw_all_apis()?,
            Class::EtcdFrozen => {
                for etcd in etcds(rig) {
                    etcd.thaw()?;
                }
            }
            Class::Stranger => _ = lab.stranger_leaves(lab.vip())?,
            Class::AgentsUpgraded | Class::AddressDeleted | Class::Claimed => {}
        }
        Ok(now())
    }

    fn everybody_else(&self, rig: &ControlPlaneRig) -> Vec<String> {
        let hosts = rig.lab.hosts();
        let names = hosts.iter().map(|host| host.name().to_owned()).filter(|name| *name != self.host);
        names.chain([GATEWAY_NAME.to_owned()]).collect()
    }
}

/// Every etcd member that runs.
pub fn etcds(rig: &ControlPlaneRig) -> Vec<Process> {
    let all = rig.lab.hosts().into_iter().filter_map(|host| host.process(ETCD).ok());
    all.filter(Process::is_running).collect()
}

async fn restart(process: &Process) -> Result<()> {
    process.ended(GONE).await?;
    process.start()?;
    Ok(())
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
