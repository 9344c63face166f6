//! The step under way: its moment, what it produces, and when the core wants the next one.

use std::time::Duration;

use crate::event::Moment;
use crate::rules::LATE;
use crate::time::Time;

/// What one step works with, for outputs `O`. The wake-up time and the counter of calls outlive the step.
#[derive(Debug)]
pub(crate) struct Step<O> {
    /// When the step happens.
    pub(crate) at: Moment,
    /// When the core wants the next step if nothing happens before.
    pub(crate) wake: Option<Time>,
    /// Something has changed that an earlier part of this step depends on: the step goes through its parts once more.
    pub(crate) again: bool,
    /// What the step has asked for so far, in order.
    pub(crate) out: Vec<O>,
    calls: u64,
}

impl<O> Default for Step<O> {
    fn default() -> Self {
        Self { at: Moment::default(), wake: None, again: false, out: vec![], calls: 0 }
    }
}

impl<O> Step<O> {
    /// A step begins. Answers by how much it is late, if that is too much for the core to be sure of anything.
    pub(crate) fn begin(&mut self, at: Moment) -> Option<Duration> {
        self.at = at;
        let wake = self.wake.filter(|wake| at.now > *wake + LATE)?;
        Some(at.now.since(wake))
    }

    /// Whether that moment has come; if not, the core wants to be stepped then.
    pub(crate) fn due(&mut self, when: Time) -> bool {
        if self.at.now >= when {
            return true;
        }
        self.wake = Some(self.wake.map_or(when, |wake| wake.min(when)));
        false
    }

    /// The number of the next call.
    pub(crate) fn new_id(&mut self) -> u64 {
        self.calls += 1;
        self.calls
    }

    /// The step ends: takes what it produced. A wake-up that has passed already would be a loop without end.
    pub(crate) fn finish(&mut self) -> Vec<O> {
        debug_assert!(self.wake.is_none_or(|wake| wake > self.at.now), "the wake-up has passed");
        std::mem::take(&mut self.out)
    }
}
