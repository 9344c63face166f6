//! Under a limit of few frames there is room for a VIP and one third party in a window of the watch, and none for the node's own address. So
//! while a node's VIPs do not answer, its own address is asked for apart, in windows of its own and by the same rules.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use super::SessionVips;
use super::segment::Family;
use super::watching::{OneLink, Watch};
use crate::core::Probe;
use crate::evidence::Form;
use crate::mac::Mac;
use crate::parties::Party;
use crate::time::Time;
use crate::windows::Windowed;
use crate::witness::{self, Looks, Witness};

/// The own addresses that are asked for apart, by the node and this node's interface.
#[derive(Debug, Default)]
pub(super) struct Apart(BTreeMap<(String, u32), OwnAddress>);

/// A node's own address on one segment.
#[derive(Debug)]
pub(super) struct OwnAddress {
    interface: u32,
    address: IpAddr,
    witness: Witness,
    waits_since: Option<Time>,
    /// How often third parties that were asked did not answer: another one is asked then.
    turn: usize,
}

impl OwnAddress {
    fn end_window(&mut self, now: Time) -> bool {
        let silent = self.witness.hears_no_party();
        let missed = self.witness.end_window(now);
        self.turn = self.turn.wrapping_add(usize::from(silent && self.witness.is_closed()));
        missed
    }

    /// The address did not answer, nor did the hosts at which answers to broadcasts have placed it.
    fn is_gone(&self) -> bool {
        self.witness.is_free() && !self.witness.is_undecided()
    }
}

impl Apart {
    /// When a window opens or closes next.
    pub(super) fn next(&self) -> impl Iterator<Item = Time> {
        self.0.values().filter_map(|own| own.witness.next())
    }

    /// Closes the windows whose time is over. Answers whether one was missed.
    pub(super) fn end_windows(&mut self, now: Time) -> bool {
        let mut missed = false;
        for own in self.0.values_mut() {
            missed |= own.end_window(now);
        }
        missed
    }

    /// A step begins: see [`Witness::begin`].
    pub(super) fn begin(&mut self, now: Time) {
        self.0.values_mut().for_each(|own| own.witness.begin(now));
    }

    /// What was missed of a node says nothing any more.
    pub(super) fn forget(&mut self, node: &str) {
        self.0.retain(|(of, _), _| of != node);
    }

    /// Windows are so long from now on, on the interface that is asked about.
    pub(super) fn set_intervals(&mut self, interval: impl Fn(u32) -> Duration) {
        self.0.values_mut().for_each(|own| own.witness.set_interval(interval(own.interface)));
    }

    /// All of them, with their nodes.
    pub(super) fn all(&mut self) -> impl Iterator<Item = (&String, &mut OwnAddress)> {
        self.0.iter_mut().map(|((node, _), own)| (node, own))
    }

    /// A frame may be the answer of the node, if it `is_from_it`, or of a third party.
    pub(super) fn heard(
        &mut self,
        now: Time,
        (node, interface): (&str, u32),
        address: IpAddr,
        (mac, form): (Mac, Form),
        is_from_it: bool,
    ) {
        // Without a limit, and while VIPs answer, there are none.
        if self.0.is_empty() {
            return;
        }
        let Some(own) = self.0.get_mut(&(node.to_owned(), interface)) else { return };
        if own.address == address && is_from_it {
            own.witness.heard_target(now, mac, form);
        } else if own.address != address {
            own.witness.heard(now, address, mac, form);
        }
    }

    /// Whether the node's own address was asked for there and is gone.
    pub(super) fn is_gone(&self, node: &str, interface: u32) -> bool {
        !self.0.is_empty() && self.0.get(&(node.to_owned(), interface)).is_some_and(OwnAddress::is_gone)
    }
}

impl Windowed for (&String, &mut OwnAddress) {
    fn interface(&self) -> u32 {
        self.1.interface
    }

    fn witness(&mut self) -> &mut Witness {
        &mut self.1.witness
    }

    fn waits_since(&mut self) -> &mut Option<Time> {
        &mut self.1.waits_since
    }
}

impl SessionVips {
    /// Which own addresses are asked for apart: those of nodes whose VIPs have not answered.
    pub(super) fn choose_apart(&self, watches: &BTreeMap<String, Watch>, apart: &mut Apart) {
        if self.rules.probes_each().is_none_or(|most| most != 2) {
            apart.0.clear();
            return;
        }
        let views = watches.iter().flat_map(|(node, watch)| watch.views.iter().map(move |view| (node, view)));
        let mut before = std::mem::take(&mut apart.0);
        for (node, view) in views {
            let key = (node.clone(), view.index);
            let known = before.remove(&key);
            let Some(address) = self.to_ask_apart(node, view, known.as_ref().map(|own| own.address)) else { continue };
            let fresh = || OwnAddress {
                interface: view.index,
                address,
                witness: view.witness.for_another(self.step.at.now, address),
                waits_since: None,
                turn: 0,
            };
            apart.0.insert(key, known.unwrap_or_else(fresh));
        }
    }

    /// The node's own address of the family of the VIP that is asked for. It matters of a node that renews its session: of one that does
    /// not, the VIPs tell enough. Who says that nobody hears it is relieved of its VIPs without that.
    fn to_ask_apart(&self, node: &str, view: &OneLink, now_asked: Option<IpAddr>) -> Option<IpAddr> {
        if view.link.unheard || self.misses_renewal(node) {
            return None;
        }
        let vip = view.address.filter(|_| view.vip && view.witness.is_deciding())?;
        if now_asked.is_some() {
            // VIPs of both families have their turns, and each turn would begin the count anew.
            return now_asked;
        }
        let of = Family::of(vip);
        let address = view.link.addresses.iter().copied().find(|address| Family::of(*address) == of)?;
        // Where there is no third party, the own address is asked for in its place.
        (!self.third_parties(view.index, of, Some(node), 1, 0).is_empty()).then_some(address)
    }

    /// Opens a window for a node's own address, or answers when to try again.
    pub(super) fn open_apart(&mut self, node: &str, own: &mut OwnAddress) -> Result<(), Time> {
        let (now, interface) = (self.step.at.now, own.interface);
        own.witness.set_senders(self.own_sender(interface), Looks::default());
        let parties: Vec<Party> = if own.witness.asks_parties() {
            self.third_parties(interface, Family::of(own.address), Some(node), 1, own.turn)
        } else {
            vec![]
        };
        own.witness.set_parties(parties);
        let probe = |p: witness::Probe| Probe { interface, address: p.address, to: p.to, sender: p.sender };
        let asks: Vec<Probe> =
            own.witness.probes().into_iter().map(probe).filter(|ask| !self.batch.probes.contains(ask)).collect();
        self.take_watch(interface, asks.len())?;
        self.batch.probes.extend(asks);
        if own.witness.asks_parties() {
            self.segment.asked(now, interface, own.witness.asks_as(), own.witness.parties());
        }
        own.witness.open(now);
        Ok(())
    }
}
