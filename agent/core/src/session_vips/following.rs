//! The sessions whose Leases this node follows by name. Renewals of the others are not shown to it: what changes else is on the member
//! objects, which all nodes watch.
//!
//! Two or three other nodes follow each Lease, its judges, which all nodes compute alike. They alone see that it is not renewed, and end the
//! session when it has expired.

use std::collections::BTreeSet;

use super::closeness::Closeness;
use super::questions::Question;
use super::{Call, Output, SessionVips};
use crate::planted::planted;
use crate::session::{Peer, View};

/// How many nodes judge whether a session has expired, of those that share most of its segments.
const JUDGES: usize = 2;
/// With more nodes than this on the same segments, a node does not outlive all others.
const FEW: usize = 16;

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

    /// How many others come before this node as judges of a session. The first two are nodes that share most of its segments: they see
    /// most of it, and mostly they watch it, too. The third is the next node on a ring of all nodes, whatever its segments: nodes that
    /// die together may have segments to themselves, as in a rack, and one of them has a judge outside. Where there are many nodes and
    /// all share the same segments there is no third: it would help only if nearly all of them died at once. None: this node is no judge.
    /// A session that has ended has the same judges as before: they tell of its end.
    pub(super) fn judge_place(&self, node: &str) -> Option<u32> {
        let (of, me) = (self.sessions.get(node)?, self.sessions.get(&self.rules.node)?);
        let links = of.view.declared().map_or(&[][..], |declared| &declared.links);
        let links = if planted!(ChoosesJudgesAnew) { of.view.links() } else { links };
        let closeness = |peer: &Peer| Closeness::new(peer, of, links);
        let others = || {
            let live = self.sessions.live().filter(|(other, _)| *other != node && *other != self.rules.node);
            live.map(|(_, peer)| peer)
        };
        let mine = closeness(me);
        let before: Vec<&Peer> = others().filter(|peer| closeness(peer) > mine).take(JUDGES).collect();
        if before.len() < JUDGES {
            return u32::try_from(before.len()).ok();
        }
        let distance = |peer: &Peer| peer.seed.wrapping_sub(of.seed);
        let is_next = !others().any(|other| distance(other) < distance(me));
        let is_needed =
            || others().nth(FEW).is_none() || others().any(|other| closeness(other).segments != mine.segments);
        (is_next && is_needed() && !planted!(JudgesNearbyOnly)).then_some(2)
    }
}
