//! All sessions, as this node has seen them by one watch, by lists and by answers to its own writes.

mod copies;
mod ended;

use std::collections::BTreeMap;
use std::net::IpAddr;

use super::ends::Ends;
use super::published::Published;
use super::{Declared, Peer, Standing, View, number};
use crate::mac::Mac;
use crate::moves::Moves;
use crate::placement::Labels;
use crate::placement::seed;
use crate::planted::planted;
use crate::rules::Rules;
use crate::time::Time;

/// What a view changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shown {
    /// It is older than what is known.
    Nothing,
    /// The session goes on as it was.
    Renewed,
    /// It began, ended, or declares something else.
    Changed,
}

/// What showed a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    /// The Lease: by a list, a watch, or the answer to a write.
    Lease,
    /// A member object.
    Copy,
}

/// The sessions of all nodes.
#[derive(Clone, Debug, Default)]
pub struct Membership {
    peers: BTreeMap<String, Peer>,
    /// By node, the uid of a Lease that was surely deleted, and when that was shown.
    gone: BTreeMap<String, (String, Time)>,
    /// By node, when its last sessions had ended. It outlives the Lease, until the member object is gone, too.
    ends: BTreeMap<String, Ends>,
    published: Published,
    /// The nodes whose Leases this one follows by name, and since when.
    followed: BTreeMap<String, Time>,
    /// The Leases without a member object were listed by their watch.
    unpublished_known: bool,
    /// All Leases were listed.
    complete: bool,
    proven: Option<Time>,
    /// When the last consistent list was asked for.
    listed: Option<Time>,
}

impl Membership {
    /// Whether all sessions were listed at least once: only then does it mean something that one is not there.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.complete || self.unpublished_known && self.published.is_complete()
    }

    /// When a watch of Leases, or a read, last showed something.
    #[must_use]
    pub fn proven(&self) -> Option<Time> {
        self.proven
    }

    /// A node's session.
    #[must_use]
    pub fn get(&self, node: &str) -> Option<&Peer> {
        self.peers.get(node)
    }

    /// All sessions, by node.
    pub fn all(&self) -> impl Iterator<Item = (&str, &Peer)> + Clone {
        self.peers.iter().map(|(node, peer)| (node.as_str(), peer))
    }

    /// The sessions that have not ended.
    pub fn live(&self) -> impl Iterator<Item = (&str, &Peer)> + Clone {
        self.all().filter(|(_, peer)| peer.view.is_live())
    }

    /// What each node declares, or declared in its last session: whoever that was, its kernel may have the addresses still, or again.
    /// What a session that has ended declared counts while its member object is there; agents of before have none.
    pub fn declarations(&self) -> impl Iterator<Item = (&str, &Declared)> {
        let counts = |node: &str, view: &View| {
            view.is_live() || !planted!(ForgetsEndedOwners) && (!view.published || self.published.get(node).is_some())
        };
        let known =
            self.all().filter(move |(node, peer)| counts(node, &peer.view)).map(|(node, peer)| (node, &peer.view));
        let copies = self.published.all().filter(|member| member.is_read()).map(|member| &member.copy);
        let copies = copies.filter(move |copy| !self.peers.contains_key(&copy.node) && !planted!(ForgetsEndedOwners));
        let all = known.chain(copies.map(|copy| (copy.node.as_str(), copy)));
        all.filter_map(|(node, view)| {
            Some((node, if view.is_live() { view.declared() } else { view.declared.as_ref() }?))
        })
    }

    /// The Lease of a node is gone. If its member object is, too, the ends are forgotten; a session without one has none to wait for.
    fn lease_gone(&mut self, now: Time, node: &str, view: View) {
        self.gone.insert(node.to_owned(), (view.uid, now));
        if view.published && self.published.get(node).is_none() {
            self.ends.remove(node);
        }
    }

    /// A watch event showed a session.
    pub fn see(&mut self, now: Time, view: View, rules: &Rules) -> Shown {
        if self.is_older(&view) {
            return Shown::Nothing;
        }
        let shown = self.put(now, view, Source::Lease);
        self.prove(now, rules);
        shown
    }

    /// A watch began with a list that showed a session. The list is a consistent read: it is believed even if its version is lower, as
    /// after a restored backup, unless an answer was ahead of the watch.
    pub fn see_listed(&mut self, now: Time, view: View, rules: &Rules) -> Shown {
        if self.peers.get(&view.node).is_some_and(|peer| peer.ahead && !peer.copied) {
            return self.see(now, view, rules);
        }
        let shown = self.put(now, view, Source::Lease);
        self.prove(now, rules);
        shown
    }

    /// The answer to a write showed a session. That proves nothing about the watch, which may be broken or behind.
    pub fn learn(&mut self, now: Time, view: View) -> Shown {
        if self.is_older(&view) {
            return Shown::Nothing;
        }
        let ahead = self.peers.get(&view.node).is_none_or(|known| known.ahead || known.view.version != view.version);
        let node = view.node.clone();
        let shown = self.put(now, view, Source::Lease);
        if let Some(peer) = self.peers.get_mut(&node) {
            peer.ahead = ahead;
        }
        shown
    }

    /// Whether something newer is known of that node's session. Versions count on when a Lease is deleted and made again. Once
    /// a Lease is surely gone, late answers and a watch that is behind say nothing new about it.
    fn is_older(&self, view: &View) -> bool {
        match self.peers.get(&view.node) {
            Some(known) if known.copied && self.followed.contains_key(&view.node) => false,
            Some(known) if known.view.uid == view.uid || !self.is_gone(&view.node, &view.uid) => {
                !view.is_as_new_as(&known.view)
            }
            _ => self.is_gone(&view.node, &view.uid),
        }
    }

    fn is_gone(&self, node: &str, uid: &str) -> bool {
        self.gone.get(node).is_some_and(|(gone, _)| gone == uid)
    }

    /// Whether this node sees each renewal of a session: it follows the Lease by its name, or the Lease has no member object and is
    /// among those that all nodes watch.
    #[must_use]
    pub fn is_followed(&self, node: &str) -> bool {
        self.followed.contains_key(node) || self.peers.get(node).is_some_and(|peer| !peer.view.published)
    }

    /// From now on this node sees each renewal.
    pub fn follow(&mut self, now: Time, node: &str) {
        if self.followed.insert(node.to_owned(), now).is_none()
            && let Some(peer) = self.peers.get_mut(node)
        {
            peer.changed = now;
        }
    }

    /// From now on this node sees no more renewals. What the member object has told meanwhile may be later than what the watch of
    /// the Lease did. It is not, if all sessions were listed since: it may tell of a store that was set back.
    pub fn unfollow(&mut self, now: Time, node: &str) -> Shown {
        self.followed.remove(node);
        let listed = self.published.since(node).is_some_and(|since| self.is_listed_since(since));
        match self.copy(node).cloned().filter(|_| !listed) {
            Some(copy) if !planted!(ForgetsWhatWasTold) => self.repeat(now, copy),
            _ => Shown::Nothing,
        }
    }

    /// Takes in the list of the watch of Leases without a member object. It may be older than what answers have shown. Answers with
    /// the nodes whose sessions have changed, and whether one is missing: it may have been deleted, or have a member object by now.
    pub fn see_unpublished(&mut self, now: Time, views: Vec<View>, rules: &Rules) -> (Vec<String>, bool) {
        self.prove(now, rules);
        self.unpublished_known = true;
        let expected = self.peers.iter().filter(|(_, peer)| !peer.view.published && !peer.ahead).map(|(node, _)| node);
        let missing = expected.into_iter().any(|node| !views.iter().any(|view| view.node == *node));
        let mut changed = vec![];
        for view in views {
            let node = view.node.clone();
            if self.see_listed(now, view, rules) == Shown::Changed {
                changed.push(node);
            }
        }
        (changed, missing)
    }

    /// Takes in a consistent list of all sessions that was asked for at `sent`. Sessions that were shown after that count by their
    /// version; of the others, those that are not in the list are gone. Answers with the nodes whose sessions have changed.
    pub fn see_all(&mut self, now: Time, sent: Time, views: Vec<View>, rules: &Rules) -> Vec<String> {
        self.prove(now, rules);
        let mut changed = vec![];
        let later = |peer: &Peer| peer.shown > sent;
        let listed = |node: &str| views.iter().any(|v| v.node == node);
        for (node, peer) in self.peers.extract_if(.., |node, peer| !later(peer) && !listed(node)).collect::<Vec<_>>() {
            self.lease_gone(now, &node, peer.view);
            changed.push(node);
        }
        for view in views {
            // The Lease was deleted while the list was on its way.
            if self.gone.get(&view.node).is_some_and(|(uid, at)| *uid == view.uid && *at > sent) {
                continue;
            }
            let (version, later) = (number(&view.version), self.peers.get(&view.node).is_some_and(later));
            let node = view.node.clone();
            let shown = if later { self.see(now, view, rules) } else { self.put(now, view, Source::Lease) };
            if let Some(peer) = self.peers.get_mut(&node) {
                peer.listed = version;
            }
            if shown == Shown::Changed {
                changed.push(node);
            }
        }
        self.complete = true;
        self.listed = self.listed.max(Some(sent));
        self.peers.values_mut().filter(|peer| peer.shown == now).for_each(|peer| peer.ahead = true);
        changed
    }

    /// Whether a consistent list that was asked for since `at` has come.
    #[must_use]
    pub fn is_listed_since(&self, at: Time) -> bool {
        self.listed.is_some_and(|sent| sent >= at)
    }

    /// Whether answers have shown what the watch of sessions without a member object has not.
    #[must_use]
    pub fn is_any_ahead(&self) -> bool {
        self.peers.values().any(|peer| peer.ahead && !peer.view.published)
    }

    /// A watch event: a session's Lease was deleted.
    pub fn deleted(&mut self, now: Time, node: &str, rules: &Rules) -> bool {
        self.prove(now, rules);
        let Some(peer) = self.peers.remove(node) else { return false };
        self.lease_gone(now, node, peer.view);
        true
    }

    /// Whether a deletion that the watch shows may be about an older Lease than the one that is known.
    #[must_use]
    pub fn is_read_ahead(&self, node: &str) -> bool {
        self.peers.get(node).is_some_and(|peer| peer.ahead)
    }

    fn put(&mut self, now: Time, view: View, source: Source) -> Shown {
        let began = view.declared().and_then(|d| d.began.as_deref()).and_then(number);
        self.ends.entry(view.node.clone()).or_default().see(&view);
        let Some(peer) = self.peers.get_mut(&view.node) else {
            let (node, seed) = (view.node.clone(), seed(&view.node));
            let peer = Peer {
                seed,
                began,
                changed: now,
                ended: (!view.is_live()).then_some(now),
                shown: now,
                ahead: false,
                copied: source == Source::Copy,
                listed: None,
                abandoned: Moves::default(),
                abandoned_at: None,
                view,
            };
            self.peers.insert(node, peer);
            return Shown::Changed;
        };
        peer.began = began;
        // A member object proves no deletion: what it names may be of a store that was set back since.
        if peer.view.uid != view.uid && (source == Source::Lease || planted!(BelievesOldCopies)) {
            self.gone.insert(view.node.clone(), (peer.view.uid.clone(), now));
        }
        if peer.view.record != view.record {
            peer.changed = now;
        }
        peer.shown = now;
        (peer.ahead, peer.copied) = (false, source == Source::Copy);
        let (old, new) = (&peer.view, &view);
        let same = old.is_of(&new.incarnation())
            && old.is_live() == new.is_live()
            && old.published == new.published
            && old.declared().map(essential) == new.declared().map(essential);
        if view.is_live() {
            peer.ended = None;
        } else if peer.ended.is_none() || !same {
            peer.ended = Some(now);
            if view.end.as_ref().is_some_and(|end| end.cause == super::EndCause::Abandoned) {
                peer.abandoned.record(now);
                peer.abandoned_at = Some(now);
            }
        }
        peer.view = view;
        if same { Shown::Renewed } else { Shown::Changed }
    }

    /// The watch or a list has shown something: what is known is as seen now. Blind time does not count: in it, nobody could
    /// renew, or this node could not see that.
    fn prove(&mut self, now: Time, rules: &Rules) {
        let blind = self.proven.is_none_or(|at| now.since(at) > rules.blind_after());
        if blind && !planted!(SessionBlindTimeCounts) {
            self.count_from(now);
        }
        self.proven = Some(now);
    }

    /// This node could not renew its own session for so long that it lapsed, and has renewed it now. The others may have been refused as
    /// this node was, and come a moment later: that time does not count either.
    pub fn could_not_renew(&mut self, now: Time) {
        if !planted!(RefusedTimeCounts) {
            self.count_from(now);
        }
    }

    /// All sessions have their full duration again.
    fn count_from(&mut self, now: Time) {
        for peer in self.peers.values_mut() {
            peer.changed = now;
        }
    }

    /// Whether what is known was proved lately enough to judge by.
    #[must_use]
    pub fn is_fresh(&self, now: Time, rules: &Rules) -> bool {
        self.is_complete() && self.proven.is_some_and(|at| now.since(at) <= rules.blind_after())
    }

    /// When a live session ends by this node's clock, if it is not renewed. None: it is not live, or this node does not see renewals.
    #[must_use]
    pub fn expires(&self, node: &str, rules: &Rules) -> Option<Time> {
        self.peers
            .get(node)
            .filter(|peer| peer.view.is_live() && (self.is_followed(node) || planted!(JudgesUnfollowed)))
            .map(|peer| peer.expires(rules))
    }

    /// The node that declares this MAC address, whether or not its session has ended.
    #[must_use]
    pub fn with_mac(&self, mac: Mac) -> Option<&str> {
        let links = |p: &Peer| p.view.declared.iter().any(|d| d.links.iter().any(|l| l.macs.contains(&mac)));
        self.all().find(|(_, p)| links(p)).map(|(node, _)| node)
    }
}

type Essence<'a> = (&'a [super::Link], bool, Option<&'a str>, &'a [IpAddr], Option<Standing>, &'a Labels);

/// What of a declaration matters to other nodes. The version at which a session began is declared later, and changes which
/// node was there first.
fn essential(declared: &Declared) -> Essence<'_> {
    let Declared { links, leaving, reserved, standing, labels, .. } = declared;
    (links, *leaving, declared.began.as_deref(), reserved, *standing, labels)
}

#[cfg(test)]
mod tests;
