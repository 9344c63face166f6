//! Faults as values, for `lab fault` and for chaos.

use std::net::IpAddr;
use std::time::Duration;

use clap::Subcommand;
use mooring_agent::core::time::Time;
use serde::{Deserialize, Serialize};

use super::{ApiCut, Error, Way};
use crate::lab::Lab;

/// A fault, or what ends one. The fields are the arguments of the [`Lab`]'s method that makes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Subcommand)]
pub enum Fault {
    /// Power failure of a host.
    Crash { host: String },
    /// Power is back.
    Revive { host: String },
    /// Stop every process of a host, or one of them.
    Freeze { host: String, process: Option<String> },
    /// Let them go on.
    Thaw { host: String, process: Option<String> },
    /// Kill a process (SIGKILL).
    Kill { host: String, process: String },
    /// Ask a process to end (SIGTERM).
    Terminate { host: String, process: String },
    /// Start a process again.
    Start { host: String, process: String },
    /// Cut a host off another, or off the gateway.
    Cut {
        from: String,
        to: String,
        #[arg(long, value_enum, default_value = "both")]
        way: Way,
    },
    /// Take back the cuts between two hosts.
    Uncut { from: String, to: String },
    /// Cut a host off all other hosts and off the gateway, both ways.
    Isolate { host: String },
    /// Take that back.
    Rejoin { host: String },
    /// Cut a host's programs off the API.
    CutApi {
        host: String,
        #[arg(value_enum, default_value = "everywhere")]
        cut: ApiCut,
    },
    /// Take that back.
    HealApi { host: String },
    /// Take back all cuts and all loss.
    Heal,
    /// Lose a share of a host's frames; 0 ends it.
    Loss { host: String, percent: u8 },
    /// Pull a host's cable.
    PortDown { host: String },
    /// Plug it in again.
    PortUp { host: String },
    /// Make a host's API server slow: pauses of so many milliseconds; 0 ends it.
    SlowApi { host: String, pause_ms: u64 },
    /// The same for any process of a host.
    SlowProcess { host: String, process: String, pause_ms: u64 },
    /// A foreign host takes an address.
    Stranger {
        address: IpAddr,
        /// It does not announce it.
        #[arg(long)]
        silent: bool,
    },
    /// The foreign host gives an address up.
    StrangerLeaves { address: IpAddr },
    /// Add an address to a host's eth0 by hand.
    AddAddress { host: String, address: IpAddr },
    /// Delete an address from a host's eth0 by hand.
    DeleteAddress { host: String, address: IpAddr },
    /// Announce an address at a host's MAC address, once.
    Announce { host: String, address: IpAddr },
    /// Delete a host's eth0.
    DeleteInterface { host: String },
    /// Make it again.
    CreateInterface { host: String },
}

impl Fault {
    /// What ends the fault; None: the fault is over at once, or is itself the end of another one.
    #[must_use]
    pub fn opposite(&self) -> Option<Self> {
        Some(match self.clone() {
            Self::Crash { host } => Self::Revive { host },
            Self::Freeze { host, process } => Self::Thaw { host, process },
            Self::Kill { host, process } | Self::Terminate { host, process } => Self::Start { host, process },
            Self::Cut { from, to, way: _ } => Self::Uncut { from, to },
            Self::Isolate { host } => Self::Rejoin { host },
            Self::CutApi { host, cut: _ } => Self::HealApi { host },
            Self::Loss { host, percent: 1.. } => Self::Loss { host, percent: 0 },
            Self::PortDown { host } => Self::PortUp { host },
            Self::SlowApi { host, pause_ms: 1.. } => Self::SlowApi { host, pause_ms: 0 },
            Self::SlowProcess { host, process, pause_ms: 1.. } => Self::SlowProcess { host, process, pause_ms: 0 },
            Self::Stranger { address, silent: _ } => Self::StrangerLeaves { address },
            Self::AddAddress { host, address } => Self::DeleteAddress { host, address },
            Self::DeleteInterface { host } => Self::CreateInterface { host },
            Self::Revive { .. }
            | Self::Thaw { .. }
            | Self::Start { .. }
            | Self::Uncut { .. }
            | Self::Rejoin { .. }
            | Self::HealApi { .. }
            | Self::Heal
            | Self::Loss { .. }
            | Self::PortUp { .. }
            | Self::SlowApi { .. }
            | Self::SlowProcess { .. }
            | Self::StrangerLeaves { .. }
            | Self::DeleteAddress { .. }
            | Self::Announce { .. }
            | Self::CreateInterface { .. } => return None,
        })
    }
}

impl Lab {
    /// Applies the fault.
    ///
    /// # Errors
    /// As the method of that name.
    pub fn apply(&self, fault: &Fault) -> Result<Time, Error> {
        match fault {
            Fault::Crash { host } => self.crash(host),
            Fault::Revive { host } => self.revive(host),
            Fault::Freeze { host, process: None } => self.freeze_host(host),
            Fault::Freeze { host, process: Some(process) } => Ok(self.process(host, process)?.freeze()?),
            Fault::Thaw { host, process: None } => self.thaw_host(host),
            Fault::Thaw { host, process: Some(process) } => Ok(self.process(host, process)?.thaw()?),
            Fault::Kill { host, process } => Ok(self.process(host, process)?.kill()?),
            Fault::Terminate { host, process } => Ok(self.process(host, process)?.terminate()?),
            Fault::Start { host, process } => Ok(self.process(host, process)?.start()?),
            Fault::Cut { from, to, way } => self.cut(from, to, *way),
            Fault::Uncut { from, to } => self.heal(from, to),
            Fault::Isolate { host } => self.isolate(host),
            Fault::Rejoin { host } => self.rejoin(host),
            Fault::HealApi { host } => self.heal_api(host),
            Fault::CutApi { host, cut } => self.cut_api(host, *cut),
            Fault::Heal => self.heal_all(),
            Fault::Loss { host, percent } => self.loss(host, *percent),
            Fault::PortDown { host } => self.port_down(host),
            Fault::PortUp { host } => self.port_up(host),
            Fault::SlowApi { host, pause_ms } => self.slow_api(host, Duration::from_millis(*pause_ms)),
            Fault::SlowProcess { host, process, pause_ms } => {
                self.slow_process(host, process, Duration::from_millis(*pause_ms))
            }
            Fault::Stranger { address, silent } => self.stranger(*address, !silent),
            Fault::StrangerLeaves { address } => self.stranger_leaves(*address),
            Fault::AddAddress { host, address } => self.add_address(host, *address),
            Fault::DeleteAddress { host, address } => self.delete_address(host, *address),
            Fault::Announce { host, address } => self.announce(host, *address),
            Fault::DeleteInterface { host } => self.delete_interface(host),
            Fault::CreateInterface { host } => self.create_interface(host),
        }
    }
}
