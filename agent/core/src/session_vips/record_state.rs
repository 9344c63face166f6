//! What the record on the `IPAddress` and the sessions say about a VIP. Nothing else decides which node holds it.

use super::SessionVips;
use super::record::Object;
use super::vip::Vip;
use crate::placement::{Candidate, Place, place};
use crate::planted::planted;

/// Which node has the VIP by its record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum RecordState {
    /// Not everything was read yet.
    Unknown,
    /// There is no `IPAddress`.
    Absent,
    /// It names this node's incarnation.
    Mine,
    /// It names no session that lives.
    Free {
        /// It names an incarnation that has ended.
        was_held: bool,
    },
    /// It names another node's incarnation, which has not ended.
    Others {
        /// That node lets others take the VIP.
        consents: bool,
        /// The node that it names as its successor.
        to: Option<String>,
    },
}

impl RecordState {
    /// Whether a node that is not the holder may take the VIP.
    pub(super) fn is_open(&self) -> bool {
        matches!(self, Self::Free { .. } | Self::Others { consents: true, .. })
    }
}

impl SessionVips {
    pub(super) fn record_state(&self, vip: &Vip) -> RecordState {
        if !self.sessions.is_complete() {
            return RecordState::Unknown;
        }
        let view = match &vip.record.object {
            Object::Unknown => return RecordState::Unknown,
            Object::Absent => return RecordState::Absent,
            Object::There(view) => view,
        };
        let Some(holder) = &view.holder else { return RecordState::Free { was_held: false } };
        let me = holder.node == self.rules.node;
        if me && self.own.is_of(&holder.session) {
            return RecordState::Mine;
        }
        // An incarnation that is newer than what is known of sessions has not ended as far as anybody here can say.
        let ended = self.sessions.has_ended(holder, vip.record.changed) == Some(true);
        let looks_dead = || planted!(EndsByLooking) && self.looks_expired(&holder.node);
        if ended || looks_dead() {
            return RecordState::Free { was_held: true };
        }
        if me {
            // It names the session of an earlier run of this agent, which is about to be adopted.
            return RecordState::Unknown;
        }
        let peer = self.sessions.get(&holder.node).filter(|peer| peer.view.is_of(&holder.session));
        let gives = peer.is_some_and(|peer| peer.view.is_leaving() || self.may_take_offer(vip, holder, peer));
        RecordState::Others { consents: gives || holder.to.is_some(), to: holder.to.clone() }
    }

    /// Whether a session has not been renewed for its whole duration. Nothing follows from that: its end must be written.
    fn looks_expired(&self, node: &str) -> bool {
        self.sessions.expires(node, &self.rules).is_some_and(|at| self.step.at.now >= at)
    }

    /// This node's place among the candidates for a VIP.
    pub(super) fn place(&self, vip: &Vip) -> Option<Place<'_>> {
        let demand = vip.demand.as_ref()?;
        let late = self.latecomers(vip);
        Some(place(demand, vip.seed, &self.rules.node, self.candidates(late)))
    }

    /// This node's place if the VIP had never had a holder.
    pub(super) fn place_anew(&self, vip: &Vip) -> Option<Place<'_>> {
        let demand = vip.demand.as_ref()?;
        Some(place(demand, vip.seed, &self.rules.node, self.candidates(None)))
    }

    /// The version at which the last holder's session had ended. Nodes with a session that began later come last.
    pub(super) fn latecomers(&self, vip: &Vip) -> Option<u64> {
        if planted!(LatecomersRank) {
            return None;
        }
        vip.holder().and_then(|holder| self.sessions.ended_by(holder))
    }

    pub(super) fn candidates(&self, ended: Option<u64>) -> impl Iterator<Item = Candidate<'_>> + Clone {
        // The candidates are gone through twice.
        let all: Vec<_> = self
            .sessions
            .live()
            .map(|(node, peer)| Candidate {
                node,
                seed: peer.seed,
                links: peer.view.links(),
                standing: self.standing_of(node, peer),
                labels: self.labels_of(node, peer),
                leaving: peer.view.is_leaving(),
                late: ended.is_some_and(|ended| peer.began.is_none_or(|began| began > ended)),
            })
            .collect();
        all.into_iter()
    }
}
