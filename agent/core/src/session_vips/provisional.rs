//! A VIP is free while the API cannot be asked: this node carries it provisionally when its turn comes.

use std::time::Duration;

use super::SessionVips;
use super::asking::Found;
use super::free::TURN;
use super::hold::Basis;
use super::record_state::RecordState;
use super::vip::Vip;
use crate::action::Cause;
use crate::peers::SILENT_ROUND;
use crate::placement::mix;
use crate::planted::planted;
use crate::rules::AWAY;
use crate::time::Time;

/// Where the holder was never heard, the API must have been away for so long: a call to an API server that hangs goes to the next one after
/// a second, and until then looks like an outage.
const AWAY_UNHEARD: Duration = Duration::from_secs(3);
/// A look that ended longer ago would say too little.
const LONGEST_TURN: Duration = Duration::from_millis(500);

impl SessionVips {
    /// The API cannot be asked: a VIP that is free is carried without it.
    pub(super) fn consider_provisional(&mut self, vip: &mut Vip, state: &RecordState) {
        let now = self.step.at.now;
        let away = self.away_since();
        let held = vip.holder().map(|h| h.node.clone());
        let free = match state {
            RecordState::Free { was_held } => *was_held,
            RecordState::Mine => true,
            RecordState::Others { .. } => held.is_some_and(|node| self.is_silent_free(&node)),
            _ => false,
        };
        let may = self.rules.provisional && self.own.twin.is_none();
        let (Some(away), true, true) = (away, may, free) else {
            vip.taking.free_since = None;
            vip.taking.look = None;
            return;
        };
        let off = vip.hold_off;
        let never = vip.holder().is_some_and(|holder| self.is_never_heard(&holder.node));
        let never = never && matches!(state, RecordState::Others { .. }) && !planted!(UnheardAreGone);
        let after = if never { AWAY_UNHEARD } else { AWAY };
        if !self.due(away + after) || !self.due(off) {
            return;
        }
        if vip.taking.free_since.is_none() {
            // It matters who is there from now on.
            self.segment.peers.ask_anew(now);
        }
        let since = *vip.taking.free_since.get_or_insert(now);
        if !self.due(since + self.turn(vip)) {
            return;
        }
        match self.look(vip, true) {
            Found::Nothing => {}
            // A node that hears no other is cut off: its clients are better served elsewhere.
            Found::Quiet if !self.heard_enough_since(self.counts_since(vip, since)) => {
                self.due(now + SILENT_ROUND);
            }
            Found::Quiet if !self.is_turn_after_look(vip) => {}
            Found::Quiet => {
                vip.taking.turns += 1;
                self.take_up(vip, Basis::Provisional, Cause::Provisional);
            }
            Found::Peer | Found::Stranger(_) => {
                vip.taking.free_since = None;
                vip.hold_off = now + TURN / 2;
                self.due(vip.hold_off);
            }
        }
    }

    /// Under a limit of frames a look waits for room, perhaps for long: what was heard since its probes began counts.
    fn counts_since(&self, vip: &Vip, free: Time) -> Time {
        let look = vip.taking.look.filter(|_| self.rules.frames_per_second.is_some());
        look.and_then(|look| look.counts).map_or(free, |at| at.max(free))
    }

    /// Under a limit of frames, looks wait for room, and those of several nodes may end together: turns count from then once more.
    fn is_turn_after_look(&mut self, vip: &Vip) -> bool {
        let Some(look) = vip.taking.look.filter(|_| self.rules.frames_per_second.is_some()) else { return true };
        let turn = self.turn(vip).min(LONGEST_TURN);
        self.due(look.next + turn)
    }

    /// This node's turn for a VIP: a fixed hash of both, and another one at each try.
    fn turn(&self, vip: &Vip) -> Duration {
        let own =
            self.sessions.get(&self.rules.node).map_or_else(|| crate::placement::seed(&self.rules.node), |p| p.seed);
        let hash = mix(vip.seed ^ u64::from(vip.taking.turns), own);
        self.rules.provisional_spread * u32::try_from(hash >> 54).unwrap_or(0) / 1024
    }
}
