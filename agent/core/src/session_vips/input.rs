//! What only the core of session VIPs is told: what the API shows, and how its calls ended.

use std::collections::BTreeSet;
use std::net::IpAddr;

use crate::event::Failure;
use crate::placement::Demand;
use crate::session::{AddressView, Standing, View};

/// Something that the API showed or answered, or that an operator asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// VIPs should exist, or demand something else now.
    Wanted(Vec<Demand>),
    /// A VIP should exist no longer.
    Unwanted(IpAddr),
    /// What Kubernetes says about a node. None: the node is gone.
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
    /// A consistent list of all sessions: the watch begins with one, and [`super::Call::ReadSessions`] asks for one.
    Sessions {
        /// The call's number; None: the list is the watch's own.
        id: Option<u64>,
        /// All sessions.
        result: Result<Vec<View>, Failure>,
    },
    /// The watch of sessions, or of addresses, broke.
    WatchLost,
    /// A watch event, or the list that a watch begins with, showed the `IPAddress` of a VIP.
    Address {
        /// A list showed it: it is believed even if its version is older, as after a restored backup.
        listed: bool,
        /// The VIP.
        address: IpAddr,
        /// The object; None: there is none.
        view: Option<AddressView>,
    },
    /// A consistent read of some VIPs' `IPAddress` ended.
    Addresses {
        /// The call's number.
        id: u64,
        /// Each object; None: there is none.
        result: Result<Vec<(IpAddr, Option<AddressView>)>, Failure>,
    },
    /// A write of a session ended.
    WroteSession {
        /// The call's number.
        id: u64,
        /// The object as written.
        result: Result<View, Failure>,
    },
    /// A write of a VIP's record ended.
    WroteHolder {
        /// The call's number.
        id: u64,
        /// The object as written.
        result: Result<AddressView, Failure>,
    },
    /// All VIPs that should exist are known now: others that were found at start should not exist.
    Synced,
    /// True: hand over all VIPs, and take no more. False: be a candidate as before.
    Drain(bool),
    /// The control plane's VIPs, by this node's settings: no VIP of a Service has one of these addresses.
    Reserved(BTreeSet<IpAddr>),
    /// Hand over the VIPs that another node would have if all were placed anew.
    Rebalance,
}
