//! What member objects say, and what of that is believed.

use super::{Membership, Shown, Source};
use crate::planted::planted;
use crate::session::{Member, View};
use crate::time::Time;

impl Membership {
    /// A member object was shown, by its watch or by the answer to a write. That proves nothing about the watches of Leases, which
    /// may be behind it.
    pub fn see_member(&mut self, now: Time, member: Member) -> Shown {
        let newer = self.published.see(now, &member);
        if newer && member.is_read() { self.repeat(now, member.copy) } else { Shown::Nothing }
    }

    /// Whether one of these, as listed now, is older than what is known: a backup of the store was restored.
    #[must_use]
    pub fn is_set_back(&self, members: &[Member]) -> bool {
        self.published.is_any_older(members)
    }

    /// Whether a member object that is known is not among these: somebody has deleted it, or the store was set back to before it was
    /// made.
    #[must_use]
    pub fn is_any_member_missing(&self, members: &[Member]) -> bool {
        self.published.is_any_missing(members)
    }

    /// All member objects. Answers with the nodes whose sessions have changed, and with those whose member object is another one.
    pub fn see_members(&mut self, now: Time, members: Vec<Member>) -> (Vec<String>, Vec<String>) {
        let other = self.published.see_all(now, &members);
        let changed = |member: Member| {
            let node = member.copy.node.clone();
            (self.repeat(now, member.copy) == Shown::Changed).then_some(node)
        };
        (members.into_iter().filter(Member::is_read).filter_map(changed).collect(), other)
    }

    /// Who follows a Lease believes the Lease alone. Others believe whichever names the later version of the Lease: somebody may have
    /// set a member object back. After a backup was restored, the earlier version is the true one: a list tells.
    pub(super) fn repeat(&mut self, now: Time, copy: View) -> Shown {
        let node = copy.node.clone();
        let known = self.peers.get(&node);
        let repeated = known.is_some_and(|peer| peer.view.version == copy.version);
        if self.followed.contains_key(&node) || repeated || self.is_older(&copy) && !planted!(BelievesOldCopies) {
            return Shown::Nothing;
        }
        let shown = self.put(now, copy, Source::Copy);
        if let Some(peer) = self.peers.get_mut(&node) {
            peer.ahead = true;
        }
        shown
    }

    /// Whether a node's member object says something else than what is known, and names an earlier version of the Lease, or one of
    /// which it is known that it is gone. It was set back, or the store was.
    #[must_use]
    pub fn is_copy_older(&self, node: &str) -> bool {
        if self.get(node).is_none() {
            return self.copy(node).is_some_and(View::is_live);
        }
        let known = self.peers.get(node).map(|peer| &peer.view);
        let other = |(view, copy): &(&View, &View)| !copy.is_as_new_as(view) && !copy.says_as(view);
        known.zip(self.copy(node)).is_some_and(|pair| other(&pair))
    }

    /// What the member objects say of sessions that live.
    pub fn live_copies(&self) -> impl Iterator<Item = &View> {
        self.published.all().filter(|member| member.is_read()).map(|member| &member.copy).filter(|copy| copy.is_live())
    }

    /// What a node's member object says, if that can be read.
    #[must_use]
    pub fn copy(&self, node: &str) -> Option<&View> {
        self.member(node).filter(|member| member.is_read()).map(|member| &member.copy)
    }

    /// A member object is gone. That says nothing about the session: its Lease decides.
    pub fn member_gone(&mut self, node: &str) {
        self.published.gone(node);
        if !self.peers.contains_key(node) {
            self.ends.remove(node);
        }
    }

    /// A node's member object.
    #[must_use]
    pub fn member(&self, node: &str) -> Option<&Member> {
        self.published.get(node)
    }

    /// When a node's member object was first shown as it is.
    #[must_use]
    pub fn member_since(&self, node: &str) -> Option<Time> {
        self.published.since(node)
    }
}
