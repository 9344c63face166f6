//! All sessions, as this node has seen them by one watch.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Declared, Holder, View, number};
use crate::mac::Mac;
use crate::moves::Moves;
use crate::placement::seed;
use crate::planted::planted;
use crate::rules::Rules;
use crate::time::Time;

/// A session is honoured for as long as its record says, but not longer than this.
const LONGEST: Duration = Duration::from_hours(1);

/// What Kubernetes says of a node. It only ranks: an outage that marks every node unready moves nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Standing {
    /// Its `Ready` condition is true.
    pub ready: bool,
    /// It is not cordoned.
    pub schedulable: bool,
    /// It has the label `node.kubernetes.io/exclude-from-external-load-balancers`.
    pub excluded: bool,
}

impl Default for Standing {
    fn default() -> Self {
        Self { ready: true, schedulable: true, excluded: false }
    }
}

/// One session.
#[derive(Clone, Debug)]
pub struct Peer {
    /// Its Lease.
    pub view: View,
    /// The hash of its node's name.
    pub seed: u64,
    /// What Kubernetes says of the node.
    pub standing: Standing,
    /// The version at which the session began, once that is declared.
    pub began: Option<u64>,
    /// When its record was last seen to change, or it got a full duration again.
    pub changed: Time,
    /// When its end was seen, while it has ended.
    pub ended: Option<Time>,
    /// When it was last shown.
    shown: Time,
    /// An answer showed it, and no watch event since: what the watch is about to tell may be older.
    ahead: bool,
    /// How often it was abandoned lately.
    pub abandoned: Moves,
    /// When it was last seen to be abandoned, whether or not it has begun again.
    pub abandoned_at: Option<Time>,
}

impl Peer {
    /// When it ends by this node's clock, if it is live and not renewed.
    #[must_use]
    pub fn expires(&self, rules: &Rules) -> Time {
        let stated = self.view.record.duration.min(LONGEST);
        self.changed + if stated.is_zero() { rules.lease_duration } else { stated }
    }
}

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

/// See the module's text.
#[derive(Clone, Debug, Default)]
pub struct Directory {
    peers: BTreeMap<String, Peer>,
    standing: BTreeMap<String, Standing>,
    /// By node, the Lease that is surely there no more, and when that was shown.
    gone: BTreeMap<String, (String, Time)>,
    complete: bool,
    proven: Option<Time>,
    /// When the last consistent list was asked for.
    listed: Option<Time>,
}

impl Directory {
    /// Whether all sessions were listed at least once: only then does it mean something that one is not there.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.complete
    }

    /// When the watch, or a read, last showed something.
    #[must_use]
    pub fn proven(&self) -> Option<Time> {
        self.proven
    }

    /// A node's session.
    #[must_use]
    pub fn get(&self, node: &str) -> Option<&Peer> {
        self.peers.get(node)
    }

    /// All of them, by node.
    pub fn all(&self) -> impl Iterator<Item = (&str, &Peer)> + Clone {
        self.peers.iter().map(|(node, peer)| (node.as_str(), peer))
    }

    /// Those that have not ended.
    pub fn live(&self) -> impl Iterator<Item = (&str, &Peer)> + Clone {
        self.all().filter(|(_, peer)| peer.view.is_live())
    }

    /// What Kubernetes says of a node.
    #[must_use]
    pub fn standing(&self, node: &str) -> Standing {
        self.standing.get(node).copied().unwrap_or_default()
    }

    /// Kubernetes says that of a node; None: there is no such node.
    pub fn set_standing(&mut self, node: String, standing: Option<Standing>) {
        if let Some(peer) = self.peers.get_mut(&node) {
            peer.standing = standing.unwrap_or_default();
        }
        match standing {
            Some(standing) => self.standing.insert(node, standing),
            None => self.standing.remove(&node),
        };
    }

    /// A watch event showed a session.
    pub fn see(&mut self, now: Time, view: View, rules: &Rules) -> Shown {
        if self.is_older(&view) {
            return Shown::Nothing;
        }
        let shown = self.put(now, view);
        self.prove(now, rules);
        shown
    }

    /// The answer to a write showed a session: that says nothing of the watch, which may be dead, or behind it.
    pub fn learn(&mut self, now: Time, view: View) -> Shown {
        if self.is_older(&view) {
            return Shown::Nothing;
        }
        let ahead = self.peers.get(&view.node).is_none_or(|known| known.ahead || known.view.version != view.version);
        let node = view.node.clone();
        let shown = self.put(now, view);
        if let Some(peer) = self.peers.get_mut(&node) {
            peer.ahead = ahead;
        }
        shown
    }

    /// Whether more is known of that node's session. Versions count on when a Lease is deleted and made again; of one that
    /// is surely gone, answers that come late and a watch that is behind say nothing new.
    fn is_older(&self, view: &View) -> bool {
        match self.peers.get(&view.node) {
            Some(known) if known.view.uid == view.uid || !self.is_gone(&view.node, &view.uid) => {
                matches!((number(&view.version), number(&known.view.version)), (Some(new), Some(old)) if new < old)
            }
            _ => self.is_gone(&view.node, &view.uid),
        }
    }

    fn is_gone(&self, node: &str, uid: &str) -> bool {
        self.gone.get(node).is_some_and(|(gone, _)| gone == uid)
    }

    /// A list of all sessions, asked for at `sent`; None: the watch's own, which may be older than what answers have shown.
    /// What was shown after that counts by its version; of the others, those that are not in the list are gone. Answers with
    /// the nodes whose sessions have changed.
    pub fn see_all(&mut self, now: Time, sent: Option<Time>, views: Vec<View>, rules: &Rules) -> Vec<String> {
        self.prove(now, rules);
        let mut changed = vec![];
        let later = |peer: &Peer| sent.map_or(peer.ahead, |sent| peer.shown > sent);
        self.peers.retain(|node, peer| {
            let stays = later(peer) || views.iter().any(|v| v.node == *node);
            if !stays {
                changed.push(node.clone());
                self.gone.insert(node.clone(), (peer.view.uid.clone(), now));
            }
            stays
        });
        for view in views {
            // It was deleted while the list was on its way.
            let since = |at: Time| sent.is_some_and(|sent| at > sent);
            if self.gone.get(&view.node).is_some_and(|(uid, at)| *uid == view.uid && since(*at)) {
                continue;
            }
            let (node, later) = (view.node.clone(), self.peers.get(&view.node).is_some_and(later));
            let shown = if later { self.see(now, view, rules) } else { self.put(now, view) };
            if shown == Shown::Changed {
                changed.push(node);
            }
        }
        self.complete = true;
        changed
    }

    /// Whether a consistent list was asked for since, and has come.
    #[must_use]
    pub fn is_listed_since(&self, at: Time) -> bool {
        self.listed.is_some_and(|sent| sent >= at)
    }

    /// Whether answers have shown what the watch has not.
    #[must_use]
    pub fn is_any_ahead(&self) -> bool {
        self.peers.values().any(|peer| peer.ahead)
    }

    /// A watch event: a session's Lease was deleted.
    pub fn deleted(&mut self, now: Time, node: &str, rules: &Rules) -> bool {
        self.prove(now, rules);
        let Some(peer) = self.peers.remove(node) else { return false };
        self.gone.insert(node.to_owned(), (peer.view.uid, now));
        true
    }

    /// A consistent list has come that was asked for then.
    pub fn was_listed(&mut self, now: Time, sent: Time) {
        self.listed = self.listed.max(Some(sent));
        self.peers.values_mut().filter(|peer| peer.shown == now).for_each(|peer| peer.ahead = true);
    }

    /// Whether a deletion that the watch shows may be of the Lease before the one that is known.
    #[must_use]
    pub fn is_read_ahead(&self, node: &str) -> bool {
        self.peers.get(node).is_some_and(|peer| peer.ahead)
    }

    fn put(&mut self, now: Time, view: View) -> Shown {
        let began = view.declared().and_then(|d| d.began.as_deref()).and_then(number);
        let Some(peer) = self.peers.get_mut(&view.node) else {
            let (node, seed) = (view.node.clone(), seed(&view.node));
            let peer = Peer {
                seed,
                standing: self.standing(&node),
                began,
                changed: now,
                ended: (!view.is_live()).then_some(now),
                shown: now,
                ahead: false,
                abandoned: Moves::default(),
                abandoned_at: None,
                view,
            };
            self.peers.insert(node, peer);
            return Shown::Changed;
        };
        peer.began = began;
        if peer.view.uid != view.uid {
            self.gone.insert(view.node.clone(), (peer.view.uid.clone(), now));
        }
        if peer.view.record != view.record {
            peer.changed = now;
        }
        peer.shown = now;
        peer.ahead = false;
        let (old, new) = (&peer.view, &view);
        let same = old.is_of(&new.incarnation())
            && old.is_live() == new.is_live()
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

    /// Something was shown that took a write: it is as seen now. Blind time does not count: nobody could renew in it, or
    /// nobody could see that.
    fn prove(&mut self, now: Time, rules: &Rules) {
        let blind = self.proven.is_none_or(|at| now.since(at) > rules.blind_after());
        if blind && !planted!(SessionBlindTimeCounts) {
            for peer in self.peers.values_mut() {
                peer.changed = now;
            }
        }
        self.proven = Some(now);
    }

    /// Whether what is known was proved lately enough to judge by.
    #[must_use]
    pub fn is_fresh(&self, now: Time, rules: &Rules) -> bool {
        self.complete && self.proven.is_some_and(|at| now.since(at) <= rules.blind_after())
    }

    /// When a live session ends by this node's clock, if it is not renewed.
    #[must_use]
    pub fn expires(&self, node: &str, rules: &Rules) -> Option<Time> {
        self.peers.get(node).filter(|peer| peer.view.is_live()).map(|peer| peer.expires(rules))
    }

    /// Whether the incarnation by which a record names its holder has ended. None: not known. `seen`: when the record was
    /// first seen so. It may be newer than all that is known of sessions: of a Lease that was never seen, only a list that was
    /// asked for since says that it is not there.
    #[must_use]
    pub fn has_ended(&self, holder: &Holder, seen: Time) -> Option<bool> {
        if !self.complete {
            return None;
        }
        let known = self.peers.get(&holder.node).map(|peer| &peer.view).filter(|v| v.uid == holder.session.uid);
        let Some(known) = known else {
            let gone = self.is_gone(&holder.node, &holder.session.uid);
            return (gone || self.listed.is_some_and(|sent| sent >= seen)).then_some(true);
        };
        if known.record.transitions < holder.session.transitions {
            // It has begun since, and the watch of sessions is behind that of records; or the Lease was set back.
            return self.listed.is_some_and(|sent| sent >= seen).then_some(true);
        }
        Some(!(known.is_live() && known.is_of(&holder.session)))
    }

    /// The version at which it had ended, if that is known.
    #[must_use]
    pub fn ended_by(&self, holder: &Holder) -> Option<u64> {
        let view = &self.peers.get(&holder.node)?.view;
        if view.is_of(&holder.session) {
            return if view.is_live() { None } else { number(&view.version) };
        }
        // Further incarnations may have come and gone: by then it had ended too.
        let later = view.uid == holder.session.uid && view.record.transitions > holder.session.transitions;
        view.declared().filter(|_| later).and_then(|d| d.after.as_deref()).and_then(number)
    }

    /// The node that declares this MAC address, whether or not its session has ended.
    #[must_use]
    pub fn with_mac(&self, mac: Mac) -> Option<&str> {
        let links = |p: &Peer| p.view.declared.iter().any(|d| d.links.iter().any(|l| l.macs.contains(&mac)));
        self.all().find(|(_, p)| links(p)).map(|(node, _)| node)
    }
}

type Essence<'a> = (&'a [super::Link], bool, Option<&'a str>);

/// What of a declaration matters to others; which version it began at is told later, and changes who was there first.
fn essential(declared: &Declared) -> Essence<'_> {
    (&declared.links, declared.leaving, declared.began.as_deref())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lease::Record;
    use crate::session::Incarnation;

    fn view(node: &str, version: u64, transitions: u32, live: bool) -> View {
        let record = Record {
            holder: if live { node.into() } else { String::new() },
            duration: Duration::from_secs(15),
            transitions,
            renewed: Some(crate::time::WallTime(i64::try_from(version).unwrap())),
            ..Record::default()
        };
        View { node: node.into(), uid: "u".into(), version: version.to_string(), record, declared: None, end: None }
    }

    fn at(seconds: u64) -> Time {
        Time::from_nanos(seconds * 1_000_000_000)
    }

    fn holder(transitions: u32) -> Holder {
        Holder { node: "n1".into(), session: Incarnation { uid: "u".into(), transitions }, to: None }
    }

    #[test]
    fn what_has_not_been_written_has_not_ended() {
        let (mut all, rules) = (Directory::default(), Rules::default());
        assert_eq!(all.has_ended(&holder(1), at(900)), None, "nothing was listed");
        all.see_all(at(100), Some(at(99)), vec![view("n1", 5, 1, true)], &rules);
        assert_eq!(all.has_ended(&holder(1), at(900)), Some(false));
        assert_eq!(all.expires("n1", &rules), Some(at(115)));
        assert_eq!(all.has_ended(&holder(1), at(900)), Some(false), "expired is not ended");
        all.see(at(120), view("n1", 6, 1, false), &rules);
        assert_eq!((all.has_ended(&holder(1), at(900)), all.ended_by(&holder(1))), (Some(true), Some(6)));
        all.see(at(121), view("n1", 7, 2, true), &rules);
        assert_eq!((all.has_ended(&holder(1), at(900)), all.has_ended(&holder(2), at(900))), (Some(true), Some(false)));
        assert_eq!(all.has_ended(&holder(3), at(900)), None, "a record may be newer than what is known of sessions");
    }

    #[test]
    fn a_session_that_is_not_in_a_list_has_ended() {
        let (mut all, rules) = (Directory::default(), Rules::default());
        all.see_all(at(1), Some(at(1)), vec![view("n1", 5, 1, true)], &rules);
        assert_eq!(all.see_all(at(2), Some(at(2)), vec![], &rules), ["n1"]);
        assert_eq!(all.has_ended(&holder(1), at(900)), Some(true));
    }

    #[test]
    fn every_sessions_event_proves_the_watch() {
        let (mut all, rules) = (Directory::default(), Rules::default());
        all.see_all(at(100), Some(at(99)), vec![view("n1", 5, 1, true), view("n2", 6, 1, true)], &rules);
        for t in [102, 104, 106, 108, 110, 112, 114] {
            all.see(at(t), view("n2", t, 1, true), &rules);
        }
        assert_eq!(all.expires("n1", &rules), Some(at(115)));
        all.see(at(160), view("n2", 160, 1, true), &rules);
        assert_eq!(all.expires("n1", &rules), Some(at(175)), "blind time does not count");
    }

    #[test]
    fn what_comes_late_of_a_lease_that_is_gone_says_nothing_of_the_next_one() {
        let (mut all, rules) = (Directory::default(), Rules::default());
        all.see_all(at(1), Some(at(1)), vec![view("n1", 5, 1, true)], &rules);
        all.deleted(at(2), "n1", &rules);
        let again = View { uid: "again".into(), ..view("n1", 9, 0, true) };
        all.see(at(3), again, &rules);
        let second = Holder { session: Incarnation { uid: "again".into(), transitions: 0 }, ..holder(0) };
        assert_eq!(all.learn(at(4), view("n1", 6, 1, false)), Shown::Nothing, "the answer to the end of the first");
        assert_eq!(all.has_ended(&second, at(3)), Some(false));
        assert_eq!(all.has_ended(&holder(1), at(3)), Some(true));
    }

    #[test]
    fn a_list_that_was_made_before_a_deletion_brings_nothing_back() {
        let (mut all, rules) = (Directory::default(), Rules::default());
        all.see_all(at(1), Some(at(1)), vec![view("n1", 5, 1, true)], &rules);
        all.deleted(at(3), "n1", &rules);
        all.see_all(at(4), Some(at(2)), vec![view("n1", 5, 1, true)], &rules);
        assert_eq!(all.live().count(), 0);
        all.see_all(at(6), Some(at(5)), vec![view("n1", 5, 1, true)], &rules);
        assert_eq!(all.live().count(), 1, "restored from a backup");
    }

    #[test]
    fn the_list_of_a_watch_may_be_older_than_an_answer() {
        let (mut all, rules) = (Directory::default(), Rules::default());
        all.see_all(at(1), None, vec![view("n1", 5, 1, true)], &rules);
        all.learn(at(2), view("n1", 7, 2, true));
        assert!(all.see_all(at(3), None, vec![view("n1", 6, 1, false)], &rules).is_empty());
        assert!(all.is_any_ahead(), "a list that is asked for now tells");
        assert_eq!(all.has_ended(&holder(2), at(3)), Some(false));
        assert_eq!(all.see_all(at(5), Some(at(4)), vec![view("n1", 4, 1, true)], &rules), ["n1"], "restored");
        assert_eq!(all.has_ended(&holder(1), at(5)), Some(false));
    }

    #[test]
    fn a_lease_that_was_set_back_ends_what_it_had_counted() {
        let (mut all, rules) = (Directory::default(), Rules::default());
        all.see_all(at(1), Some(at(1)), vec![view("n1", 5, 1, true)], &rules);
        assert_eq!(all.has_ended(&holder(3), at(2)), None, "it may have begun since");
        all.see_all(at(4), Some(at(3)), vec![view("n1", 6, 1, true)], &rules);
        all.was_listed(at(4), at(3));
        assert_eq!(all.has_ended(&holder(3), at(2)), Some(true), "a list that was asked for since does not say so");
    }

    #[test]
    fn older_views_are_ignored() {
        let (mut all, rules) = (Directory::default(), Rules::default());
        all.see_all(at(1), Some(at(1)), vec![view("n1", 9, 2, true)], &rules);
        assert_eq!(all.see(at(2), view("n1", 8, 1, false), &rules), Shown::Nothing);
        assert!(all.get("n1").unwrap().view.is_live());
    }
}
