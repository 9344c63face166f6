//! Whose VIP is it, when a frame of somebody else is heard: no defence rests on what is remembered.

use std::net::IpAddr;
use std::time::Duration;

use super::claim::Claim;
use super::vip::{Basis, Challenge, Vip};
use super::{Fleet, Report};
use crate::action::Why;
use crate::mac::Mac;
use crate::planted::planted;
use crate::rules::{CHALLENGE, DEFEND, SELF_PROBE};

/// Who yields a provisional hold looks for the VIP again after this.
const YIELDED: Duration = Duration::from_secs(1);

impl Fleet {
    /// A frame of another host was heard.
    pub(super) fn heard(&mut self, index: u32, address: IpAddr, mac: Mac) {
        if self.macs.contains(&mac) || !mac.is_host() {
            return;
        }
        let known = self.vips.contains_key(&address);
        self.watches_heard(index, address, mac, known);
        let Some(vip) = self.vips.get_mut(&address) else {
            let gateway = self.interfaces.iter().any(|i| i.index == index && i.gateways.contains(&address));
            let of_peer = |l: &crate::session::Link| l.addresses.contains(&address);
            if gateway || self.sessions.live().any(|(_, p)| p.view.links().iter().any(of_peer)) {
                self.third_heard.insert(index, self.at.now);
            }
            return;
        };
        vip.answered = Some((self.at.now, mac));
        if vip.hold.is_some() || vip.look.is_some() {
            self.dirty.insert(address);
        }
        if vip.hold.is_some()
            && let Some(mut vip) = self.vips.remove(&address)
        {
            self.heard_another(&mut vip, mac);
            self.vips.insert(address, vip);
        }
    }

    fn heard_another(&mut self, vip: &mut Vip, mac: Mac) {
        let now = self.at.now;
        let Some(hold) = &mut vip.hold else { return };
        let node = self.sessions.with_mac(mac).map(str::to_owned);
        let by_peer = node.is_some();
        if matches!(hold.basis, Basis::Provisional | Basis::LeftOver) || self.own.is_lapsed() {
            if planted!(KeepsVipBesideOther) {
                return;
            }
            let lapsed = self.own.is_lapsed();
            vip.turns += 1;
            vip.yielded = Some(now);
            vip.hold_off = now + YIELDED;
            self.let_go(vip, Why::Yielded);
            if lapsed {
                self.burst();
            }
            return;
        }
        let named = vip.view.as_ref().and_then(|v| v.holder.as_ref()).is_some_and(|h| h.node != self.rules.node);
        if hold.consented && (by_peer || named) {
            hold.heard.get_or_insert(now);
            return;
        }
        if let Some(challenge) = &mut vip.challenge {
            // A participant's frame does not wait behind a stranger's: it may be the rightful holder's.
            if by_peer && !challenge.by_peer {
                *challenge = Challenge { since: now, by_peer, mac };
            }
            return;
        }
        let pause = if by_peer { SELF_PROBE } else { DEFEND };
        // The API is not asked VIP by VIP for all that a peer's kernel still answers for: they wait for one another.
        if by_peer && self.defended.get(&mac).is_some_and(|at| now.since(*at) < SELF_PROBE) {
            vip.pending = Some(mac);
            return;
        }
        if vip.last_challenge.is_some_and(|at| now.since(at) < pause) {
            // It is asked for soon, and answers again if it is still there.
            hold.returns_until = Some(hold.returns_until.unwrap_or_default().max(now + DEFEND * 2));
            return;
        }
        self.challenge(vip, mac, node);
    }

    /// The session is renewed, and the record read.
    fn challenge(&mut self, vip: &mut Vip, mac: Mac, node: Option<String>) {
        let now = self.at.now;
        vip.challenge = Some(Challenge { since: now, by_peer: node.is_some(), mac });
        vip.last_challenge = Some(now);
        vip.pending = None;
        self.own.next_write = now;
        self.own.challenged = now;
        self.want_read(vip.address);
        self.again = true;
        self.report(Report::Contested { address: vip.address, mac, node });
        if planted!(DefendsFromRecord) {
            self.defend(vip);
        }
    }

    /// The next round for a peer's claims has come, and this one waited for it.
    fn advance_pending(&mut self, vip: &mut Vip) {
        let Some(mac) = vip.pending.filter(|_| vip.challenge.is_none() && vip.hold.is_some()) else { return };
        let next = self.defended.get(&mac).map(|at| *at + SELF_PROBE);
        if next.is_none_or(|next| self.due(next)) {
            let node = self.sessions.with_mac(mac).map(str::to_owned);
            self.challenge(vip, mac, node);
        }
    }

    /// Whether the challenge has been answered: by the session's renewal and the record, both sent after the frame.
    pub(super) fn advance_challenge(&mut self, vip: &mut Vip, claim: &Claim) {
        self.advance_pending(vip);
        let Some(challenge) = vip.challenge else { return };
        let renewed = self.own.tenure.as_ref().is_some_and(|t| !t.lapsed && t.sent >= challenge.since);
        if renewed && vip.proven >= challenge.since && *claim == Claim::Mine {
            let now = self.at.now;
            self.defended.retain(|_, at| now.since(*at) < SELF_PROBE);
            self.defended.insert(challenge.mac, now);
            self.defend(vip);
            return;
        }
        if !self.due(challenge.since + CHALLENGE) {
            return;
        }
        // Who came late and could not renew since may have lost its session to a node that it has never heard of.
        if (challenge.by_peer || self.unsure.is_some()) && !planted!(VipNeverYields) {
            vip.yielded = Some(self.at.now);
            vip.hold_off = self.at.now + YIELDED;
            vip.turns += 1;
            self.let_go(vip, Why::Yielded);
        } else {
            self.defend(vip);
        }
    }

    fn defend(&mut self, vip: &mut Vip) {
        vip.challenge = None;
        if vip.put {
            vip.schedule.restart(self.at.now);
            self.report(Report::Defended { address: vip.address });
        }
    }

    /// The session was renewed: what waits for that is considered.
    pub(super) fn challenges_dirty(&mut self) {
        let waiting = self.carried.iter().filter(|a| self.vips.get(a).is_some_and(|v| v.challenge.is_some()));
        let waiting: Vec<IpAddr> = waiting.copied().collect();
        self.dirty.extend(waiting);
    }
}
