//! The Lease as this node has seen it, and what time has proved about it.

use std::time::Duration;

use super::lease::LeaseView;
use super::planted::{Bug, is_planted};
use super::time::Time;

/// A Lease is honoured for as long as its record says, but not longer than this: the written duration may be absurd.
const LONGEST: Duration = Duration::from_hours(1);

/// The times of an election.
pub trait Timing {
    /// The duration of a Lease whose record states none.
    fn lease_duration(&self) -> Duration;

    /// How often a holder renews.
    fn retry_period(&self) -> Duration;

    /// After this long without proof the observer was blind, and every record gets a full duration again. What is left of
    /// a Lease when the observer sees again must suffice for its holder to renew it: after an outage a holder tries again
    /// within half a retry period.
    fn blind_after(&self) -> Duration {
        let holders_turn = self.retry_period() / 2 + Duration::from_millis(500);
        let usual = self.retry_period() * 2 + Duration::from_secs(1);
        usual.min(self.lease_duration().saturating_sub(holders_turn))
    }
}

/// What the observer has seen of the Lease. Expiry is judged by the local clock since the record was last *seen to
/// change*, as client-go does; wall clocks of two nodes are never compared. Blind time does not count: when for a while
/// nothing proved that the record is still as seen, the record gets a full duration again.
#[derive(Clone, Debug, Default)]
pub struct Observation {
    known: bool,
    view: Option<LeaseView>,
    changed: Time,
    proven: Option<Time>,
}

impl Observation {
    /// The Lease as last seen; None when the Lease does not exist, or was never seen.
    #[must_use]
    pub fn view(&self) -> Option<&LeaseView> {
        self.view.as_ref()
    }

    /// Whether the Lease was ever seen, or seen not to exist.
    #[must_use]
    pub fn is_known(&self) -> bool {
        self.known
    }

    /// Its version, for the next compare-and-swap.
    #[must_use]
    pub fn version(&self) -> Option<&str> {
        self.view.as_ref().map(|v| v.version.as_str())
    }

    /// The holder's name; empty when there is none.
    #[must_use]
    pub fn holder(&self) -> &str {
        self.view.as_ref().map_or("", |v| v.record.holder.as_str())
    }

    /// When the record was last seen to change.
    #[must_use]
    pub fn changed(&self) -> Time {
        self.changed
    }

    /// When it was last proved that the Lease is as seen.
    #[must_use]
    pub fn proven(&self) -> Option<Time> {
        self.proven
    }

    /// Takes in the Lease from a read, a watch event or a write. False if the view is older than the known one, and was
    /// ignored.
    pub fn see(&mut self, now: Time, view: Option<LeaseView>, rules: &impl Timing) -> bool {
        if is_older(view.as_ref(), self.view.as_ref()) {
            return false;
        }
        self.see_anew(now, view, rules);
        true
    }

    /// Like [`Self::see`], but accepts any version: a read that was sent after the known view was seen shows an older
    /// version when the store was restored from a backup.
    pub fn see_anew(&mut self, now: Time, view: Option<LeaseView>, rules: &impl Timing) {
        let same = self.known && self.view.as_ref().map(|v| &v.record) == view.as_ref().map(|v| &v.record);
        if !same {
            self.changed = now;
        }
        self.known = true;
        self.view = view;
        self.prove(now, rules);
    }

    /// Records the proof that the Lease is as seen now: a read, a write or a watch event showed it.
    fn prove(&mut self, now: Time, rules: &impl Timing) {
        let blind =
            !is_planted(Bug::BlindTimeCounts) && self.proven.is_none_or(|at| now.since(at) > rules.blind_after());
        if blind {
            self.changed = now;
        }
        self.proven = Some(now);
    }

    /// Whether the last proof is recent enough to judge by.
    #[must_use]
    pub fn is_fresh(&self, now: Time, rules: &impl Timing) -> bool {
        self.known
            && (is_planted(Bug::BlindTimeCounts) || self.proven.is_some_and(|at| now.since(at) <= rules.blind_after()))
    }

    /// When the holder's Lease ends by this node's clock, if nothing changes and the Lease is proved until then.
    #[must_use]
    pub fn expires(&self, rules: &impl Timing) -> Option<Time> {
        let view = self.view.as_ref().filter(|v| !v.record.holder.is_empty())?;
        let stated = view.record.duration.min(LONGEST);
        Some(self.changed + if stated.is_zero() { rules.lease_duration() } else { stated })
    }
}

/// Versions of one object are numbers that grow (Kubernetes 1.35 says so in its API conventions; they always were
/// etcd's revisions). A version that is not a number is taken as newer.
fn is_older(new: Option<&LeaseView>, known: Option<&LeaseView>) -> bool {
    let number = |v: Option<&LeaseView>| v.and_then(|v| v.version.parse::<u64>().ok());
    matches!((number(new), number(known)), (Some(new), Some(known)) if new < known)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::leader::Rules;
    use crate::lease::Record;

    fn view(version: &str, transitions: u32) -> LeaseView {
        let record =
            Record { holder: "cp1".into(), duration: Duration::from_secs(15), transitions, ..Record::default() };
        LeaseView { version: version.into(), record, notes: crate::lease::Notes::default() }
    }

    fn at(seconds: u64) -> Time {
        Time::from_nanos(seconds * 1_000_000_000)
    }

    #[test]
    fn expiry_counts_from_the_last_change_seen() {
        let (mut seen, rules) = (Observation::default(), Rules::default());
        seen.see(at(100), Some(view("1", 0)), &rules);
        for t in [102, 104, 106] {
            seen.see(at(t), Some(view("1", 0)), &rules);
        }
        assert_eq!(seen.expires(&rules), Some(at(115)));
        seen.see(at(108), Some(view("2", 1)), &rules);
        assert_eq!(seen.expires(&rules), Some(at(123)));
    }

    #[test]
    fn blind_time_does_not_count() {
        let (mut seen, rules) = (Observation::default(), Rules::default());
        seen.see(at(100), Some(view("1", 0)), &rules);
        assert!(!seen.is_fresh(at(160), &rules));
        seen.see(at(160), Some(view("1", 0)), &rules);
        assert_eq!(seen.expires(&rules), Some(at(175)), "a full duration again");
    }

    #[test]
    fn what_is_older_than_known_is_ignored() {
        let (mut seen, rules) = (Observation::default(), Rules::default());
        assert!(seen.see(at(1), Some(view("10", 1)), &rules));
        assert!(!seen.see(at(2), Some(view("9", 0)), &rules));
        assert_eq!(seen.version(), Some("10"));
    }

    #[test]
    fn an_absurd_duration_ends_some_day() {
        let (mut seen, rules) = (Observation::default(), Rules::default());
        let mut absurd = view("1", 0);
        absurd.record.duration = Duration::from_secs(u64::from(u32::MAX));
        seen.see(at(0), Some(absurd), &rules);
        assert_eq!(seen.expires(&rules), Some(at(3_600)));
    }
}
