//! Whether and when this node may take the Lease, by what happened before.

use crate::lease::Declaration;
use crate::moves::Moves;
use crate::time::Time;

/// What a candidate remembers of earlier tries, and of earlier holders. It outlives the roles.
#[derive(Debug, Default)]
pub(super) struct Candidacy {
    /// Nothing is taken before: a conflict, a lost race, a foreign owner.
    pub(super) hold_off: Time,
    /// The interface took none of the VIPs: nothing is carried before, by whatever right.
    pub(super) refused_until: Time,
    /// When this node adds itself to the participants that the Lease names.
    pub(super) participate_at: Option<Time>,
    /// How often this node carried the VIPs without a Lease, or let them go again, since it last took the Lease: each time
    /// its turn is another one.
    pub(super) turns: u32,
    /// The tenure whose holder was reported to be silent: once, however often the Lease is tried.
    pub(super) reported_silent: Option<Declaration>,
    /// How often the VIPs have moved lately.
    pub(super) moves: Moves,
    last_holder: String,
}

impl Candidacy {
    /// The Lease names that holder.
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
