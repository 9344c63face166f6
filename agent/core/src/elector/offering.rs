//! A holder that the segment does not answer offers the Lease. It may have been the only candidate when it took the Lease, or the first, and
//! serve nobody; or nothing answers anybody, and its clients find it all the same.
//!
//! So it carries the VIPs on, and its Lease says that it is unheard, with renewals that are written anyway. A candidate that is heard asks the
//! segment for the VIPs, and takes the Lease if the holder does not answer. One that is not heard either leaves it alone: where nobody is
//! answered, nothing moves. What is offered and who takes it is decided by writes of one object: an offer that was withdrawn cannot be taken.

use std::time::Duration;

use super::mute::{LEAVES, MISJUDGED};
use super::{Elector, Role};
use crate::action::HandsOver;
use crate::echo::State;
use crate::lease::LeaseView;
use crate::planted::planted;
use crate::time::Time;

/// A candidate asks the segment for offered VIPs this often, and takes them if nobody has answered for so long.
const ASK: Duration = Duration::from_millis(750);
const SILENT: Duration = Duration::from_secs(3);
/// If the holder answers, it serves: a partition may just have ended. The candidate leaves the offer alone for so long.
const SERVES: Duration = Duration::from_secs(15);

/// A candidate considers an offer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Offer {
    /// Nobody has answered for the VIPs since then.
    silent: Time,
    /// The segment is asked next at that time.
    next: Time,
}

impl Elector {
    /// Whether nothing on the segment answers this node, though others were asked often enough.
    pub(super) fn is_unheard(&self) -> bool {
        self.segment.link.is_up() && self.segment.echo.state(self.step.at.now) == State::Nobody
    }

    /// Whether what this node writes as the holder says that it is unheard.
    pub(super) fn says_unheard(&self) -> bool {
        self.is_unheard() && self.doubt.is_sure() && !planted!(KeepsUnheard)
    }

    /// Whether the holder offers its Lease, and this node is better: its service is healthy, and others hear it.
    pub(super) fn takes_offer(&mut self) -> bool {
        let now = self.step.at.now;
        let heard = self.segment.echo.is_heard(now) || planted!(UnheardTakesOffers);
        let offered = self.is_anothers() && self.lease.view().is_some_and(LeaseView::is_offered);
        if !offered || !heard || !self.is_healthy() || !self.doubt.is_sure() {
            self.candidacy.offer = None;
            return false;
        }
        let mut offer = self.candidacy.offer.unwrap_or(Offer { silent: now, next: now });
        if self.due(offer.next) {
            self.probe_vips();
            offer.next = now + ASK;
            self.due(offer.next);
        }
        self.candidacy.offer = Some(offer);
        // All see the offer at the same time.
        self.due(offer.silent + SILENT + self.rules.turn(0))
            && self.due(self.candidacy.misjudged_until)
            && self.candidacy.moves.may_move(now)
    }

    /// A host has answered for a VIP: if it is offered, its holder serves.
    pub(super) fn offered_is_answered(&mut self) {
        let now = self.step.at.now;
        if let Some(offer) = &mut self.candidacy.offer
            && !planted!(TakesFromWhoAnswers)
        {
            *offer = Offer { silent: now + SERVES, next: now + SERVES };
        }
    }

    /// The Lease names another node now, and this one has offered it: it serves until it hears that node. True if it does.
    pub(super) fn was_taken_by_offer(&mut self) -> bool {
        if !self.api.offered || !self.doubt.is_sure() || !matches!(self.role, Role::Holding(_)) {
            return false;
        }
        let now = self.step.at.now;
        let taker = self.lease.holder().to_owned();
        self.candidacy.misjudged_until = now + MISJUDGED;
        self.candidacy.hold_off = now + LEAVES;
        self.begin_leaving(Some(taker), self.rules.handover_grace, HandsOver::Mute);
        self.released();
        true
    }
}
