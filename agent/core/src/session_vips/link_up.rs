//! A link of this node came up. While it was down, others may have ended this node's session and taken the VIPs on that link, and
//! this node's watch may tell that late. So what this node knows of its session and of those VIPs' records is in doubt: a VIP is
//! taken up there after a renewal and a read of its record that were both sent since, or, while the API does not answer, after
//! nobody on the segment has answered for it. VIPs on links that stayed up go on.

use super::SessionVips;
use super::asking::Found;
use super::challenge::YIELDED;
use super::hold::{Basis, Hold};
use super::vip::Vip;
use crate::planted::planted;
use crate::rules::{AWAY, DEFEND};
use crate::time::Time;

impl SessionVips {
    /// A link came up just now: the session is renewed, and the records of VIPs on that link are read.
    pub(super) fn link_came_up(&mut self) {
        let now = self.step.at.now;
        self.forget_witnesses();
        self.announce_again(|_| true);
        // A renewal that is under way says nothing about what happens after it was sent: another one follows it.
        self.own.challenged = now;
        self.own.calls.next_write = now;
        let mine: Vec<_> = self.index.held.get(&self.rules.node).into_iter().flatten().copied().collect();
        for address in mine {
            let Some(vip) = self.vips.get(&address) else { continue };
            if self.came_up(vip) != Some(now) {
                continue;
            }
            self.want_read(address);
            // It may have stayed on its interface, and another node may have it too: the segment is asked.
            if let Some(hold) = self.vips.get_mut(&address).and_then(|vip| vip.hold.as_mut()) {
                hold.returns_until = Some(hold.returns_until.unwrap_or_default().max(now + DEFEND * 2));
            }
        }
    }

    /// When the link came up that a VIP is on, or would be on.
    fn came_up(&self, vip: &Vip) -> Option<Time> {
        if planted!(TakesUpAtLinkUp) {
            return None;
        }
        let index = vip.hold.map(|hold| hold.interface).or_else(|| self.link_for(vip).map(|link| link.index))?;
        self.node.came_up.get(&index).copied()
    }

    /// Whether the session was renewed since the VIP's link came up. If not, the VIP is considered again when it is renewed.
    pub(super) fn is_renewed_since_up(&mut self, vip: &Vip) -> bool {
        let Some(up) = self.came_up(vip) else { return true };
        let renewed = self.own.is_renewed_since(up);
        if !renewed {
            self.own.awaiting.insert(vip.address);
            // A renewal that hangs is not waited for: then the API counts as away.
            if let Some(sent) = self.own.calls.flight.as_ref().map(|flight| flight.sent) {
                self.due(sent + AWAY);
            }
        }
        renewed
    }

    /// Whether the record was read since the VIP's link came up. If not, a read is under way, or is wanted now.
    fn is_read_since_up(&mut self, vip: &Vip, up: Time) -> bool {
        let read = vip.record.proven >= up;
        let mut reads = self.calls.reads.values().filter(|read| read.sent >= up);
        if !read && !reads.any(|read| read.known.contains_key(&vip.address)) {
            self.want_read(vip.address);
        }
        read
    }

    /// Whether a VIP whose record names this node, as far as is known, is still this node's. If that is in doubt, the API is asked,
    /// and the segment if the API does not answer.
    pub(super) fn is_still_here(&mut self, vip: &mut Vip) -> bool {
        let Some(up) = self.came_up(vip) else { return true };
        let (renewed, now) = (self.is_renewed_since_up(vip), self.step.at.now);
        // An offer that was sent while the link was down may take effect after a read.
        let offered = vip.flight.as_ref().map(|flight| flight.sent).filter(|sent| *sent < up);
        if self.is_read_since_up(vip, up) && renewed && offered.is_none() {
            return true;
        }
        // What is under way is waited for: also a write of this record, which a watch may show before it is answered.
        let calls =
            self.own.calls.flight.iter().map(|flight| flight.sent).chain(vip.flight.iter().map(|flight| flight.sent));
        let calls = calls.chain(self.calls.reads.values().map(|read| read.sent));
        let waits = calls.chain(self.away_since()).min();
        // Calls that fail at once, between others that are answered, leave nothing to wait for: then the time since the link came
        // up counts. Only a session that somebody has written since is read first.
        let sound = self.own.tenure.as_ref().is_some_and(|tenure| !tenure.in_doubt);
        let read_now = self.calls.wanted.contains(&vip.address) && self.calls.next_read <= now;
        let since = waits.unwrap_or(if sound && !read_now { up } else { now });
        // A write that has failed is no reason to wait: that may be the offer that was sent when the link went down.
        let again = vip.taking.look_again;
        if !self.due(since + AWAY) || !self.due(again) {
            return false;
        }
        // Behind a port that passes nothing yet nobody is heard.
        let index = self.link_for(vip).map(|link| link.index);
        let sure = index.is_some_and(|index| self.expects_third_parties(index));
        match self.look(vip, sure) {
            Found::Nothing => {
                if vip.taking.look.is_none() {
                    vip.taking.look_again = vip.hold_off;
                    self.due(vip.hold_off);
                }
                false
            }
            Found::Quiet => true,
            Found::Peer | Found::Stranger(_) => {
                // Only a record that is read after this brings it back.
                vip.yielded = Some(now);
                vip.hold_off = now + YIELDED;
                self.due(vip.hold_off);
                false
            }
        }
    }

    /// Whether a VIP that stayed on its interface while the link was down may be announced: not before the session was renewed and
    /// the record read since, or, without the API, before another owner would have answered.
    pub(super) fn may_call(&mut self, vip: &Vip, hold: &Hold) -> bool {
        let Some(up) = self.came_up(vip).filter(|up| hold.since < *up) else { return true };
        if self.is_renewed_since_up(vip) && (hold.basis != Basis::Recorded || self.is_read_since_up(vip, up)) {
            return true;
        }
        self.due(up + AWAY + self.round()) && self.away_since().is_some()
    }
}
