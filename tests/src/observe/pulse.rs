//! Whether the machine gave the observers processor time: threads wake every 20 ms and record when they were late.
//!
//! If the machine stands still for a second, no host answers for a second, and no agent is to blame.

use std::sync::Arc;
use std::time::Duration;

use mooring_agent::core::time::Time;

use super::log::Log;
use super::prober::sleep_until;
use super::timeline::Interval;
use super::worker::Worker;
use super::{Error, now};

/// Between two beats.
const BEAT: Duration = Duration::from_millis(20);
/// A beat that is later than this is recorded.
const LATE: Duration = Duration::from_millis(100);
/// As many threads as the smallest machine has cores: a single thread might be on a core that still runs.
const THREADS: usize = 2;

/// Ends when dropped.
#[derive(Debug)]
pub struct Pulse {
    stalls: Arc<Log<Vec<Interval>>>,
    _workers: Vec<Worker>,
}

impl Pulse {
    /// Starts to beat.
    ///
    /// # Errors
    /// No thread.
    pub fn start() -> Result<Self, Error> {
        let stalls = Arc::new(Log::<Vec<Interval>>::default());
        let mut workers = Vec::new();
        for _ in 0..THREADS {
            let stalls = Arc::clone(&stalls);
            workers.push(Worker::start("pulse", move |until| {
                while !until.over() {
                    let due = now() + BEAT;
                    sleep_until(due);
                    let beat = Interval { from: due, to: now() };
                    if beat.length() > LATE {
                        stalls.change(|all| all.push(beat));
                    }
                }
                Ok(())
            })?);
        }
        Ok(Self { stalls, _workers: workers })
    }

    /// When the machine stood still between two moments, without overlaps.
    #[must_use]
    pub fn between(&self, from: Time, to: Time) -> Vec<Interval> {
        let all = self.stalls.read();
        merged(all.iter().filter(|stall| stall.to > from && stall.from < to).copied().collect())
    }
}

/// The same intervals without overlaps, in order.
#[must_use]
pub fn merged(mut intervals: Vec<Interval>) -> Vec<Interval> {
    intervals.sort_unstable();
    let mut all: Vec<Interval> = Vec::new();
    for one in intervals {
        match all.last_mut().filter(|last| last.to >= one.from) {
            Some(last) => last.to = last.to.max(one.to),
            None => all.push(one),
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_overlaps_is_one() {
        let span = |from: u64, to: u64| Interval { from: Time::from_nanos(from), to: Time::from_nanos(to) };
        let all = merged(vec![span(5, 9), span(1, 3), span(2, 4), span(9, 10)]);
        assert_eq!(all, [span(1, 4), span(5, 10)]);
    }
}
