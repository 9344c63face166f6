//! A VIP that is held back until the segment was probed for it: the VIP came while its Lease was held here, or another
//! host has it. `elector/searching.rs` uses it.

use std::time::Duration;

use crate::mac::Mac;
use crate::time::Time;

/// The time between two probes.
const APART: Duration = Duration::from_millis(100);
/// This many unanswered probes are enough.
const PROBES: u8 = 3;
/// A step this late may have missed frames.
const SLACK: Duration = Duration::from_millis(100);
/// A VIP that was heard is probed again after this. The first time, its host may be a node that is just releasing the
/// VIP.
const SOON: Duration = Duration::from_secs(1);
/// The time to the next probe after a report.
const LATER: Duration = Duration::from_secs(10);

/// The progress of probing for a VIP.
#[derive(Debug)]
pub(crate) struct Look {
    asked: u8,
    next: Time,
    /// The time between two probes.
    apart: Duration,
    heard: Option<Mac>,
    told: bool,
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

    /// Another host has the VIP, and this was reported.
    pub(crate) fn foreign(now: Time, spacing: Option<Duration>, mac: Mac) -> Self {
        Self { heard: Some(mac), told: true, ..Self::new(now + LATER, spacing) }
    }

    /// How long the search takes if nobody answers.
    pub(crate) fn takes(spacing: Duration) -> Duration {
        spacing * u32::from(PROBES)
    }

    pub(crate) const fn next(&self) -> Time {
        self.next
    }

    /// The host that has the VIP.
    pub(crate) fn owner(&self) -> Option<Mac> {
        self.heard.filter(|_| self.told)
    }

    /// Another host claims the VIP. True: report this.
    pub(crate) fn hear(&mut self, now: Time, mac: Mac) -> bool {
        let again = self.heard.replace(mac) == Some(mac);
        let waits = self.asked == 0 && self.next > now;
        if waits {
            return false;
        }
        self.asked = 0;
        self.next = now + if again { LATER } else { SOON };
        again && !std::mem::replace(&mut self.told, true)
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

    #[test]
    fn another_owner_is_told_when_it_is_heard_for_the_second_time() {
        let mut look = Look::new(at(0), None);
        look.tick(at(0));
        assert!(!look.hear(at(1), MAC), "it may be a node that is just letting go");
        assert!(!look.hear(at(2), MAC), "of the same answer");
        assert_eq!(look.tick(at(500)), Found::Waits);
        assert_eq!(look.tick(at(1_001)), Found::Ask);
        assert!(look.hear(at(1_002), MAC));
        assert_eq!((look.owner(), look.tick(at(11_000))), (Some(MAC), Found::Waits));
        assert_eq!(look.tick(at(11_002)), Found::Ask);
        assert!(!look.hear(at(11_003), MAC), "once");
    }
}
