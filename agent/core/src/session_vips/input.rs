//! What only the core of session VIPs is told: what the API shows, and how its calls ended.

use std::collections::BTreeSet;
use std::net::IpAddr;

use crate::event::Failure;
use crate::placement::{Demand, Labels};
use crate::session::{AddressView, Member, Standing, View};

/// Something that the API showed or answered, or that an operator asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// VIPs should exist, or demand something else now.
    Wanted(Vec<Demand>),
    /// A VIP should exist no longer.
    Unwanted(IpAddr),
    /// What Kubernetes says about this node.
    Node {
        /// As far as that ranks it.
        standing: Standing,
        /// The Node's labels.
        labels: Labels,
    },
    /// A watch event showed a session's Lease.
    Session(View),
    /// A watch event: a session's Lease was deleted.
    SessionDeleted(String),
    /// The watch of a Lease that [`super::Call::Follow`] asked for has begun: from now on each renewal is shown.
    Followed {
        /// The session's node.
        node: String,
        /// The Lease; None: there is none.
        view: Option<View>,
    },
    /// The watch of sessions without a member object shows a session no longer: its Lease was deleted, or its agent publishes a
    /// member object now.
    NotUnpublished(String),
    /// A watch event showed a member object.
    Member(Member),
    /// A watch event: a node's member object was deleted.
    MemberDeleted(String),
    /// All member objects: their watch begins with a list.
    Members(Vec<Member>),
    /// A write of a member object ended.
    Published {
        /// The call's number.
        id: u64,
        /// The object as written; or as it is, if another one was there than the write named.
        result: Result<Option<Member>, Failure>,
    },
    /// A list of sessions: a consistent one of all, which [`super::Call::ReadSessions`] asks for; or that of the watch which shows
    /// those without a member object.
    Sessions {
        /// The call's number; None: the list is the watch's own.
        id: Option<u64>,
        /// The sessions.
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
