//! When people are told that another machine has this node's name.

use std::time::Duration;

use crate::mac::Mac;
use crate::time::Time;

/// The same is told again after this.
const TOLD_AGAIN: Duration = Duration::from_mins(10);

/// What was told last, and when.
#[derive(Debug, Default)]
pub(crate) struct Told(Option<(Time, Vec<Mac>)>);

impl Told {
    /// Whether to tell of a machine with these MAC addresses now. If so, that counts as told.
    pub(crate) fn is_due(&mut self, now: Time, macs: &[Mac]) -> bool {
        if self.0.as_ref().is_some_and(|(at, told)| now.since(*at) < TOLD_AGAIN && told == macs) {
            return false;
        }
        self.0 = Some((now, macs.to_vec()));
        true
    }
}
