//! A candidate: when it takes the Lease, and when it carries the VIPs without a Lease.

use std::time::Duration;

use super::api::Purpose;
use super::process::Process;
use super::service::Asked;
use super::{Elector, Role};
use crate::action::{Action, Cause, Report};
use crate::lease::{Declaration, LeaseView};
use crate::mac::Mac;
use crate::planted::planted;
use crate::rules::{AWAY, LEFT_TO_OTHERS, SUCCESSOR_FIRST};
use crate::time::Time;

/// How long the peers' answer about their health counts.
const ASKED_FRESH: Duration = Duration::from_secs(1);

/// This node does not carry the VIPs, and may be about to take them.
#[derive(Debug, Default)]
pub(super) struct Following {
    /// A take waits for the segment to say that nobody has the VIP.
    pub(super) searching: bool,
    /// Since when the VIP has been free while the API is away: this node's turn counts from then.
    free_since: Option<Time>,
}

impl Elector {
    pub(super) fn advance_following(&mut self) {
        if self.process.is_ending() {
            // A release that is still on its way, or that waits for the VIPs to be gone, is waited for.
            if self.api.flight.is_none() && !self.is_releasing() && !self.process.has_left() {
                self.process = Process::Left;
                self.act(Action::Exit);
            }
            return;
        }
        self.advance_foreign();
        // A take says what a note would say.
        self.consider_taking();
        self.consider_participating();
        self.consider_provisional();
    }

    fn consider_participating(&mut self) {
        let known = self.lease.is_fresh(self.step.at.now, &self.rules) && self.lease.view().is_some();
        let twin = self.twin().is_some();
        let unable = !known || twin || self.api.flight.is_some() || self.node.participant.macs.is_empty();
        let says = self.must_say_let_go();
        if unable || !says && (self.is_participant() || self.is_list_full()) {
            return;
        }
        // Clients may be asking the wrong host: that does not wait for a turn.
        let first = self.step.at.now + if says { Duration::ZERO } else { self.turn_to_participate() };
        let at = *self.candidacy.participate_at.get_or_insert(first);
        if self.due(at) {
            self.candidacy.participate_at = None;
            self.participate();
        }
    }

    fn consider_taking(&mut self) {
        let busy = self.api.flight.as_ref().is_some_and(|f| f.purpose != Purpose::Participate);
        if busy || !self.is_able() || !self.due(self.candidacy.hold_off) {
            return;
        }
        let Some(cause) = self.cause() else {
            self.set_searching(false);
            // Another node has the Lease, and nothing says that its VIPs are silent.
            if self.lease.is_fresh(self.step.at.now, &self.rules) && !self.segment.witness.is_free() {
                self.candidacy.left_since = None;
            }
            return;
        };
        if self.service.verdict.is_none() && !self.is_left_to_others_no_longer() {
            return;
        }
        // A node carries the VIP while the API is away: a write that waits for the API would only move the VIP once more.
        let answered = self.segment.witness.answer(self.step.at.now).is_some();
        if self.api.away.is_some() && answered {
            return;
        }
        let looks = matches!(cause, Cause::Free | Cause::Expiry) && self.rules.conflict_probe;
        if looks && !planted!(TakesWithoutLooking) && !self.is_clear() {
            return;
        }
        if !self.is_fit(cause) && !self.is_left_to_others_no_longer() {
            return;
        }
        if cause == Cause::Expiry && self.is_answered_by_holder() && !self.has_had_its_time() {
            return;
        }
        // Where nothing answers this node, nothing may hear it: others come first.
        let unheard = looks && self.is_unheard() && self.peers().next().is_some();
        if unheard && !self.is_left_to_others_no_longer() {
            return;
        }
        if cause == Cause::Witness {
            let declaration = self.lease.view().and_then(LeaseView::declaration).cloned();
            if let Some(declaration) = declaration.filter(|d| self.candidacy.reported_silent.as_ref() != Some(d)) {
                self.report(Report::Abandoned { holder: declaration.holder.clone() });
                self.candidacy.reported_silent = Some(declaration);
            }
        }
        self.set_searching(false);
        // The answer of a peer that still has one of the VIPs says nothing about the others. Nor does the silence of a holder
        // that declares only some of them: only those were asked for. The others are asked for after the take.
        if looks && (self.segment.witness.is_quiet() || planted!(TakesWithoutLooking)) {
            let asked = self.segment.witness.addresses().to_vec();
            self.was_asked_for(&asked);
        }
        self.take(cause);
    }

    /// A node whose own service is not healthy takes only a free Lease, and only if no healthy node is there.
    fn is_fit(&mut self, cause: Cause) -> bool {
        self.is_healthy() || matches!(cause, Cause::Free | Cause::Expiry) && self.is_nobody_better()
    }

    /// Whether healthier nodes had their time to take the Lease, or the VIPs, and none has. Unhealthy nodes come in turn after that:
    /// without the API, nothing else keeps two of them apart.
    fn is_left_to_others_no_longer(&mut self) -> bool {
        let since = *self.candidacy.left_since.get_or_insert(self.step.at.now);
        let turn = self.rules.turn(self.candidacy.turns);
        !planted!(HealthForbids) && self.due(since + LEFT_TO_OTHERS + turn)
    }

    /// Why this node may take the Lease now.
    fn cause(&mut self) -> Option<Cause> {
        let now = self.step.at.now;
        if self.is_healthy() && self.may_take_early() {
            return Some(Cause::Witness);
        }
        if !self.lease.is_fresh(now, &self.rules) {
            return None;
        }
        if self.takes_offer() {
            return Some(Cause::Handover);
        }
        let Some(view) = self.lease.view() else {
            return Some(Cause::Free);
        };
        if self.is_mine() {
            return (!self.is_releasing_refused()).then_some(Cause::Adopted);
        }
        if view.record.holder.is_empty() {
            let Some(handover) = view.handover() else {
                return Some(Cause::Free);
            };
            if handover.to == self.rules.node || handover.to.is_empty() {
                return Some(Cause::Handover);
            }
            return self.due(self.lease.changed() + SUCCESSOR_FIRST).then_some(Cause::Handover);
        }
        if planted!(WallClocks) {
            let age = self.step.at.wall.0 - view.record.renewed.map_or(0, |renewed| renewed.0);
            let over = age > i64::try_from(view.record.duration.as_micros()).unwrap_or(i64::MAX);
            return over.then_some(Cause::Expiry);
        }
        let expires = self.lease.expires(&self.rules)?;
        self.due(expires).then_some(Cause::Expiry)
    }

    /// The holder declared for this tenure that it answers probes. It has answered, and is silent now.
    fn may_take_early(&mut self) -> bool {
        let watches = self.watches_holder();
        // After a change of holder, what the witness knows may still be about the last one.
        let witness = &self.segment.witness;
        let anothers = self.is_anothers();
        let of_this = |d: &&Declaration| anothers && (witness.is_of(d) || planted!(StaleWitness));
        let declaration = self.lease.view().and_then(LeaseView::declaration);
        let declared = declaration.is_some_and(|d| of_this(&d) && self.may_judge(d));
        let witnessed = declared && watches && self.segment.witness.is_silent();
        if !witnessed || !self.due(self.candidacy.misjudged_until) {
            return false;
        }
        let may_move = planted!(NoMoveLimit) || self.candidacy.moves.may_move(self.step.at.now);
        if !may_move {
            self.tell_of_moves();
        }
        may_move
    }

    /// Reports once a tenure that the silent holder's Lease must end first.
    fn tell_of_moves(&mut self) {
        let ends = self.lease.expires(&self.rules).is_some_and(|end| self.step.at.now < end);
        let Some(declaration) = self.lease.view().and_then(LeaseView::declaration).filter(|_| ends) else { return };
        if self.candidacy.reported_moved.as_ref() != Some(declaration) {
            let declaration = declaration.clone();
            self.report(Report::MovedOften { holder: declaration.holder.clone() });
            self.candidacy.reported_moved = Some(declaration);
        }
    }

    /// Whether the segment rules out a foreign owner. If the segment has not been asked, it is asked now.
    fn is_clear(&mut self) -> bool {
        let now = self.step.at.now;
        // An answer that was considered before says nothing about who is there now.
        let answer = self.segment.witness.answer(now).zip(self.segment.witness.state().1);
        let Some((mac, heard)) = answer.filter(|answer| self.segment.foreign.heard != Some(*answer)) else {
            self.set_searching(true);
            return self.segment.witness.is_quiet();
        };
        if self.holder_with(mac).is_some() {
            return true;
        }
        self.candidacy.hold_off = now + Duration::from_secs(1);
        self.segment.foreign.answered(now, mac, heard);
        self.set_searching(true);
        false
    }

    fn set_searching(&mut self, searching: bool) {
        self.with_following(|f| f.searching = searching);
    }

    fn with_following(&mut self, change: impl FnOnce(&mut Following)) {
        if let Role::Following(following) = &mut self.role {
            change(following);
        }
    }

    pub(super) fn is_peer(&self, mac: Mac) -> bool {
        self.lease.view().is_some_and(|view| view.participant_with(mac).is_some())
    }

    fn consider_provisional(&mut self) {
        // Whoever carries the VIPs while the API is away shows on the segment only: healthier nodes have their time anew after that.
        if self.segment.witness.answer(self.step.at.now).is_some() {
            self.candidacy.left_since = None;
        }
        let able = self.rules.provisional && self.is_able();
        let Some(away) = self.api.away_since().filter(|_| able && self.segment.witness.is_free()) else {
            self.with_following(|f| f.free_since = None);
            return;
        };
        if !self.due(away + AWAY) || !self.due(self.hold_off_provisional()) {
            return;
        }
        let Role::Following(following) = &mut self.role else { return };
        if following.free_since.is_none() {
            // It matters who is there from now on.
            self.segment.peers.ask_anew(self.step.at.now);
            self.step.again = true;
        }
        let since = *following.free_since.get_or_insert(self.step.at.now);
        if !self.due(since + self.rules.turn(self.candidacy.turns)) {
            return;
        }
        // A node that hears too few others is cut off: its clients are better served elsewhere.
        if !self.heard_enough_since(since) {
            return;
        }
        // An unhealthy service excludes this node only if a peer's service is better, and only for a while.
        if !self.is_healthy() && !self.is_nobody_better() && !self.is_left_to_others_no_longer() {
            return;
        }
        self.hold_provisionally();
    }

    fn hold_off_provisional(&self) -> Time {
        // Three things keep a free VIP from being carried: a foreign owner, an interface that refused all VIPs, and a holder that was
        // alive though it seemed silent. A lost race does not.
        let foreign = self.segment.foreign.certain.map_or_else(Time::default, |(_, at)| at + Duration::from_secs(1));
        foreign.max(self.candidacy.refused_until).max(self.candidacy.misjudged_until)
    }

    /// Whether a fresh answer of the peers says that none is healthy. Asks them if there is none.
    pub(super) fn is_nobody_better(&mut self) -> bool {
        let now = self.step.at.now;
        if let Some(asked) = &self.service.asked
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
        let id = self.step.new_id();
        self.service.asked = Some(Asked { id, at: self.step.at.now, healthy: None });
        self.act(Action::AskPeers { id, within });
    }

    pub(super) fn took(&mut self, cause: Cause, sent: Time) {
        let confirmed = self.is_carrying();
        self.hold(sent);
        let returns = matches!(cause, Cause::Witness | Cause::Expiry | Cause::Provisional | Cause::Adopted);
        if let (true, Role::Holding(holding)) = (returns, &mut self.role) {
            holding.returns_until = Some(self.step.at.now + self.rules.lease_duration);
        }
        if let (Cause::Handover, Role::Holding(holding)) = (cause, &mut self.role) {
            holding.given_until = Some(self.step.at.now + self.rules.handover_grace);
        }
        if cause == Cause::Witness {
            self.took_by_silence();
        }
        self.candidacy.turns = 0;
        self.candidacy.left_since = None;
        self.report(if confirmed { Report::Confirmed } else { Report::Took(cause) });
    }
}
