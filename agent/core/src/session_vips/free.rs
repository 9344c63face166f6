//! A VIP that is not carried here: whether this node takes the VIP, and how.

use std::time::Duration;

use super::Report;
use super::SessionVips;
use super::asking::Found;
use super::hold::Basis;
use super::record_state::RecordState;
use super::vip::Vip;
use crate::action::Cause;
use crate::mac::Mac;
use crate::placement::seed;
use crate::planted::planted;
use crate::rules::SUCCESSOR_FIRST;
use crate::session::{EndCause, Holder};

/// How long the first in order has for a VIP that nobody holds, before the next one's turn.
pub(super) const TURN: Duration = Duration::from_secs(2);
/// A node whose session has ended, and which carries a VIP without the record, has so many turns to write the record: its API may only just
/// be back.
const PEER_TURNS: u32 = 3;
/// The record of a VIP that is not wanted any more is cleared after this.
const CLEAR_AFTER: Duration = Duration::from_secs(1);
/// A foreign owner is reported, and looked for, this often.
const FOREIGN_AGAIN: Duration = Duration::from_secs(10);
/// Once its fence has ended, a VIP that the interface refused and did not remove is offered to others for so long.
const OFFERED_FIRST: Duration = Duration::from_secs(1);

impl SessionVips {
    pub(super) fn consider_free(&mut self, vip: &mut Vip, state: &RecordState) {
        self.give_up_write(vip);
        if vip.demand.is_none() || self.own.has_left() {
            vip.taking.look = None;
            self.clear_record(vip, state);
            return;
        }
        if let Some(owner) = self.owner(vip) {
            return self.is_owned(vip, state, owner);
        }
        vip.taking.owned_since = None;
        if !self.can_carry(vip, state) {
            vip.taking.look = None;
            // While the API is away nothing is offered: it would be written again and again.
            let off = vip.hold_off;
            let may_offer = *state == RecordState::Mine && self.own.is_live() && self.api.away.is_none();
            if may_offer && self.is_removed(vip) && self.due(off) {
                self.offer(vip);
            }
            return;
        }
        if !self.doubt.is_sure() || self.own.is_ending() {
            return;
        }
        match state {
            RecordState::Unknown | RecordState::Absent => vip.taking.look = None,
            RecordState::Mine if self.own.is_live() && (self.api.away.is_none() || vip.yielded.is_none()) => {
                self.take_back(vip);
            }
            RecordState::Free { .. } | RecordState::Others { consents: true, .. }
                if self.is_sound() && self.is_renewed_since_up(vip) =>
            {
                self.consider_taking(vip, state);
            }
            _ if self.away_since().is_some() => self.consider_provisional(vip, state),
            // While the session is being renewed, what was under way stays.
            _ => vip.taking.free_since = None,
        }
    }

    /// The VIP is not wanted any more, and its record still names this node. No other node may replace the record while the
    /// session lives, so this node clears it. A VIP that is deleted, or wanted again, within a moment is left alone.
    fn clear_record(&mut self, vip: &mut Vip, state: &RecordState) {
        if vip.demand.is_some() || !self.synced || *state != RecordState::Mine {
            vip.unwanted = None;
            return;
        }
        let since = *vip.unwanted.get_or_insert(self.step.at.now);
        let off = vip.hold_off;
        if !self.due(since + CLEAR_AFTER) || !self.is_removed(vip) || !self.due(off) || vip.flight.is_some() {
            return;
        }
        if self.is_sound() {
            self.write_holder(vip, None);
        } else {
            vip.hold_off = self.step.at.now + self.rules.retry_period;
            self.due(vip.hold_off);
        }
    }

    /// Whether this node's interface for it is up and has not refused it, and conditions of the VIP's own allow it here.
    fn can_carry(&mut self, vip: &Vip, state: &RecordState) -> bool {
        let admitted = vip.demand.as_ref().is_some_and(|d| d.admits(&self.rules.node, &self.node.labels));
        let up = self.link_for(vip).is_some_and(|i| i.link.up);
        // A refusal ends at a known moment: the VIP is looked at again then.
        let offered = matches!(state, RecordState::Others { consents: true, .. });
        let refused = !self.due(if offered { vip.refusal.offered_until } else { vip.refusal.until });
        // What the interface has refused, and does not remove either, is offered before it is tried again: with each try the wait
        // for the removal would begin anew.
        let kept = vip.removing.filter(|removing| removing.refused);
        let kept = kept.is_some_and(|removing| !self.due(removing.ends + OFFERED_FIRST));
        admitted && up && !refused && !kept
    }

    /// The record names this node: the VIP is carried.
    fn take_back(&mut self, vip: &mut Vip) {
        if vip.yielded.is_some_and(|at| vip.record.proven <= at) {
            if self.due(vip.hold_off) {
                self.want_read(vip.address);
                vip.hold_off = self.step.at.now + TURN;
            }
            return;
        }
        if !self.is_still_here(vip) {
            return;
        }
        vip.yielded = None;
        self.take_up(vip, Basis::Recorded, Cause::Adopted);
    }

    fn consider_taking(&mut self, vip: &mut Vip, state: &RecordState) {
        let now = self.step.at.now;
        vip.taking.free_since = None;
        let off = vip.hold_off;
        if vip.flight.is_some() || !self.due(off) {
            return;
        }
        let (consents, to) = match state {
            RecordState::Others { consents, to } => (*consents, to.as_deref()),
            _ => (false, None),
        };
        // Nodes that leave take nothing from one another.
        let named = to == Some(self.rules.node.as_str());
        if consents && self.own.drained && !named {
            return;
        }
        let Some(position) = self.place(vip).and_then(|place| place.position) else {
            vip.taking.look = None;
            vip.taking.open_since = None;
            return;
        };
        let position = match to {
            Some(_) if named => 0,
            Some(_) => position + 1,
            None => position,
        };
        let since = *vip.taking.open_since.get_or_insert(now);
        let turn = if consents { SUCCESSOR_FIRST } else { TURN };
        let position32 = u32::try_from(position).unwrap_or(u32::MAX);
        if !planted!(PlacesFromMemory) && !self.due(since + turn.saturating_mul(position32)) {
            return;
        }
        if !consents && !self.may_move(vip) || self.leaves_to_others(vip, since, turn.saturating_mul(position32)) {
            return;
        }
        if consents && self.leaves_offer(vip) {
            return;
        }
        let held = matches!(state, RecordState::Free { was_held: true }) && !vip.ended_unwanted;
        let Some(record) = self.own_holder() else { return };
        vip.taking.giver = vip.holder().filter(|_| consents).map(|holder| seed(&holder.node));
        if !consents && (!held || position > 0 || now < self.api.looks_until) && self.rules.conflict_probe {
            match self.look(vip, false) {
                Found::Nothing => return,
                // The peer carries the VIP, and is about to write the record. If it does not write it, the record decides.
                Found::Peer if now < since + self.time_for_peer(vip) + TURN.saturating_mul(position32) => {
                    vip.hold_off = now + TURN / 2;
                    self.due(vip.hold_off);
                    return;
                }
                // No host has it, or the peer had its time.
                Found::Quiet | Found::Peer => {}
                Found::Stranger(mac) => return self.foreign_owner(vip, mac),
            }
        } else if held && position == 0 && self.beside() < self.calls.pace.beside() {
            if self.write_holder(vip, record) || self.calls.waiting.contains(&vip.address) {
                self.takes(vip);
                self.take_up(vip, Basis::Beside(now), Self::cause(state));
                self.returns(vip);
            }
            return;
        }
        self.takes(vip);
        self.write_holder(vip, record);
    }

    /// How long a node that answers for the VIP may go on without the record. Whoever carries it by a session that lives may hang, and not see
    /// that its record was deleted. Its kernel removes the VIP when its fence ends, before that session does.
    fn time_for_peer(&self, vip: &Vip) -> Duration {
        let node = vip.answered.and_then(|(_, mac, _)| self.carrier_with(mac, vip));
        let peer = node.and_then(|node| self.sessions.get(node)).filter(|peer| peer.ended.is_none());
        // That node's settings say how long its fence may be.
        let fence = peer.map(|peer| peer.lasts(&self.rules).max(self.rules.lease_duration));
        let fence = fence.filter(|_| !planted!(TakesFromTheHanging)).unwrap_or_default();
        fence.max(TURN * PEER_TURNS)
    }

    /// A VIP that has moved often is taken from an abandoned session only when that session would have expired.
    fn may_move(&mut self, vip: &mut Vip) -> bool {
        if vip.moves.may_move(self.step.at.now) {
            return true;
        }
        let holder = vip.holder().and_then(|h| self.sessions.get(&h.node));
        let ended = holder.and_then(|p| p.abandoned_at);
        ended.is_none_or(|at| self.due(at + self.rules.lease_duration))
    }

    /// Why a VIP may be taken.
    pub(super) fn cause(state: &RecordState) -> Cause {
        match state {
            RecordState::Others { .. } => Cause::Handover,
            RecordState::Free { was_held: true } => Cause::Expiry,
            _ => Cause::Free,
        }
    }

    /// The last holder may come back with the VIP for as long as its session would have lasted, unless it ended the session
    /// itself.
    pub(super) fn returns(&mut self, vip: &mut Vip) {
        let planned = vip.holder().and_then(|h| self.sessions.get(&h.node)).and_then(|p| p.view.end.as_ref());
        if planned.is_some_and(|end| end.cause == EndCause::Planned) {
            return;
        }
        if let Some(hold) = &mut vip.hold {
            hold.returns_until = Some(self.step.at.now + self.rules.lease_duration);
        }
    }

    fn foreign_owner(&mut self, vip: &mut Vip, mac: Mac) {
        let now = self.step.at.now;
        vip.hold_off = now + Duration::from_secs(1);
        self.due(vip.hold_off);
        // A host that was heard once may be a node that has only just begun its session.
        let first = vip.taking.foreign_reported.is_none_or(|(who, _)| who != mac);
        let told = vip.taking.foreign_reported.is_some_and(|(_, at)| now.since(at) < FOREIGN_AGAIN);
        if first {
            vip.taking.foreign_reported = Some((mac, now - FOREIGN_AGAIN));
        } else if !told {
            vip.taking.foreign_reported = Some((mac, now));
            let address = vip.address;
            // A node whose agent is gone may live, and have the address for itself.
            let node = self.sessions.with_mac(mac).map(str::to_owned);
            self.report(match node {
                Some(node) => Report::Owned { address, node, control_plane: false },
                None => Report::ForeignOwner { address, mac },
            });
        }
    }

    /// The VIP cannot stay here: the record names the node that is to have it. If there is none, the VIP is
    /// looked at again when a session changes.
    pub(super) fn offer(&mut self, vip: &mut Vip) {
        let other = self.place(vip).and_then(|place| place.other.map(str::to_owned));
        let named = vip.holder().and_then(|h| h.to.clone());
        if other.is_none() && !planted!(ForgetsStranded) {
            self.index.stranded.insert(vip.address);
        }
        let (Some(other), Some(record)) = (other, self.own_holder()) else { return };
        if vip.flight.is_some() || named.as_ref() == Some(&other) {
            return;
        }
        let to = other.clone();
        let written = self.write_holder(vip, Holder { to: Some(other), ..record });
        if written && !vip.refusal.is_repeated(self.step.at.now) {
            self.report(Report::HandingOver { address: vip.address, to });
        }
    }
}
