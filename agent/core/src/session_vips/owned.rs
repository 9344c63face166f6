//! Addresses that are no VIPs of Services, although somebody wants them to be: a node's own, and the control plane's VIPs. No node
//! carries them, because the host that has them never lets go.
//!
//! What sessions declare counts at once, and goes on counting when they have ended: the node may come back, or its kernel may live. It
//! ends when the node declares something else, or with its member object.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Duration;

use super::record_state::RecordState;
use super::vip::Vip;
use super::{Report, SessionVips};
use crate::core::Interface;
use crate::mac::Mac;
use crate::planted::planted;
use crate::session::{Declared, Link, Peer};

/// It is reported when it has stood for so long.
const STANDS: Duration = Duration::from_secs(2);
/// It is reported, and looked at, this often.
const AGAIN: Duration = Duration::from_secs(10);

/// What is known of such addresses.
#[derive(Debug, Default)]
pub(super) struct Owned {
    /// The control plane's VIPs, by this node's settings.
    reserved: Vec<IpAddr>,
    /// All such addresses that this node or a session declares.
    all: BTreeSet<IpAddr>,
    /// What is declared has changed since.
    stale: bool,
}

/// Who has an address for something else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Owner {
    pub(super) node: String,
    /// It is a VIP of the control plane; otherwise the node's own address.
    pub(super) control_plane: bool,
}

impl Owned {
    /// This node's control plane has these VIPs. True if that is news.
    pub(super) fn reserve(&mut self, reserved: BTreeSet<IpAddr>) -> bool {
        let reserved: Vec<IpAddr> = reserved.into_iter().collect();
        let news = self.reserved != reserved;
        self.reserved = reserved;
        self.stale |= news;
        news
    }

    /// What this node declares.
    pub(super) fn reserved(&self) -> Vec<IpAddr> {
        self.reserved.clone()
    }

    /// A session or this node declares something else.
    pub(super) fn changed(&mut self) {
        self.stale = true;
    }
}

impl SessionVips {
    /// Goes through all declarations, if one has changed. VIPs that are among them now, or no longer, are considered.
    pub(super) fn advance_owned(&mut self) {
        if !std::mem::take(&mut self.owned.stale) {
            return;
        }
        let me = self.rules.node.as_str();
        let others = self.sessions.declarations().filter(|(node, _)| *node != me).map(|(_, declared)| declared);
        let others = others.flat_map(|declared| {
            declared.links.iter().flat_map(|link| link.addresses.iter()).chain(&declared.reserved).copied()
        });
        let own = self.node.interfaces.iter().flat_map(|one| one.link.addresses.iter().copied());
        let all: BTreeSet<IpAddr> = others.chain(own).chain(self.owned.reserved.iter().copied()).collect();
        let changed = all.symmetric_difference(&self.owned.all).filter(|address| self.vips.contains_key(address));
        self.index.dirty.extend(changed);
        self.owned.all = all;
    }

    /// Who has the address of a VIP for something else, on the VIP's segment.
    pub(super) fn owner(&self, vip: &Vip) -> Option<Owner> {
        let address = vip.address;
        if !self.owned.all.contains(&address) || planted!(TakesOwnedAddresses) {
            return None;
        }
        let interface = self.link_for(vip)?;
        let (me, all) = (self.rules.node.as_str(), || self.sessions.declarations());
        let owner = |node: &str, control_plane| Some(Owner { node: node.to_owned(), control_plane });
        if self.node.interfaces.iter().any(|one| one.link.addresses.contains(&address) && is_beside(one, interface)) {
            return owner(me, false);
        }
        if self.owned.reserved.contains(&address) {
            return owner(me, true);
        }
        let shared = |link: &Link| link.shares(&interface.link);
        let own = |of: &Declared| of.links.iter().any(|l| shared(l) && l.addresses.contains(&address));
        if let Some((node, _)) = all().find(|(node, of)| *node != me && own(of)) {
            return owner(node, false);
        }
        let reserves = |of: &Declared| of.reserved.contains(&address) && of.links.iter().any(shared);
        let (node, _) = all().find(|(node, of)| *node != me && reserves(of))?;
        owner(node, true)
    }

    /// The node with that MAC address, if an answer from there may mean that it carries the VIP: not if it has the address for
    /// something else on the VIP's segment. (kube-proxy in IPVS mode puts all VIPs on an interface that leads nowhere.)
    pub(super) fn carrier_with(&self, mac: Mac, vip: &Vip) -> Option<&str> {
        let node = self.sessions.with_mac(mac)?;
        let interface = self.link_for(vip);
        let beside = |link: &Link| interface.is_some_and(|interface| link.shares(&interface.link));
        let has = |peer: &Peer| peer.view.declared.as_ref().is_some_and(|declared| declared.has(vip.address, beside));
        let has = self.sessions.get(node).is_some_and(has) && !planted!(TakesOwnedAddresses);
        (!has).then_some(node)
    }

    /// The VIP is not carried here. One node reports that: the one whose turn it would be, or which the record names.
    pub(super) fn is_owned(&mut self, vip: &mut Vip, state: &RecordState, owner: Owner) {
        vip.taking.look = None;
        vip.taking.free_since = None;
        vip.taking.open_since = None;
        let first = || self.place(vip).and_then(|place| place.position) == Some(0);
        if *state != RecordState::Mine && !(state.is_open() && first()) {
            return;
        }
        // A node that has just lost the address, or its agent, may still declare it.
        let since = *vip.taking.owned_since.get_or_insert(self.step.at.now);
        if !self.due(since + STANDS) {
            return;
        }
        let again = vip.taking.owned_reported.map(|at| at + AGAIN);
        if again.is_none_or(|again| self.due(again)) {
            vip.taking.owned_reported = Some(self.step.at.now);
            self.due(self.step.at.now + AGAIN);
            let Owner { node, control_plane } = owner;
            self.report(Report::Owned { address: vip.address, node, control_plane });
        }
    }
}

/// Whether both interfaces of this node are one, or on one segment.
fn is_beside(one: &Interface, other: &Interface) -> bool {
    one.index == other.index || one.link.shares(&other.link)
}
