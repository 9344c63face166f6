//! The interface that every core shares: its events and its outputs.
//!
//! ```text
//!   kernel, segment, signals ─▶ Event ──────────────┐            ┌─▶ Ensure, Remove          the address task
//!   API: objects, answers ────▶ Event::Input(own) ──┴─▶ Core ────┼─▶ Announce, Probe         the segments
//!   clock ────────────────────▶ Event::Tick                      ├─▶ Call(own)               the API
//!                                                                └─▶ Report(own), Exit       logs, Events, metrics
//! ```
//!
//! The agent's event loop, its address task and its segments are written once, for any [`Core`]; so is the simulator's
//! world. A core defines only its own inputs, its own calls to the API, and its own reports.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Duration;

use crate::event::Moment;
use crate::evidence::{Form, Sender};
use crate::mac::Mac;
use crate::session::Link;
use crate::time::Time;

/// A decision maker without clock and I/O. All input comes in by [`Core::step`], and the result of the step says what
/// to do.
pub trait Core {
    /// Inputs of this core alone: objects of the API, answers to its calls.
    type Input;
    /// Calls to the API that only this core makes.
    type Call;
    /// What this core reports.
    type Report;

    /// Takes in an event at a moment, and returns what to do.
    fn step(&mut self, at: Moment, event: Event<Self::Input>) -> Vec<Output<Self::Call, Self::Report>>;

    /// When to step again if nothing happens before.
    fn wake(&self) -> Option<Time>;

    /// The addresses whose frames this core needs.
    fn listens_for(&self) -> BTreeSet<IpAddr>;
}

/// An address on an interface of this node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Vip {
    /// The address.
    pub address: IpAddr,
    /// The kernel's index of the interface.
    pub interface: u32,
}

/// An ARP request or a neighbour solicitation to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probe {
    /// The kernel's index of the interface to send it on.
    pub interface: u32,
    /// The address whose owner the probe looks for.
    pub address: IpAddr,
    /// The host to ask; None: everybody on the segment.
    pub to: Option<Mac>,
    /// Who asks, as the probe says.
    pub sender: Sender,
}

/// The index that stands for an interface which does not exist: the kernel counts from 1 (`if_nametoindex(3)`).
pub const NO_INTERFACE: u32 = 0;

/// An interface of this node that VIPs may be on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// The kernel's index: frames and probes name the interface by it. [`NO_INTERFACE`]: the default interface does not exist.
    pub index: u32,
    /// What the node declares about the interface.
    pub link: Link,
    /// Gateways on the interface's segment: third parties that a probe may ask.
    pub gateways: Vec<IpAddr>,
}

/// An event. `I`: the inputs of one core alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event<I> {
    /// Nothing but time has passed.
    Tick,
    /// The agent has read the node's interfaces, and something has changed.
    Node {
        /// The interfaces that VIPs may be on; the default one first.
        interfaces: Vec<Interface>,
        /// The MAC addresses of all the node's interfaces: an answer from one of them is not another owner.
        macs: Vec<Mac>,
    },
    /// The link of an interface is up or down.
    Link {
        /// The interface's index.
        interface: u32,
        /// Whether frames can pass.
        up: bool,
    },
    /// A frame of another host claimed an address.
    Heard {
        /// The index of the interface that the frame came in on.
        interface: u32,
        /// A VIP, or the address of a peer or a gateway.
        address: IpAddr,
        /// The sender.
        mac: Mac,
        /// Whether the frame answers a probe.
        form: Form,
    },
    /// At start, the agent found addresses that an earlier run had left.
    LeftOver(Vec<Vip>),
    /// VIPs are on their interface, until the requested deadline.
    Ensured(Vec<IpAddr>),
    /// VIPs got no new lifetime: the kernel did not answer in time, or refused. They are on their interface, and stay there until
    /// the lifetime ends that an earlier request gave them, or later if the kernel has handled this request after all.
    NotRefreshed(Vec<IpAddr>),
    /// A VIP could not be put on its interface, and is not there.
    EnsureFailed {
        /// The VIP.
        address: IpAddr,
        /// What the kernel says, for people.
        reason: String,
    },
    /// A VIP left its interface, and this agent did not remove it. Or another program's address is gone that was in the VIP's way.
    Gone(IpAddr),
    /// VIPs were to be removed ([`Output::Remove`]), and are on no interface.
    Removed(Vec<IpAddr>),
    /// A VIP could not be removed. The address task tries again until the VIP is gone, or is to be carried again.
    RemoveFailed {
        /// The VIP.
        address: IpAddr,
        /// What the kernel says, for people.
        reason: String,
    },
    /// The clocks disagree by more than a second about how much time has passed: the machine may have stood still.
    ClockJump(Duration),
    /// The process is asked to end.
    Shutdown,
    /// An input of this core alone.
    Input(I),
}

/// Something to do. No output waits for another output; an [`Event`] reports each result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output<C, R> {
    /// Put these VIPs on their interfaces, fenced so that the kernel drops them before the deadline.
    Ensure {
        /// The VIPs.
        vips: Vec<Vip>,
        /// The end of the Lease, or of a short fence: the lifetime in the kernel is this time minus 1.5 s.
        deadline: Time,
    },
    /// Take these VIPs off their interfaces. [`Event::Removed`] says when they are gone.
    Remove(Vec<IpAddr>),
    /// Announce these VIPs on the segment.
    Announce(Vec<Vip>),
    /// Probe the segment for the owners of addresses.
    Probe(Vec<Probe>),
    /// Call the API.
    Call(C),
    /// Report to people.
    Report(R),
    /// The process may end. The fences end any remaining addresses.
    Exit,
}
