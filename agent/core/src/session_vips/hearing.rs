//! Whether this node hears enough of the others to carry VIPs while the API is silent: [`crate::peers`] has the rule. For VIPs of
//! Services one other node is enough, so nobody needs to know which one: all others count as one peer.

use super::SessionVips;
use super::hold::{Basis, Hold};
use crate::core::Probe;
use crate::peers::{HEARD, Quorum};
use crate::planted::planted;
use crate::schedule::BURST;
use crate::time::Time;

/// All other nodes, as one peer.
pub(super) const OTHERS: &str = "others";

impl SessionVips {
    /// Whether this node may go on without the API, as far as the other nodes tell.
    pub(super) fn hears_enough(&self) -> bool {
        self.heard_enough_since(self.step.at.now - HEARD)
    }

    /// The same by those that were heard since then.
    pub(super) fn heard_enough_since(&self, since: Time) -> bool {
        if self.rules.quorum == Quorum::Nobody {
            return true;
        }
        let heard = self.segment.peers.count(since, self.away_since());
        heard.is_none_or(|(heard, known)| Quorum::Any.is_reached(heard, known))
    }

    /// Another node was heard, by whatever frame. The first one after a silence may let this node go on.
    pub(super) fn peer_heard(&mut self) {
        let enough = self.hears_enough();
        self.segment.peers.heard(self.step.at.now, OTHERS);
        if !enough && self.hears_enough() {
            self.all_dirty();
            self.step.again = true;
        }
    }

    /// Asks some other nodes for their addresses when none was heard for a while: the watch over other nodes asks more often, but
    /// not every node watches another.
    pub(super) fn advance_peers(&mut self) {
        if self.own.has_left() {
            return;
        }
        let me = self.rules.node.as_str();
        let any = self.sessions.live().any(|(node, _)| node != me);
        self.segment.peers.set(any.then_some(OTHERS).into_iter());
        let silence = self.away_since();
        let silent = silence.is_some();
        self.segment.peers.note_silence(self.step.at.now, silence);
        if !self.segment.peers.to_ask(self.step.at.now, silent).is_empty() {
            let up = self.node.interfaces.iter().filter(|interface| interface.link.up).map(|interface| interface.index);
            for index in up.collect::<Vec<_>>() {
                for address in self.third_parties(index, None) {
                    self.batch.probes.push(Probe { interface: index, address, to: None });
                }
            }
        }
        if let Some(next) = self.segment.peers.next(silent) {
            self.due(next);
        }
    }

    /// Whether a carried VIP may be announced. A node answers for what it carries without the API, and does not call: only just
    /// after it has taken a VIP provisionally.
    pub(super) fn may_announce(&self, hold: &Hold) -> bool {
        match hold.basis {
            Basis::LeftOver => false,
            // After a late step that may be long ago, although the clock does not show it.
            Basis::Provisional => {
                self.step.at.now <= hold.since + BURST && self.doubt.late_at <= hold.since || planted!(LapsedAnnounces)
            }
            Basis::Recorded | Basis::Beside(_) => {
                self.own.is_live() && self.hears_enough() || planted!(LapsedAnnounces)
            }
        }
    }
}
