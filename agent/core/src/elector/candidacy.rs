//! Whether and when this node may take the Lease, by what happened before.

use super::offering::Offer;
use super::trying::Trial;
use crate::lease::Declaration;
use crate::moves::Moves;
use crate::time::Time;

/// What a candidate remembers of earlier tries, and of earlier holders. It outlives the roles.
#[derive(Debug, Default)]
pub(super) struct Candidacy {
    /// The Lease is not taken before this time, after a conflict, a lost race or a foreign owner.
    pub(super) hold_off: Time,
    /// How often in a row the Lease could not be created because its namespace does not exist.
    pub(super) no_namespace: u32,
    /// The interface refused all VIPs: this node carries none before this time, with or without the Lease.
    pub(super) refused_until: Time,
    /// The holder's silence says nothing before this time: this node has carried the VIPs because of it, and the holder was alive.
    pub(super) misjudged_until: Time,
    /// When this node writes its own entry among the Lease's participants.
    pub(super) participate_at: Option<Time>,
    /// Whether writes work, while an expired Lease's holder answers.
    pub(super) trial: Trial,
    /// How often this node has carried the VIPs without a Lease, or let them go again, since it last took the Lease. Each
    /// time gives it another turn.
    pub(super) turns: u32,
    /// Since when this node has left a free Lease, or a free VIP, to healthier nodes. An API that answers now and then does not
    /// end that; only a node that carries the VIPs does.
    pub(super) left_since: Option<Time>,
    /// The tenure whose holder was reported as silent: each tenure is reported once.
    pub(super) reported_silent: Option<Declaration>,
    /// The tenure whose holder was reported as silent, and was not taken early because the VIPs had moved often.
    pub(super) reported_moved: Option<Declaration>,
    /// An offer of the holder that this node considers.
    pub(super) offer: Option<Offer>,
    /// The recent moves of the VIPs.
    pub(super) moves: Moves,
    /// The holder that the Lease named last, as far as this node has seen; empty: none yet.
    last_holder: String,
    /// The holder before that one.
    before_last: String,
}

impl Candidacy {
    /// The last two holders: the first of them may not have removed the VIPs yet.
    pub(super) fn last_holders(&self) -> [&str; 2] {
        [&self.last_holder, &self.before_last]
    }

    /// Notes the holder that the Lease names. Returns the last one, if there was one and the Lease names another now.
    pub(super) fn saw_holder(&mut self, now: Time, holder: &str) -> Option<String> {
        if holder.is_empty() || holder == self.last_holder {
            return None;
        }
        let last = std::mem::replace(&mut self.last_holder, holder.to_owned());
        if last.is_empty() {
            return None;
        }
        self.before_last.clone_from(&last);
        self.moves.record(now);
        Some(last)
    }
}
