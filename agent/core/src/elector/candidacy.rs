//! Whether and when this node may take the Lease, by what happened before.

use crate::lease::Declaration;
use crate::moves::Moves;
use crate::time::Time;

/// What a candidate remembers of earlier tries, and of earlier holders. It outlives the roles.
#[derive(Debug, Default)]
pub(super) struct Candidacy {
    /// The Lease is not taken before this time, after a conflict, a lost race or a foreign owner.
    pub(super) hold_off: Time,
    /// The interface refused all VIPs: this node carries none before this time, with or without the Lease.
    pub(super) refused_until: Time,
    /// When this node writes its own entry among the Lease's participants.
    pub(super) participate_at: Option<Time>,
    /// How often this node has carried the VIPs without a Lease, or let them go again, since it last took the Lease. Each
    /// time gives it another turn.
    pub(super) turns: u32,
    /// The tenure whose holder was reported as silent: each tenure is reported once.
    pub(super) reported_silent: Option<Declaration>,
    /// The recent moves of the VIPs.
    pub(super) moves: Moves,
    last_holder: String,
}

impl Candidacy {
    /// Notes the holder that the Lease names.
    pub(super) fn saw_holder(&mut self, now: Time, holder: &str) {
        if holder.is_empty() || holder == self.last_holder {
            return;
        }
        if !self.last_holder.is_empty() {
            self.moves.record(now);
        }
        holder.clone_into(&mut self.last_holder);
    }
}
