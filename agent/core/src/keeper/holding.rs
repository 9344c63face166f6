//! The holder by Lease: renewing, the fence, and what another's frame does to it.

use std::net::IpAddr;

use super::{Keeper, Role};
use crate::action::{Report, Why};
use crate::mac::Mac;
use crate::rules::{CHALLENGE, DEFEND, SELF_PROBE};
use crate::time::{Time, WallTime};

/// This node's own write made it the holder.
#[derive(Debug)]
pub(super) struct Holding {
    /// When the last successful write was sent: the fence counts from then.
    pub(super) sent: Time,
    pub(super) acquired: Option<WallTime>,
    pub(super) transitions: u32,
    challenge: Option<Challenge>,
    /// The last challenge; frames heard soon after it are answered together, later.
    last_challenge: Option<Time>,
    /// That one was a participant's.
    last_by_peer: bool,
    again: Option<(IpAddr, Mac)>,
    /// A hand-over for health has begun: the peers are asked.
    pub(super) leaving_since: Option<Time>,
    /// Taken from a holder that did not let it go: until its Lease would have ended, it may come back with the VIP.
    pub(super) returns_until: Option<Time>,
    /// When the segment is asked next whether somebody else has the VIP.
    look: Time,
}

#[derive(Clone, Copy, Debug)]
struct Challenge {
    since: Time,
    address: IpAddr,
    mac: Mac,
}

impl Keeper {
    /// Own write succeeded: carries the VIPs, fenced from the time it was sent.
    pub(super) fn hold(&mut self, sent: Time) {
        let record = self.view_record();
        let (acquired, transitions) = record.map_or((None, 0), |r| (r.acquired, r.transitions));
        let holding = Holding {
            sent,
            acquired,
            transitions,
            challenge: None,
            last_challenge: None,
            last_by_peer: false,
            again: None,
            leaving_since: None,
            returns_until: None,
            look: self.at.now,
        };
        self.become_role(Role::Holding(holding));
        self.next_write = sent + self.rules.retry_period;
        self.sure_again();
        self.carry(sent + self.rules.lease_duration);
    }

    pub(super) fn renewed(&mut self, sent: Time) {
        let Role::Holding(holding) = &mut self.role else {
            // It lapsed while the write was on its way.
            if matches!(self.role, Role::Unleased(_)) {
                self.hold(sent);
                self.report(Report::Confirmed);
            }
            return;
        };
        holding.sent = sent;
        let (answered, unanswered) = match holding.challenge {
            Some(challenge) if sent >= challenge.since => (Some(challenge), false),
            other => (None, other.is_some()),
        };
        // A frame that was heard while this write was on its way is answered by another one, at once.
        let unproven = unanswered || self.unsure.is_some_and(|since| sent < since);
        self.next_write = if unproven { self.at.now } else { sent + self.rules.retry_period };
        if self.unsure.is_some_and(|since| sent >= since) {
            self.sure_again();
        }
        self.carry(sent + self.rules.lease_duration);
        if let Some(challenge) = answered {
            self.defend(challenge);
        }
    }

    /// Another host speaks for a VIP held here. No defence rests on a remembered Lease: a renewal is sent at once.
    pub(super) fn challenged(&mut self, address: IpAddr, mac: Mac) {
        let now = self.at.now;
        let participant = self.seen.view().and_then(|v| v.participant_with(mac)).map(str::to_owned);
        let again_by_peer =
            matches!(&self.role, Role::Holding(Holding { again: Some((_, mac)), .. }) if self.is_peer(*mac));
        let Role::Holding(holding) = &mut self.role else { return };
        // A participant's frame does not wait behind a stranger's: it may be the rightful holder's.
        let by_peer = participant.is_some();
        let busy = holding.challenge.is_some() || holding.last_challenge.is_some_and(|at| now.since(at) < DEFEND);
        if busy && (holding.last_by_peer || !by_peer) {
            if by_peer || !again_by_peer {
                holding.again = Some((address, mac));
            }
            return;
        }
        holding.last_by_peer = by_peer;
        holding.challenge = Some(Challenge { since: now, address, mac });
        holding.last_challenge = Some(now);
        self.next_write = now;
        self.report(Report::Contested { address, mac, participant });
    }

    pub(super) fn advance_holding(&mut self) {
        let Role::Holding(holding) = &self.role else { return };
        let (sent, challenge, last, again) = (holding.sent, holding.challenge, holding.last_challenge, holding.again);
        if self.due(sent + self.rules.lapses_after()) {
            self.ran_out();
            return;
        }
        if let Some(challenge) = challenge
            && self.due(challenge.since + CHALLENGE)
        {
            if self.is_peer(challenge.mac) {
                self.let_go(Why::Yielded);
                return;
            }
            self.defend(challenge);
        }
        if let (None, Some((address, mac)), Some(last)) = (challenge, again, last)
            && self.due(last + DEFEND)
        {
            if let Role::Holding(holding) = &mut self.role {
                holding.again = None;
            }
            self.challenged(address, mac);
        }
        // After a conflict the Lease is read first: it may have been only a note that changed.
        // With the API away the read may hang, and is not waited for.
        let free = self.flight.is_none() && (self.reading.is_none() || self.away.is_some());
        if free && self.due(self.next_write) {
            self.renew();
        }
        self.look_for_another();
        self.consider_leaving();
    }

    /// The Lease could not be renewed in time.
    pub(super) fn ran_out(&mut self) {
        if self.rules.hold_without_api {
            self.lapse();
        } else {
            self.let_go(Why::ApiLost);
        }
    }

    /// Asks the segment for another owner while there may be one that does not know: the last holder, if it was silent
    /// (asleep, cut off) and not dead; or this node is that one, when its renewals are not answered.
    fn look_for_another(&mut self) {
        let now = self.at.now;
        let Role::Holding(holding) = &self.role else { return };
        let look = holding.look;
        if self.away.is_none() && holding.returns_until.is_none_or(|until| now >= until) {
            return;
        }
        if self.due(look) {
            self.probe_vips();
            if let Role::Holding(holding) = &mut self.role {
                holding.look = now + SELF_PROBE;
            }
            self.due(now + SELF_PROBE);
        }
    }

    fn defend(&mut self, challenge: Challenge) {
        let now = self.at.now;
        if let Role::Holding(holding) = &mut self.role {
            holding.challenge = None;
        }
        let address = challenge.address;
        let Some(vip) = self.vips.get_mut(&address) else { return };
        if vip.put && vip.defended.is_none_or(|at| now.since(at) >= DEFEND) {
            vip.defended = Some(now);
            vip.schedule.restart(now);
            self.again = true;
            self.report(Report::Defended { address });
        }
    }
}
