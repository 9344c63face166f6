//! The watch over other nodes: three of them each look at one, on every segment they share.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::ops::Bound;
use std::time::Duration;

use super::{Ask, Fleet};
use crate::lease::Declaration;
use crate::mac::Mac;
use crate::placement::mix;
use crate::planted::planted;
use crate::rules::AWAY;
use crate::session::{Incarnation, Link, Peer};
use crate::time::Time;
use crate::witness::{Target, Witness};

/// Who watch a node.
const WATCHERS: usize = 3;
/// While the API is away, and nobody learns who of them is gone.
const WATCHERS_ALONE: usize = 8;
/// A VIP is asked for after it has been its holder's for so long: a slow kernel is not a dead node.
const STOOD: Duration = Duration::from_secs(2);

/// The watch over one node.
#[derive(Debug)]
pub(super) struct Watch {
    incarnation: Incarnation,
    /// How many watchers come before this one.
    pub(super) place: u32,
    views: Vec<OneLink>,
    /// Since when it has been silent on all segments.
    pub(super) silent_since: Option<Time>,
    /// It is silent while the API is away, and what it holds was looked at for that.
    looked_at: bool,
}

/// The watch on one segment.
#[derive(Debug)]
struct OneLink {
    /// The own interface.
    index: u32,
    /// What the node declares of its.
    link: Link,
    witness: Witness,
    /// What is asked for now.
    address: Option<IpAddr>,
    /// Whether that is one of its VIPs.
    vip: bool,
}

impl Watch {
    /// Silent on every segment, whether or not the node has ever answered.
    fn is_free(&self) -> bool {
        !self.views.is_empty() && self.views.iter().all(|v| v.witness.is_free())
    }
}

impl Fleet {
    /// Chooses anew whom this node watches, when sessions have changed.
    fn choose_watches(&mut self) {
        self.rewatch = false;
        let me = self.rules.node.clone();
        let many = if self.away.is_some() { WATCHERS_ALONE } else { WATCHERS };
        let chosen: BTreeMap<String, u32> = if self.own.tenure.is_some() && !self.rules.witness_interval.is_zero() {
            let others = self.sessions.live().filter(|(node, _)| *node != me);
            others.filter_map(|(node, _)| Some((node.to_owned(), self.watch_place(node, many)?))).collect()
        } else {
            BTreeMap::new()
        };
        self.watches.retain(|node, _| chosen.contains_key(node));
        for (node, place) in chosen {
            self.choose_watch(node, place);
        }
    }

    fn choose_watch(&mut self, node: String, place: u32) {
        let Some(peer) = self.sessions.get(&node) else { return };
        let incarnation = peer.view.incarnation();
        let own: Vec<(u32, Link)> = self.interfaces.iter().map(|i| (i.index, i.link.clone())).collect();
        let shared: Vec<(u32, Link)> = own
            .into_iter()
            .filter_map(|(index, own)| peer.view.links().iter().find(|l| l.shares(&own)).map(|l| (index, l.clone())))
            .collect();
        let same = |w: &Watch| {
            w.incarnation == incarnation
                && w.views.len() == shared.len()
                && w.views.iter().zip(&shared).all(|(v, (index, link))| v.index == *index && v.link == *link)
        };
        if let Some(watch) = self.watches.get_mut(&node).filter(|w| same(w)) {
            watch.place = place;
            return;
        }
        let acquired = peer.view.record.acquired;
        // All windows open together: one wake-up for all.
        let (now, soon) = (self.at.now, self.at.now + self.rules.witness_interval);
        let open = self.watches.values().flat_map(|w| &w.views).filter_map(|v| v.witness.next());
        let open = open.filter(|at| (now..=soon).contains(at)).min().unwrap_or(now);
        let views = shared.into_iter().map(|(index, link)| {
            let mut witness = Witness::new(self.rules.witness_interval, self.rules.witness_misses);
            let transitions = incarnation.transitions;
            let declaration = Declaration { holder: node.clone(), transitions, acquired, macs: link.macs.clone() };
            let first = link.addresses.first().copied();
            witness.aim(open, Target::Holder(&declaration), first.into_iter());
            OneLink { index, link, witness, address: first, vip: false }
        });
        let views = views.collect();
        self.watches.insert(node, Watch { incarnation, place, views, silent_since: None, looked_at: false });
    }

    /// How many others come before this node to watch that one; None: enough do, or no segment is shared.
    fn watch_place(&self, target: &str, many: usize) -> Option<u32> {
        let of = self.sessions.get(target)?;
        let key = |peer: &Peer| {
            let shared = of.view.links().iter().filter(|l| peer.view.links().iter().any(|o| o.shares(l))).count();
            (shared > 0).then(|| (shared, mix(of.seed, peer.seed)))
        };
        let mine = key(self.sessions.get(&self.rules.node)?)?;
        let others = self.sessions.live().filter(|(node, _)| *node != target && *node != self.rules.node);
        let before = others.filter(|(_, peer)| key(peer).is_some_and(|other| other > mine)).take(many).count();
        (before < many).then(|| u32::try_from(before).unwrap_or(u32::MAX))
    }

    pub(super) fn advance_watches(&mut self) {
        if self.rewatch {
            self.choose_watches();
        }
        let now = self.at.now;
        let mut asks = vec![];
        let mut watches = std::mem::take(&mut self.watches);
        for (node, watch) in &mut watches {
            for view in &mut watch.views {
                if view.witness.next().is_some_and(|next| next <= now) {
                    self.aim_next(node, view);
                }
                let (probes, missed) = view.witness.tick(now);
                self.again |= missed;
                let to_ask = probes.into_iter().map(|p| Ask { index: view.index, address: p.address, to: p.to });
                asks.extend(to_ask);
                if let Some(next) = view.witness.next() {
                    self.due(next);
                }
            }
            let silent = !watch.views.is_empty() && self.all_silent(&watch.views);
            if silent && watch.silent_since.is_none() {
                self.again = true;
            }
            watch.silent_since = silent.then(|| watch.silent_since.unwrap_or(now));
        }
        self.watches = watches;
        self.silence_matters();
        for ask in asks {
            if !self.batch.asks.contains(&ask) {
                self.batch.asks.push(ask);
            }
        }
    }

    fn all_silent(&self, views: &[OneLink]) -> bool {
        let one = |v: &OneLink| {
            let up = self.interfaces.iter().any(|i| i.index == v.index && i.link.up);
            up && v.witness.is_silent()
        };
        if planted!(OneSegmentIsEnough) { views.iter().any(one) } else { views.iter().all(one) }
    }

    /// What the next window asks for: the node's next VIP there, or its own address while it has none.
    fn aim_next(&self, node: &str, view: &mut OneLink) {
        let leaving = self.sessions.get(node).is_some_and(|p| p.view.is_leaving());
        let vip = if leaving { None } else { self.next_vip(node, view) };
        let own = view.link.addresses.first().copied();
        view.vip = vip.is_some();
        view.address = vip.or(own);
        view.witness.set_addresses(view.address);
        if !view.witness.may_ask_parties() {
            return;
        }
        let mut parties = self.third_parties(view.index, Some(node));
        if view.vip {
            // Its own address says that the segment works, and that its agent does not.
            parties.extend(own);
        }
        view.witness.set_parties(parties);
    }

    /// The VIP after the one asked for last that the record has long named that node for, on that segment.
    fn next_vip(&self, node: &str, view: &OneLink) -> Option<IpAddr> {
        let (held, peer) = (self.held.get(node)?, self.sessions.get(node)?);
        let after = view.address.filter(|_| view.vip).map_or(Bound::Unbounded, Bound::Excluded);
        let round = held.range((after, Bound::Unbounded)).chain(held.iter());
        let stands = |address: &&IpAddr| {
            let Some(vip) = self.vips.get(*address) else { return false };
            let holder = vip.holder().filter(|h| h.to.is_none() && peer.view.is_of(&h.session));
            let link = vip.demand.as_ref().and_then(|d| d.link_of(peer.view.links()));
            let here = link.map(|l| l.name == view.link.name);
            holder.is_some() && here == Some(true) && self.at.now.since(vip.changed) >= STOOD
        };
        round.take(held.len().min(64)).find(stands).copied()
    }

    /// A frame may be the answer of somebody who is watched, or of a third party.
    pub(super) fn watches_heard(&mut self, index: u32, address: IpAddr, mac: Mac, vip: bool) {
        let now = self.at.now;
        for watch in self.watches.values_mut() {
            for view in watch.views.iter_mut().filter(|v| v.index == index) {
                let from_it = view.link.macs.contains(&mac);
                // Any VIP on its interface, rightful or not, says that its fence holds and that it is reached.
                let counts = vip || !view.vip && view.link.addresses.contains(&address);
                match view.address {
                    Some(asked) if from_it && counts => view.witness.heard(now, asked, mac),
                    // Another's answer for its VIP is not the node's.
                    Some(asked) if asked == address => {}
                    _ => view.witness.heard(now, address, mac),
                }
                if view.witness.state().0 == 0 {
                    watch.silent_since = None;
                }
            }
        }
    }

    /// Whether a node's VIPs are silent: enough to carry one while the API cannot be asked.
    pub(super) fn is_silent_free(&self, node: &str) -> bool {
        self.watches.get(node).is_some_and(Watch::is_free)
    }

    pub(super) fn forget_witness(&mut self, node: &str) {
        if let Some(watch) = self.watches.get_mut(node) {
            watch.silent_since = None;
            watch.views.iter_mut().for_each(|v| v.witness.forget(self.at.now));
        }
    }

    /// A step begins: who stood still for a while judges nothing by what it missed before.
    pub(super) fn begin_watches(&mut self) {
        let now = self.at.now;
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

    /// A node has fallen silent while the API does not answer: what it holds is looked at.
    fn silence_matters(&mut self) {
        let waiting = self.own.flight.as_ref().map(|f| f.sent).into_iter();
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
                self.dirty.extend(self.held.get(node).into_iter().flatten());
                self.again = true;
            }
            watch.looked_at = free;
        }
    }
}
