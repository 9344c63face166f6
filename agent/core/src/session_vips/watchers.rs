//! Which nodes this one watches. Each node has a few watchers, and all nodes compute the same ones by a hash.

use std::collections::BTreeMap;

use super::SessionVips;
use super::closeness::{Closeness, is_watched, shares};
use super::watching::{OneLink, Watch};
use crate::core::Interface;
use crate::lease::Declaration;
use crate::session::{Link, Peer};
use crate::witness::{Target, Witness};

/// How many nodes watch a node on each of its segments.
const WATCHERS: usize = 3;
/// How many do while the API is away, and nobody learns which of them are gone.
const WATCHERS_ALONE: usize = 8;

impl SessionVips {
    /// Chooses anew whom this node watches, when sessions have changed.
    pub(super) fn choose_watches(&mut self) {
        self.rewatch = false;
        let me = self.rules.node.clone();
        let many = if self.api.away.is_some() { WATCHERS_ALONE } else { WATCHERS };
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
        self.pace_watches();
        self.choose_followed();
    }

    /// Under a limit of frames, the nodes that are watched on an interface are probed in turn.
    fn pace_watches(&mut self) {
        if self.rules.frames_per_second.is_none() {
            return;
        }
        let mut counts: BTreeMap<u32, usize> = BTreeMap::new();
        for view in self.watches.values().flat_map(|watch| &watch.views) {
            *counts.entry(view.index).or_default() += 1;
        }
        let rules = &self.rules;
        let interval = |index| rules.witness_interval_for(counts.get(&index).copied().unwrap_or(1));
        for view in self.watches.values_mut().flat_map(|watch| &mut watch.views) {
            view.witness.set_interval(interval(view.index));
        }
        self.apart.set_intervals(interval);
    }

    fn choose_watch(&mut self, node: String, place: u32) {
        let Some(peer) = self.sessions.get(&node) else { return };
        let incarnation = peer.view.incarnation();
        // A link that either node knows to be down says nothing about the node.
        let on = |own: &Interface| peer.view.links().iter().find(|link| is_watched(&own.link, link)).cloned();
        let shared: Vec<(u32, Link)> =
            self.node.interfaces.iter().filter_map(|own| Some((own.index, on(own)?))).collect();
        let same = |w: &Watch| {
            w.incarnation == incarnation
                && w.views.len() == shared.len()
                && w.views.iter().zip(&shared).all(|(v, (index, link))| v.index == *index && v.link == *link)
        };
        if let Some(watch) = self.watches.get_mut(&node).filter(|w| same(w)) {
            watch.place = place;
            return;
        }
        // What was seen on the other links stays.
        let known = self.watches.remove(&node).filter(|watch| watch.incarnation == incarnation);
        let mut known = known.map(|watch| watch.views).unwrap_or_default();
        let acquired = peer.view.record.acquired;
        // All windows open together: one wake-up for all.
        let (now, soon) = (self.step.at.now, self.step.at.now + self.rules.witness_interval);
        let open = self.watches.values().flat_map(|w| &w.views).filter_map(|v| v.witness.next());
        let open = open.filter(|at| (now..=soon).contains(at)).min().unwrap_or(now);
        let views = shared.into_iter().map(|(index, link)| {
            if let Some(n) = known.iter().position(|view| view.index == index && view.link == link) {
                return known.swap_remove(n);
            }
            let mut witness = Witness::new(self.rules.witness_interval, self.rules.witness_misses);
            let transitions = incarnation.transitions;
            let (holder, macs) = (node.clone(), link.macs.clone());
            let declaration = Declaration { holder, transitions, acquired, macs, vips: vec![] };
            let first = link.addresses.first().copied();
            witness.aim(open, Target::Holder(&declaration), first.into_iter());
            OneLink {
                index,
                link,
                witness,
                address: first,
                vip: false,
                macs: vec![],
                waits_since: None,
                claimant: None,
                answered: None,
                reached: false,
                own_asked: None,
                placed: None,
                own_named: None,
                own_verified: None,
                own_gone: None,
                unreached: 0,
                turn: 0,
                unheard_parties: 0,
                asked_own: false,
            }
        });
        let mut views: Vec<OneLink> = views.collect();
        // A link on which the node answered until now is watched no more: its silence on the others counts from now.
        if known.iter().any(|view| !view.witness.is_free()) {
            for view in &mut views {
                view.forget(now);
            }
        }
        self.watches.insert(node, Watch { incarnation, place, views, silent_since: None, looked_at: false });
    }

    /// How many others come before this node as watchers of `target`, on the segment where the fewest do. None: on each segment
    /// enough do, or no segment is shared. Nodes that share more of the target's segments come first: they see more of it.
    fn watch_place(&self, target: &str, many: usize) -> Option<u32> {
        let of = self.sessions.get(target)?;
        let closeness = |peer: &Peer| Closeness::new(peer, of, of.view.links());
        let me = self.sessions.get(&self.rules.node)?;
        let mine = closeness(me);
        if mine.segments == 0 {
            return None;
        }
        let here: Vec<&Link> = of.view.links().iter().filter(|link| shares(me, link)).collect();
        let mut before = vec![0; here.len()];
        // The search ends early: otherwise each change of a session would cost each node a comparison of all nodes with all.
        for (_, peer) in self.sessions.live().filter(|(node, _)| *node != target && *node != self.rules.node) {
            if closeness(peer) > mine {
                before.iter_mut().zip(&here).for_each(|(count, link)| *count += usize::from(shares(peer, link)));
                if before.iter().all(|count| *count >= many) {
                    return None;
                }
            }
        }
        before.into_iter().min().map(|fewest| u32::try_from(fewest).unwrap_or(u32::MAX))
    }
}
