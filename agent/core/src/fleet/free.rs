//! A VIP that is not carried here: whether this node takes it, and how.

use std::time::Duration;

use super::Fleet;
use super::Report;
use super::asking::Found;
use super::claim::Claim;
use super::vip::{Basis, Vip};
use crate::action::Cause;
use crate::mac::Mac;
use crate::placement::mix;
use crate::planted::planted;
use crate::rules::{AWAY, SUCCESSOR_FIRST};
use crate::session::{EndCause, Holder};

/// How long the first in order has for a VIP that nobody holds, before the next one's turn.
const TURN: Duration = Duration::from_secs(2);
/// A node that carries a VIP without the record has so many turns to write that: it may only just have an API again.
const PEER_TURNS: u32 = 3;
/// The record of a VIP that is not wanted any more is cleared after this.
const CLEAR_AFTER: Duration = Duration::from_secs(1);
/// A foreign owner is told of, and looked for, this often.
const FOREIGN_AGAIN: Duration = Duration::from_secs(10);

impl Fleet {
    pub(super) fn consider_free(&mut self, vip: &mut Vip, claim: &Claim) {
        self.give_up_write(vip);
        if vip.demand.is_none() || self.own.left {
            vip.look = None;
            self.clear_record(vip, claim);
            return;
        }
        if !self.can_carry(vip) {
            vip.look = None;
            // While the API is away nothing is offered: it would be written again and again.
            let off = vip.hold_off;
            if *claim == Claim::Mine && self.own.is_live() && self.away.is_none() && self.due(off) {
                self.offer(vip);
            }
            return;
        }
        if self.unsure.is_some() || self.own.shutting_down {
            return;
        }
        match claim {
            Claim::Unknown | Claim::Absent => vip.look = None,
            Claim::Mine if self.own.is_live() && (self.away.is_none() || vip.yielded.is_none()) => self.take_back(vip),
            Claim::Free { .. } | Claim::Others { consents: true, .. } if self.is_sound() => {
                self.consider_taking(vip, claim);
            }
            _ if self.away_since().is_some() => self.consider_provisional(vip, claim),
            // A session that is renewed this moment takes up where it was.
            _ => vip.free_since = None,
        }
    }

    /// The VIP is not wanted any more, and its record still names this node: nobody else may put that right while the session
    /// lives, and some may want it. What is deleted, or wanted again, within a moment is left alone.
    fn clear_record(&mut self, vip: &mut Vip, claim: &Claim) {
        if vip.demand.is_some() || !self.synced || *claim != Claim::Mine {
            vip.unwanted = None;
            return;
        }
        let since = *vip.unwanted.get_or_insert(self.at.now);
        let off = vip.hold_off;
        if !self.due(since + CLEAR_AFTER) || !self.due(off) || vip.flight.is_some() {
            return;
        }
        if self.is_sound() {
            self.write_holder(vip, None);
        } else {
            vip.hold_off = self.at.now + self.rules.retry_period;
            self.due(vip.hold_off);
        }
    }

    /// Whether this node's interface for it is up and has not refused it, and conditions of the VIP's own allow it here.
    fn can_carry(&mut self, vip: &Vip) -> bool {
        let admitted = vip.demand.as_ref().is_some_and(|d| d.admits(&self.rules.node));
        let up = self.link_for(vip).is_some_and(|i| i.link.up);
        // A refusal is over some day; the VIP is looked at again then.
        let refused = !self.due(vip.refused_until);
        admitted && up && !refused
    }

    /// The record names this node: it carries the VIP, whatever it had in mind.
    fn take_back(&mut self, vip: &mut Vip) {
        if vip.yielded.is_some_and(|at| vip.proven <= at) {
            if self.due(vip.hold_off) {
                self.want_read(vip.address);
                vip.hold_off = self.at.now + TURN;
            }
            return;
        }
        vip.yielded = None;
        self.take_up(vip, Basis::Recorded, Cause::Adopted);
    }

    fn consider_taking(&mut self, vip: &mut Vip, claim: &Claim) {
        let now = self.at.now;
        vip.free_since = None;
        let off = vip.hold_off;
        if vip.flight.is_some() || !self.due(off) {
            return;
        }
        let (consents, to) = match claim {
            Claim::Others { consents, to } => (*consents, to.as_deref()),
            _ => (false, None),
        };
        // Those who leave take nothing from one another.
        let named = to == Some(self.rules.node.as_str());
        if consents && self.own.drained && !named {
            return;
        }
        let Some(position) = self.place(vip).and_then(|place| place.position) else {
            vip.look = None;
            vip.open_since = None;
            return;
        };
        let position = match to {
            Some(_) if named => 0,
            Some(_) => position + 1,
            None => position,
        };
        let since = *vip.open_since.get_or_insert(now);
        let turn = if consents { SUCCESSOR_FIRST } else { TURN };
        let position32 = u32::try_from(position).unwrap_or(u32::MAX);
        if !planted!(PlacesFromMemory) && !self.due(since + turn.saturating_mul(position32)) {
            return;
        }
        if !consents && !self.may_move(vip) {
            return;
        }
        let held = matches!(claim, Claim::Free { was_held: true }) && !vip.forsaken;
        let Some(record) = self.own_holder() else { return };
        if !consents && (!held || position > 0 || now < self.looks_until) && self.rules.conflict_probe {
            match self.look(vip, false) {
                Found::Nothing => return,
                // It carries it without the record, which it is about to write. If it does not, the record decides.
                Found::Peer if now < since + TURN.saturating_mul(position32.saturating_add(PEER_TURNS)) => {
                    vip.hold_off = now + TURN / 2;
                    self.due(vip.hold_off);
                    return;
                }
                // Nobody has it, or that one had its time.
                Found::Quiet | Found::Peer => {}
                Found::Stranger(mac) => return self.foreign_owner(vip, mac),
            }
        } else if held && position == 0 && self.beside() < self.calls.pace.beside() {
            if self.write_holder(vip, record) || self.calls.waiting.contains(&vip.address) {
                self.take_up(vip, Basis::Beside(now), Self::cause(claim));
                self.returns(vip);
            }
            return;
        }
        self.write_holder(vip, record);
    }

    /// A VIP that has moved often is taken from an abandoned session only when that would have expired.
    fn may_move(&mut self, vip: &mut Vip) -> bool {
        if vip.moves.may_move(self.at.now) {
            return true;
        }
        let holder = vip.holder().and_then(|h| self.sessions.get(&h.node));
        let ended = holder.and_then(|p| p.abandoned_at);
        ended.is_none_or(|at| self.due(at + self.rules.lease_duration))
    }

    /// Why a VIP may be taken.
    pub(super) fn cause(claim: &Claim) -> Cause {
        match claim {
            Claim::Others { .. } => Cause::Handover,
            Claim::Free { was_held: true } => Cause::Expiry,
            _ => Cause::Free,
        }
    }

    /// The last holder did not let it go by itself: it may come back with it, for as long as its session would have lasted.
    pub(super) fn returns(&mut self, vip: &mut Vip) {
        let planned = vip.holder().and_then(|h| self.sessions.get(&h.node)).and_then(|p| p.view.end.as_ref());
        if planned.is_some_and(|end| end.cause == EndCause::Planned) {
            return;
        }
        if let Some(hold) = &mut vip.hold {
            hold.returns_until = Some(self.at.now + self.rules.lease_duration);
        }
    }

    fn foreign_owner(&mut self, vip: &mut Vip, mac: Mac) {
        let now = self.at.now;
        vip.hold_off = now + Duration::from_secs(1);
        self.due(vip.hold_off);
        // Heard once, it may be a node that has only just begun its session.
        let first = vip.foreign_told.is_none_or(|(who, _)| who != mac);
        let told = vip.foreign_told.is_some_and(|(_, at)| now.since(at) < FOREIGN_AGAIN);
        if first {
            vip.foreign_told = Some((mac, now - FOREIGN_AGAIN));
        } else if !told {
            vip.foreign_told = Some((mac, now));
            self.report(Report::ForeignOwner { address: vip.address, mac });
        }
    }

    /// The API cannot be asked, and the VIP is free.
    fn consider_provisional(&mut self, vip: &mut Vip, claim: &Claim) {
        let now = self.at.now;
        let away = self.away_since();
        let held = vip.holder().map(|h| h.node.clone());
        let free = match claim {
            Claim::Free { was_held } => *was_held,
            Claim::Mine => true,
            Claim::Others { .. } => held.is_some_and(|node| self.is_silent_free(&node)),
            _ => false,
        };
        let (Some(away), true, true) = (away, self.rules.provisional, free) else {
            vip.free_since = None;
            vip.look = None;
            return;
        };
        let off = vip.hold_off;
        if !self.due(away + AWAY) || !self.due(off) {
            return;
        }
        let since = *vip.free_since.get_or_insert(now);
        if !self.due(since + self.turn(vip)) {
            return;
        }
        match self.look(vip, true) {
            Found::Nothing => {}
            Found::Quiet => {
                vip.turns += 1;
                self.take_up(vip, Basis::Provisional, Cause::Provisional);
            }
            Found::Peer | Found::Stranger(_) => {
                vip.free_since = None;
                vip.hold_off = now + TURN / 2;
                self.due(vip.hold_off);
            }
        }
    }

    /// This node's turn for a VIP: a fixed hash of both, another one at each try.
    fn turn(&self, vip: &Vip) -> Duration {
        let own =
            self.sessions.get(&self.rules.node).map_or_else(|| crate::placement::seed(&self.rules.node), |p| p.seed);
        let hash = mix(vip.seed ^ u64::from(vip.turns), own);
        self.rules.provisional_spread * u32::try_from(hash >> 54).unwrap_or(0) / 1024
    }

    /// Names in the record who is to have what cannot be carried here; nothing if there is nobody.
    pub(super) fn offer(&mut self, vip: &mut Vip) {
        let other = self.place(vip).and_then(|place| place.other.map(str::to_owned));
        let named = vip.holder().and_then(|h| h.to.clone());
        let (Some(other), Some(record)) = (other, self.own_holder()) else { return };
        if vip.flight.is_some() || named.as_ref() == Some(&other) {
            return;
        }
        let to = other.clone();
        if self.write_holder(vip, Holder { to: Some(other), ..record }) {
            self.report(Report::HandingOver { address: vip.address, to });
        }
    }
}
