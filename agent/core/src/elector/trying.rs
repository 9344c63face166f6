//! The Lease has expired, and its holder answers for the VIPs all the same.
//!
//! If a take fails then, most likely nobody can write: a webhook is away, the store is full, a right was taken away. A take would move the
//! VIPs for nothing if it came first when writes work again. So from then on this node writes the Lease as it is, now and then. Once that
//! works, the holder has time to renew; only after that is the Lease taken, for the holder is cut off from the API server.

use std::time::Duration;

use super::Elector;
use super::api::Flight;
use crate::lease::Record;
use crate::planted::planted;
use crate::time::Time;

/// The pause after a write that failed doubles so many times, to 8 s by default.
const MOST_DOUBLED: u32 = 2;

/// What is known of writes since the Lease expired.
#[derive(Debug, Default)]
pub(super) struct Trial {
    /// The record that has expired, and of which a take has failed.
    of: Option<Record>,
    /// When a write of it worked.
    worked: Option<Time>,
    /// The next write is tried then.
    next: Time,
    failed: u32,
}

impl Elector {
    /// Whether the Lease may be taken, from a holder that answers and had its time to renew.
    pub(super) fn has_had_its_time(&mut self) -> bool {
        if planted!(TakesFromTheLiving) {
            return true;
        }
        if self.candidacy.trial.of.as_ref() != self.record() {
            return true;
        }
        if let Some(worked) = self.candidacy.trial.worked {
            // The holder tries about twice in that time.
            return self.due(worked + self.rules.retry_period);
        }
        let next = self.candidacy.trial.next;
        if self.api.may_write() && self.due(next) {
            self.participate();
        }
        false
    }

    /// Whether the holder that the Lease names answers for the VIPs.
    pub(super) fn is_answered_by_holder(&self) -> bool {
        let answer = self.segment.witness.answer(self.step.at.now).and_then(|mac| self.holder_with(mac));
        answer.is_some() && answer == self.record().map(|record| record.holder.as_str())
    }

    /// A write worked that left the record as it is.
    pub(super) fn trial_worked(&mut self, flight: &Flight) {
        let now = self.step.at.now;
        let has_expired = self.lease.expires(&self.rules).is_some_and(|expired| flight.sent >= expired);
        let trial = &mut self.candidacy.trial;
        if has_expired && trial.of.as_ref() == Some(&flight.record) {
            trial.worked.get_or_insert(now);
        }
    }

    /// A take of an expired Lease failed, or such a write.
    pub(super) fn trial_failed(&mut self) {
        if self.candidacy.trial.of.as_ref() != self.record() {
            self.candidacy.trial = Trial { of: self.record().cloned(), ..Trial::default() };
        }
        let trial = &mut self.candidacy.trial;
        let pause: Duration = self.rules.retry_period * (1 << trial.failed.min(MOST_DOUBLED));
        trial.next = self.step.at.now + pause;
        trial.failed = trial.failed.saturating_add(1);
    }
}
