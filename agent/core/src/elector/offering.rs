//! A holder that the segment does not answer offers the Lease. It may have been the only candidate when it took the Lease, or the first, and
//! serve nobody; or nothing answers anybody, and its clients find it all the same.
//!
//! So it carries the VIPs on, and its Lease says that it is unheard, with renewals that are written anyway. A candidate that is heard asks
//! the holder for a VIP, and takes the Lease if the holder does not answer. One that is not heard either leaves it alone: where nobody is
//! answered, nothing moves. What is offered and who takes it is decided by writes of one object: an offer that was withdrawn cannot be taken.

use std::time::Duration;

use super::mute::{LEAVES, MISJUDGED};
use super::{Elector, Role};
use crate::action::{Action, HandsOver};
use crate::echo::State;
use crate::lease::LeaseView;
use crate::planted::planted;
use crate::time::Time;

/// A candidate asks the holder for an offered VIP this often, and takes the Lease if it has not answered for so long.
const ASK: Duration = Duration::from_secs(1);
const SILENT: Duration = Duration::from_secs(3);
/// If the holder answers, it serves: a partition may just have ended. The candidate leaves the offer alone for so long.
const SERVES: Duration = Duration::from_secs(15);

/// A candidate considers an offer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Offer {
    /// The holder has not answered for a VIP since then.
    silent: Time,
    /// It is asked next at that time.
    next: Time,
}

impl Elector {
    /// Whether nothing on the segment answers this node, though others were asked often enough.
    pub(super) fn is_unheard(&self) -> bool {
        self.segment.link.is_up() && self.segment.echo.state(self.step.at.now) == State::Nobody
    }

    /// Whether what this node writes as the holder says that it is unheard. Where frames are limited and each Service has a Lease, it does
    /// not: each candidate would ask for each of these Leases, beyond the limit.
    pub(super) fn says_unheard(&self) -> bool {
        self.is_unheard() && self.doubt.is_sure() && !self.is_asked_for() && !planted!(KeepsUnheard)
    }

    /// Whether the holder offers its Lease, and this node is better: its service is healthy, and others hear it.
    pub(super) fn takes_offer(&mut self) -> bool {
        let now = self.step.at.now;
        let heard = self.segment.echo.is_heard(now) || planted!(UnheardTakesOffers);
        let offered = self.is_anothers() && self.lease.view().is_some_and(LeaseView::is_offered);
        let able = self.is_healthy() && self.doubt.is_sure() && self.candidacy.moves.may_move(now);
        if !offered || !heard || !able || !self.due(self.candidacy.misjudged_until) {
            self.candidacy.offer = None;
            return false;
        }
        // A candidate that could take nothing meanwhile has asked nobody.
        let known = self.candidacy.offer.filter(|offer| now <= offer.next + ASK);
        let mut offer = known.unwrap_or(Offer { silent: now, next: now });
        if self.due(offer.next) {
            if !self.ask_who_offers() {
                // Silence shows nothing.
                offer.silent = now;
            }
            offer.next = now + ASK;
            self.due(offer.next);
        }
        self.candidacy.offer = Some(offer);
        // All see the offer at the same time.
        self.due(offer.silent + SILENT + self.rules.turn(0))
    }

    /// Asks the holder, and nobody else, for one of its VIPs; whether that could be asked.
    fn ask_who_offers(&mut self) -> bool {
        let Some(declared) = self.lease.view().and_then(LeaseView::declaration) else { return false };
        let known = self.vips.iter().filter(|(address, vip)| {
            !vip.is_held_back() && (declared.vips.is_empty() || declared.vips.contains(*address))
        });
        let (first, macs) = (known.map(|(address, _)| *address).next(), declared.macs.clone());
        let sender = self.own_sender();
        let probe = |mac| first.map(|address| Action::Probe { address, to: Some(mac), sender });
        let probes: Vec<Action> = macs.into_iter().filter_map(probe).collect();
        let asks = !probes.is_empty();
        self.step.out.extend(probes);
        asks
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
