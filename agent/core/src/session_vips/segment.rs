//! What was heard on the segments that is not about one VIP alone.

use std::collections::BTreeMap;
use std::net::IpAddr;

use super::mute::Unheard;
use crate::echo::{self, Echo};
use crate::evidence::{Broadcasts, Form, Sender};
use crate::mac::Mac;
use crate::named::NamedHosts;
use crate::parties::Party;
use crate::peers::Peers;
use crate::planted::planted;
use crate::rules::Rules;
use crate::time::Time;
use crate::witness::Looks;

/// The segments of this node's interfaces.
#[derive(Debug, Default)]
pub(super) struct Segment {
    /// When a VIP was last defended against that host, by an answer of the API. The host's other claims wait for one another.
    pub(super) defended: BTreeMap<Mac, Time>,
    /// When a gateway or a peer last answered on an interface for its own address, by its family and the sender of the probe: third
    /// parties.
    third_heard: BTreeMap<(u32, Family, Sender), Time>,
    /// When one last answered a probe that went to it alone.
    third_alone: BTreeMap<(u32, Family), Time>,
    /// What was asked by broadcast lately.
    pub(super) broadcasts: Broadcasts,
    /// Who is asked alone for a VIP that is carried, after an answer to a broadcast.
    pub(super) named: NamedHosts,
    /// The MAC addresses that gateways and peers answered from last.
    pub(super) macs: BTreeMap<IpAddr, Mac>,
    /// Whether probes are answered at all, by interface; and what of that was reported.
    pub(super) echo: BTreeMap<u32, (Echo, echo::State)>,
    /// Where it is in doubt whether anybody hears this node.
    pub(super) unheard: BTreeMap<u32, Unheard>,
    /// Whether any other node is heard.
    pub(super) peers: Peers,
    /// When this node last knew that it was cut off: of all that it watches and asks, nobody had answered for as long as a watcher
    /// waits.
    pub(super) deaf: Option<Time>,
}

/// The family of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Family {
    V4,
    V6,
}

impl Family {
    pub(super) fn of(address: IpAddr) -> Self {
        if address.is_ipv4() || planted!(AnyFamily) { Self::V4 } else { Self::V6 }
    }
}

impl Segment {
    pub(super) fn new(rules: &Rules) -> Self {
        Self { broadcasts: Broadcasts::with_windows_of(rules.witness_interval), ..Self::default() }
    }

    /// A gateway or a peer answered for its own address.
    pub(super) fn third_party_answered(&mut self, now: Time, index: u32, address: IpAddr, (mac, form): (Mac, Form)) {
        for sender in [Sender::Unspecified, Sender::Own] {
            if form.answers(address, sender) {
                self.third_heard.insert((index, Family::of(address), sender), now);
            }
        }
        if form.is_alone() {
            self.third_alone.insert((index, Family::of(address)), now);
        }
        self.macs.insert(address, mac);
    }

    /// When a third party last answered a probe that went to it alone.
    pub(super) fn third_alone(&self, index: u32, vip: IpAddr) -> Option<Time> {
        self.third_alone.get(&(index, Family::of(vip))).copied()
    }

    /// When a third party last answered a probe with that sender on an interface, by an address of the VIP's family: whether ARP passes
    /// says nothing about neighbour discovery.
    pub(super) fn third_heard(&self, index: u32, vip: IpAddr, sender: Sender) -> Option<Time> {
        self.third_heard.get(&(index, Family::of(vip), sender)).copied()
    }

    /// These third parties are asked on an interface.
    pub(super) fn asked(&mut self, now: Time, index: u32, sender: Sender, parties: &[Party]) {
        let hosts = parties.iter().map(|party| party.address);
        self.echo.entry(index).or_default().0.asked(now, sender, hosts);
    }

    /// With which sender a VIP that may be free is looked for on an interface.
    pub(super) fn looks(&self, now: Time, index: u32) -> Looks {
        self.echo.get(&index).map_or_else(Looks::default, |(echo, _)| echo.looks(now))
    }

    /// This node was late: silence says nothing.
    pub(super) fn forget(&mut self) {
        self.third_heard.clear();
        self.third_alone.clear();
        self.echo.values_mut().for_each(|(echo, told)| echo.forget(*told));
    }
}
