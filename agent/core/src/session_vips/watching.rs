//! The watch over other nodes: on each segment a node is watched by three others. Each of the three watches every segment that it
//! shares with the node.

use std::net::IpAddr;
use std::ops::Bound;
use std::time::Duration;

use super::SessionVips;
use crate::core::Probe;
use crate::mac::Mac;
use crate::planted::planted;
use crate::rules::AWAY;
use crate::session::{Incarnation, Link};
use crate::time::Time;
use crate::witness::Witness;

/// A VIP is probed only after its holder has had it for this long: a slow kernel is not a dead node.
const STOOD: Duration = Duration::from_secs(2);

/// So many undeclared MAC addresses of a node are remembered: a bond's ports.
const LEARNED: usize = 8;

/// The watch over one node.
#[derive(Debug)]
pub(super) struct Watch {
    pub(super) incarnation: Incarnation,
    /// How many watchers come before this one.
    pub(super) place: u32,
    pub(super) views: Vec<OneLink>,
    /// Since when it has been silent on all segments.
    pub(super) silent_since: Option<Time>,
    /// The node is silent while the API is away, and its VIPs were considered for that reason.
    pub(super) looked_at: bool,
}

/// The watch on one segment.
#[derive(Debug)]
pub(super) struct OneLink {
    /// The own interface.
    pub(super) index: u32,
    /// The node's interface on that segment, as the node declares it.
    pub(super) link: Link,
    pub(super) witness: Witness,
    /// The address that is asked for now.
    pub(super) address: Option<IpAddr>,
    /// Whether that is one of its VIPs.
    pub(super) vip: bool,
    /// MAC addresses that the node has not declared, and from which its own address was answered: a bond takes another port, or
    /// answers by several (`balance-alb`).
    pub(super) macs: Vec<Mac>,
    /// An unknown host that answered for the VIP in this window.
    pub(super) claimant: Option<Mac>,
}

impl OneLink {
    /// Whether a MAC address is the node's, as far as is known.
    fn is_from_it(&self, mac: Mac) -> bool {
        self.link.macs.contains(&mac) || self.macs.contains(&mac) && !planted!(MacsAreFixed)
    }

    /// The node's own address was answered from this MAC address, which no other node declares: it is the node's. Whatever VIP of
    /// the node was answered from there in this window was answered by the node.
    fn learn(&mut self, now: Time, mac: Mac) {
        self.macs.push(mac);
        if self.macs.len() > LEARNED {
            self.macs.remove(0);
        }
        if self.claimant == Some(mac) && !planted!(MacsAreFixed) {
            self.witness.heard_target(now, mac);
        }
    }
}

impl Watch {
    /// Silent on every segment, whether or not the node has ever answered.
    fn is_free(&self) -> bool {
        !self.views.is_empty() && self.views.iter().all(|v| v.witness.is_free())
    }
}

impl SessionVips {
    pub(super) fn advance_watches(&mut self) {
        if self.rewatch {
            self.choose_watches();
        }
        let now = self.step.at.now;
        let mut asks = vec![];
        let mut watches = std::mem::take(&mut self.watches);
        for (node, watch) in &mut watches {
            for view in &mut watch.views {
                if view.witness.next().is_some_and(|next| next <= now) {
                    self.aim_next(node, view);
                }
                let (probes, missed) = view.witness.tick(now);
                self.step.again |= missed;
                let to_ask = probes.into_iter().map(|p| Probe { interface: view.index, address: p.address, to: p.to });
                asks.extend(to_ask);
                if let Some(next) = view.witness.next() {
                    self.due(next);
                }
            }
            let silent = !watch.views.is_empty() && Self::all_silent(&watch.views);
            if silent && watch.silent_since.is_none() {
                self.step.again = true;
            }
            watch.silent_since = silent.then(|| watch.silent_since.unwrap_or(now));
        }
        self.watches = watches;
        self.silence_matters();
        for ask in asks {
            if !self.batch.probes.contains(&ask) {
                self.batch.probes.push(ask);
            }
        }
    }

    fn all_silent(views: &[OneLink]) -> bool {
        let silent = |view: &OneLink| view.witness.is_silent();
        if planted!(OneSegmentIsEnough) { views.iter().any(silent) } else { views.iter().all(silent) }
    }

    /// What the next window asks for: the node's next VIP there, or its own address while it has none.
    fn aim_next(&self, node: &str, view: &mut OneLink) {
        let leaving = self.sessions.get(node).is_some_and(|p| p.view.is_leaving());
        let vip = if leaving { None } else { self.next_vip(node, view) };
        let own = view.link.addresses.first().copied();
        view.vip = vip.is_some();
        view.address = vip.or(own);
        view.claimant = None;
        view.witness.set_addresses(view.address);
        if !view.witness.may_ask_parties() {
            return;
        }
        let mut parties = self.third_parties(view.index, Some(node));
        if view.vip {
            // If only the node's own address answers, the segment works and the agent does not.
            parties.extend(own);
        }
        view.witness.set_parties(parties);
    }

    /// The VIP after the one asked for last that the record has long named that node for, on that segment.
    fn next_vip(&self, node: &str, view: &OneLink) -> Option<IpAddr> {
        let (held, peer) = (self.index.held.get(node)?, self.sessions.get(node)?);
        let after = view.address.filter(|_| view.vip).map_or(Bound::Unbounded, Bound::Excluded);
        let round = held.range((after, Bound::Unbounded)).chain(held.iter());
        let stands = |address: &&IpAddr| {
            let Some(vip) = self.vips.get(*address) else { return false };
            let holder = vip.holder().filter(|h| h.to.is_none() && peer.view.is_of(&h.session));
            let link = vip.demand.as_ref().and_then(|d| d.link_of(peer.view.links()));
            let here = link.map(|l| l.name == view.link.name);
            holder.is_some() && here == Some(true) && self.step.at.now.since(vip.record.changed) >= STOOD
        };
        round.take(held.len().min(64)).find(stands).copied()
    }

    /// A frame may be the answer of a node that is watched, or of a third party.
    pub(super) fn watches_heard(&mut self, index: u32, address: IpAddr, mac: Mac, vip: bool) {
        let (now, mut peer) = (self.step.at.now, false);
        for (node, watch) in &mut self.watches {
            for view in watch.views.iter_mut().filter(|v| v.index == index) {
                if !view.is_from_it(mac) && self.sessions.with_mac(mac).is_none_or(|owner| owner == node) {
                    if view.link.addresses.contains(&address) {
                        view.learn(now, mac);
                    } else if view.address == Some(address) {
                        view.claimant = Some(mac);
                    }
                }
                let from_it = view.is_from_it(mac);
                peer |= from_it;
                // Any VIP on its interface, rightful or not, shows that the node is reached and that its fences hold.
                let counts = vip || !view.vip && view.link.addresses.contains(&address);
                match view.address {
                    Some(_) if from_it && counts => view.witness.heard_target(now, mac),
                    // Another host's answer for the VIP says nothing about the node.
                    Some(asked) if asked == address => {}
                    _ => view.witness.heard(now, address, mac),
                }
                if view.witness.state().0 == 0 {
                    watch.silent_since = None;
                }
            }
        }
        if peer {
            self.peer_heard();
        }
    }

    /// Whether a node's VIPs are silent: enough to carry one while the API cannot be asked.
    pub(super) fn is_silent_free(&self, node: &str) -> bool {
        self.watches.get(node).is_some_and(Watch::is_free)
    }

    pub(super) fn forget_witness(&mut self, node: &str) {
        if let Some(watch) = self.watches.get_mut(node) {
            watch.silent_since = None;
            watch.views.iter_mut().for_each(|v| v.witness.forget(self.step.at.now));
        }
    }

    /// A step begins: a node that stood still for a while judges nothing by what it missed before.
    pub(super) fn begin_watches(&mut self) {
        let now = self.step.at.now;
        for watch in self.watches.values_mut() {
            for view in &mut watch.views {
                view.witness.begin(now);
                if view.witness.state().0 == 0 {
                    watch.silent_since = None;
                }
            }
        }
    }

    pub(super) fn forget_witnesses(&mut self) {
        let all: Vec<String> = self.watches.keys().cloned().collect();
        for node in all {
            self.forget_witness(&node);
        }
    }

    /// A node has fallen silent while the API does not answer: the VIPs that it holds are considered.
    fn silence_matters(&mut self) {
        let waiting = self.own.calls.flight.as_ref().map(|f| f.sent).into_iter();
        let waiting = waiting.chain(self.calls.ends.values().map(|end| end.sent)).min();
        let away = self.away_since().is_some();
        if let (Some(sent), false) = (waiting, away)
            && self.watches.values().any(Watch::is_free)
        {
            self.due(sent + AWAY);
        }
        for (node, watch) in &mut self.watches {
            let free = away && watch.is_free();
            if free && !watch.looked_at {
                self.index.dirty.extend(self.index.held.get(node).into_iter().flatten());
                self.step.again = true;
            }
            watch.looked_at = free;
        }
    }
}
