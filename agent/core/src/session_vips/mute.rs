//! Whether the segment hears this node. A node that hears others, and whose own frames are lost, serves nobody, and still has an API:
//! so others are asked first. [`crate::elector`] has the same rule for one Lease.
//!
//! It is in doubt when others have ended this node's session, and when the node takes a VIP. Any answer to a probe of its own ends that.

use std::time::Duration;

use super::turns::Asker;
use super::vip::Vip;
use super::{Report, SessionVips};
use crate::core::Probe;
use crate::evidence::{Form, Sender};
use crate::parties::Party;
use crate::planted::planted;
use crate::rules::{LEFT_TO_OTHERS, MUTE_AFTER, MUTE_ASK};
use crate::time::Time;

/// So many questions have to go unanswered.
const ASKED: usize = 3;

/// Nobody has answered on an interface since this became doubtful.
#[derive(Clone, Copy, Debug)]
pub(super) struct Unheard {
    /// Since when.
    since: Time,
    /// Silence counts from then on.
    counts: Time,
    /// Third parties are asked next at that time.
    next: Time,
    /// How often they were asked.
    asked: usize,
    /// Others have ended the session: free VIPs are left to them until somebody answers.
    ended: bool,
    /// It has been so for too long, and was told: what was taken since then is given back.
    mute: bool,
}

impl Unheard {
    fn new(since: Time, next: Time) -> Self {
        Self { since, counts: since, next, asked: 0, ended: false, mute: false }
    }
}

impl SessionVips {
    /// This node's session was ended, perhaps because others do not hear it.
    pub(super) fn may_be_unheard(&mut self) {
        let now = self.step.at.now;
        let up = self.node.interfaces.iter().filter(|interface| interface.link.up).map(|interface| interface.index);
        for index in up {
            self.segment.unheard.entry(index).or_insert_with(|| Unheard::new(now, now)).ended = true;
        }
    }

    /// This node is about to take a VIP. If nobody answers it from now on, it has to give the VIP back; unless it knew that and takes
    /// the VIP because no other node does.
    pub(super) fn takes(&mut self, vip: &mut Vip) {
        let now = self.step.at.now;
        vip.taking.heard_before = None;
        let Some(index) = self.link_for(vip).map(|interface| interface.index) else { return };
        let next = now + self.asks_every();
        if !self.is_unheard(index) {
            vip.taking.heard_before = Some(now);
            self.segment.unheard.entry(index).or_insert_with(|| Unheard::new(now, next));
            self.step.again = true;
        }
    }

    /// Under a limit of frames, few are spent on this.
    fn asks_every(&self) -> Duration {
        if self.rules.frames_per_second.is_some() { MUTE_AFTER * 3 / 10 } else { MUTE_ASK }
    }

    /// A host has answered a probe on an interface.
    pub(super) fn is_heard(&mut self, index: u32, form: Form) {
        if form.is_answer() && self.segment.unheard.remove(&index).is_some_and(|unheard| unheard.ended || unheard.mute)
        {
            self.all_dirty();
            self.step.again = true;
        }
    }

    /// Whether nobody on the segment of an interface seems to hear this node.
    fn is_unheard(&self, index: u32) -> bool {
        let unheard = self.segment.unheard.get(&index).is_some_and(|unheard| unheard.ended || unheard.mute);
        unheard || self.is_unanswered(index)
    }

    /// Whether a VIP that is open since then, and that this node might take now, is left to others, because nothing answers this node. If
    /// none of them takes the VIP in time, this node does: so it serves if nothing answers anybody.
    pub(super) fn leaves_to_others(&mut self, vip: &mut Vip, open: Time, turn: Duration) -> bool {
        let unheard = self.link_for(vip).is_some_and(|interface| self.is_unheard(interface.index));
        if !unheard || self.place(vip).is_none_or(|place| place.other.is_none()) || planted!(MuteTakes) {
            return false;
        }
        // Others may take it only since now, too: what has moved often is left alone for a while.
        let left = vip.taking.left.filter(|(of, _)| *of == open).map_or(self.step.at.now, |(_, since)| since);
        vip.taking.left = Some((open, left));
        !self.due(left + LEFT_TO_OTHERS + turn)
    }

    /// Whether a VIP is to be given back: nobody has answered since this node took it, and for too long.
    pub(super) fn gives_back(&self, vip: &Vip) -> bool {
        let unheard = vip.hold.and_then(|hold| self.segment.unheard.get(&hold.interface));
        let since = unheard.filter(|unheard| unheard.mute).map(|unheard| unheard.since);
        vip.taking.heard_before.zip(since).is_some_and(|(took, since)| took >= since)
    }

    /// Asks third parties where it is in doubt whether anybody hears this node.
    pub(super) fn advance_unheard(&mut self) {
        let now = self.step.at.now;
        if self.segment.unheard.is_empty() {
            return;
        }
        // Where no other node could have the VIPs, it does not matter.
        let alone = !self.sessions.live().any(|(node, _)| node != self.rules.node);
        for (index, mut unheard) in self.segment.unheard.clone() {
            let up = self.node.interfaces.iter().any(|interface| interface.index == index && interface.link.up);
            let turn = unheard.asked;
            let parties = self.third_parties(index, self.family_on(index), None, 1, turn);
            if !up || alone || parties.is_empty() || self.own.has_left() {
                self.segment.unheard.remove(&index);
                continue;
            }
            // A step after a pause has missed answers. Without the API nobody could be told.
            if (!self.doubt.is_sure() || self.api.away.is_some()) && !unheard.mute {
                unheard.counts = now;
            }
            let silent = unheard.asked >= ASKED && self.due(unheard.counts + MUTE_AFTER);
            if !unheard.mute && silent && !planted!(MuteKeeps) {
                unheard.mute = true;
                self.gives_back_all(index, unheard.since);
            }
            if self.due(unheard.next) {
                let room = self.take_turn(index, parties.len(), Asker::Peers);
                unheard.next = room.err().unwrap_or_else(|| now + self.asks_every());
                if room.is_ok() {
                    unheard.asked = turn.wrapping_add(1);
                    self.segment.asked(now, index, Sender::Own, &parties);
                    let sender = self.own_sender(index);
                    let probe =
                        |party: Party| Probe { interface: index, address: party.address, to: party.mac, sender };
                    self.batch.probes.extend(parties.into_iter().map(probe));
                }
                self.due(unheard.next);
            }
            self.segment.unheard.insert(index, unheard);
        }
    }

    /// What was taken on an interface since then is given back.
    fn gives_back_all(&mut self, index: u32, since: Time) {
        let taken = |vip: &Vip| {
            vip.hold.is_some_and(|hold| hold.interface == index)
                && vip.taking.heard_before.is_some_and(|took| took >= since)
        };
        let carried = self.index.carried.iter().filter_map(|address| self.vips.get(address));
        let these: Vec<_> = carried.filter(|vip| taken(vip)).map(|vip| vip.address).collect();
        if !these.is_empty() {
            self.report(Report::Mute { interface: index });
            self.index.dirty.extend(these);
            self.step.again = true;
        }
    }
}
