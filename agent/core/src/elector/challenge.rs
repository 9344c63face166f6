//! Another host claims a VIP that this node holds by the Lease. No defence rests on a remembered Lease: a renewal is sent at once.
//!
//! One renewal answers all claims that were heard before it was sent, whichever VIPs they are for. What one host claims within
//! [`DEFEND`] of its last answer waits for the next renewal, so that claims cost at most one renewal a host in that time. All
//! strangers count as one host: nobody gains by inventing addresses.

use std::collections::BTreeMap;
use std::net::IpAddr;

use super::{Elector, Role};
use crate::action::{Report, Why};
use crate::mac::Mac;
use crate::planted::planted;
use crate::rules::{CHALLENGE, DEFEND};
use crate::time::Time;

/// A participant, by its MAC address. None: any stranger.
type Challenger = Option<Mac>;

/// A claim of each VIP. A stranger's does not displace a participant's, who may be the rightful holder.
#[derive(Debug, Default)]
pub(super) struct Claims(BTreeMap<IpAddr, Claim>);

#[derive(Clone, Copy, Debug)]
struct Claim {
    mac: Mac,
    by: Challenger,
}

/// Other hosts' claims of the VIPs that are held here.
#[derive(Debug, Default)]
pub(super) struct Challenges {
    open: Option<Challenge>,
    /// When each challenger's claims last became a challenge.
    challenged: BTreeMap<Challenger, Time>,
    /// Claims that wait for the next challenge.
    waiting: Claims,
}

/// Claims that wait for the answer to a renewal.
#[derive(Debug)]
struct Challenge {
    /// A renewal that is sent then, or later, answers them.
    since: Time,
    claims: Claims,
}

impl Claims {
    fn add(&mut self, address: IpAddr, claim: Claim) {
        let known = self.0.get(&address);
        if claim.by.is_some() || known.is_none_or(|known| known.by.is_none()) {
            self.0.insert(address, claim);
        }
    }

    fn add_all(&mut self, others: Self) {
        others.0.into_iter().for_each(|(address, claim)| self.add(address, claim));
    }

    fn is_of_participant(&self) -> bool {
        self.0.values().any(|claim| claim.by.is_some())
    }
}

impl Challenges {
    /// The claims that a renewal answers which was sent then.
    pub(super) fn answered_by(&mut self, sent: Time) -> Claims {
        self.open.take_if(|open| sent >= open.since).map(|open| open.claims).unwrap_or_default()
    }

    /// Since when claims wait for a renewal.
    pub(super) fn since(&self) -> Option<Time> {
        self.open.as_ref().map(|open| open.since)
    }

    /// The next claims of that host wait until then.
    fn rests_until(&self, by: Challenger) -> Time {
        self.challenged.get(&by).map_or_else(Time::default, |at| *at + DEFEND)
    }

    /// When the claims that wait become a challenge.
    fn next(&self) -> Option<Time> {
        if self.open.is_some() {
            return None;
        }
        self.waiting.0.values().map(|claim| self.rests_until(claim.by)).min()
    }

    /// A claim waits. Of several participants' claims of a VIP, the one that may be answered first stays.
    fn add(&mut self, address: IpAddr, claim: Claim) {
        let known = self.waiting.0.get(&address).filter(|known| known.by.is_some());
        if known.is_none_or(|known| self.rests_until(claim.by) <= self.rests_until(known.by)) {
            self.waiting.add(address, claim);
        }
    }

    /// All claims that wait become a challenge, together with those of the one that is open. Those that are new to it.
    fn begin(&mut self, now: Time) -> Vec<(IpAddr, Mac)> {
        let news: Vec<_> = self.waiting.0.iter().map(|(address, claim)| (*address, claim.mac)).collect();
        self.challenged.retain(|_, at| now.since(*at) < DEFEND);
        self.challenged.extend(self.waiting.0.values().map(|claim| (claim.by, now)));
        let mut claims = self.open.take().map(|open| open.claims).unwrap_or_default();
        claims.add_all(std::mem::take(&mut self.waiting));
        self.open = Some(Challenge { since: now, claims });
        news
    }
}

impl Elector {
    /// Another host claims a VIP that is held here.
    pub(super) fn challenged(&mut self, address: IpAddr, mac: Mac) {
        let now = self.step.at.now;
        if self.serves_until_it_hears(mac) {
            // It may not have heard this node yet.
            let vip = self.vips.get_mut(&address);
            self.step.again |= vip.is_some_and(|vip| vip.defend(now));
            return;
        }
        let by = self.is_peer(mac).then_some(mac);
        let Role::Holding(holding) = &mut self.role else { return };
        let challenges = &mut holding.challenges;
        challenges.add(address, Claim { mac, by });
        // A participant may be the rightful holder: its frame does not wait behind a stranger's.
        let behind = challenges.open.as_ref().is_some_and(|open| by.is_none() || open.claims.is_of_participant());
        if !behind && now >= challenges.rests_until(by) {
            self.challenge();
        }
    }

    /// Whether the last holder speaks, which handed the Lease over to this node: it serves on until it hears the announcement.
    fn serves_until_it_hears(&self, mac: Mac) -> bool {
        let Role::Holding(holding) = &self.role else { return false };
        let gave = holding.given_until.is_some_and(|until| self.step.at.now < until) && !planted!(ContestsItsGiver);
        let me = &self.rules.node;
        gave && self.holder_with(mac).is_some_and(|name| name != me && self.candidacy.last_holders().contains(&name))
    }

    /// Claims that wait become a challenge.
    fn challenge(&mut self) {
        let now = self.step.at.now;
        let Role::Holding(holding) = &mut self.role else { return };
        let news = holding.challenges.begin(now);
        self.api.next_write = now;
        for (address, mac) in news {
            let participant = self.lease.view().and_then(|v| v.participant_with(mac)).map(str::to_owned);
            self.report(Report::Contested { address, mac, participant });
        }
        if planted!(DefendFromMemory) {
            self.api.next_write = now + self.rules.retry_period;
            self.defend_all();
        }
    }

    /// Ends a challenge that no renewal has answered in time, and begins the next one. True: this node has yielded.
    pub(super) fn advance_challenge(&mut self) -> bool {
        let Role::Holding(holding) = &self.role else { return false };
        if let Some(since) = holding.challenges.since()
            && self.due(since + CHALLENGE)
        {
            // A stranger may have turned out to be a participant meanwhile.
            if self.is_challenged_by_peer() && !planted!(NeverYields) {
                self.let_go(Why::Yielded);
                return true;
            }
            self.defend_all();
        }
        let Role::Holding(holding) = &self.role else { return false };
        if let Some(next) = holding.challenges.next()
            && self.due(next)
        {
            self.challenge();
        }
        false
    }

    fn is_challenged_by_peer(&self) -> bool {
        let Role::Holding(holding) = &self.role else { return false };
        let open = holding.challenges.open.iter();
        open.flat_map(|open| open.claims.0.values()).any(|claim| self.is_peer(claim.mac))
    }

    /// Announces the VIPs of the open challenge.
    fn defend_all(&mut self) {
        let now = self.step.at.now;
        if let Role::Holding(holding) = &mut self.role {
            let claims = holding.challenges.answered_by(now);
            self.defend(claims);
        }
    }

    /// Announces the VIPs against these claims.
    pub(super) fn defend(&mut self, claims: Claims) {
        let now = self.step.at.now;
        for address in claims.0.into_keys() {
            if self.vips.get_mut(&address).is_some_and(|vip| vip.defend(now)) {
                self.step.again = true;
                self.report(Report::Defended { address });
            }
        }
    }
}
