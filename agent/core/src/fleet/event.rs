//! What the core of many VIPs is told.

use std::net::IpAddr;
use std::time::Duration;

use crate::event::Failure;
use crate::mac::Mac;
use crate::placement::Demand;
use crate::session::{AddressView, Link, Standing, View};

/// An interface of this node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Its index in the kernel: frames and probes name it by that.
    pub index: u32,
    /// What the session declares of it.
    pub link: Link,
    /// Gateways that are on its segment: third parties.
    pub gateways: Vec<IpAddr>,
}

/// Something happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// Nothing but time has passed.
    Tick,
    /// The interfaces are these; the MAC addresses of all others of the node too, for an answer from one of them is not
    /// another owner.
    Node {
        /// Those that VIPs may be on, the first one first.
        interfaces: Vec<Interface>,
        /// All MAC addresses of the node.
        macs: Vec<Mac>,
    },
    /// The link of an interface is up or down.
    Link {
        /// Which interface.
        index: u32,
        /// Whether frames can pass.
        up: bool,
    },
    /// VIPs should exist, or demand something else now.
    Wanted(Vec<Demand>),
    /// A VIP should exist no longer.
    Unwanted(IpAddr),
    /// What Kubernetes says of a node; None: it is gone.
    Standing {
        /// The node.
        node: String,
        /// Its standing.
        standing: Option<Standing>,
    },
    /// A watch event showed a session.
    Session(View),
    /// A watch event: a session's Lease was deleted.
    SessionDeleted(String),
    /// A consistent list of all sessions: the watch begins with one, and [`super::Action::ReadSessions`] asks for one.
    Sessions {
        /// The action's number; None: the watch's own.
        id: Option<u64>,
        /// All of them.
        result: Result<Vec<View>, Failure>,
    },
    /// The watch of sessions, or of addresses, broke.
    WatchLost,
    /// A watch event, or the list that a watch begins with, showed the `IPAddress` of a VIP; None: it is gone.
    Address {
        /// It is from a list: believed even if its version is older, as after a restored backup.
        listed: bool,
        /// The VIP.
        address: IpAddr,
        /// Its record.
        view: Option<AddressView>,
    },
    /// A consistent read of some VIPs' `IPAddress` ended.
    Addresses {
        /// The action's number.
        id: u64,
        /// Each, or None for one that is not there.
        result: Result<Vec<(IpAddr, Option<AddressView>)>, Failure>,
    },
    /// A write of a session ended.
    WroteSession {
        /// The action's number.
        id: u64,
        /// As written.
        result: Result<View, Failure>,
    },
    /// A write of a VIP's record ended.
    WroteHolder {
        /// The action's number.
        id: u64,
        /// As written.
        result: Result<AddressView, Failure>,
    },
    /// A frame of another host was heard that speaks for an address.
    Heard {
        /// On which interface.
        index: u32,
        /// The VIP, or another node's or a gateway's address.
        address: IpAddr,
        /// Who speaks.
        mac: Mac,
    },
    /// Addresses of ours were found at start, each on the interface with that index: an earlier run of this agent held them.
    LeftOver(Vec<(IpAddr, u32)>),
    /// All VIPs that should exist have been told: what was found beside them should not.
    Synced,
    /// VIPs are on their interface, until the fence that was asked for.
    Put(Vec<IpAddr>),
    /// One could not be put there.
    PutFailed {
        /// The VIP.
        address: IpAddr,
        /// What the datapath says.
        reason: String,
    },
    /// A VIP left its interface without our doing.
    Gone(IpAddr),
    /// The clocks disagree about how much time has passed.
    ClockJump(Duration),
    /// Hand over all VIPs and take no more; or be a candidate as before.
    Drain(bool),
    /// Hand over those VIPs that another node would have if all were placed anew.
    Rebalance,
    /// The process is asked to end.
    Shutdown,
}
