//! Where the endpoint of a Cluster stands: kept, reported to people, and written on the claim.

use std::collections::BTreeSet;
use std::time::Duration;

use mooring_allocator_core::names::Key;
use mooring_allocator_core::work::ObjectWrite as _;

use crate::objects::Cluster;
use crate::reason::{Condition, Reason};

use super::put_back;
use super::slots::Object;
use super::view::{claim_target, is_owned, stood};
use super::{LASTING, Machine, Report, Write};

/// What stands on no claim is reported again after this time: an Event is kept for an hour.
pub(super) const REMIND: Duration = Duration::from_mins(50);

impl Machine {
    /// The refusal of one of these writes.
    pub(super) fn refusal(&self, key: &Key, written: &BTreeSet<Object>) -> Option<Condition> {
        Some(Condition::new(Reason::WriteRefused, self.slots.get(key)?.writes.refusal(written)?))
    }

    /// What to say of a write that is under way, and at which the API server fails.
    pub(super) fn failing(&self, key: &Key, condition: &Condition, written: &BTreeSet<Object>) -> Option<Condition> {
        let slot = self.slots.get(key).filter(|_| condition.reason == Reason::Writing)?;
        let (object, said) = written.iter().find_map(|object| slot.failed.get_key_value(object))?;
        let message =
            format!("{}, and is tried again; the API server answers to that of {object}: {said}", condition.message);
        Some(Condition::new(Reason::Writing, message))
    }

    /// What to say of a write that is needed although it was made more than twice.
    pub(super) fn without_effect(&self, key: &Key, write: &Write) -> Option<Condition> {
        Some(Condition::new(Reason::WriteRefused, self.slots.get(key)?.writes.without_effect(write)?))
    }

    /// What to say of a write that another controller undoes faster than it is made.
    pub(super) fn outpaced(&self, key: &Key, write: &Write) -> Option<Condition> {
        self.slots.get(key).filter(|slot| slot.writes.is_outpaced(self.work.now(), write))?;
        let message = put_back::message(write)?;
        Some(Condition::new(Reason::PutBack, format!("{message}; it is written about once a second")))
    }

    /// Records the verdict, reports it to people, and writes it on the claim. A verdict that may pass by itself only when it
    /// lasts.
    pub(super) fn judge(&mut self, key: &Key, cluster: &Cluster, condition: Condition, written: &mut BTreeSet<Object>) {
        let now = self.work.now();
        let Some(slot) = self.slots.get_mut(key) else { return };
        let since = match &slot.verdict {
            Some((before, since)) if before.reason == condition.reason => *since,
            _ => now,
        };
        slot.verdict = Some((condition.clone(), since));
        let claim = slot.claims.get(&cluster.key.name).filter(|claim| is_owned(claim, cluster));
        let shown = claim.and_then(|claim| claim.mark()?.condition.clone());
        // What stands for a moment only, and is put back again.
        let moment = condition.ready() && shown.as_ref().is_some_and(|(reason, _)| **reason == *Reason::PutBack.name());
        if (condition.reason.passes() || moment) && since + LASTING > now {
            return self.work.mark_at(since + LASTING, key.clone());
        }
        let same = shown
            .is_some_and(|(reason, message)| *reason == *condition.reason.name() && *message == *condition.message);
        let stood = claim.and_then(|claim| claim.address.filter(|ip| stood(claim, *ip)));
        let stood = stood.filter(|_| !condition.ready());
        let write =
            claim.filter(|_| !same).map(|claim| Write::Condition(claim_target(claim), condition.clone(), stood));
        let lasts = claim.is_some() || condition.ready();
        let said = |(before, at): &(Condition, Duration)| *before == condition && (lasts || *at + REMIND > now);
        if !slot.reported.as_ref().is_some_and(said) {
            slot.reported = Some((condition.clone(), now));
            // After a restart the condition is not new.
            if !same {
                let waits = cluster.paused && cluster.notes.paused_for_endpoint;
                let warning = condition.reason.warns() || (waits && condition.reason == Reason::EndpointIsAName);
                self.report(Report::ConditionChanged { cluster: key.clone(), condition, warning });
            }
        }
        if !lasts && let Some((_, at)) = self.slots.get(key).and_then(|slot| slot.reported.as_ref()) {
            self.work.mark_at(*at + REMIND, key.clone());
        }
        if let Some(write) = write {
            written.insert(write.object());
            self.write(key, write);
        }
    }
}
