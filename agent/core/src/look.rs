//! A VIP that is held back until the segment was probed for it: the VIP came while its Lease was held here, or another
//! host has it. `elector/searching.rs` uses it.

use std::time::Duration;

use crate::mac::Mac;
use crate::planted::planted;
use crate::time::Time;

/// The time between two probes.
const APART: Duration = Duration::from_millis(100);
/// This many unanswered probes are enough.
const PROBES: u8 = 3;
/// A step this late may have missed frames.
const SLACK: Duration = Duration::from_millis(100);
/// A host that has the VIP may be a node that is just letting go: it is asked again after this, for [`LATER`] in all.
const SOON: Duration = Duration::from_millis(500);
/// How long a host that does not take part has the VIP before it is reported.
const FOREIGN: Duration = Duration::from_secs(1);
/// After so long, whoever has the VIP keeps it: that is reported of a node, too, and the host is asked again only each time that this has
/// passed.
const LATER: Duration = Duration::from_secs(10);

/// The progress of probing for a VIP.
#[derive(Debug)]
pub(crate) struct Look {
    asked: u8,
    next: Time,
    /// The time between two probes.
    apart: Duration,
    heard: Option<Owner>,
    told: bool,
}

/// The host that has the VIP.
#[derive(Clone, Copy, Debug)]
struct Owner {
    mac: Mac,
    since: Time,
}

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// Wait.
    Waits,
    /// Send a probe.
    Ask,
    /// No host has the VIP.
    Nobody,
}

impl Look {
    /// Nothing is known of it. `spacing`: frames are limited to one in this time.
    pub(crate) fn new(now: Time, spacing: Option<Duration>) -> Self {
        Self { asked: 0, next: now, apart: APART.max(spacing.unwrap_or_default()), heard: None, told: false }
    }

    /// Another host has the VIP. `told`: this was reported.
    pub(crate) fn foreign(now: Time, spacing: Option<Duration>, mac: Mac, told: bool) -> Self {
        Self { heard: Some(Owner { mac, since: now }), told, ..Self::new(now + SOON, spacing) }
    }

    /// How long the search takes if nobody answers.
    pub(crate) fn takes(spacing: Duration) -> Duration {
        spacing * u32::from(PROBES)
    }

    pub(crate) const fn next(&self) -> Time {
        self.next
    }

    /// The host that has the VIP, once it was reported.
    pub(crate) fn owner(&self) -> Option<Mac> {
        self.heard.filter(|_| self.told).map(|owner| owner.mac)
    }

    /// Whether another host has had the VIP for longer than a node takes that is just letting go. One that was reported has.
    pub(crate) fn is_kept(&self, now: Time) -> bool {
        self.heard.is_some_and(|owner| self.told || now.since(owner.since) >= FOREIGN)
    }

    /// Another host claims the VIP. `is_node`: the host takes part. True: report this.
    pub(crate) fn hear(&mut self, now: Time, mac: Mac, is_node: bool) -> bool {
        let owner = Owner { mac, since: self.heard.map_or(now, |owner| owner.since) };
        self.heard = Some(owner);
        let waits = self.asked == 0 && self.next > now;
        if waits {
            return false;
        }
        let had = now.since(owner.since);
        self.asked = 0;
        let (again, soon) = if self.apart > APART {
            // Where frames are limited there is no room for more: once soon, and then seldom.
            (had.is_zero(), FOREIGN.max(Self::takes(self.apart)))
        } else {
            (had < LATER, SOON)
        };
        self.next = now + if again && !planted!(WaitsForNodes) { soon } else { LATER };
        let reported_after = if is_node { LATER } else { FOREIGN };
        had >= reported_after && !std::mem::replace(&mut self.told, true)
    }

    /// Time has passed.
    pub(crate) fn tick(&mut self, now: Time) -> Found {
        if now < self.next {
            return Found::Waits;
        }
        if self.asked > 0 && now > self.next + SLACK {
            self.asked = 0;
        }
        if self.asked == PROBES {
            return Found::Nobody;
        }
        self.asked += 1;
        self.next = now + self.apart;
        Found::Ask
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAC: Mac = Mac([2, 0, 0, 0, 0, 0x66]);

    fn at(ms: u64) -> Time {
        Time::from_nanos(ms * 1_000_000)
    }

    #[test]
    fn three_probes_on_time_that_nobody_answers_are_enough() {
        let mut look = Look::new(at(0), None);
        for t in [0, 100, 200] {
            assert_eq!(look.tick(at(t)), Found::Ask);
        }
        assert_eq!(look.tick(at(250)), Found::Waits);
        assert_eq!(look.tick(at(300)), Found::Nobody);
    }

    #[test]
    fn a_host_keeps_the_vip_that_was_reported_or_heard_for_a_second() {
        let kept = |told, ms| Look::foreign(at(0), None, MAC, told).is_kept(at(ms));
        assert_eq!([kept(true, 0), kept(false, 999), kept(false, 1_000)], [true, false, true]);
    }

    #[test]
    fn who_came_late_asks_again() {
        let mut look = Look::new(at(0), None);
        for t in [0, 100, 200] {
            look.tick(at(t));
        }
        assert_eq!(look.tick(at(900)), Found::Ask, "it may not have heard an answer");
        assert_eq!(look.tick(at(1_000)), Found::Ask);
    }

    #[test]
    fn under_a_limit_of_frames_the_probes_are_further_apart() {
        let mut look = Look::new(at(0), Some(Duration::from_millis(200)));
        let asked: Vec<u64> = (0..600).filter(|ms| look.tick(at(*ms)) == Found::Ask).collect();
        assert_eq!(asked, [0, 200, 400]);
    }

    /// The moments at which the VIP is probed for that this host has, and when the host is reported.
    fn asked(until: u64, is_node: bool) -> (Vec<u64>, Vec<u64>) {
        let mut look = Look::new(at(0), None);
        let (mut asked, mut told) = (vec![], vec![]);
        for ms in 0..until {
            if look.tick(at(ms)) == Found::Ask {
                asked.push(ms);
                told.extend(look.hear(at(ms), MAC, is_node).then_some(ms));
                assert!(!look.hear(at(ms), MAC, is_node), "of the same answer");
            }
        }
        (asked, told)
    }

    #[test]
    fn another_owner_is_asked_often_at_first_and_told_once() {
        let (often, told) = asked(35_000, false);
        assert_eq!(often[..4], [0, 500, 1_000, 1_500], "it may be a node that is just letting go");
        assert_eq!(often[often.len() - 3..], [10_000, 20_000, 30_000]);
        assert_eq!(told, [1_000]);
    }

    #[test]
    fn a_node_is_told_of_when_it_has_kept_the_vip() {
        assert_eq!(asked(35_000, true).1, [10_000]);
    }
}
