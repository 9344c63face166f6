//! One node's session, as this node knows it.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{View, number};
use crate::moves::Moves;
use crate::rules::Rules;
use crate::time::Time;

/// A session is honoured for as long as its record says, but not longer than this.
const LONGEST: Duration = Duration::from_hours(1);

/// What Kubernetes says about a node. It only ranks candidates: an outage that marks every node unready moves nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Standing {
    /// Its `Ready` condition is true.
    pub ready: bool,
    /// It is not cordoned.
    pub schedulable: bool,
    /// It has the label `node.kubernetes.io/exclude-from-external-load-balancers`.
    pub excluded: bool,
}

impl Default for Standing {
    fn default() -> Self {
        Self { ready: true, schedulable: true, excluded: false }
    }
}

/// One session.
#[derive(Clone, Debug)]
pub struct Peer {
    /// Its Lease.
    pub view: View,
    /// The hash of its node's name.
    pub seed: u64,
    /// The version at which the session began, once that is declared.
    pub began: Option<u64>,
    /// When its record was last seen to change, or it got a full duration again.
    pub changed: Time,
    /// When its end was seen, while it has ended.
    pub ended: Option<Time>,
    /// When it was last shown.
    pub(super) shown: Time,
    /// An answer showed it, and no watch event since: what the watch is about to tell may be older.
    pub(super) ahead: bool,
    /// A member object showed it, and not the Lease itself.
    pub(super) copied: bool,
    /// The version that the last list of all sessions showed.
    pub(super) listed: Option<u64>,
    /// How often it was abandoned lately.
    pub abandoned: Moves,
    /// When it was last seen to be abandoned, whether or not it has begun again.
    pub abandoned_at: Option<Time>,
}

impl Peer {
    /// Whether what is known is older than what the last list of all sessions showed.
    pub(super) fn is_behind_list(&self) -> bool {
        self.listed.zip(number(&self.view.version)).is_some_and(|(listed, known)| known < listed)
    }

    /// When it ends by this node's clock, if it is live and not renewed.
    #[must_use]
    pub fn expires(&self, rules: &Rules) -> Time {
        self.changed + self.lasts(rules)
    }

    /// How long it lasts without a renewal: as its record says.
    #[must_use]
    pub fn lasts(&self, rules: &Rules) -> Duration {
        let stated = self.view.record.duration.min(LONGEST);
        if stated.is_zero() { rules.lease_duration } else { stated }
    }
}
