//! What the keepers of many Leases are told, and want done.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

use crate::action::{Action as OfKeeper, Report};
use crate::event::{Event as ForKeeper, Node};
use crate::mac::Mac;
use crate::time::Time;

/// What this node may carry of a Lease.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lot {
    /// The VIPs.
    pub vips: BTreeSet<IpAddr>,
    /// Whether frames can pass on their interfaces.
    pub up: bool,
    /// Whether this node is to have the Lease. A holder that is not hands it over.
    pub campaigns: bool,
}

/// Something happened.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::large_enum_variant, reason = "a handful live for a moment")]
pub enum Event {
    /// Nothing but time has passed.
    Tick,
    /// What is known of the node itself.
    Node(Node),
    /// By Lease (NAMESPACE/NAME), all that this node may carry. A Lease that is not among them is given up.
    Lots(BTreeMap<String, Lot>),
    /// About one Lease: it was seen, read or written, or its watch broke.
    Lease {
        /// Which.
        name: String,
        /// What its keeper is told.
        event: ForKeeper,
    },
    /// A frame of another host was heard that speaks for an address.
    Heard {
        /// The VIP, or another's address.
        address: IpAddr,
        /// Who speaks.
        mac: Mac,
    },
    /// Addresses of ours were found at start: an earlier run of this agent held them.
    LeftOver(Vec<IpAddr>),
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
    /// The process is asked to end.
    Shutdown,
}

/// Something to do. None of them waits for another.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::large_enum_variant, reason = "a handful live for a moment")]
pub enum Action {
    /// Read or write a Lease, or ask the peers for it.
    Lease {
        /// Which, NAMESPACE/NAME.
        name: String,
        /// What its keeper wants.
        action: OfKeeper,
    },
    /// Have these VIPs on their interfaces, fenced so that the kernel drops them before `until`.
    Carry {
        /// The VIPs.
        addresses: Vec<IpAddr>,
        /// The lifetime is this less 1.5 s.
        until: Time,
    },
    /// Have them off.
    Drop(Vec<IpAddr>),
    /// Tell the segments that they are here.
    Announce(Vec<IpAddr>),
    /// Ask the segments: whom, or everybody.
    Probe(Vec<(IpAddr, Option<Mac>)>),
    /// Tell people.
    Report {
        /// Of which Lease.
        name: String,
        /// Its VIPs that this node has, or might.
        vips: Vec<IpAddr>,
        /// What.
        report: Report,
    },
    /// The process may end; addresses still there end by their fence.
    Exit,
}
