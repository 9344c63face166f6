//! The holder by Lease: renewals, the fence, and challenges by other hosts' frames.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use super::service::Found;
use super::{Elector, Role};
use crate::action::{Report, Why};
use crate::mac::Mac;
use crate::planted::planted;
use crate::rules::{CHALLENGE, DEFEND, SELF_PROBE};
use crate::time::{Time, WallTime};

/// How long before the kernel would drop the VIP a holder changes to a short fence.
const BEFORE_DROPPED: Duration = Duration::from_millis(100);
/// How long after a write that declares other VIPs the next such write is sent: the kernel may refuse a VIP and take it in turn.
const DECLARE_AGAIN: Duration = Duration::from_millis(300);

/// This node's own write made it the holder.
#[derive(Debug)]
pub(super) struct Holding {
    /// When the last successful write was sent. The fence counts from this time.
    pub(super) sent: Time,
    pub(super) acquired: Option<WallTime>,
    pub(super) transitions: u32,
    challenge: Option<Challenge>,
    /// When each challenger was last answered. Its next frames within [`DEFEND`] are answered together.
    challenged: BTreeMap<Challenger, Time>,
    /// Frames that wait for that answer.
    waiting: BTreeMap<Challenger, (IpAddr, Mac)>,
    /// Since when the peers are asked for a successor.
    pub(super) leaving_since: Option<Time>,
    /// Until when the last holder may come back with the VIP: it did not let the VIP go, and its Lease would have ended then.
    pub(super) returns_until: Option<Time>,
    /// A renewal met a conflict, and the Lease was not read since: the Lease may belong to another node.
    pub(super) in_doubt: bool,
    /// When the segment is asked next whether somebody else has the VIP.
    look: Time,
}

/// A participant, by its MAC address. None: any stranger, so that nobody gains by inventing addresses.
type Challenger = Option<Mac>;

#[derive(Clone, Copy, Debug)]
struct Challenge {
    since: Time,
    address: IpAddr,
    mac: Mac,
    by: Challenger,
}

impl Elector {
    /// A write of this node's own made it the holder. The fence counts from when that write was sent.
    pub(super) fn hold(&mut self, sent: Time) {
        let sent = if planted!(FenceFromAnswer) { self.step.at.now } else { sent };
        let record = self.record();
        let (acquired, transitions) = record.map_or((None, 0), |r| (r.acquired, r.transitions));
        self.tenure = Some((transitions, acquired));
        self.service.found = Found::Nothing;
        let holding = Holding {
            sent,
            acquired,
            transitions,
            challenge: None,
            challenged: BTreeMap::new(),
            waiting: BTreeMap::new(),
            leaving_since: None,
            returns_until: None,
            in_doubt: false,
            look: self.step.at.now,
        };
        self.become_role(Role::Holding(holding));
        self.api.next_write = sent + self.rules.retry_period;
        if self.doubt.is_ended_by(sent) {
            self.sure_again();
        } else if !self.doubt.is_sure() {
            self.api.next_write = self.step.at.now;
        }
        self.carry(sent + self.rules.lease_duration);
    }

    pub(super) fn renewed(&mut self, sent: Time) {
        let sent = if planted!(FenceFromAnswer) { self.step.at.now } else { sent };
        let Role::Holding(holding) = &mut self.role else {
            // The hold lapsed while the write was on its way.
            if matches!(self.role, Role::Unleased(_)) {
                self.hold(sent);
                self.report(Report::Confirmed);
            }
            return;
        };
        holding.sent = sent;
        holding.in_doubt = false;
        let (answered, unanswered) = match holding.challenge {
            Some(challenge) if sent >= challenge.since => (Some(challenge), false),
            other => (None, other.is_some()),
        };
        // A frame that was heard while this write was on its way needs another write, at once.
        let unproven = unanswered || !self.doubt.is_sure() && !self.doubt.is_ended_by(sent);
        self.api.next_write = if unproven { self.step.at.now } else { sent + self.rules.retry_period };
        if self.doubt.is_ended_by(sent) {
            self.sure_again();
        }
        if self.rules.refresh.is_zero() {
            self.carry(sent + self.rules.lease_duration);
        }
        if let Some(challenge) = answered {
            self.defend(challenge);
        }
    }

    /// Another host claims a VIP that is held here. No defence rests on a remembered Lease: a renewal is sent at once.
    pub(super) fn challenged(&mut self, address: IpAddr, mac: Mac) {
        let now = self.step.at.now;
        let participant = self.lease.view().and_then(|v| v.participant_with(mac)).map(str::to_owned);
        let Role::Holding(holding) = &mut self.role else { return };
        let by = participant.is_some().then_some(mac);
        let lately = holding.challenged.get(&by).is_some_and(|at| now.since(*at) < DEFEND);
        // A participant may be the rightful holder: its frame does not wait behind a stranger's.
        let behind = holding.challenge.is_some_and(|c| c.by.is_some() || by.is_none());
        if lately || behind {
            holding.waiting.insert(by, (address, mac));
            return;
        }
        holding.challenge = Some(Challenge { since: now, address, mac, by });
        holding.challenged.retain(|_, at| now.since(*at) < DEFEND);
        holding.challenged.insert(by, now);
        self.api.next_write = now;
        self.report(Report::Contested { address, mac, participant });
        if planted!(DefendFromMemory) {
            self.api.next_write = now + self.rules.retry_period;
            self.defend(Challenge { since: now, address, mac, by });
        }
    }

    pub(super) fn advance_holding(&mut self) {
        let Role::Holding(holding) = &self.role else { return };
        let (sent, challenge) = (holding.sent, holding.challenge);
        self.refresh_late(sent + self.rules.lease_duration);
        if self.due(self.lapses_at(sent)) {
            self.ran_out();
            return;
        }
        if let Some(challenge) = challenge
            && self.due(challenge.since + CHALLENGE)
        {
            if self.is_peer(challenge.mac) && !planted!(NeverYields) {
                self.let_go(Why::Yielded);
                return;
            }
            self.defend(challenge);
        }
        self.challenge_again();
        // After a conflict the Lease is read first: perhaps only an annotation changed.
        let declares = self.must_declare() && self.due(self.api.declared + DECLARE_AGAIN);
        if self.api.may_write() && (declares || self.due(self.api.next_write)) {
            if declares {
                self.api.declared = self.step.at.now;
            }
            self.renew();
        }
        self.look_for_another();
        self.consider_leaving();
    }

    /// Gives the VIPs the deadline of the latest renewal, if the last request to the kernel is old enough.
    fn refresh_late(&mut self, deadline: Time) {
        let last = self.ensured;
        let longer = !self.rules.refresh.is_zero() && last.deadline < deadline && self.doubt.is_sure();
        if longer && self.due(last.at + self.rules.refresh) {
            self.carry(deadline);
        }
    }

    /// Answers frames that came during another challenge, or soon after a challenge by the same host.
    fn challenge_again(&mut self) {
        let Role::Holding(holding) = &self.role else { return };
        if holding.challenge.is_some() {
            return;
        }
        let last = |by| holding.challenged.get(by).map_or_else(Time::default, |at| *at + DEFEND);
        // Participants first.
        let waiting = holding.waiting.iter().map(|(by, (address, mac))| (last(by), by.is_none(), *by, *address, *mac));
        let Some((when, _, by, address, mac)) = waiting.min() else { return };
        if self.due(when) {
            if let Role::Holding(holding) = &mut self.role {
                holding.waiting.remove(&by);
            }
            self.challenged(address, mac);
        }
    }

    /// When a holder lapses: at the renew deadline; or just before the kernel drops the VIP (a Lease of a few seconds, a slow
    /// answer), if the holder is to go on under a short fence.
    fn lapses_at(&self, sent: Time) -> Time {
        let deadline = sent + self.rules.lapses_after();
        let covered = self.rules.hold_without_api && self.ensured.dropped_at > sent;
        if covered { deadline.min(self.ensured.dropped_at - BEFORE_DROPPED) } else { deadline }
    }

    /// The Lease could not be renewed in time.
    pub(super) fn ran_out(&mut self) {
        if self.rules.hold_without_api {
            self.lapse();
        } else {
            self.let_go(Why::ApiLost);
        }
    }

    /// Asks the segment for another owner while two nodes may believe that they hold the VIP: the last holder may have been
    /// silent (asleep, cut off) and not dead; or this node is the one that is cut off, when its renewals are not answered.
    fn look_for_another(&mut self) {
        let now = self.step.at.now;
        let Role::Holding(holding) = &self.role else { return };
        let look = holding.look;
        let certain =
            !holding.in_doubt && self.doubt.is_sure() && holding.returns_until.is_none_or(|until| now >= until);
        if certain && self.silent_since().is_none() {
            return;
        }
        if self.due(look) && !planted!(NoSelfProbe) {
            self.probe_vips();
            if let Role::Holding(holding) = &mut self.role {
                holding.look = now + SELF_PROBE;
            }
            self.due(now + SELF_PROBE);
        }
    }

    fn defend(&mut self, challenge: Challenge) {
        let now = self.step.at.now;
        if let Role::Holding(holding) = &mut self.role {
            holding.challenge = None;
        }
        let address = challenge.address;
        let Some(vip) = self.vips.get_mut(&address) else { return };
        if vip.defend(now) {
            self.step.again = true;
            self.report(Report::Defended { address });
        }
    }
}
