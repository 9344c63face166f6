//! The elector's events, and the moment at which a core steps.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Duration;

pub use mooring_lease::Failure;
use serde::{Deserialize, Serialize};

use super::evidence::{Form, Sender};
use super::health::Verdict;
use super::lease::{LeaseView, Participant};
use super::mac::Mac;
use super::time::{Time, WallTime};

/// When something happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Moment {
    /// By the clock that all deadlines are judged by.
    pub now: Time,
    /// By the wall clock: only written into records, never compared.
    pub wall: WallTime,
}

/// The elector's view of this node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Node {
    /// What the node declares about itself on the Lease.
    pub participant: Participant,
    /// The MAC addresses of all its interfaces: an answer from one of them is not another owner.
    pub macs: Vec<Mac>,
    /// The gateways of its default routes: third parties on the segment.
    pub gateways: Vec<IpAddr>,
    /// The VIPs' interface has no IPv4 address of its own, though the node has one: its ARP probes come from 0.0.0.0.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub bare: bool,
}

/// An event of the elector.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Event {
    /// Nothing but time has passed.
    Tick,
    /// The interface has appeared or changed, or the node's addresses have changed.
    Node(Node),
    /// The VIPs that should exist. They change when a DNS name changes.
    Vips(Vec<IpAddr>),
    /// Addresses of ours were found on the interface at start: an earlier run of this agent held them.
    LeftOver(Vec<IpAddr>),
    /// A watch event showed the Lease. None: it does not exist.
    Seen(Option<LeaseView>),
    /// The watch broke.
    WatchLost,
    /// A read ended.
    Read {
        /// The call's number.
        id: u64,
        /// What it showed.
        result: Result<Option<LeaseView>, Failure>,
    },
    /// A write ended.
    Wrote {
        /// The call's number.
        id: u64,
        /// The Lease as written.
        result: Result<LeaseView, Failure>,
    },
    /// The verdict on the local API server has changed (or is the first).
    Health(Verdict),
    /// Peers' API servers were asked for their health.
    Peers {
        /// The call's number.
        id: u64,
        /// The addresses of the healthy API servers; the node's own addresses too, if its own server is healthy.
        healthy: Vec<IpAddr>,
    },
    /// A third party was asked, because an elector on that segment had said that it was due.
    Asked {
        /// The host.
        address: IpAddr,
        /// With which sender.
        sender: Sender,
    },
    /// A frame of another host claimed `address`.
    Heard {
        /// The VIP, or a third party's address.
        address: IpAddr,
        /// The sender.
        mac: Mac,
        /// Whether the frame answers a probe.
        form: Form,
    },
    /// The VIP is on the interface, until the requested deadline.
    Put {
        /// The VIP.
        address: IpAddr,
    },
    /// The VIP got no new lifetime. It is on the interface, and stays there until the lifetime ends that it had before.
    NotRefreshed {
        /// The VIP.
        address: IpAddr,
    },
    /// The VIP could not be put there, and is not there.
    PutFailed {
        /// The VIP.
        address: IpAddr,
        /// The kernel's error, for people.
        reason: String,
    },
    /// The VIP left the interface, and this agent did not remove it.
    Gone {
        /// The VIP.
        address: IpAddr,
    },
    /// The VIP was to be removed, and is not on the interface.
    Removed {
        /// The VIP.
        address: IpAddr,
    },
    /// The VIP could not be removed. The datapath tries again until the VIP is gone.
    RemoveFailed {
        /// The VIP.
        address: IpAddr,
        /// The kernel's error, for people.
        reason: String,
    },
    /// A node's own address no longer answers, while third parties do: whoever watches nodes says so.
    NodeSilent {
        /// The node.
        node: String,
    },
    /// A node that was silent is heard.
    NodeHeard {
        /// The node.
        node: String,
    },
    /// The next window may open, where windows open in turn.
    Turn,
    /// The interface's link is up or down (or the interface is gone).
    Link {
        /// Whether frames can pass.
        up: bool,
    },
    /// The VIPs on whose own interface no frames can pass, where the VIPs are on several interfaces: nobody is heard to have them.
    Unheard(BTreeSet<IpAddr>),
    /// The clocks disagree about how much time has passed by more than a second: the machine may have stood still.
    ClockJump(Duration),
    /// This node is to take part no longer, and its process goes on.
    Withdraw {
        /// Whether nobody wants the VIPs any more, as far as this node knows: nothing is handed over.
        unwanted: bool,
    },
    /// The process is asked to end.
    Shutdown,
}
