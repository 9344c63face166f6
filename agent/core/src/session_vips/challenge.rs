//! Another host speaks for a VIP that is carried here. No defence rests on what is remembered: the API is asked first.
//!
//! What happens on a foreign ARP frame: [`SessionVips::heard`] notes who spoke. If the VIP is carried, `heard_another` asks a host that
//! only the answer to a broadcast named. Of any other frame, it either yields at once (the hold is provisional or lapsed), takes the
//! frame for the successor's (during a hand-over), or opens a challenge: the session is renewed and the record read (a stranger's
//! claim may wait: `strangers`). `advance_challenge` then defends, or yields when no answer came.

use std::net::IpAddr;
use std::time::Duration;

use super::hold::{Basis, Challenge};
use super::record_state::RecordState;
use super::segment::Family;
use super::turns::Asker;
use super::vip::Vip;
use super::{Report, SessionVips};
use crate::action::Why;
use crate::core::Probe;
use crate::evidence::Form;
use crate::mac::Mac;
use crate::named::Question;
use crate::placement::seed;
use crate::planted::planted;
use crate::rules::{CHALLENGE, DEFEND, SELF_PROBE};
use crate::time::Time;

/// A node that has yielded looks for the VIP again after this.
pub(super) const YIELDED: Duration = Duration::from_secs(1);

impl SessionVips {
    /// A frame of another host was heard.
    pub(super) fn heard(&mut self, index: u32, address: IpAddr, mac: Mac, form: Form) {
        if self.node.macs.contains(&mac) || !mac.is_host() {
            return;
        }
        let known = self.vips.contains_key(&address);
        let form = self.segment.broadcasts.judge(self.step.at.now, index, (address, mac), form, known);
        self.is_heard(index, form);
        self.watches_heard(index, address, (mac, form), known);
        if known && !self.is_of_segment(index, address) {
            return;
        }
        let Some(vip) = self.vips.get_mut(&address) else {
            let gateway = self.node.interfaces.iter().any(|i| i.index == index && i.gateways.contains(&address));
            let of_peer = |l: &crate::session::Link| l.addresses.contains(&address);
            let peer = self.sessions.live().any(|(_, p)| p.view.links().iter().any(of_peer));
            let answers = form.is_answer() || planted!(ClaimsEntitle);
            if peer && answers {
                self.peer_answered(mac, form.is_alone() || planted!(ClaimsEntitle));
            }
            if (gateway || peer) && answers {
                self.segment.third_party_answered(self.step.at.now, index, address, (mac, form));
                if Family::of(address) == self.family_on(index) {
                    self.echoed(index, address, form);
                }
            }
            return;
        };
        vip.answered = Some((self.step.at.now, mac, form));
        if vip.hold.is_some() || vip.taking.look.is_some() {
            self.index.dirty.insert(address);
        }
        if vip.hold.is_some()
            && let Some(mut vip) = self.vips.remove(&address)
        {
            self.heard_another(&mut vip, index, mac, form);
            self.vips.insert(address, vip);
        }
    }

    /// Whether a frame that arrives on that interface is about this VIP: the VIP is carried there, or belongs there. Whoever has
    /// the same address on another segment does not disturb the VIP's clients.
    fn is_of_segment(&self, index: u32, address: IpAddr) -> bool {
        let Some(vip) = self.vips.get(&address) else { return false };
        vip.hold.is_some_and(|hold| hold.interface == index)
            || self.link_for(vip).is_some_and(|link| link.index == index)
            || planted!(HearsOtherSegments)
    }

    fn heard_another(&mut self, vip: &mut Vip, index: u32, mac: Mac, form: Form) {
        let now = self.step.at.now;
        if form.is_to_all() && !planted!(BelievesBroadcasts) {
            self.segment.named.name(now, index, vip.address, mac);
            self.step.again = true;
            return;
        }
        let node = self.carrier_with(mac, vip).map(str::to_owned);
        let by_peer = node.is_some();
        let Some(hold) = &mut vip.hold else { return };
        if matches!(hold.basis, Basis::Provisional | Basis::LeftOver) || self.own.is_lapsed() {
            if planted!(KeepsVipBesideOther) {
                return;
            }
            let lapsed = self.own.is_lapsed();
            vip.taking.turns += 1;
            vip.yielded = Some(now);
            vip.hold_off = now + YIELDED;
            self.let_go(vip, Why::Yielded);
            if lapsed {
                self.burst();
            }
            return;
        }
        let named = vip.record.holder().is_some_and(|h| h.node != self.rules.node);
        if let Some(handover) = &mut hold.handover
            && (by_peer || named)
        {
            handover.heard.get_or_insert(now);
            return;
        }
        let gave = |node: &String| hold.given.is_some_and(|(giver, until)| now < until && seed(node) == giver);
        if node.as_ref().is_some_and(gave) && !planted!(ContestsItsGiver) {
            // It may not have heard this node yet.
            if vip.last_challenge.is_none_or(|(at, _)| now.since(at) >= DEFEND) {
                vip.last_challenge = Some((now, true));
                self.defend(vip);
            }
            return;
        }
        if let Some(challenge) = hold.challenge {
            // A participant's frame does not wait behind a stranger's: it may be the rightful holder's.
            if by_peer && !challenge.by_peer {
                self.challenge(vip, mac, node);
            }
            return;
        }
        let hold = *hold;
        if !by_peer && self.may_strangers_wait(&hold) {
            return self.claimed_by_stranger(vip, mac);
        }
        let Some(hold) = &mut vip.hold else { return };
        let pause = if by_peer { SELF_PROBE } else { DEFEND };
        // A peer's kernel may still answer for many VIPs. The API is not asked for each at once: they wait for the next round.
        if by_peer && self.segment.defended.get(&mac).is_some_and(|at| now.since(*at) < SELF_PROBE) {
            hold.waiting = Some(mac);
            return;
        }
        // A peer's claim does not wait because of a stranger's, nor does a stranger's if this session may have ended.
        let undecided = |at: Time| !self.own.is_renewed_since(at) && self.seems_to_have_ended();
        let waits = |at: Time, of_peer: bool| of_peer || !by_peer && !undecided(at);
        if vip.last_challenge.is_some_and(|(at, of_peer)| now.since(at) < pause && waits(at, of_peer)) {
            // The segment is asked for the VIP soon: a host that still has it answers again.
            hold.returns_until = Some(hold.returns_until.unwrap_or_default().max(now + DEFEND * 2));
            return;
        }
        self.challenge(vip, mac, node);
    }

    /// Asks the hosts that answers to broadcasts named. Where frames are limited and there is no room, the next broadcast brings the name
    /// again.
    pub(super) fn advance_named(&mut self) {
        for question in self.segment.named.due(self.step.at.now) {
            let Question { interface, address, to } = question;
            if self.take_turn(interface, 1, Asker::Carried).is_ok() {
                let sender = self.own_sender(interface);
                self.batch.probes.push(Probe { interface, address, to: Some(to), sender });
            }
        }
        if let Some(next) = self.segment.named.next() {
            self.due(next);
        }
    }

    /// Opens a challenge: the session is renewed, and the record read.
    pub(super) fn challenge(&mut self, vip: &mut Vip, mac: Mac, node: Option<String>) {
        let (now, by_peer) = (self.step.at.now, node.is_some());
        if let Some(hold) = &mut vip.hold {
            hold.challenge = Some(Challenge { since: now, by_peer, mac });
            hold.waiting = None;
        }
        vip.last_challenge = Some((now, by_peer));
        // A node's claim is not defended without an answer. Strangers may claim VIP after VIP, and an API that refuses calls is not
        // asked for each.
        self.own.calls.next_write = if by_peer { now } else { now.max(self.own.calls.next_try) };
        self.own.challenged = now;
        self.want_read(vip.address);
        self.step.again = true;
        self.report(Report::Contested { address: vip.address, mac, node });
        if planted!(DefendsFromRecord) {
            self.defend(vip);
        }
    }

    /// A waiting claim becomes a challenge in the next round for that peer's claims, or for those of strangers.
    fn advance_waiting(&mut self, vip: &mut Vip) {
        let Some(hold) = vip.hold.filter(|hold| hold.challenge.is_none()) else { return };
        let Some(mac) = hold.waiting else { return };
        let node = self.carrier_with(mac, vip).map(str::to_owned);
        if node.is_none() {
            return self.advance_strangers_claim(vip, &hold, mac);
        }
        let next = self.segment.defended.get(&mac).map(|at| *at + SELF_PROBE);
        if next.is_none_or(|next| self.due(next)) {
            self.challenge(vip, mac, node);
        }
    }

    /// Whether the challenge has been answered: by the session's renewal and the record, both sent after the frame.
    pub(super) fn advance_challenge(&mut self, vip: &mut Vip, state: &RecordState) {
        self.advance_waiting(vip);
        let Some(challenge) = vip.hold.and_then(|hold| hold.challenge) else { return };
        let renewed = self.own.tenure.as_ref().is_some_and(|t| !t.lapsed && t.sent >= challenge.since);
        let mine = *state == RecordState::Mine || self.is_of_ended(vip, state, challenge);
        if renewed && vip.record.proven >= challenge.since && mine {
            let now = self.step.at.now;
            self.segment.defended.retain(|_, at| now.since(*at) < SELF_PROBE);
            self.segment.defended.insert(challenge.mac, now);
            self.defend(vip);
            return;
        }
        if !self.due(challenge.since + CHALLENGE) {
            return;
        }
        // A stranger may have turned out to be a participant meanwhile.
        let by_peer = challenge.by_peer || self.carrier_with(challenge.mac, vip).is_some();
        if (by_peer || self.may_have_ended()) && !planted!(VipNeverYields) {
            if by_peer {
                self.doubt.yielded = Some(challenge.since);
                self.claimants_changed();
            }
            vip.yielded = Some(self.step.at.now);
            vip.hold_off = self.step.at.now + YIELDED;
            vip.taking.turns += 1;
            self.let_go(vip, Why::Yielded);
        } else {
            self.defend(vip);
        }
    }

    /// Whether this node has taken the VIP and its record is still being written, and the claim is the last holder's, whose session
    /// has ended: a session that has ended never lives again.
    fn is_of_ended(&self, vip: &Vip, state: &RecordState, challenge: Challenge) -> bool {
        let beside = vip.hold.is_some_and(|hold| matches!(hold.basis, Basis::Beside(_)));
        let ended = *state == RecordState::Free { was_held: true };
        let last = vip.holder().map(|holder| holder.node.as_str());
        beside && ended && last.is_some() && self.carrier_with(challenge.mac, vip) == last
    }

    fn defend(&mut self, vip: &mut Vip) {
        if let Some(hold) = &mut vip.hold {
            hold.challenge = None;
        }
        if vip.is_put() {
            vip.schedule.restart(self.step.at.now);
            self.report(Report::Defended { address: vip.address });
        }
    }

    /// The session was renewed: considers the VIPs with a challenge that waits for that.
    pub(super) fn challenges_dirty(&mut self) {
        let hold = |address: &IpAddr| self.vips.get(address).and_then(|vip| vip.hold);
        let challenged = |address: &&IpAddr| hold(address).is_some_and(|hold| hold.challenge.is_some());
        self.index.dirty.extend(self.index.carried.iter().filter(challenged));
    }
}
