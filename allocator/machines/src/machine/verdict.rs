//! Where the addresses of a machine stand: kept, and reported to people.

use std::collections::BTreeSet;
use std::time::Duration;

use mooring_allocator_core::names::Key;

use crate::reason::{Condition, Reason};

use super::slots::Object;
use super::{LASTING, Machine, Report, Write};

/// What lasts is reported again after this time: an Event is kept for an hour.
const REMIND: Duration = Duration::from_mins(50);

impl Machine {
    /// The refusal of one of these writes.
    pub(super) fn refusal(&self, key: &Key, written: &BTreeSet<Object>) -> Option<Condition> {
        Some(Condition::new(Reason::WriteRefused, self.slots.get(key)?.writes.refusal(written)?))
    }

    /// What to say of a write that is needed although it was made more than twice.
    pub(super) fn without_effect(&self, key: &Key, write: &Write) -> Option<Condition> {
        Some(Condition::new(Reason::WriteRefused, self.slots.get(key)?.writes.without_effect(write)?))
    }

    /// Records the verdict, and reports it: one that may pass by itself only when it lasts.
    pub(super) fn judge(&mut self, key: &Key, condition: Condition) {
        let now = self.work.now();
        let Some(slot) = self.slots.get_mut(key) else { return };
        let since = match &slot.verdict {
            Some((before, since)) if before.reason == condition.reason => *since,
            _ => now,
        };
        slot.verdict = Some((condition.clone(), since));
        if !condition.reason.is_told() {
            slot.reported = None;
            return;
        }
        if condition.reason.passes() && since + LASTING > now {
            return self.work.mark_at(since + LASTING, key.clone());
        }
        let again = match &slot.reported {
            Some((before, at)) if *before == condition => *at + REMIND,
            _ => now,
        };
        if again > now {
            return self.work.mark_at(again, key.clone());
        }
        slot.reported = Some((condition.clone(), now));
        self.work.mark_at(now + REMIND, key.clone());
        self.report(Report::ConditionChanged { machine: key.clone(), condition });
    }
}
