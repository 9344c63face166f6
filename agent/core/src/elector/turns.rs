//! Windows that open in turn, where the electors of many Leases ask on one segment.
//!
//! An elector knows nothing of the others. So it says what its next window asks, and waits until whoever has all of them says that
//! it may open: the others may be asking so much at this moment that switches would drop frames.

use super::Elector;
use crate::time::Time;
use crate::witness::Probe;

/// Whether this elector opens its windows by itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Turns {
    /// It does: nobody else asks.
    #[default]
    Alone,
    /// It is told when: no window is due.
    Idle,
    /// A window is due, and waits.
    Waits,
    /// The window that is due may open.
    MayOpen,
}

/// How much a window matters among those of other Leases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Urgency {
    /// Nothing is wrong, as far as the segment has shown.
    Routine,
    /// Somebody did not answer.
    Deciding,
    /// The Lease is taken if nobody answers.
    Taking,
}

impl Elector {
    /// The same elector, which opens its windows when it is told to.
    #[must_use]
    pub fn in_turn(mut self) -> Self {
        self.segment.turns = Turns::Idle;
        self
    }

    /// A step begins. A window that waits for its turn does not make this node late.
    pub(super) fn wait_for_turn(&mut self, now: Time) {
        if matches!(self.segment.turns, Turns::Waits | Turns::MayOpen) {
            self.segment.witness.put_off(now);
        }
    }

    /// Whether the window that is due opens now. If not, it waits for [`crate::event::Event::Turn`].
    pub(super) fn takes_turn(&mut self) -> bool {
        match self.segment.turns {
            Turns::Alone => return true,
            Turns::MayOpen => {
                self.segment.turns = Turns::Idle;
                return true;
            }
            Turns::Idle | Turns::Waits => self.segment.turns = Turns::Waits,
        }
        false
    }

    /// No window is due any more.
    pub(super) fn needs_no_turn(&mut self) {
        if self.segment.turns != Turns::Alone {
            self.segment.turns = Turns::Idle;
        }
    }

    /// Whether a window waits for its turn.
    pub(super) fn waits(&self) -> bool {
        self.segment.turns == Turns::Waits
    }

    /// The window that waits may open.
    pub(super) fn has_turn(&mut self) {
        if self.waits() {
            self.segment.turns = Turns::MayOpen;
            self.goes_on_suspecting();
        }
    }

    /// Whether windows open in turn, and nothing can be taken at this moment: all Leases together ask no more than the segment bears.
    pub(super) fn is_paced(&self) -> bool {
        self.segment.turns != Turns::Alone && self.urgency() != Urgency::Taking
    }

    fn urgency(&self) -> Urgency {
        let witness = &self.segment.witness;
        match () {
            () if witness.is_for_holder() || self.is_searching() => Urgency::Taking,
            () if witness.is_deciding() => Urgency::Deciding,
            () => Urgency::Routine,
        }
    }

    /// How much the window matters that waits for its turn, if one does.
    #[must_use]
    pub fn waits_for_turn(&self) -> Option<Urgency> {
        self.waits().then(|| self.urgency())
    }

    /// What the next window asks.
    #[must_use]
    pub fn window(&self) -> Vec<Probe> {
        self.segment.witness.probes()
    }
}
