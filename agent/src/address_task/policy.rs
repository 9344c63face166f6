//! The differences between the address tasks of the cores.

use std::net::IpAddr;
use std::time::Duration;

use crate::datapath::{Vip, Whose};
use crate::settings::Prefix;

/// Which VIPs the task handles.
#[derive(Clone, Copy, Debug)]
pub enum Policy {
    /// The control plane's VIPs: on one interface, with a prefix from the settings. The task looks for the VIPs on this
    /// node before the node carries them: it removes what kube-vip left, and refuses a permanent address of the node.
    ControlPlane(Prefix),
    /// The VIPs of Services: on every interface that a VIP needs, with the prefix of a single address. The task handles
    /// a foreign address in the way when it puts the VIP there.
    Services,
}

impl Policy {
    /// How VIPs are marked.
    pub const fn whose(self) -> Whose {
        match self {
            Self::ControlPlane(_) => Whose::ControlPlane,
            Self::Services => Whose::Services,
        }
    }

    /// The thread's name.
    pub const fn thread(self) -> &'static str {
        match self {
            Self::ControlPlane(_) => "addresses",
            Self::Services => "services-addr",
        }
    }

    /// The part of readiness that says that VIPs are on a port of a bridge, bond or team.
    pub const fn port_reason(self) -> &'static str {
        match self {
            Self::ControlPlane(_) => "interface-port",
            Self::Services => "services-interface-port",
        }
    }

    /// Whether VIPs are on one interface.
    pub const fn has_one_interface(self) -> bool {
        matches!(self, Self::ControlPlane(_))
    }

    /// The VIP as it is put on an interface.
    pub fn vip(self, address: IpAddr) -> Vip {
        match self {
            Self::ControlPlane(prefix) => Vip { address, prefix: prefix.of(address) },
            Self::Services => Vip::host(address),
        }
    }

    /// How soon the task looks at the node after an address or a link has changed: a DHCP client sets the route after
    /// the address.
    pub const fn settle(self) -> Duration {
        match self {
            Self::ControlPlane(_) => Duration::from_millis(500),
            Self::Services => Duration::from_millis(200),
        }
    }

    /// How often the task looks at the node anyway: the kernel does not report changed routes here.
    pub const fn refresh(self) -> Duration {
        match self {
            Self::ControlPlane(_) => Duration::from_mins(1),
            Self::Services => Duration::from_secs(30),
        }
    }
}
