//! Whether the incarnation that a record names has ended, and when it had.

use super::Membership;
use crate::planted::planted;
use crate::session::{Holder, View, number};
use crate::time::Time;

impl Membership {
    /// Whether the incarnation by which a record names its holder has ended. None: not known. `seen`: when the record was
    /// first seen so. The record may be newer than all that is known of sessions: only a list that was asked for since then
    /// can say that a Lease that was never seen does not exist.
    #[must_use]
    pub fn has_ended(&self, holder: &Holder, seen: Time) -> Option<bool> {
        if !self.is_complete() {
            return None;
        }
        let peer = self.peers.get(&holder.node);
        // What a member object has told since the list may be old, and so may the first list of a watch be, which was made before. They
        // prove ends, and not that there is no such incarnation.
        let old = peer.is_some_and(|peer| peer.copied || peer.is_behind_list()) && !planted!(BelievesOldCopies);
        let listed = !old && self.listed.is_some_and(|sent| sent >= seen);
        let Some(known) = peer.map(|peer| &peer.view).filter(|v| v.uid == holder.session.uid) else {
            let gone = self.is_gone(&holder.node, &holder.session.uid);
            return (gone || listed).then_some(true);
        };
        if known.record.transitions < holder.session.transitions {
            // The incarnation began since, and the watch of sessions is behind that of records; or the Lease was set back.
            return listed.then_some(true);
        }
        Some(!(known.is_live() && known.is_of(&holder.session)))
    }

    /// The version by which that incarnation had ended, if that is known. The end may have come sooner.
    #[must_use]
    pub fn ended_by(&self, holder: &Holder) -> Option<u64> {
        let view = self.peers.get(&holder.node).map(|peer| &peer.view);
        if view.is_some_and(|view| view.is_live() && view.is_of(&holder.session)) {
            return None;
        }
        if let Some(seen) = self.ends.get(&holder.node).and_then(|ends| ends.of(&holder.session)) {
            return Some(seen);
        }
        // Incarnations that this node has not seen may have come and gone: when the last one began, this one had ended.
        let later = |v: &&View| v.uid == holder.session.uid && v.record.transitions > holder.session.transitions;
        view.filter(later).and_then(View::declared).and_then(|d| d.after.as_deref()).and_then(number)
    }
}
