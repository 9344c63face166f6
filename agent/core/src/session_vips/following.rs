//! The sessions whose Leases this node follows by name. Renewals of the others are not shown to it: what changes else is on the member
//! objects, which all nodes watch.
//!
//! Two other nodes follow each Lease, its judges, which all nodes compute alike. They alone see that it is not renewed, and end the
//! session when it has expired.

use std::collections::BTreeSet;

use super::questions::Question;
use super::watchers::is_watched;
use super::{Call, Output, SessionVips};
use crate::placement::mix;
use crate::planted::planted;
use crate::session::{Link, Peer, View};

/// What was asked for.
#[derive(Debug, Default)]
pub(super) struct Following {
    /// The nodes whose Leases are followed, or about to be.
    pub(super) asked: BTreeSet<String>,
    /// This node's own Lease was looked up since the agent began, whether or not there was one.
    pub(super) looked_up: bool,
}

impl SessionVips {
    /// Chooses anew, when sessions have changed.
    pub(super) fn choose_followed(&mut self) {
        // While the API is away more nodes watch each other, and no watch of a Lease begins.
        if self.api.away.is_some() {
            return;
        }
        let nodes = self.to_follow();
        if nodes == self.following.asked {
            return;
        }
        let before = std::mem::replace(&mut self.following.asked, nodes.clone());
        for node in before.difference(&nodes) {
            let shown = self.sessions.unfollow(self.step.at.now, node);
            self.session_was_shown(node, shown);
            self.ask_later(node, Question::CopyIsOlder);
        }
        self.step.out.push(Output::Call(Call::Follow { nodes }));
    }

    /// Its own, so that it hears of its end at once; those that it judges, if they live or their member objects say so; and those whose
    /// VIPs it carries provisionally: a renewal tells that the holder is alive.
    fn to_follow(&self) -> BTreeSet<String> {
        let me = &self.rules.node;
        let told = |node: &str| self.sessions.copy(node).is_some_and(View::is_live);
        let lives = |node: &str, peer: &Peer| peer.view.published && (peer.view.is_live() || told(node));
        let others = self.sessions.all().filter(|(node, peer)| node != me && lives(node, peer));
        let judged = others.filter(|(node, _)| self.own.tenure.is_some() && self.judge_place(node).is_some());
        let holders = self.asking.provisional.iter().filter_map(|address| self.vips.get(address)?.holder());
        let holders = holders
            .map(|holder| holder.node.clone())
            .filter(|node| self.sessions.get(node).is_some_and(|peer| peer.view.published));
        std::iter::once(me.clone()).chain(judged.map(|(node, _)| node.to_owned())).chain(holders).collect()
    }

    /// How many others come before this node as judges of a session. The first judge is a node that shares most of its segments: that
    /// sees most of it. The second is the next node on a ring of all nodes, whatever its segments: nodes that die together may have
    /// their segments to themselves, as in a rack, and one of them has a judge outside. None: this node is no judge. A session that has
    /// ended has the same judges as before: they tell of its end.
    pub(super) fn judge_place(&self, node: &str) -> Option<u32> {
        let (of, me) = (self.sessions.get(node)?, self.sessions.get(&self.rules.node)?);
        let links = of.view.declared().map_or(&[][..], |declared| &declared.links);
        let links = if planted!(ChoosesJudgesAnew) { of.view.links() } else { links };
        let shares = |peer: &Peer, link: &Link| peer.view.links().iter().any(|other| is_watched(other, link));
        let key = |peer: &Peer| (links.iter().filter(|link| shares(peer, link)).count(), mix(of.seed, peer.seed));
        let distance = |peer: &Peer| peer.seed.wrapping_sub(of.seed);
        let others = || {
            let live = self.sessions.live().filter(|(other, _)| *other != node && *other != self.rules.node);
            live.map(|(_, peer)| peer)
        };
        let is_next = |peer: &Peer| {
            let nearer = |other: &Peer| distance(other) < distance(peer);
            !nearer(me) && !others().any(nearer)
        };
        let mine = key(me);
        let before: Vec<&Peer> = others().filter(|peer| key(peer) > mine).take(2).collect();
        match before[..] {
            [] => Some(0),
            [first] if is_next(first) || planted!(JudgesNearbyOnly) => Some(1),
            _ if is_next(me) && !planted!(JudgesNearbyOnly) => Some(1),
            _ => None,
        }
    }
}
