//! When a pool's system may be called: how many calls at a time, and when again after failures.
//!
//! A failure closes the gate for a while that doubles, and then lets one call through; a success opens it. So a system that
//! hangs costs as many calls as were under way, and then one at a time.

use std::collections::VecDeque;
use std::time::Duration;

use crate::names::Uid;
use crate::work::{BackOff, Retry};

use super::audit::{Audit, Last};
use super::call::{Orphans, RemoteSpec};

/// Delay before a system that failed is called again.
pub(super) const RETRY: BackOff = BackOff { first: Duration::from_secs(1), last: Duration::from_mins(2) };
/// Delay before a full pool is asked for an address again, unless one is released here.
pub(super) const FULL: BackOff = BackOff { first: Duration::from_secs(15), last: Duration::from_mins(5) };
/// What the system says is repeated on objects at most this often, as long as it fails.
const SAID_LASTS: Duration = Duration::from_mins(5);

/// A pool of an outside system.
#[derive(Debug)]
pub(super) struct Gate {
    /// None: the spec cannot be used, or the pool is paused: no call.
    pub(super) spec: Option<RemoteSpec>,
    pub(super) queue: VecDeque<Uid>,
    /// Claims that wait for a full pool.
    pub(super) starved: VecDeque<Uid>,
    pub(super) under_way: usize,
    retry: Retry,
    /// What the system said when it failed, and since when this is repeated.
    said: Option<(String, Duration)>,
    /// Until when the pool counts as full, and what the system said.
    full: Option<(Duration, String)>,
    full_times: u32,
    /// A call has succeeded since the spec is as it is.
    pub(super) works: bool,
    pub(super) audit: Audit,
}

impl Gate {
    pub(super) fn new(now: Duration) -> Self {
        Self {
            spec: None,
            queue: VecDeque::new(),
            starved: VecDeque::new(),
            under_way: 0,
            retry: Retry::default(),
            said: None,
            full: None,
            full_times: 0,
            works: false,
            audit: Audit::new(now),
        }
    }

    /// Another spec: what failed may work now.
    pub(super) fn renew(&mut self, spec: Option<RemoteSpec>, now: Duration) {
        self.spec = spec;
        self.retry = Retry::default();
        self.said = None;
        self.works = false;
        self.audit.due = now;
        self.audit.last = Last::No;
        self.opens();
    }

    /// Whether a call may be made now.
    pub(super) fn is_open(&self, now: Duration) -> bool {
        let Some(spec) = &self.spec else { return false };
        let most = if self.retry.failures > 0 { 1 } else { spec.calls.max(1) };
        self.under_way < most && self.retry.not_before <= now
    }

    /// Whether the last look of a pool that goes has been taken, and nothing is left to delete. A system that fails is not waited
    /// for: a pool that never worked could not be deleted.
    pub(super) fn has_looked_back(&mut self, now: Duration) -> bool {
        if self.spec.as_ref().is_none_or(|spec| spec.orphans != Orphans::Release) {
            return true;
        }
        if self.audit.last == Last::No && self.is_open(now) {
            (self.audit.last, self.audit.due) = (Last::Due, now);
        }
        self.audit.last != Last::Due && self.audit.suspects.is_empty()
    }

    /// When a closed gate opens by itself.
    pub(super) fn opens_at(&self) -> Duration {
        self.retry.not_before
    }

    /// Whether the pool counts as full now.
    pub(super) fn is_full(&mut self, now: Duration) -> bool {
        if self.full.as_ref().is_some_and(|(until, _)| *until <= now) {
            self.full = None;
            self.opens();
        }
        self.full.is_some()
    }

    /// Why claims get nothing from a full pool.
    pub(super) fn full_text(&self) -> Option<&str> {
        self.full.as_ref().map(|(_, text)| &**text)
    }

    /// The system said that the pool is full. Returns when it is asked again.
    pub(super) fn filled(&mut self, now: Duration, text: String, random: u64) -> Duration {
        let until = now + FULL.jittered(self.full_times, random);
        self.full_times = self.full_times.saturating_add(1);
        self.full = Some((until, text));
        until
    }

    /// An address was released or given: the pool is not full.
    pub(super) fn has_room(&mut self) {
        self.full = None;
        self.full_times = 0;
        self.opens();
    }

    /// A claim has no place in the queues any more.
    pub(super) fn forget(&mut self, claim: &Uid) {
        self.queue.retain(|one| one != claim);
        self.starved.retain(|one| one != claim);
    }

    /// Claims that waited for room come first.
    fn opens(&mut self) {
        while let Some(uid) = self.starved.pop_back() {
            self.queue.push_front(uid);
        }
    }

    /// The system has answered sensibly. Returns whether that is news.
    pub(super) fn succeeded(&mut self) -> bool {
        let news = self.said.is_some() || !self.works;
        self.retry = Retry::default();
        self.said = None;
        self.works = true;
        news
    }

    /// A call failed. Returns whether what is repeated on objects has changed.
    pub(super) fn failed(&mut self, now: Duration, text: String, random: u64) -> bool {
        self.retry.not_before = now + RETRY.jittered(self.retry.failures, random);
        self.retry.failures = self.retry.failures.saturating_add(1);
        let same = self.said.as_ref().is_some_and(|(said, since)| *said == text || *since + SAID_LASTS > now);
        if !same {
            self.said = Some((text, now));
        }
        !same
    }

    /// What the system said when it failed last; None: it works.
    pub(super) fn trouble(&self) -> Option<&str> {
        self.said.as_ref().map(|(text, _)| &**text)
    }
}

#[cfg(test)]
mod tests {
    use super::super::call::Drift;
    use super::*;

    #[test]
    fn a_failure_lets_one_call_through_at_a_time() {
        let mut gate = Gate::new(Duration::ZERO);
        assert!(!gate.is_open(Duration::ZERO));
        let spec = RemoteSpec { calls: 3, orphans: Orphans::Report, drift: Drift::PutBack, warning: String::new() };
        gate.renew(Some(spec), Duration::ZERO);
        gate.under_way = 2;
        assert!(gate.is_open(Duration::ZERO));
        assert!(gate.failed(Duration::ZERO, "down".into(), 0));
        assert!(!gate.failed(Duration::ZERO, "still down".into(), 0), "not every other text is news");
        let later = Duration::from_mins(3);
        assert!(!gate.is_open(later));
        gate.under_way = 0;
        assert!(gate.is_open(later) && !gate.is_open(Duration::ZERO));
        assert!(gate.succeeded() && !gate.succeeded());
        assert!(gate.is_open(Duration::ZERO));
    }
}
