//! The elector's actions and reports.

use std::net::IpAddr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::echo;
use super::evidence::Sender;
use super::lease::{Notes, Record};
use super::mac::Mac;
use super::time::Time;

/// Something to do. No action waits for another action; an event reports each result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(clippy::large_enum_variant, reason = "a handful live for a moment")]
pub enum Action {
    /// Read the Lease.
    Read {
        /// The call's number: the answer repeats it.
        id: u64,
        /// Without an answer the call has failed after this.
        within: Duration,
    },
    /// Write the Lease.
    Write {
        /// The call's number: the answer repeats it.
        id: u64,
        /// The version it must still have; None: it must not exist.
        base: Option<String>,
        /// What to write.
        record: Record,
        /// The annotations to write; foreign ones stay.
        notes: Notes,
        /// Without an answer the call has failed after this.
        within: Duration,
    },
    /// Ask the API servers of all peers for their health.
    AskPeers {
        /// The call's number: the answer repeats it.
        id: u64,
        /// After this long those that did not answer are not healthy.
        within: Duration,
    },
    /// Put the VIP on the interface, fenced so that the kernel drops it before the deadline.
    Carry {
        /// The VIP.
        address: IpAddr,
        /// The end of the Lease, or of a short fence: the lifetime is this less 1.5 s. Recorded traces name it `until`.
        #[serde(rename = "until")]
        deadline: Time,
    },
    /// Remove the VIP from the interface.
    Drop {
        /// The VIP.
        address: IpAddr,
    },
    /// Announce the VIP on the segment.
    Announce {
        /// The VIP.
        address: IpAddr,
    },
    /// Probe the segment for the owner of an address.
    Probe {
        /// A VIP or a third party's address.
        address: IpAddr,
        /// The host to ask; None: everybody on the segment.
        to: Option<Mac>,
        /// Who asks, as the probe says.
        sender: Sender,
    },
    /// Report to people.
    Report(Report),
    /// The process may end. The fence ends addresses that are still there.
    Exit,
}

/// Why this node has taken a VIP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// Nobody held the Lease.
    Free,
    /// It was handed over.
    Handover,
    /// The holder's Lease ended.
    Expiry,
    /// The holder fell silent on the segment.
    Witness,
    /// This node had it already: the agent restarted, or the API came back.
    Adopted,
    /// The API could not be asked, and the VIP was free.
    Provisional,
}

/// Why this node has let a VIP go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Why {
    /// Another node holds the Lease.
    LeaseLost,
    /// Another node answers for the VIP, and the API did not confirm this node's hold.
    Yielded,
    /// Handed over.
    HandedOver,
    /// The Lease could not be renewed, and the settings say `release`.
    ApiLost,
    /// The agent's own step came after the end of the fence.
    Late,
    /// The link is down.
    LinkDown,
    /// The VIP is no longer configured.
    NotWanted,
    /// None of the VIPs could be put on the interface.
    CannotCarry,
    /// The API is silent, and too few of the other nodes are heard: this node is cut off.
    CutOff,
    /// It is the address of a node, or of the control plane.
    Owned,
}

/// Why a holder hands over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HandsOver {
    /// The process was asked to end, or this node is to take no part any longer.
    Ending,
    /// The API server of this node is not healthy, and another node's is.
    Unhealthy,
    /// Nobody on the segment answers this node.
    Mute,
}

/// A report to people. Reports become log lines, Events and metrics.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Report {
    /// This node carries the VIPs now.
    Took(Cause),
    /// A provisional or lapsed hold has become a rightful one.
    Confirmed,
    /// This node carries the VIPs no longer.
    LetGo(Why),
    /// The Lease lapsed while the API is away; the VIPs stay.
    Lapsed,
    /// The API is silent, and so are too many of the nodes that were heard before: the VIPs go when their fence ends.
    TooFewHeard {
        /// How many others are heard.
        heard: usize,
        /// How many others were.
        known: usize,
    },
    /// A planned hand-over begins.
    HandingOver {
        /// The successor, if one is known.
        to: Option<String>,
        /// Why.
        cause: HandsOver,
    },
    /// This node took the VIPs because their last holder was silent, and nobody has answered it since: it gives the Lease back.
    Mute,
    /// The API server is unhealthy on this node, and better on no other node: the VIPs stay.
    NobodyBetter,
    /// Another host answers for a VIP that is not taken for that reason.
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
        /// The participant with that MAC address, if it is one's.
        participant: Option<String>,
    },
    /// The VIP was announced against another's claim.
    Defended {
        /// The VIP.
        address: IpAddr,
    },
    /// Another program removed the VIP, and it was put back.
    Restored {
        /// The VIP.
        address: IpAddr,
    },
    /// Another program removes the VIP again and again: it is put back at the next refresh only.
    RemovedAgain {
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
    /// The holder fell silent.
    Abandoned {
        /// Its name.
        holder: String,
    },
    /// The holder fell silent, and the VIPs have moved so often lately that they are not taken before the holder's Lease ends.
    MovedOften {
        /// The holder's name.
        holder: String,
    },
    /// Probes of the holder went unanswered, but not (yet) enough.
    ProbeMissed,
    /// Whether third parties answer this node's probes, and with which sender, has changed.
    Echo(echo::State),
    /// Probes are answered, as was to be expected. Only metrics say so.
    Answered,
    /// A take was lost to another node.
    Outrun,
    /// Another machine holds the Lease under this node's name.
    NameTaken {
        /// The MAC addresses that it declares.
        macs: Vec<Mac>,
    },
    /// The Lease cannot be created: its namespace does not exist. It is tried again, less and less often.
    NoNamespace,
}
