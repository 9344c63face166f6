//! Member objects: what others need to know of a session, and its renewals do not change.
//!
//! The Lease decides. What it says is written on the node's member object afterwards, by whoever wrote the Lease. If that node dies
//! between the two writes, or somebody changes the member object, the nodes that follow the Lease see that both differ, and write
//! the member object in turn.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::api::spread;
use super::questions::Question;
use super::{Call, Output, SessionVips};
use crate::lease::Record;
use crate::planted::planted;
use crate::rules::MARGIN;
use crate::session::{Member, Shown, View, number};
use crate::time::Time;

/// How long a write may go unanswered.
const WITHIN: Duration = Duration::from_secs(1);
/// How long a follower leaves a member object that differs from its Lease to each node before it, and to the one that wrote the Lease.
const STEP: Duration = Duration::from_millis(300);
/// The same, if the member object names a later version of the Lease than the one that this node knows: its watch of the Lease may be
/// behind. After that, a list tells.
const BEHIND: Duration = Duration::from_secs(3);

/// What is to be written, and what is being written.
#[derive(Debug, Default)]
pub(super) struct Publishing {
    /// The nodes whose Lease or member object was shown since they were last compared.
    changed: BTreeSet<String>,
    /// All of them are to be compared.
    all: bool,
    /// Nodes whose member object differs from what is known of the Lease, and since when.
    differ: BTreeMap<String, Time>,
    /// The writes under way, by node.
    pub(super) flights: BTreeMap<String, Flight>,
    /// After a write for a node, the next one waits.
    pub(super) pauses: BTreeMap<String, Pause>,
    /// A write has failed: until then none for a node whose Lease is not followed here. Rights may be missing, and each node would try
    /// for each.
    pub(super) failed_until: Time,
    /// This node has ended these sessions, and tells the others.
    ended_here: BTreeSet<String>,
    /// What the Leases that were deleted said, as ended; and whether this node followed them.
    deleted: BTreeMap<String, (View, bool)>,
    /// When a member object was seen older than it was known, or was missing in a list: the store may have been set back. What is known
    /// of Leases may be of the time before. To write that into member objects would end sessions that live again.
    set_back: Option<Time>,
}

/// No write for a node before a moment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pause {
    pub(super) until: Time,
    pub(super) length: Duration,
    /// When the last write was sent, if it had no answer.
    pub(super) unanswered: Option<Time>,
}

/// A write of a member object.
#[derive(Debug)]
pub(super) struct Flight {
    pub(super) id: u64,
    /// The version of the Lease that it names.
    pub(super) copy: String,
    /// The version of the member object that it replaces.
    pub(super) base: Option<String>,
    pub(super) sent: Time,
    /// Without an answer it has failed then.
    pub(super) fails_at: Time,
}

impl Publishing {
    pub(super) fn look_at(&mut self, node: &str) {
        self.changed.insert(node.to_owned());
    }

    pub(super) fn look_at_all(&mut self) {
        self.all = true;
    }

    /// What is known of Leases may be of the store as it was before: nothing is told of them until a list, asked for from now on,
    /// has shown them.
    pub(super) fn may_be_set_back(&mut self, now: Time) {
        self.set_back = Some(now);
    }

    /// This node has written the end of that session.
    pub(super) fn was_ended_here(&mut self, node: &str) {
        self.ended_here.insert(node.to_owned());
        self.changed.insert(node.to_owned());
    }

    /// A Lease is gone, and so is its session. The end counts as the version after the last one: a Lease that is made anew has a later
    /// one. `followed`: this node sees what becomes of the Lease, and need not leave it to others to tell that.
    pub(super) fn lease_was_deleted(&mut self, last: &View, followed: bool) {
        if !last.published || planted!(LeavesDeletedUntold) {
            return;
        }
        let version = number(&last.version).map_or_else(|| last.version.clone(), |last| (last + 1).to_string());
        let record = Record { holder: String::new(), ..last.record.clone() };
        let ended = View { version, record, end: None, ..last.clone() };
        if self.deleted.get(&last.node).is_none_or(|(known, _)| known.uid != last.uid) {
            self.deleted.insert(last.node.clone(), (ended, followed));
        }
        self.changed.insert(last.node.clone());
    }
}

impl SessionVips {
    /// Whether others have been told of this node's incarnation: before, it takes nothing, because nobody would watch it.
    pub(super) fn is_own_published(&self) -> bool {
        let me = &self.rules.node;
        let unpublished = self.sessions.get(me).is_some_and(|own| !own.view.published);
        let told = |member: &Member| member.copy.is_live() && self.own.is_of(&member.copy.incarnation());
        unpublished || self.sessions.member(me).is_some_and(told) || planted!(TakesUnpublished)
    }

    pub(super) fn member_shown(&mut self, member: Member) {
        let (node, now) = (member.copy.node.clone(), self.step.at.now);
        let lives = member.copy.is_live();
        let shown = self.sessions.see_member(now, member);
        // Somebody may have put it back to when the session lived: who should follow the Lease does so again.
        self.rewatch |= self.sessions.get(&node).is_some_and(|peer| peer.view.is_live() != lives);
        if self.sessions.get(&node).is_none_or(|peer| !peer.view.is_live()) {
            self.owned.changed();
        }
        self.member_was_shown(&node, shown);
        self.ask_later(&node, Question::CopyIsOlder);
    }

    fn member_was_shown(&mut self, node: &str, shown: Shown) {
        self.session_was_shown(node, shown);
        if node == self.rules.node {
            self.own_shown();
            // The beginning of the own session may be known to all now.
            self.index.dirty.extend(self.index.open.iter().copied());
            self.step.again = true;
        }
    }

    pub(super) fn members_listed(&mut self, members: Vec<Member>) {
        let is_older = self.sessions.is_set_back(&members);
        if is_older || self.sessions.is_any_member_missing(&members) {
            self.publishing.may_be_set_back(self.step.at.now);
        }
        if is_older && !planted!(NeverSetBack) {
            self.list_anew();
        }
        let (changed, other) = self.sessions.see_members(self.step.at.now, members);
        for node in other {
            self.publishing.look_at(&node);
            self.ask_later(&node, Question::CopyIsOlder);
        }
        self.publishing.look_at_all();
        self.owned.changed();
        self.rewatch = true;
        for node in changed {
            self.session_changed(&node);
        }
        self.notes_were_listed();
        self.own_shown();
        self.step.again = true;
    }

    pub(super) fn member_deleted(&mut self, node: &str) {
        self.sessions.member_gone(node);
        self.owned.changed();
        self.publishing.look_at(node);
        self.step.again = true;
    }

    /// After a list of all sessions: some member objects may say that a session lives whose Lease is not there. Somebody has put them
    /// back, or deleted the Lease of a node that is gone. And some sessions may have none: their nodes have died before they wrote
    /// it, and nobody follows the Lease.
    pub(super) fn compare_with_list(&mut self) {
        let without_lease = self.sessions.live_copies().filter(|copy| self.sessions.get(&copy.node).is_none());
        for copy in without_lease.cloned().collect::<Vec<_>>() {
            let followed = self.following.asked.contains(&copy.node);
            self.publishing.lease_was_deleted(&copy, followed);
        }
        let untold = self.sessions.live().filter(|(node, _)| self.is_untold(node)).map(|(node, _)| node.to_owned());
        self.publishing.changed.extend(untold.collect::<Vec<_>>());
    }

    /// Whether a session that lives has no member object, though its Lease says so.
    fn is_untold(&self, node: &str) -> bool {
        let lives = self.sessions.get(node).is_some_and(|peer| peer.view.is_live() && peer.view.published);
        lives && self.sessions.member(node).is_none() && node != self.rules.node && !planted!(LeavesUntold)
    }

    /// Compares member objects with Leases, and writes what is to be written.
    pub(super) fn advance_publishing(&mut self) {
        if std::mem::take(&mut self.publishing.all) {
            let followed = self.following.asked.iter().chain([&self.rules.node]).chain(self.publishing.deleted.keys());
            self.publishing.changed.extend(followed.cloned().collect::<Vec<_>>());
        }
        for node in std::mem::take(&mut self.publishing.changed) {
            match self.copy_for(&node) {
                Some(_) => _ = self.publishing.differ.entry(node).or_insert(self.step.at.now),
                None => self.is_told(&node),
            }
        }
        let mut differ: Vec<(String, Time)> = self.publishing.differ.iter().map(|(n, at)| (n.clone(), *at)).collect();
        // One that cannot be written does not keep others waiting for ever.
        differ.sort_by_key(|(node, since)| self.publishing.pauses.get(node).map_or(*since, |pause| pause.until));
        for (node, since) in differ {
            self.consider_publishing(&node, since);
        }
    }

    /// Nothing is to be written for the node.
    fn is_told(&mut self, node: &str) {
        self.publishing.differ.remove(node);
        self.publishing.ended_here.remove(node);
        self.publishing.deleted.remove(node);
        self.publishing.pauses.remove(node);
    }

    /// What the member object of a node should say, if it says something else and this node may write it.
    fn copy_for(&self, node: &str) -> Option<View> {
        let me = node == self.rules.node;
        let deleted = self.publishing.deleted.get(node);
        let known = match self.sessions.get(node) {
            // The own session that another run of this agent has left says nothing until it is adopted or begun anew.
            Some(peer) if me => self.own.is_of(&peer.view.incarnation()).then_some(&peer.view)?,
            Some(peer) => &peer.view,
            None => deleted.map(|(ended, _)| ended)?,
        };
        let ended_now = deleted.is_some() || self.publishing.ended_here.contains(node);
        let mine = me || self.following.asked.contains(node) || ended_now || self.is_untold(node);
        let other = self.sessions.member(node).is_none_or(|member| !member.copy.says_as(known));
        // Nobody needs to hear that a session of which nobody was told has ended. But somebody may have deleted the member object just now.
        let matters = known.is_live() || ended_now || self.sessions.member(node).is_some();
        (known.published && mine && other && matters).then(|| known.clone())
    }

    fn consider_publishing(&mut self, node: &str, since: Time) {
        if self.publishing.flights.contains_key(node) {
            return;
        }
        let Some(copy) = self.copy_for(node) else { return self.is_told(node) };
        // While the API is away, one write is tried. The first answer to any call has the others considered.
        if node != self.rules.node && self.api.away.is_some() && !planted!(TellsOthersWithoutApi) {
            return;
        }
        let at_once = node == self.rules.node || self.publishing.ended_here.contains(node);
        let behind = self.sessions.member(node).is_some_and(|member| !copy.is_as_new_as(&member.copy));
        let followed_until_gone = self.publishing.deleted.get(node).is_some_and(|(_, followed)| *followed);
        let wait = match self.judge_place(node) {
            _ if at_once => Duration::ZERO,
            // This node only happens to know, as many others may.
            None if !followed_until_gone => STEP * 3 + spread(&self.rules.node),
            None => STEP * 3,
            Some(place) => STEP * (1 + place) + if behind { BEHIND } else { Duration::ZERO },
        };
        let next = self.publishing.pauses.get(node).map_or(since, |pause| pause.until);
        if !self.due((since + wait).max(next)) || !at_once && planted!(NobodyRepairs) {
            return;
        }
        // What a list has shown of Leases that are not followed here is told by one write at a time: many nodes know as much. Who followed
        // a Lease that is gone tells that all the same.
        let others = !at_once && !self.sessions.is_followed(node) && !followed_until_gone;
        let failed_until = self.publishing.failed_until;
        let waits = others && (!self.due(failed_until) || !self.publishing.flights.is_empty());
        if waits && !planted!(TellsAllAtOnce) {
            return;
        }
        let by_list = others && self.sessions.get(node).is_some();
        // What is known may be old, by however much: a node would undo what others were told, or tell of a Lease that is gone.
        let shown = self.sessions.member_since(node).map_or(since, |shown| shown.max(since));
        let set_back = self.publishing.set_back.is_some_and(|at| !self.sessions.is_listed_since(at));
        // While the API was away, a backup may have been restored.
        let known = self.sessions.get(node).map_or(since, |peer| peer.changed);
        let back = self.api.back.filter(|back| known <= *back && node != self.rules.node);
        let before_outage = back.is_some_and(|back| !self.sessions.is_listed_since(back));
        let set_back = (set_back || before_outage) && !planted!(TellsFromBefore);
        let unlisted = (behind || by_list) && !self.sessions.is_listed_since(shown) && !planted!(TellsUnlisted);
        if set_back || unlisted {
            if self.api.away.is_none() && self.due(self.calls.next_list) {
                self.list_sessions();
            }
            return;
        }
        let (id, now) = (self.step.new_id(), self.step.at.now);
        let fails_at = now + WITHIN + MARGIN;
        let base = self.sessions.member(node).map(|member| member.version.clone());
        let flight = Flight { id, copy: copy.version.clone(), base: base.clone(), sent: now, fails_at };
        self.publishing.flights.insert(node.to_owned(), flight);
        self.due(fails_at);
        self.step.out.push(Output::Call(Call::Publish { id, base, copy, within: WITHIN }));
    }
}
