//! Who held an address when, and how long two hosts held it: pure.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

use mooring_agent::core::time::Time;

use super::addresses::{Change, Event};

/// An interval of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Interval {
    /// The beginning.
    pub from: Time,
    /// The end.
    pub to: Time,
}

impl Interval {
    /// The length of the interval.
    #[must_use]
    pub const fn length(&self) -> Duration {
        self.to.since(self.from)
    }
}

/// One host's hold on the address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hold {
    /// The host.
    pub host: String,
    /// When the address was added.
    pub from: Time,
    /// When the address was removed; `None` while it is there.
    pub to: Option<Time>,
}

/// The history of one address over all hosts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Timeline {
    holds: Vec<Hold>,
}

/// Interfaces of a host, by index, with the prefix length of the address there.
type Places = BTreeSet<(u32, u8)>;

impl Timeline {
    /// From the events of [`super::addresses::Addresses`]. An IPv6 address counts from the moment when the kernel
    /// answers for it.
    #[must_use]
    pub fn new(events: &[Event], address: IpAddr) -> Self {
        let mut holds = Vec::new();
        // The interfaces of a host that carry the address: a host with two of them is still one holder.
        let mut carrying: BTreeMap<&str, (Places, Time)> = BTreeMap::new();
        for event in events.iter().filter(|e| e.address == address) {
            let on = (event.interface, event.state.prefix);
            let (places, since) = carrying.entry(&event.host).or_insert((Places::new(), event.at));
            if event.change != Change::Removed && event.state.answers() {
                if places.is_empty() {
                    *since = event.at;
                }
                places.insert(on);
            } else if places.remove(&on) && places.is_empty() {
                holds.push(Hold { host: event.host.to_string(), from: *since, to: Some(event.at) });
            }
        }
        for (host, (places, since)) in carrying {
            if !places.is_empty() {
                holds.push(Hold { host: host.to_owned(), from: since, to: None });
            }
        }
        holds.sort_by_key(|hold| hold.from);
        Self { holds }
    }

    /// Removes the interval in which a host was not on the segment (its port was down, or it had crashed): a host that
    /// nobody can hear is no second owner. `to`: when the host came back, `None` if it did not.
    #[must_use]
    pub fn without(mut self, host: &str, from: Time, to: Option<Time>) -> Self {
        let mut kept = Vec::new();
        for hold in self.holds {
            if hold.host != host {
                kept.push(hold);
                continue;
            }
            // The part before the absence, and the part after it.
            if hold.from < from {
                let end = hold.to.map_or(from, |t| t.min(from));
                kept.push(Hold { to: Some(end), ..hold.clone() });
            }
            if let Some(back) = to
                && hold.to.is_none_or(|t| t > back)
            {
                kept.push(Hold { from: hold.from.max(back), ..hold });
            }
        }
        kept.sort_by_key(|hold| hold.from);
        self.holds = kept;
        self
    }

    /// Every hold, by its beginning.
    #[must_use]
    pub fn holds(&self) -> &[Hold] {
        &self.holds
    }

    /// Which hosts held the address at a moment.
    #[must_use]
    pub fn holders_at(&self, at: Time) -> BTreeSet<&str> {
        self.holds.iter().filter(|h| h.from <= at && h.to.is_none_or(|to| at < to)).map(|h| h.host.as_str()).collect()
    }

    /// The intervals between `from` and `to` in which two or more hosts held the address.
    #[must_use]
    pub fn two_owners(&self, from: Time, to: Time) -> Vec<Interval> {
        self.sweep(from, to, |owners| owners >= 2)
    }

    /// The intervals between `from` and `to` in which no host held the address.
    #[must_use]
    pub fn nobody(&self, from: Time, to: Time) -> Vec<Interval> {
        self.sweep(from, to, |owners| owners == 0)
    }

    fn sweep(&self, from: Time, to: Time, wanted: impl Fn(usize) -> bool) -> Vec<Interval> {
        let mut edges: BTreeSet<Time> = [from, to].into();
        for hold in &self.holds {
            edges.extend([Some(hold.from), hold.to].into_iter().flatten().filter(|t| from < *t && *t < to));
        }
        let edges: Vec<Time> = edges.into_iter().collect();
        let mut found: Vec<Interval> = Vec::new();
        for pair in edges.windows(2).filter(|pair| wanted(self.holders_at(pair[0]).len())) {
            match found.last_mut().filter(|last| last.to == pair[0]) {
                Some(last) => last.to = pair[1],
                None => found.push(Interval { from: pair[0], to: pair[1] }),
            }
        }
        found
    }
}

/// The sum of some intervals.
#[must_use]
pub fn total(intervals: &[Interval]) -> Duration {
    intervals.iter().map(Interval::length).sum()
}

/// The longest of some intervals; zero when there is none.
#[must_use]
pub fn longest(intervals: &[Interval]) -> Duration {
    intervals.iter().map(Interval::length).max().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use netlink_packet_route::address::AddressFlags;

    use super::super::addresses::State;
    use super::*;

    const VIP: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 9));

    fn at(ms: u64) -> Time {
        Time::from_nanos(ms * 1_000_000)
    }

    fn event(ms: u64, host: &str, interface: u32, change: Change, flags: AddressFlags) -> Event {
        let state = State { prefix: 32, flags, valid: 9, preferred: 0, protocol: None };
        Event { at: at(ms), host: host.into(), interface, address: VIP, change, state }
    }

    fn span(from: u64, to: u64) -> Interval {
        Interval { from: at(from), to: at(to) }
    }

    #[test]
    fn two_owners_are_two_hosts_not_two_interfaces() {
        let none = AddressFlags::empty();
        let events = [
            event(0, "a", 1, Change::Added, none),
            event(10, "a", 2, Change::Added, none),
            event(20, "a", 1, Change::Removed, none),
            event(100, "b", 1, Change::Added, none),
            event(120, "b", 1, Change::Refreshed, none),
            event(150, "a", 2, Change::Removed, none),
            event(300, "b", 1, Change::Removed, none),
            event(400, "a", 1, Change::Added, none),
        ];
        let line = Timeline::new(&events, VIP);
        assert_eq!(line.holds().len(), 3);
        assert_eq!(line.two_owners(at(0), at(1_000)), [span(100, 150)]);
        assert_eq!(line.two_owners(at(120), at(130)), [span(120, 130)]);
        assert_eq!(line.nobody(at(0), at(1_000)), [span(300, 400)]);
        assert_eq!(total(&line.two_owners(at(0), at(1_000))), Duration::from_millis(50));
        assert_eq!(longest(&[]), Duration::ZERO);
        assert_eq!(line.holders_at(at(120)), ["a", "b"].into());
    }

    #[test]
    fn a_host_that_is_off_the_segment_is_no_owner() {
        let none = AddressFlags::empty();
        let events = [event(0, "a", 1, Change::Added, none), event(100, "b", 1, Change::Added, none)];
        let line = Timeline::new(&events, VIP);
        assert_eq!(line.two_owners(at(0), at(500)), [span(100, 500)]);
        let gone = line.clone().without("a", at(50), None);
        assert_eq!(gone.two_owners(at(0), at(500)), []);
        assert_eq!(gone.nobody(at(0), at(500)), [span(50, 100)]);
        let back = line.without("a", at(50), Some(at(300)));
        assert_eq!(back.two_owners(at(0), at(500)), [span(300, 500)]);
    }

    #[test]
    fn an_address_under_duplicate_detection_is_not_held() {
        let events = [
            event(0, "a", 1, Change::Added, AddressFlags::Tentative),
            event(50, "a", 1, Change::Refreshed, AddressFlags::empty()),
            event(90, "a", 1, Change::Refreshed, AddressFlags::Dadfailed),
        ];
        assert_eq!(Timeline::new(&events, VIP).holds(), [Hold { host: "a".into(), from: at(50), to: Some(at(90)) }]);
    }
}
