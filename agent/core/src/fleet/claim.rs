//! What the record on the `IPAddress` and the sessions say of a VIP. Nothing else decides whose it is.

use super::Fleet;
use super::vip::Vip;
use crate::placement::{Candidate, Place, place};
use crate::planted::planted;

/// See the module's text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Claim {
    /// Not everything was read yet.
    Unknown,
    /// There is no `IPAddress`.
    Absent,
    /// It names this node's incarnation.
    Mine,
    /// Nobody has it.
    Free {
        /// The record names somebody whose incarnation has ended.
        was_held: bool,
    },
    /// Another's incarnation, which has not ended.
    Others {
        /// That one lets others take it.
        consents: bool,
        /// And names this node as the first.
        to: Option<String>,
    },
}

impl Claim {
    /// Whether another node may take it.
    pub(super) fn is_open(&self) -> bool {
        matches!(self, Self::Free { .. } | Self::Others { consents: true, .. })
    }
}

impl Fleet {
    pub(super) fn claim(&self, vip: &Vip) -> Claim {
        if !vip.known || !self.sessions.is_complete() {
            return Claim::Unknown;
        }
        let Some(view) = &vip.view else { return Claim::Absent };
        let Some(holder) = &view.holder else { return Claim::Free { was_held: false } };
        let me = holder.node == self.rules.node;
        if me && self.own.is_of(&holder.session) {
            return Claim::Mine;
        }
        // An incarnation that is newer than what is known of sessions has not ended as far as anybody here can say.
        let ended = self.sessions.has_ended(holder, vip.changed) == Some(true);
        let looks_dead = || planted!(EndsByLooking) && self.looks_expired(&holder.node);
        if ended || looks_dead() {
            return Claim::Free { was_held: true };
        }
        if me {
            // An earlier life's of this agent, which is about to adopt its session.
            return Claim::Unknown;
        }
        let peer = self.sessions.get(&holder.node).filter(|peer| peer.view.is_of(&holder.session));
        let leaving = peer.is_some_and(|peer| peer.view.is_leaving());
        Claim::Others { consents: leaving || holder.to.is_some(), to: holder.to.clone() }
    }

    /// Whether a session has not been renewed for its whole duration. Not enough for anything: it must be written.
    fn looks_expired(&self, node: &str) -> bool {
        self.sessions.expires(node, &self.rules).is_some_and(|at| self.at.now >= at)
    }

    /// This node's place among the candidates for a VIP.
    pub(super) fn place(&self, vip: &Vip) -> Option<Place<'_>> {
        let demand = vip.demand.as_ref()?;
        let late = self.latecomers(vip);
        Some(place(demand, vip.seed, &self.rules.node, self.candidates(late)))
    }

    /// The same as if nobody had ever held it.
    pub(super) fn place_anew(&self, vip: &Vip) -> Option<Place<'_>> {
        let demand = vip.demand.as_ref()?;
        Some(place(demand, vip.seed, &self.rules.node, self.candidates(None)))
    }

    /// The version at which the last holder had ended: whose session began later comes last.
    pub(super) fn latecomers(&self, vip: &Vip) -> Option<u64> {
        if planted!(LatecomersRank) {
            return None;
        }
        vip.holder().and_then(|holder| self.sessions.ended_by(holder))
    }

    pub(super) fn candidates(&self, ended: Option<u64>) -> impl Iterator<Item = Candidate<'_>> + Clone {
        // Gone through twice.
        let all: Vec<_> = self
            .sessions
            .live()
            .map(|(node, peer)| Candidate {
                node,
                seed: peer.seed,
                links: peer.view.links(),
                standing: peer.standing,
                leaving: peer.view.is_leaving(),
                late: ended.is_some_and(|ended| peer.began.is_none_or(|began| began > ended)),
            })
            .collect();
        all.into_iter()
    }
}
