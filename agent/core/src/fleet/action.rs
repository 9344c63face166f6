//! What the core of many VIPs wants done: lists, for the edges batch.

use std::net::IpAddr;
use std::time::Duration;

use crate::action::{Cause, Why};
use crate::lease::Record;
use crate::mac::Mac;
use crate::session::{Declared, End, EndCause, Holder};
use crate::time::Time;

/// A probe to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ask {
    /// On which interface.
    pub index: u32,
    /// Whose owner is asked for.
    pub address: IpAddr,
    /// Whom to ask; None: everybody.
    pub to: Option<Mac>,
}

/// Something to do. None of them waits for another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// List all sessions, consistently.
    ReadSessions {
        /// Told again with the result.
        id: u64,
        /// After this long it has failed.
        within: Duration,
    },
    /// Write a session's Lease: the own one, or the end of another.
    WriteSession {
        /// Told again with the result.
        id: u64,
        /// Whose.
        node: String,
        /// The version it must still have; None: it must not exist.
        base: Option<String>,
        /// The Lease's spec.
        record: Record,
        /// What it declares; None: as it is.
        declared: Option<Declared>,
        /// Who ended it, when this is an end.
        end: Option<End>,
        /// After this long it has failed.
        within: Duration,
    },
    /// Read the `IPAddress` objects of these VIPs, consistently: one by one when they are few, by one list else.
    ReadAddresses {
        /// Told again with the result.
        id: u64,
        /// Which.
        addresses: Vec<IpAddr>,
        /// After this long it has failed.
        within: Duration,
    },
    /// Write who holds a VIP on its `IPAddress`.
    WriteHolder {
        /// Told again with the result.
        id: u64,
        /// The VIP.
        address: IpAddr,
        /// The version it must still have.
        base: String,
        /// The record; None: nobody's, for the VIP is not wanted any more.
        holder: Option<Holder>,
        /// After this long it has failed.
        within: Duration,
    },
    /// Have these VIPs on their interface, each given with that, fenced so that the kernel drops them before `until`.
    Carry {
        /// The VIPs, and the index of the interface of each.
        addresses: Vec<(IpAddr, u32)>,
        /// The lifetime is this less 1.5 s.
        until: Time,
    },
    /// Have them off.
    Drop(Vec<IpAddr>),
    /// Tell the segment that they are here.
    Announce(Vec<(IpAddr, u32)>),
    /// Ask the segment.
    Probe(Vec<Ask>),
    /// Tell people.
    Report(Report),
    /// The process may end; addresses still there end by their fence.
    Exit,
}

/// What people may want to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Report {
    /// This node's session has begun, or was adopted.
    Began {
        /// Its number.
        transitions: u32,
        /// It goes on from before a restart.
        adopted: bool,
    },
    /// It has ended: all VIPs are let go.
    Ended,
    /// It could not be renewed; the VIPs stay.
    Lapsed,
    /// It has been renewed after that.
    Confirmed,
    /// This node has ended another's.
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
    /// It carries it no longer.
    LetGo {
        /// The VIP.
        address: IpAddr,
        /// Why.
        why: Why,
    },
    /// It hands a VIP over.
    HandingOver {
        /// The VIP.
        address: IpAddr,
        /// To whom.
        to: String,
    },
    /// A take was lost to another node.
    Outrun {
        /// The VIP.
        address: IpAddr,
    },
    /// Another host answers for a VIP that is not taken for that reason: for its `IPAddress`.
    ForeignOwner {
        /// The VIP.
        address: IpAddr,
        /// Who answers.
        mac: Mac,
    },
    /// Another host claims a VIP that is held here.
    Contested {
        /// The VIP.
        address: IpAddr,
        /// Who claims it.
        mac: Mac,
        /// The node with that MAC address; None: a stranger, which is for its `IPAddress`.
        node: Option<String>,
    },
    /// The VIP was announced against that.
    Defended {
        /// The VIP.
        address: IpAddr,
    },
    /// Somebody removed the VIP; it was put back.
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
    /// The own step came late.
    Late {
        /// By how much.
        by: Duration,
    },
}
