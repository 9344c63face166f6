//! When much happens to many VIPs, one by one, people are told of them together: an Event for each would be a fifth of
//! what an API server has to do when a thousand Services are made.

use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;
use std::time::Duration;

use crate::api::Severity;
use crate::core::time::Time;

/// So many are told of each by itself ...
const SINGLES: usize = 20;
/// ... within this; more wait for each other.
const WINDOW: Duration = Duration::from_secs(10);
/// For so long at most.
const WAIT: Duration = Duration::from_secs(5);

/// What happened, in words: the Event's reason, and its text.
pub(super) type What = (&'static str, String);

/// See the module's text.
#[derive(Debug, Default)]
pub(super) struct Crowd {
    singles: VecDeque<Time>,
    waiting: BTreeMap<What, (Vec<IpAddr>, Severity)>,
    since: Option<Time>,
}

impl Crowd {
    /// Something happened to one VIP. Whether it is told by itself; else it waits.
    pub(super) fn alone(&mut self, now: Time, what: &What, address: IpAddr, severity: Severity) -> bool {
        while self.singles.front().is_some_and(|at| now.since(*at) >= WINDOW) {
            self.singles.pop_front();
        }
        // What waits is told first.
        if self.singles.len() < SINGLES && self.since.is_none() {
            self.singles.push_back(now);
            return true;
        }
        self.since.get_or_insert(now);
        let (addresses, _) = self.waiting.entry(what.clone()).or_insert_with(|| (Vec::new(), severity));
        addresses.push(address);
        false
    }

    /// Those that have waited.
    pub(super) fn due(&mut self, now: Time) -> BTreeMap<What, (Vec<IpAddr>, Severity)> {
        if self.since.is_none_or(|since| now.since(since) < WAIT) {
            return BTreeMap::new();
        }
        self.since = None;
        std::mem::take(&mut self.waiting)
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    #[test]
    fn a_few_are_told_one_by_one_and_more_together() {
        let mut crowd = Crowd::default();
        let what = ("VIPTaken", "carried here".to_owned());
        let at = |millis: u64| Time::from_nanos(millis * 1_000_000);
        let vip = |n: u8| IpAddr::from(Ipv4Addr::new(10, 0, 0, n));
        let singles =
            (0..100).filter(|n| crowd.alone(at(u64::from(*n) * 10), &what, vip(*n), Severity::Normal)).count();
        assert_eq!(singles, SINGLES);
        assert!(crowd.due(at(1_000)).is_empty());
        let due = crowd.due(at(6_000));
        assert_eq!(due.get(&what).map(|(all, _)| all.len()), Some(100 - SINGLES));
        assert!(crowd.due(at(12_000)).is_empty(), "told once");
        assert!(crowd.alone(at(12_000), &what, vip(1), Severity::Normal), "it is quiet again");
    }
}
