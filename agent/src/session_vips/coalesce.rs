//! Groups reports when many VIPs change one by one. An Event for each VIP would be a fifth of the work of an API server
//! when a thousand Services are created.

use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;
use std::time::Duration;

use crate::api::Severity;
use crate::core::time::Time;

/// Up to this many are reported singly ...
const SINGLES: usize = 20;
/// ... within this time; further ones are grouped.
const WINDOW: Duration = Duration::from_secs(10);
/// The longest wait of a group.
const WAIT: Duration = Duration::from_secs(5);

/// What happened, in words: the Event's reason, and its text.
pub(super) type What = (&'static str, String);

/// The reports that wait to be grouped.
#[derive(Debug, Default)]
pub(super) struct Coalesced {
    singles: VecDeque<Time>,
    waiting: BTreeMap<What, (Vec<IpAddr>, Severity)>,
    since: Option<Time>,
}

impl Coalesced {
    /// Takes an event of one VIP. True: report the event singly; false: the event waits for its group.
    pub(super) fn alone(&mut self, now: Time, what: &What, address: IpAddr, severity: Severity) -> bool {
        while self.singles.front().is_some_and(|at| now.since(*at) >= WINDOW) {
            self.singles.pop_front();
        }
        // Waiting reports go first.
        if self.singles.len() < SINGLES && self.since.is_none() {
            self.singles.push_back(now);
            return true;
        }
        self.since.get_or_insert(now);
        let (addresses, _) = self.waiting.entry(what.clone()).or_insert_with(|| (Vec::new(), severity));
        addresses.push(address);
        false
    }

    /// The groups whose wait is over.
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
        let mut coalesced = Coalesced::default();
        let what = ("VIPTaken", "carried here".to_owned());
        let at = |millis: u64| Time::from_nanos(millis * 1_000_000);
        let vip = |n: u8| IpAddr::from(Ipv4Addr::new(10, 0, 0, n));
        let singles =
            (0..100).filter(|n| coalesced.alone(at(u64::from(*n) * 10), &what, vip(*n), Severity::Normal)).count();
        assert_eq!(singles, SINGLES);
        assert!(coalesced.due(at(1_000)).is_empty());
        let due = coalesced.due(at(6_000));
        assert_eq!(due.get(&what).map(|(all, _)| all.len()), Some(100 - SINGLES));
        assert!(coalesced.due(at(12_000)).is_empty(), "told once");
        assert!(coalesced.alone(at(12_000), &what, vip(1), Severity::Normal), "it is quiet again");
    }
}
