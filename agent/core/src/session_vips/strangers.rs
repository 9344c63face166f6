//! Claims of hosts that are no nodes with a session.
//!
//! Each answer to a claim needs a renewal of the session and a read of the record, and such a host may claim very many VIPs, from as
//! many MAC addresses as it likes. So all these claims are answered in common rounds, of one renewal and one read each. The first
//! claim is answered at once, and what comes later waits for the next round. While strangers go on, the rounds become rare.
//!
//! Nothing is defended before its round. A stranger may be a node whose declaration has not arrived. If it took the VIP rightfully,
//! this node's session has ended or its record was given away: the renewals that are due anyway show the one, so that need not wait for
//! a round, and a VIP that is being handed over does not wait at all. Nor does any VIP while this node is not sure of its session, or
//! was cut off and the API does not answer: then the claim decides.

use std::time::Duration;

use super::SessionVips;
use super::hold::{Basis, Hold};
use super::vip::Vip;
use crate::mac::Mac;
use crate::rules::DEFEND;
use crate::time::Time;

/// The longest time between two rounds.
const LONGEST: Duration = Duration::from_secs(8);

/// The rounds in which claims of strangers are answered.
#[derive(Debug, Default)]
pub(super) struct Strangers(Option<Round>);

/// The last round.
#[derive(Clone, Copy, Debug)]
struct Round {
    at: Time,
    /// The next one is no sooner than so long after it.
    rest: Duration,
    /// Whether a claim waits for the next one.
    awaited: bool,
}

impl Strangers {
    /// A claim is to be answered. In a round of this moment; or this is when to try again.
    fn join(&mut self, now: Time) -> Result<(), Time> {
        let rest = match &mut self.0 {
            Some(round) if round.at == now => return Ok(()),
            Some(round) if now < round.at + round.rest => {
                round.awaited = true;
                return Err(round.at + round.rest);
            }
            // After a while without claims it begins anew.
            Some(round) if round.awaited && now < round.at + round.rest + DEFEND => (round.rest * 2).min(LONGEST),
            _ => DEFEND,
        };
        self.0 = Some(Round { at: now, rest, awaited: false });
        Ok(())
    }
}

impl SessionVips {
    /// Whether a stranger's claim may wait for a round.
    pub(super) fn may_strangers_wait(&self, hold: &Hold) -> bool {
        hold.handover.is_none() && self.doubt.is_sure() && !self.seems_to_have_ended()
    }

    /// A stranger claims a VIP that is carried here.
    pub(super) fn claimed_by_stranger(&mut self, vip: &mut Vip, mac: Mac) {
        if self.strangers.join(self.step.at.now).is_ok() {
            return self.challenge(vip, mac, None);
        }
        // It does not displace the claim of a node.
        let of_node = |mac| self.carrier_with(mac, vip).is_some();
        let displaces = !vip.hold.and_then(|hold| hold.waiting).is_some_and(of_node);
        if let Some(hold) = vip.hold.as_mut().filter(|_| displaces) {
            hold.waiting = Some(mac);
        }
    }

    /// A stranger's claim waits: it is answered if its round has come.
    pub(super) fn advance_strangers_claim(&mut self, vip: &mut Vip, hold: &Hold, mac: Mac) {
        if matches!(hold.basis, Basis::Provisional | Basis::LeftOver) || self.own.is_lapsed() {
            // The segment is asked for the VIP all the time. If the stranger still has it, this node yields.
            if let Some(hold) = &mut vip.hold {
                hold.waiting = None;
            }
            return;
        }
        let room = if self.may_strangers_wait(hold) { self.strangers.join(self.step.at.now) } else { Ok(()) };
        match room {
            Ok(()) => self.challenge(vip, mac, None),
            Err(next) => {
                self.due(next);
            }
        }
    }

    /// This node stepped late, and a claim of before says nothing about now: the segment is asked for the stranger.
    pub(super) fn forget_strangers_claim(&self, vip: &mut Vip) {
        let waiting = vip.hold.and_then(|hold| hold.waiting);
        if waiting.is_some_and(|mac| self.carrier_with(mac, vip).is_none())
            && let Some(hold) = &mut vip.hold
        {
            hold.waiting = None;
            hold.returns_until = hold.returns_until.max(Some(self.step.at.now + DEFEND * 2));
        }
    }

    /// A node declares something else: a stranger may be that node. Its claim does not wait. Of several hosts that claimed a VIP one
    /// is remembered, so the others are asked.
    pub(super) fn claimants_changed(&mut self) {
        let until = self.step.at.now + DEFEND * 2;
        for address in &self.index.carried {
            let hold = self.vips.get_mut(address).and_then(|vip| vip.hold.as_mut());
            if let Some(hold) = hold.filter(|hold| hold.waiting.is_some()) {
                hold.returns_until = hold.returns_until.max(Some(until));
                self.index.dirty.insert(*address);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Time {
        Time::from_nanos(ms * 1_000_000)
    }

    #[test]
    fn rounds_become_rare_while_strangers_go_on_and_begin_anew_after_a_while() {
        let mut strangers = Strangers::default();
        let rounds: Vec<u64> = (0..60_000).step_by(100).filter(|ms| strangers.join(at(*ms)).is_ok()).collect();
        assert_eq!(rounds, [0, 1_000, 3_000, 7_000, 15_000, 23_000, 31_000, 39_000, 47_000, 55_000]);
        assert_eq!(strangers.join(at(55_000)), Ok(()), "all of a moment share a round");
        assert_eq!(strangers.join(at(62_000)), Err(at(63_000)));
        assert_eq!(strangers.join(at(64_000)), Ok(()));
        assert_eq!(strangers.join(at(64_100)), Err(at(65_000)), "it was quiet for a while");
        assert_eq!(strangers.join(at(65_000)), Ok(()));
        assert_eq!(strangers.join(at(67_500)), Ok(()), "nobody waited");
        assert_eq!(strangers.join(at(67_600)), Err(at(68_500)));
    }
}
