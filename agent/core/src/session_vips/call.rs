//! What the core of session VIPs asks of the API.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Duration;

use crate::lease::Record;
use crate::session::{Declared, End, Holder, View};

/// A call. No call waits for another one; its answer is an [`super::Input`] with the same number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Call {
    /// List all sessions, consistently.
    ReadSessions {
        /// The call's number: the answer repeats it.
        id: u64,
        /// Without an answer the call has failed after this.
        within: Duration,
    },
    /// Write a session's Lease: the own session, or the end of another node's.
    WriteSession {
        /// The call's number: the answer repeats it.
        id: u64,
        /// The session's node.
        node: String,
        /// The version that the Lease must still have. None: the Lease must not exist.
        base: Option<String>,
        /// The Lease's spec.
        record: Record,
        /// What the session declares. None: the annotation stays as it is.
        declared: Option<Declared>,
        /// Which node ends it and why, if this is an end.
        end: Option<End>,
        /// Without an answer the call has failed after this.
        within: Duration,
    },
    /// Follow the Leases of these nodes' sessions by name from now on, and no others. Each is answered with
    /// [`super::Input::Followed`] when its watch has begun, and whenever the watch begins anew.
    Follow {
        /// The nodes.
        nodes: BTreeSet<String>,
    },
    /// Write a node's member object.
    Publish {
        /// The call's number: the answer repeats it.
        id: u64,
        /// The version that the object must still have. None: there must be none.
        base: Option<String>,
        /// What it is to say.
        copy: View,
        /// Without an answer the call has failed after this.
        within: Duration,
    },
    /// Read the `IPAddress` objects of these VIPs, consistently: one by one when they are few, otherwise by one list.
    ReadAddresses {
        /// The call's number: the answer repeats it.
        id: u64,
        /// The VIPs.
        addresses: Vec<IpAddr>,
        /// Without an answer the call has failed after this.
        within: Duration,
    },
    /// Write who holds a VIP on its `IPAddress`.
    WriteHolder {
        /// The call's number: the answer repeats it.
        id: u64,
        /// The VIP.
        address: IpAddr,
        /// The version that the object must still have.
        base: String,
        /// The record. None: the VIP is not wanted any more, and nobody holds it.
        holder: Option<Holder>,
        /// Without an answer the call has failed after this.
        within: Duration,
    },
}
