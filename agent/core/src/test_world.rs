//! The parts that the small test worlds of the elector and of session VIPs share: stations, API states, the queue, owners.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use crate::mac::Mac;
use crate::time::Time;

/// The gateway of the segment: a third party.
pub(crate) const GATEWAY: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 254));
/// The gateway's MAC address.
pub(crate) const ROUTER: Mac = Mac([2, 0, 0, 0, 0, 0xfe]);
/// The MAC address of a host that is no candidate.
pub(crate) const STRANGER: Mac = Mac([2, 0, 0, 0, 0, 0x66]);

/// A number of milliseconds.
pub(crate) fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// How a host's calls to the API end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Api {
    Up,
    Refused,
    Hanging,
    /// Writes take effect, and their answers are lost at once.
    Lossy,
}

/// What is going to happen, by time. Items of one moment come out in the order in which they were put in.
pub(crate) struct Queue<I> {
    items: BTreeMap<(Time, u64), I>,
    number: u64,
}

impl<I> Default for Queue<I> {
    fn default() -> Self {
        Self { items: BTreeMap::new(), number: 0 }
    }
}

impl<I> Queue<I> {
    pub(crate) fn put(&mut self, at: Time, item: I) {
        self.number += 1;
        self.items.insert((at, self.number), item);
    }

    /// When the next item is due.
    pub(crate) fn next(&self) -> Option<Time> {
        self.items.keys().next().map(|(at, _)| *at)
    }

    /// The next item, if it is due.
    pub(crate) fn take(&mut self, now: Time) -> Option<I> {
        let entry = self.items.first_entry().filter(|entry| entry.key().0 <= now)?;
        Some(entry.remove())
    }
}

/// Which hosts carried a VIP, each time that changed.
#[derive(Default)]
pub(crate) struct Owners(Vec<(Time, Vec<usize>)>);

impl Owners {
    pub(crate) fn note(&mut self, now: Time, owners: Vec<usize>) {
        if self.0.last().is_none_or(|(_, last)| *last != owners) {
            self.0.push((now, owners));
        }
    }

    /// For how long since then so many hosts carried the VIP.
    pub(crate) fn time_with(&self, since: Time, now: Time, wanted: impl Fn(usize) -> bool) -> Duration {
        let ends = self.0.iter().skip(1).map(|(at, _)| *at).chain([now]);
        let spans = self.0.iter().zip(ends).filter(|((_, who), _)| wanted(who.len()));
        spans.map(|((from, _), to)| to.since((*from).max(since))).sum()
    }
}
