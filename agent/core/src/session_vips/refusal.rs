//! The interface refused a VIP: when this node tries again. Only this node knows; another learns it by being offered the VIP.
//!
//! A node that holds the VIP by its record tries again every [`AGAIN`]: that costs no call to the API. A node to which the VIP is
//! only offered waits longer each time, because each try moves the record, and the next node may refuse the VIP as well.

use std::time::Duration;

use crate::action::Cause;
use crate::time::Time;

/// A node that holds the VIP, or finds it free, tries again after this.
const AGAIN: Duration = Duration::from_secs(5);
/// A node to which the VIP is offered tries again after this, at first: the reason may have been of the moment.
const FIRST: Duration = AGAIN;
/// And after this at the latest. A refusal is forgotten when so much more time has passed.
const LONGEST: Duration = Duration::from_mins(1);

/// What is known of refusals of a VIP by this node's interface.
#[derive(Clone, Debug, Default)]
pub(super) struct Refusal {
    /// No try before.
    pub(super) until: Time,
    /// No try before while another node that cannot carry the VIP offers it.
    pub(super) offered_until: Time,
    /// How long that is. Zero: it was never refused.
    wait: Duration,
    /// What was reported last, and when.
    told: Option<(String, Time)>,
}

impl Refusal {
    /// The interface has refused the VIP.
    pub(super) fn refused(&mut self, now: Time) {
        if !self.is_recent(now) {
            (self.wait, self.told) = (FIRST, None);
            self.offered_until = now + self.wait;
        } else if now >= self.offered_until {
            self.wait = (self.wait * 2).min(LONGEST);
            self.offered_until = now + self.wait;
        }
        self.until = now + AGAIN;
    }

    /// Whether the reason is to be reported: the first one is, and others from time to time.
    pub(super) fn tells(&mut self, now: Time, reason: &str) -> bool {
        let known = |(told, at): &(String, Time)| told == reason || now.since(*at) < LONGEST;
        if self.told.as_ref().is_some_and(known) {
            return false;
        }
        self.told = Some((reason.to_owned(), now));
        true
    }

    /// The interface, or what was in the way, is another now.
    pub(super) fn lift(&mut self, now: Time) {
        self.until = self.until.min(now);
        self.offered_until = self.offered_until.min(now);
    }

    /// The VIP is on the interface: earlier refusals mean nothing any more.
    pub(super) fn over(&mut self) {
        *self = Self::default();
    }

    /// Whether it was refused lately.
    pub(super) fn is_recent(&self, now: Time) -> bool {
        !self.wait.is_zero() && now.since(self.offered_until) <= LONGEST
    }

    /// Whether it was refused lately, more than once.
    pub(super) fn is_repeated(&self, now: Time) -> bool {
        self.is_recent(now) && self.wait > FIRST
    }

    /// The cause to report only when the VIP is on the interface, because the interface refused the VIP last time; or, if it did
    /// not, None: the cause is reported at once.
    pub(super) fn later(&self, now: Time, cause: Cause) -> Option<Cause> {
        (self.is_recent(now) && self.told.is_some()).then_some(cause)
    }

    /// Why the VIP is not carried here, as far as the interface is the reason.
    pub(super) fn reason(&self, now: Time) -> Option<&str> {
        self.told.as_ref().filter(|_| self.is_recent(now)).map(|(reason, _)| reason.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_wait_for_an_offer_is_longer_and_tries_by_the_record_are_not_counted() {
        let (mut refusal, mut now) = (Refusal::default(), Time::from_nanos(1));
        for wait in [5, 10, 20, 40, 60, 60] {
            refusal.refused(now);
            let end = now + Duration::from_secs(wait);
            assert_eq!((refusal.until, refusal.offered_until), (now + AGAIN, end));
            refusal.refused(end - Duration::from_millis(1));
            assert_eq!(refusal.offered_until, end);
            now = end;
        }
        refusal.lift(now);
        refusal.refused(now + LONGEST + AGAIN);
        assert_eq!(refusal.offered_until, now + LONGEST + AGAIN + FIRST, "the earlier ones are forgotten");
        refusal.over();
        assert!(!refusal.is_recent(now + LONGEST + AGAIN), "so are all once the VIP is there");
    }

    #[test]
    fn one_reason_is_told_once() {
        let (mut refusal, now) = (Refusal::default(), Time::from_nanos(1));
        refusal.refused(now);
        assert!(refusal.tells(now, "a") && !refusal.tells(now + LONGEST, "a"));
        assert!(!refusal.tells(now + AGAIN, "b") && refusal.tells(now + LONGEST, "b"));
        refusal.over();
        assert!(refusal.tells(now + LONGEST, "b"));
    }
}
