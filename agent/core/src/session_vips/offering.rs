//! A node that the segment does not answer offers the VIPs that it has there. It may have been the only candidate when it took them, and
//! serve nobody; or nothing answers anybody, and its clients find them all the same. [`crate::elector`] has the same rule for one Lease.
//!
//! So it carries them on, and its session says which of its links are unheard. A candidate that is heard on the same segment asks that for such
//! a VIP, and takes it like one that is handed over if the holder does not answer. One that is not heard either leaves it alone: where nobody
//! is answered, nothing moves.

use std::net::IpAddr;
use std::time::Duration;

use super::SessionVips;
use super::asking::Found;
use super::hold::Hold;
use super::vip::Vip;
use crate::core::Interface;
use crate::echo::State;
use crate::evidence::Form;
use crate::planted::planted;
use crate::session::{Holder, Link, Peer};

/// If the holder of an offered VIP answers for it, the offer is left alone for so long.
const SERVES: Duration = Duration::from_secs(15);

impl SessionVips {
    /// Whether nothing on the segment of an interface answers this node, though others were asked often enough.
    pub(super) fn is_unanswered(&self, index: u32) -> bool {
        self.echo(index) == Some(State::Nobody)
    }

    /// What the segment of an interface answers, if it has been asked.
    #[must_use]
    pub fn echo(&self, index: u32) -> Option<State> {
        self.segment.echo.get(&index).map(|(echo, _)| echo.state(self.step.at.now))
    }

    /// The links as the session declares them.
    pub(super) fn declared_links(&self) -> Vec<Link> {
        let unheard = |one: &Interface| one.link.up && self.is_unanswered(one.index) && !planted!(KeepsUnheard);
        self.node.interfaces.iter().map(|one| Link { unheard: unheard(one), ..one.link.clone() }).collect()
    }

    /// Whether this node's session offers, or offered just now, what is carried so.
    pub(super) fn has_offered(&self, hold: &Hold) -> bool {
        let own = self.sessions.get(&self.rules.node);
        let name = self.node.interfaces.iter().find(|one| one.index == hold.interface).map(|one| &one.link.name);
        own.is_some_and(|own| own.view.links().iter().any(|link| link.unheard && Some(&link.name) == name))
    }

    /// Whether the VIP's holder offers it, and this node is better: others hear it.
    pub(super) fn may_take_offer(&self, vip: &Vip, holder: &Holder, peer: &Peer) -> bool {
        if !peer.view.offers() || holder.node == self.rules.node {
            return false;
        }
        let Some(own) = self.link_for(vip) else { return false };
        let offered = peer.view.links().iter().any(|link| link.unheard && own.link.shares(link));
        let heard = self.segment.echo.get(&own.index).is_some_and(|(echo, _)| echo.is_heard(self.step.at.now));
        offered && (heard || planted!(UnheardTakesOffers))
    }

    /// Whether a VIP that others may have is one that its holder only offers: it has named nobody, and does not leave.
    fn is_offered(&self, vip: &Vip) -> bool {
        let holder = vip.holder().filter(|holder| holder.to.is_none());
        let peer = holder.and_then(|holder| self.sessions.get(&holder.node));
        peer.is_some_and(|peer| peer.view.offers() && !peer.view.is_leaving())
    }

    /// Whether an offered VIP is left alone: it has moved often, or its holder answers for it, and so it serves (a partition may just have
    /// ended), or that is not known yet.
    pub(super) fn leaves_offer(&mut self, vip: &mut Vip) -> bool {
        let now = self.step.at.now;
        if !self.is_offered(vip) {
            return false;
        }
        if planted!(TakesFromWhoAnswers) {
            return false;
        }
        // Without looks, a holder that answers is taken for one that does not.
        if !self.rules.conflict_probe || !vip.moves.may_move(now) {
            self.due(now + SERVES);
            return true;
        }
        let found = self.look(vip, !planted!(UnheardTakesOffers));
        if matches!(found, Found::Peer | Found::Stranger(_)) {
            vip.hold_off = now + SERVES;
        }
        if found != Found::Quiet && vip.hold_off > now {
            self.due(vip.hold_off);
        }
        found != Found::Quiet
    }

    /// A third party answers. If none has for a while, this node may take what is offered.
    pub(super) fn echoed(&mut self, index: u32, address: IpAddr, form: Form) {
        let now = self.step.at.now;
        let sure = self.segment.echo.entry(index).or_default().0.heard(now, address, form);
        if sure && self.sessions.live().any(|(_, peer)| peer.view.offers()) {
            self.all_dirty();
            self.step.again = true;
        }
    }
}
