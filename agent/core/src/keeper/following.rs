//! A candidate: when it takes the Lease, and when it carries a VIP without one.

use std::time::Duration;

use super::writing::Purpose;
use super::{Asked, Keeper, Role};
use crate::action::{Action, Cause, Report};
use crate::lease::{Declaration, LeaseView};
use crate::mac::Mac;
use crate::planted::planted;
use crate::rules::{AWAY, SUCCESSOR_FIRST};
use crate::time::Time;

/// A peer's answer about its health is fresh for so long.
const ASKED_FRESH: Duration = Duration::from_secs(1);
/// A foreign owner is told of, and looked for, this often.
const FOREIGN_AGAIN: Duration = Duration::from_secs(10);

impl Keeper {
    pub(super) fn advance_following(&mut self) {
        if self.shutting_down {
            // A release that is still on its way is waited for.
            if self.flight.is_none() && !self.left {
                self.left = true;
                self.act(Action::Exit);
            }
            return;
        }
        self.consider_participating();
        self.consider_taking();
        self.consider_provisional();
    }

    fn consider_participating(&mut self) {
        let known = self.seen.is_fresh(self.at.now, &self.rules) && self.seen.view().is_some();
        if !known || self.flight.is_some() || self.node.participant.macs.is_empty() || self.is_participant() {
            return;
        }
        let first = self.at.now + self.rules.turn(0);
        let at = *self.participate_at.get_or_insert(first);
        if self.due(at) {
            self.participate_at = None;
            self.participate();
        }
    }

    fn consider_taking(&mut self) {
        let busy = self.flight.as_ref().is_some_and(|f| f.purpose != Purpose::Participate);
        if busy || !self.is_able() || self.health.is_none() || !self.due(self.hold_off) {
            return;
        }
        let Some(cause) = self.cause() else {
            self.searching = false;
            return;
        };
        // Somebody carries the VIP while the Lease cannot be had: a queued write would only move it once more.
        let answered = self.witness.answer(self.at.now).is_some();
        if self.away.is_some() && answered {
            return;
        }
        if matches!(cause, Cause::Free | Cause::Expiry)
            && self.rules.conflict_probe
            && !planted!(TakesWithoutLooking)
            && !self.is_clear()
        {
            return;
        }
        if !self.is_fit(cause) {
            return;
        }
        if cause == Cause::Witness {
            let declaration = self.seen.view().and_then(LeaseView::declaration).cloned();
            if let Some(declaration) = declaration.filter(|d| self.told_silent.as_ref() != Some(d)) {
                self.report(Report::Abandoned { holder: declaration.holder.clone() });
                self.told_silent = Some(declaration);
            }
        }
        self.searching = false;
        self.take(cause);
    }

    /// A node whose own service is not healthy takes only what no healthy one is there for.
    fn is_fit(&mut self, cause: Cause) -> bool {
        self.health == Some(true) || matches!(cause, Cause::Free | Cause::Expiry) && self.is_nobody_better()
    }

    /// Why this node may take the Lease now.
    fn cause(&mut self) -> Option<Cause> {
        let now = self.at.now;
        if self.health == Some(true) && self.may_take_early() {
            return Some(Cause::Witness);
        }
        if !self.seen.is_fresh(now, &self.rules) {
            return None;
        }
        let Some(view) = self.seen.view() else {
            return Some(Cause::Free);
        };
        if view.record.holder == self.rules.node {
            return Some(Cause::Adopted);
        }
        if view.record.holder.is_empty() {
            let Some(handover) = view.handover() else {
                return Some(Cause::Free);
            };
            if handover.to == self.rules.node || handover.to.is_empty() {
                return Some(Cause::Handover);
            }
            return self.due(self.seen.changed() + SUCCESSOR_FIRST).then_some(Cause::Handover);
        }
        if planted!(WallClocks) {
            let age = self.at.wall.0 - view.record.renewed.map_or(0, |renewed| renewed.0);
            let over = age > i64::try_from(view.record.duration.as_micros()).unwrap_or(i64::MAX);
            return over.then_some(Cause::Expiry);
        }
        let expires = self.seen.expires(&self.rules)?;
        self.due(expires).then_some(Cause::Expiry)
    }

    /// The holder declared, for this tenure, that it takes part; it answered, and is silent now.
    fn may_take_early(&mut self) -> bool {
        // A new holder has just been seen, and what the witness knows is of the last one.
        let witness = &self.witness;
        let of_this = |d: &&Declaration| d.holder != self.rules.node && (witness.is_of(d) || planted!(StaleWitness));
        let declared = self.seen.view().and_then(LeaseView::declaration).is_some_and(|d| of_this(&d));
        let witnessed = declared && !self.rules.witness_interval.is_zero() && self.witness.is_silent();
        witnessed && (planted!(NoMoveLimit) || self.moves.may_move(self.at.now))
    }

    /// Whether the segment rules out a foreign owner. If it has not been asked, it is asked now.
    fn is_clear(&mut self) -> bool {
        let now = self.at.now;
        // An answer that was considered already says nothing of what is there now.
        let answer = self.witness.answer(now).zip(self.witness.state().1);
        let Some((mac, heard)) = answer.filter(|answer| self.foreign_heard != Some(*answer)) else {
            self.searching = true;
            return self.witness.is_quiet();
        };
        if self.is_peer(mac) {
            return true;
        }
        self.hold_off = now + Duration::from_secs(1);
        // Heard once, it may be a peer that holds provisionally and that no Lease names yet: that one takes the Lease now; or
        // one that has released the Lease, and removes the VIP.
        let known = self.foreign_heard.replace((mac, heard));
        let first = known.is_none_or(|(who, at)| who != mac || heard.since(at) > FOREIGN_AGAIN);
        let told = self.foreign_told.is_some_and(|(who, at)| who == mac && now.since(at) < FOREIGN_AGAIN);
        if !first && !told {
            self.foreign_told = Some((mac, now));
            let addresses: Vec<_> = self.vips.keys().copied().collect();
            for address in addresses {
                self.report(Report::ForeignOwner { address, mac });
            }
        }
        self.searching = true;
        false
    }

    pub(super) fn is_peer(&self, mac: Mac) -> bool {
        self.seen.view().is_some_and(|view| view.participant_with(mac).is_some())
    }

    fn consider_provisional(&mut self) {
        let able = self.rules.provisional && self.is_able();
        let away = self.away_since();
        if !able || away.is_none() || !self.witness.is_free() {
            self.free_since = None;
            return;
        }
        let away: Time = away.unwrap_or_default();
        if !self.due(away + AWAY) || !self.due(self.hold_off_provisional()) {
            return;
        }
        let since = *self.free_since.get_or_insert(self.at.now);
        if !self.due(since + self.rules.turn(self.turns)) {
            return;
        }
        // An own unhealthy service excludes this node only if a peer's is better.
        if self.health != Some(true) && !self.is_nobody_better() {
            return;
        }
        self.hold_provisionally();
    }

    fn hold_off_provisional(&self) -> Time {
        // A foreign owner keeps a free VIP from being carried, and an interface that took none; a lost race does not.
        let foreign = self.foreign_told.map_or_else(Time::default, |(_, at)| at + Duration::from_secs(1));
        foreign.max(self.refused_until)
    }

    /// Whether a fresh answer of the peers says that none is healthy. Asks them if there is none.
    pub(super) fn is_nobody_better(&mut self) -> bool {
        let now = self.at.now;
        if let Some(asked) = &self.asked
            && now.since(asked.at) <= ASKED_FRESH
        {
            let (at, answer) = (asked.at, asked.healthy.as_ref().map(Vec::is_empty));
            self.due(at + ASKED_FRESH + Duration::from_millis(1));
            return answer == Some(true);
        }
        self.ask_peers(Duration::from_millis(200));
        false
    }

    pub(super) fn ask_peers(&mut self, within: Duration) {
        let id = self.new_id();
        self.asked = Some(Asked { id, at: self.at.now, healthy: None });
        self.act(Action::AskPeers { id, within });
    }

    pub(super) fn took(&mut self, cause: Cause, sent: Time) {
        let confirmed = !matches!(self.role, Role::Following);
        self.hold(sent);
        let returns = matches!(cause, Cause::Witness | Cause::Expiry | Cause::Provisional | Cause::Adopted);
        if let (true, Role::Holding(holding)) = (returns, &mut self.role) {
            holding.returns_until = Some(self.at.now + self.rules.lease_duration);
        }
        self.turns = 0;
        self.report(if confirmed { Report::Confirmed } else { Report::Took(cause) });
    }
}
