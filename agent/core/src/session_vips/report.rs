//! What people may want to know about a node's many VIPs. Reports become log lines, Events and metrics.

use std::net::IpAddr;
use std::time::Duration;

use crate::action::{Cause, Why};
use crate::echo;
use crate::mac::Mac;
use crate::session::EndCause;

/// Something that happened to the session or to a VIP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Report {
    /// Whether third parties on an interface answer this node's probes, and with which sender, has changed.
    Echo {
        /// The kernel's index of the interface.
        interface: u32,
        /// What is known now.
        state: echo::State,
    },
    /// This node's session has begun, or was adopted.
    Began {
        /// Its number.
        transitions: u32,
        /// It began before the agent was restarted.
        adopted: bool,
    },
    /// This node's session has ended: all VIPs are let go.
    Ended,
    /// Another machine uses this node's name: while that one renews the session, this one does not begin it.
    NameTaken {
        /// The MAC addresses that the other machine declares.
        macs: Vec<Mac>,
    },
    /// This node's session could not be renewed. The VIPs stay, under short fences.
    Lapsed,
    /// The session was renewed after it had lapsed.
    Confirmed,
    /// This node has ended another node's session.
    EndedOther {
        /// Whose.
        node: String,
        /// Why.
        cause: EndCause,
    },
    /// This node carries a VIP now.
    Took {
        /// The VIP.
        address: IpAddr,
        /// Why.
        cause: Cause,
    },
    /// This node carries a VIP no longer.
    LetGo {
        /// The VIP.
        address: IpAddr,
        /// Why.
        why: Why,
    },
    /// Nobody has answered this node on an interface since it took VIPs there: it gives them back.
    Mute {
        /// The kernel's index of the interface.
        interface: u32,
    },
    /// This node hands a VIP over.
    HandingOver {
        /// The VIP.
        address: IpAddr,
        /// To whom.
        to: String,
    },
    /// Probes are answered on an interface, as was to be expected. Only metrics say so.
    Answered,
    /// A take was lost to another node.
    Outrun {
        /// The VIP.
        address: IpAddr,
    },
    /// Another host answers for a VIP, and this node does not take the VIP. Goes to the VIP's `IPAddress`.
    ForeignOwner {
        /// The VIP.
        address: IpAddr,
        /// The MAC address that answers.
        mac: Mac,
    },
    /// A VIP is the address of a node or of the control plane, and no node carries it. Goes to the VIP's `IPAddress`.
    Owned {
        /// The VIP.
        address: IpAddr,
        /// The node that has the address, or whose settings name it.
        node: String,
        /// It is a VIP of the control plane; otherwise the node's own address.
        control_plane: bool,
    },
    /// Another host claims a VIP that is held here.
    Contested {
        /// The VIP.
        address: IpAddr,
        /// The MAC address that claims it.
        mac: Mac,
        /// The node with that MAC address; None: a stranger, which is for its `IPAddress`.
        node: Option<String>,
    },
    /// The VIP was announced against another host's claim.
    Defended {
        /// The VIP.
        address: IpAddr,
    },
    /// Another program removed the VIP, and it was put back.
    Restored {
        /// The VIP.
        address: IpAddr,
    },
    /// The VIP could not be put on the interface.
    CannotCarry {
        /// The VIP.
        address: IpAddr,
        /// What the datapath says.
        reason: String,
    },
    /// The VIP could not be removed from the interface. It is tried again, and the fence ends the VIP.
    CannotRemove {
        /// The VIP.
        address: IpAddr,
        /// What the datapath says.
        reason: String,
    },
    /// A step of the agent came late.
    Late {
        /// By how much.
        by: Duration,
    },
}
