//! The control plane's VIPs: one Lease, one interface, one [`Elector`].
//!
//! ```text
//!   Event ──▶ ControlPlane ──▶ Elector's event(s) ──▶ Elector ──▶ Action ──▶ ControlPlane ──▶ Output
//!             the interface; the node's own VIPs                             the interface; lists
//! ```
//!
//! The Elector knows neither interfaces nor lists. This core picks the interface and describes the node to the Elector. VIPs
//! that are the node's own addresses do not reach the Elector. The Elector's actions become outputs that every core has.

mod input;
mod output;

#[cfg(test)]
mod tests;

pub use input::Input;
pub use output::{Call, Report};

use std::collections::BTreeSet;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use crate::action::Action;
use crate::core::{self, Core, Interface};
use crate::elector::{Elector, Snapshot};
use crate::event::{Event as ForElector, Moment, Node};
use crate::lease::Participant;
use crate::mac::Mac;
use crate::rules::Rules;
use crate::time::Time;

/// This core's events.
pub type Event = core::Event<Input>;
/// This core's outputs.
pub type Output = core::Output<Call, Report>;

/// Is called after each step of the Elector, with the moment, the event, and the actions.
pub type Observer = Box<dyn FnMut(Moment, &ForElector, &[Action]) + Send>;

/// The VIPs of one Lease on one interface.
pub struct ControlPlane {
    elector: Elector,
    observer: Option<Observer>,
    /// The interface that carries the VIPs; None: it is not there.
    place: Option<Place>,
    /// The VIPs that should exist, the node's own among them. Shared with every report.
    vips: Arc<[IpAddr]>,
    /// The VIPs that are permanent addresses of the node: the node is no candidate for them.
    own: BTreeSet<IpAddr>,
    /// Where this node's API server is, as the other nodes see it.
    api_servers: Vec<IpAddr>,
}

/// The interface as the Elector knows it.
#[derive(Debug, PartialEq, Eq)]
struct Place {
    index: u32,
    macs: Vec<Mac>,
    up: bool,
    node: Node,
}

impl Core for ControlPlane {
    type Input = Input;
    type Call = Call;
    type Report = Report;

    fn step(&mut self, at: Moment, event: Event) -> Vec<Output> {
        let mut out = vec![];
        match event {
            Event::Node { interfaces, macs } => self.node(at, interfaces, macs, &mut out),
            Event::Input(Input::Vips(vips)) => {
                // A report of this step is about the VIPs that go, not about those that stay.
                self.vips = self.vips.iter().copied().filter(|known| !vips.contains(known)).collect();
                self.elect(at, ForElector::Vips(self.not_own(&vips)), &mut out);
                self.vips = vips.into();
            }
            Event::Input(Input::Own(own)) => {
                self.own = own;
                self.elect(at, ForElector::Vips(self.not_own(&self.vips)), &mut out);
            }
            Event::Input(Input::ApiServers(servers)) => {
                self.api_servers = servers;
                self.participant_changed(at, &mut out);
            }
            Event::Ensured(addresses) => {
                for address in addresses {
                    self.elect(at, ForElector::Put { address }, &mut out);
                }
            }
            Event::Removed(addresses) => {
                for address in addresses {
                    self.elect(at, ForElector::Removed { address }, &mut out);
                }
            }
            Event::NotRefreshed(addresses) => {
                for address in addresses {
                    self.elect(at, ForElector::NotRefreshed { address }, &mut out);
                }
            }
            event => {
                if let Some(event) = self.translate(event) {
                    self.elect(at, event, &mut out);
                }
            }
        }
        out
    }

    fn wake(&self) -> Option<Time> {
        self.elector.wake()
    }

    fn listens_for(&self) -> BTreeSet<IpAddr> {
        self.elector.listens_for()
    }
}

impl ControlPlane {
    /// The core of a node that knows nothing yet.
    #[must_use]
    pub fn new(rules: Rules) -> Self {
        let elector = Elector::new(rules);
        Self { elector, observer: None, place: None, vips: Arc::default(), own: BTreeSet::new(), api_servers: vec![] }
    }

    /// Calls the observer after each step of the Elector: `mooring-agent run --record` writes the steps down.
    #[must_use]
    pub fn observed_by(mut self, observer: Observer) -> Self {
        self.observer = Some(observer);
        self
    }

    /// The Elector's state.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        self.elector.snapshot()
    }

    /// The Elector, for reading.
    #[must_use]
    pub const fn elector(&self) -> &Elector {
        &self.elector
    }

    /// The VIPs that should exist, the node's own addresses among them.
    #[must_use]
    pub fn vips(&self) -> &[IpAddr] {
        &self.vips
    }

    /// The VIPs are on the first interface. The Elector gets an event for each change. A change of the interface counts as
    /// a change of the link, so that VIPs are put on the new interface and announced.
    fn node(&mut self, at: Moment, interfaces: Vec<Interface>, macs: Vec<Mac>, out: &mut Vec<Output>) {
        let Some(interface) = interfaces.into_iter().next() else {
            if self.place.take().is_some_and(|place| place.up) {
                self.elect(at, ForElector::Link { up: false }, out);
            }
            return;
        };
        let first = |v4: bool| interface.link.addresses.iter().copied().find(|address| address.is_ipv4() == v4);
        let addresses = first(true).into_iter().chain(first(false)).collect();
        let participant =
            Participant { macs: interface.link.macs.clone(), addresses, api_servers: self.api_servers.clone() };
        let node = Node { participant, macs, gateways: interface.gateways, bare: false };
        let place = Place { index: interface.index, macs: interface.link.macs, up: interface.link.up, node };
        let before = self.place.as_ref();
        let same_node = before.is_some_and(|before| before.node == place.node);
        let same_link = before
            .is_some_and(|before| (before.index, &before.macs, before.up) == (place.index, &place.macs, place.up));
        let (node, up) = (place.node.clone(), place.up);
        self.place = Some(place);
        if !same_node {
            self.elect(at, ForElector::Node(node), out);
        }
        if !same_link {
            self.elect(at, ForElector::Link { up }, out);
        }
    }

    /// The API server of this node is elsewhere: the node declares it to the others.
    fn participant_changed(&mut self, at: Moment, out: &mut Vec<Output>) {
        let Some(place) = &mut self.place else { return };
        if place.node.participant.api_servers != self.api_servers {
            place.node.participant.api_servers.clone_from(&self.api_servers);
            let node = place.node.clone();
            self.elect(at, ForElector::Node(node), out);
        }
    }

    /// Translates an event of every core into the Elector's. None: the event is about another interface.
    fn translate(&mut self, event: Event) -> Option<ForElector> {
        let index = self.place.as_ref().map(|place| place.index);
        Some(match event {
            Event::Tick => ForElector::Tick,
            Event::Link { interface, up } => {
                let place = self.place.as_mut().filter(|place| place.index == interface)?;
                place.up = up;
                ForElector::Link { up }
            }
            Event::Heard { interface, address, mac, form } if index == Some(interface) => {
                ForElector::Heard { address, mac, form }
            }
            Event::LeftOver(vips) => ForElector::LeftOver(vips.into_iter().map(|vip| vip.address).collect()),
            Event::EnsureFailed { address, reason } => ForElector::PutFailed { address, reason },
            Event::Gone(address) => ForElector::Gone { address },
            Event::RemoveFailed { address, reason } => ForElector::RemoveFailed { address, reason },
            Event::ClockJump(by) => ForElector::ClockJump(by),
            Event::Shutdown => ForElector::Shutdown,
            Event::Input(input) => input.for_elector()?,
            Event::Heard { .. }
            | Event::Node { .. }
            | Event::Ensured(_)
            | Event::NotRefreshed(_)
            | Event::Removed(_) => return None,
        })
    }

    /// One step of the Elector.
    fn elect(&mut self, at: Moment, event: ForElector, out: &mut Vec<Output>) {
        let actions = if let Some(observer) = &mut self.observer {
            let actions = self.elector.step(at, event.clone());
            observer(at, &event, &actions);
            actions
        } else {
            self.elector.step(at, event)
        };
        let index = self.place.as_ref().map_or(0, |place| place.index);
        for action in actions {
            output::push(out, action, index, &self.vips);
        }
    }

    fn not_own(&self, vips: &[IpAddr]) -> Vec<IpAddr> {
        vips.iter().copied().filter(|vip| !self.own.contains(vip)).collect()
    }
}

impl fmt::Debug for ControlPlane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ControlPlane")
            .field("elector", &self.elector)
            .field("place", &self.place)
            .field("vips", &self.vips)
            .field("own", &self.own)
            .finish_non_exhaustive()
    }
}
