//! What is known of this node's own session, and of its end.

use std::collections::BTreeSet;
use std::net::IpAddr;

use super::leaving::Leaving;
use crate::lease::Record;
use crate::mac::Mac;
use crate::name_taken::Told;
use crate::session::{Declared, Incarnation};
use crate::time::{Time, WallTime};

/// The own session. At most one tenure, and at most one write of it is under way.
#[derive(Debug, Default)]
pub(super) struct Own {
    /// None: the session has not begun, or has ended. VIPs that are carried by the session are let go with it.
    pub(super) tenure: Option<Tenure>,
    pub(super) calls: OwnCalls,
    pub(super) fences: Fences,
    /// What is on the Lease is not what this node wants there.
    pub(super) redeclare: bool,
    /// An operator asked that all VIPs are handed over.
    pub(super) drained: bool,
    /// The session tells others that they may take all VIPs.
    pub(super) told: bool,
    /// VIPs that wait for the next renewal.
    pub(super) awaiting: BTreeSet<IpAddr>,
    /// When a VIP was last challenged: only a renewal that was sent since answers the challenge.
    pub(super) challenged: Time,
    /// The number of the last incarnation. If the Lease is set back, the next incarnation counts on from this.
    pub(super) counted: u32,
    /// Another machine uses this node's name.
    pub(super) twin: Option<Twin>,
    /// When that was last told, and of which MAC addresses.
    pub(super) twin_told: Told,
    /// The process was asked to end.
    pub(super) ending: Option<Ending>,
}

/// Another machine that declared this node's session.
#[derive(Debug)]
pub(super) struct Twin {
    /// What it declared.
    pub(super) macs: Vec<Mac>,
    /// When the session would have ended if the other machine had not gone on after it was last seen.
    pub(super) until: Time,
}

/// The incarnation that this node's own write has begun, adopted or renewed.
#[derive(Clone, Debug)]
pub(super) struct Tenure {
    pub(super) incarnation: Incarnation,
    pub(super) acquired: Option<WallTime>,
    pub(super) began: Option<String>,
    pub(super) after: Option<String>,
    /// When the last successful write was sent: the fence counts from then.
    pub(super) sent: Time,
    /// It could not be renewed in time: its VIPs are carried under short fences.
    pub(super) lapsed: bool,
    /// A renewal met a conflict, and the Lease was not read since.
    pub(super) in_doubt: bool,
}

/// Writes of the own session's Lease.
#[derive(Debug, Default)]
pub(super) struct OwnCalls {
    /// The write under way.
    pub(super) flight: Option<OwnFlight>,
    /// The last write, if it was given up without an answer. It may have taken effect.
    pub(super) unanswered: Option<OwnFlight>,
    /// The session is not renewed before.
    pub(super) next_write: Time,
    /// The session is not begun before.
    pub(super) begin_after: Time,
    /// After a write that failed the next one is not sent before, whatever else the API answers meanwhile.
    pub(super) next_try: Time,
    /// Renewals that met a conflict, in a row.
    pub(super) conflicts: u32,
}

/// A write of the own session.
#[derive(Clone, Debug)]
pub(super) struct OwnFlight {
    pub(super) id: u64,
    pub(super) sent: Time,
    /// Without an answer it has failed then.
    pub(super) fails_at: Time,
    pub(super) base: Option<String>,
    pub(super) record: Record,
    pub(super) declared: Declared,
}

/// The fences that VIPs have by the session.
#[derive(Debug, Default)]
pub(super) struct Fences {
    /// The deadline that was last given to all VIPs: all end together.
    pub(super) common: Time,
    /// When the kernel drops the first of the VIPs that rest on the session, or sooner.
    pub(super) first_dropped: Time,
}

/// The end of the process.
#[derive(Debug, Default)]
pub(super) struct Ending {
    /// The session tells others that they may take the VIPs.
    leaving: Option<Leaving>,
    /// [`super::Output::Exit`] was told: addresses that are still there end by their fence.
    left: bool,
}

impl OwnFlight {
    /// Whether this is the planned end of the session.
    pub(super) fn is_end(&self) -> bool {
        self.record.holder.is_empty()
    }
}

impl Own {
    pub(super) fn is_of(&self, incarnation: &Incarnation) -> bool {
        self.tenure.as_ref().is_some_and(|t| t.incarnation == *incarnation)
    }

    /// Whether a renewal that was sent since then has succeeded.
    pub(super) fn is_renewed_since(&self, at: Time) -> bool {
        self.tenure.as_ref().is_some_and(|tenure| tenure.sent >= at)
    }

    /// Neither lapsed nor none.
    pub(super) fn is_live(&self) -> bool {
        self.tenure.as_ref().is_some_and(|t| !t.lapsed)
    }

    pub(super) fn is_lapsed(&self) -> bool {
        self.tenure.as_ref().is_some_and(|t| t.lapsed)
    }

    /// The process is asked to end.
    pub(super) fn end(&mut self) {
        self.ending.get_or_insert_default();
    }

    pub(super) fn is_ending(&self) -> bool {
        self.ending.is_some()
    }

    pub(super) fn has_left(&self) -> bool {
        self.ending.as_ref().is_some_and(|ending| ending.left)
    }

    /// The process may end. False if that was told before.
    pub(super) fn leave(&mut self) -> bool {
        !std::mem::replace(&mut self.ending.get_or_insert_default().left, true)
    }

    pub(super) fn leaving(&self) -> Option<&Leaving> {
        self.ending.as_ref().and_then(|ending| ending.leaving.as_ref())
    }

    pub(super) fn leaving_mut(&mut self) -> Option<&mut Leaving> {
        self.ending.as_mut().and_then(|ending| ending.leaving.as_mut())
    }

    pub(super) fn set_leaving(&mut self, leaving: Option<Leaving>) {
        if let Some(ending) = &mut self.ending {
            ending.leaving = leaving;
        }
    }

    /// Others may take all VIPs: the process ends, or an operator asked for it.
    pub(super) fn gives_all(&self) -> bool {
        self.leaving().is_some() || self.drained
    }
}
