//! Whether this node hears enough of the others to carry VIPs while the API is silent: [`crate::peers`] has the rule. For VIPs of
//! Services one other node is enough, so nobody needs to know which one: all others count as one peer.

use std::time::Duration;

use super::asking::Rotation;
use super::hold::{Basis, Hold};
use super::turns::Asker;
use super::{Report, SessionVips};
use crate::core::Probe;
use crate::echo::Change;
use crate::evidence::Sender;
use crate::mac::Mac;
use crate::parties::Party;
use crate::peers::{Ask, HEARD, Quorum, ROUND, SILENT_ROUND};
use crate::planted::planted;
use crate::schedule::is_burst_on;
use crate::time::Time;

/// Under a limit of frames the questions wait for one another, and some are for nodes that are dead: so many may go unanswered, for so long
/// at most.
const QUESTIONS: (u32, Duration) = (8, Duration::from_secs(5));

/// All other nodes, as one peer.
pub(super) const OTHERS: &str = "others";

impl SessionVips {
    /// Whether this node may go on without the API, as far as the other nodes tell.
    pub(super) fn hears_enough(&self) -> bool {
        self.heard_enough_since(self.step.at.now - self.heard_within())
    }

    /// Within this time an answer counts as heard now.
    fn heard_within(&self) -> Duration {
        let (questions, most) = QUESTIONS;
        self.rules.probe_spacing().map_or(HEARD, |spacing| HEARD.max(spacing.saturating_mul(questions).min(most)))
    }

    /// The same by those that were heard since then.
    pub(super) fn heard_enough_since(&self, since: Time) -> bool {
        if self.rules.quorum == Quorum::Nobody {
            return true;
        }
        let heard = self.segment.peers.count(since, self.away_since());
        heard.is_none_or(|(heard, known)| Quorum::Any.is_reached(heard, known))
    }

    /// Another node has answered a probe. The first one after a silence may let this node go on.
    pub(super) fn peer_answered(&mut self, mac: Mac, alone: bool) {
        let enough = self.hears_enough();
        self.segment.peers.answered(self.step.at.now, OTHERS, mac, alone);
        if !enough && self.hears_enough() {
            self.all_dirty();
            self.step.again = true;
        }
    }

    /// Asks some other nodes for their addresses when none was heard for a while: the watch over other nodes asks more often, but
    /// not every node watches another.
    pub(super) fn advance_peers(&mut self) {
        if self.own.has_left() {
            return;
        }
        let me = self.rules.node.as_str();
        let any = self.sessions.live().any(|(node, _)| node != me);
        self.segment.peers.set(any.then_some(OTHERS).into_iter());
        let silence = self.away_since();
        let silent = silence.is_some();
        self.segment.peers.note_silence(self.step.at.now, silence);
        if self.segment.peers.next(silent).is_some_and(|next| next <= self.step.at.now) {
            self.ask_others(silent);
        } else {
            self.asking.round.clear();
        }
        if let Some(next) = self.segment.peers.next(silent) {
            self.due(next);
        }
        self.advance_echo();
    }

    /// Asks a third party on each interface now and then with each sender, to know beforehand which probes the network lets pass.
    fn advance_echo(&mut self) {
        let now = self.step.at.now;
        let up = self.node.interfaces.iter().filter(|interface| interface.link.up).map(|interface| interface.index);
        for index in up.collect::<Vec<_>>() {
            let (bare, pace) = (self.own_sender(index) == Sender::Unspecified, self.rules.pace());
            let (echo, _) = self.segment.echo.entry(index).or_default();
            echo.set_bare(bare);
            echo.set_pace(pace);
            let Some(party) = self.party_in_turn(index) else { continue };
            self.ask_in_turn(index, party);
            let (echo, told) = self.segment.echo.entry(index).or_default();
            let (next, changed) = (echo.next(), echo.changed(now, told));
            if echo.asks() && next > now {
                self.due(next);
            }
            match changed {
                Some(Change::To(state)) => self.report(Report::Echo { interface: index, state }),
                Some(Change::AsUsual) => self.report(Report::Answered),
                None => {}
            }
        }
    }

    /// Asks a third party what is due. Where there is no room for that now, nothing counts as asked.
    fn ask_in_turn(&mut self, index: u32, party: Party) {
        let now = self.step.at.now;
        let (echo, _) = self.segment.echo.entry(index).or_default();
        let due: Vec<Sender> = echo.due(now).collect();
        // Limited frames are for what has to be known now: while the API is silent, nodes have to hear one another, and nothing could
        // be offered.
        let spares = self.rules.frames_per_second.is_some() && self.away_since().is_some();
        if due.is_empty() || spares {
            return;
        }
        if let Err(again) = self.take_turn(index, due.len(), Asker::Echo) {
            self.due(again);
            return;
        }
        for sender in due {
            let (echo, _) = self.segment.echo.entry(index).or_default();
            echo.asked_in_turn(now, party.address, sender);
            // A VIP that may be free is looked for by broadcast, so that is what is tried with its sender.
            let (to, sender) = match sender {
                Sender::Own => (party.mac, self.own_sender(index)),
                Sender::Unspecified => (None, sender),
            };
            self.batch.probes.push(Probe { interface: index, address: party.address, to, sender });
        }
    }

    /// Asks a few nodes on each interface that has any. An interface that may send no probe now is asked as soon as it may; the
    /// others go on meanwhile.
    fn ask_others(&mut self, silent: bool) {
        let now = self.step.at.now;
        let ask = self.segment.peers.next_ask(OTHERS);
        // Limited frames go to who has answered: one is enough, and another one may be dead.
        let answers = matches!(ask, Ask::At(_)) || !self.segment.peers.is_unanswered(OTHERS);
        let stays = self.rules.frames_per_second.is_some() && answers;
        let turn = |rotation: Rotation| if stays { rotation.last() } else { rotation.turn(now) };
        let up = self.node.interfaces.iter().filter(|interface| interface.link.up).map(|interface| interface.index);
        let mut waits = false;
        for index in up.collect::<Vec<_>>() {
            let rotation = self.asking.peers.get(&index).copied().unwrap_or_default();
            let parties = match ask {
                Ask::At(mac) => self.party_at(index, mac).into_iter().collect(),
                Ask::Alone | Ask::Everybody => self.others_to_ask(index, turn(rotation)),
            };
            if parties.is_empty() {
                continue;
            }
            if let Some((again, asked)) = self.asking.round.get(&index).copied()
                && !self.due(again)
            {
                waits |= !asked;
                continue;
            }
            let room = self.take_turn(index, parties.len(), Asker::Peers);
            let again = room.err().unwrap_or(now + if silent { SILENT_ROUND } else { ROUND });
            self.asking.round.insert(index, (again, room.is_ok()));
            waits |= room.is_err();
            if room.is_ok() {
                self.asking.peers.insert(index, Rotation::after(now, turn(rotation)));
                self.segment.asked(now, index, Sender::Own, &parties);
                let sender = self.own_sender(index);
                let to = |party: Party| match ask {
                    Ask::Alone | Ask::At(_) => party.mac,
                    Ask::Everybody => None,
                };
                let probes =
                    parties.into_iter().map(|p| Probe { interface: index, address: p.address, to: to(p), sender });
                self.batch.probes.extend(probes);
            }
        }
        if waits {
            let next = self.asking.round.values().map(|(again, _)| *again).filter(|again| *again > now).min();
            if let Some(next) = next {
                self.due(next);
            }
        } else {
            self.asking.round.clear();
            self.segment.peers.to_ask(now, silent);
        }
    }

    /// Whether a carried VIP may be announced. A node answers for what it carries without the API, and does not call: only just
    /// after it has taken a VIP provisionally.
    pub(super) fn may_announce(&self, hold: &Hold) -> bool {
        match hold.basis {
            Basis::LeftOver => false,
            Basis::Provisional => {
                is_burst_on(self.step.at.now, hold.since, self.doubt.late_at) || planted!(LapsedAnnounces)
            }
            Basis::Recorded | Basis::Beside(_) => {
                self.own.is_live() && self.hears_enough() || planted!(LapsedAnnounces)
            }
        }
    }
}
