//! Whether probes are answered on a segment at all, and with which sender.
//!
//! A node asks a third party now and then while nothing is wrong: so it knows beforehand whether the network drops the probes of one
//! sender (OpenStack's port security and Dynamic ARP Inspection drop 0.0.0.0), or all of them.

use std::net::IpAddr;
use std::time::Duration;

use super::evidence::{Form, Sender};
use super::time::Time;
use super::witness::Looks;

/// A third party is asked this long after the last answer, or the last question.
const ROUND: Duration = Duration::from_secs(10);
/// Probes with sender 0.0.0.0 are tried again this long after the last answer to one, or the last try.
const TRY_AGAIN: Duration = Duration::from_secs(30);
/// An answer shows for so long that probes with its sender pass.
const WORKS: Duration = Duration::from_mins(1);
/// What is asked within this time is one try: the answer may be on its way, and each of several hosts may be gone.
const MOMENT: Duration = Duration::from_millis(50);
/// So many unanswered tries show that the network drops those of one sender, if others are answered.
const DROPPED: u32 = 3;
/// So many unanswered tries in so long a time show that none is answered.
const NOBODY: (u32, Duration) = (10, Duration::from_secs(20));

/// What is known of probes on a segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// Too little was asked.
    #[default]
    Unknown,
    /// Third parties answer.
    Answered,
    /// They answer only probes that name this node's own address as the sender: the network drops ARP from 0.0.0.0.
    Filtered,
    /// Nobody answers any probe.
    Nobody,
}

/// The probes with one sender.
#[derive(Clone, Copy, Debug, Default)]
struct Tries {
    /// How many tries were not answered since the last answer, and when the first and the last of them began.
    unanswered: u32,
    since: Time,
    began: Time,
    last: Option<Time>,
    answered: Option<Time>,
}

impl Tries {
    fn asked(&mut self, now: Time) {
        if self.unanswered == 0 {
            self.since = now;
        }
        if self.unanswered == 0 || now >= self.began + MOMENT {
            self.unanswered = self.unanswered.saturating_add(1);
            self.began = now;
        }
        self.last = Some(now);
    }

    fn answered(&mut self, now: Time) {
        (self.unanswered, self.answered) = (0, Some(now));
    }

    fn due(&self, every: Duration) -> Time {
        self.last.max(self.answered).map_or_else(Time::default, |at| at + every)
    }
}

/// The echo of one segment.
#[derive(Clone, Copy, Debug, Default)]
pub struct Echo {
    unspecified: Tries,
    own: Tries,
}

impl Echo {
    /// Third parties are asked with that sender.
    pub fn asked(&mut self, now: Time, sender: Sender) {
        self.tries(sender).asked(now);
    }

    /// Another host spoke for an address of its own.
    pub fn heard(&mut self, now: Time, address: IpAddr, form: Form) {
        for sender in [Sender::Unspecified, Sender::Own] {
            if form.answers(address, sender) {
                self.tries(sender).answered(now);
            }
        }
    }

    fn tries(&mut self, sender: Sender) -> &mut Tries {
        match sender {
            Sender::Unspecified => &mut self.unspecified,
            Sender::Own => &mut self.own,
        }
    }

    /// The link was down, or this node stood still: unanswered probes say nothing.
    pub fn forget(&mut self) {
        (self.unspecified.unanswered, self.own.unanswered) = (0, 0);
    }

    /// When third parties are asked next, if nothing else asks them.
    #[must_use]
    pub fn next(&self) -> Time {
        self.own.due(ROUND).min(self.unspecified.due(TRY_AGAIN))
    }

    /// The senders with which a third party is to be asked now.
    pub fn due(&self, now: Time) -> impl Iterator<Item = Sender> {
        let own = (self.own.due(ROUND) <= now).then_some(Sender::Own);
        let unspecified = (self.unspecified.due(TRY_AGAIN) <= now).then_some(Sender::Unspecified);
        own.into_iter().chain(unspecified)
    }

    /// With which sender a VIP that may be free is looked for.
    #[must_use]
    pub fn looks(&self, now: Time) -> Looks {
        let (first, tries) =
            if self.is_filtered() { (Sender::Own, self.own) } else { (Sender::Unspecified, self.unspecified) };
        Looks { first, works: tries.answered.is_some_and(|at| now.since(at) <= WORKS) }
    }

    fn is_filtered(&self) -> bool {
        let zero = self.unspecified;
        zero.unanswered >= DROPPED && self.own.answered.is_some_and(|at| at >= zero.since)
    }

    /// What is known now, if people should be told: it was known otherwise.
    #[must_use]
    pub fn changed(&self, now: Time, told: &mut State) -> Option<State> {
        let state = self.state(now);
        let before = std::mem::replace(told, state);
        let usual = |state| matches!(state, State::Unknown | State::Answered);
        (state != before && !(usual(state) && usual(before))).then_some(state)
    }

    /// What is known now.
    #[must_use]
    pub fn state(&self, now: Time) -> State {
        let (many, long) = NOBODY;
        let silent = |tries: &Tries| tries.unanswered >= many && now.since(tries.since) >= long;
        let answered = self.own.answered.max(self.unspecified.answered);
        if silent(&self.own) && answered.is_none_or(|at| at <= self.own.since) {
            State::Nobody
        } else if self.is_filtered() {
            State::Filtered
        } else if answered.is_some() {
            State::Answered
        } else {
            State::Unknown
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GATEWAY: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));

    fn at(s: u64) -> Time {
        Time::from_nanos(s * 1_000_000_000)
    }

    /// Asks when it is due for `seconds`; a host answers probes with these senders.
    fn run(echo: &mut Echo, from: u64, to: u64, answers: &[Sender]) {
        for s in from..to {
            for sender in echo.due(at(s)).collect::<Vec<_>>() {
                echo.asked(at(s), sender);
                if answers.contains(&sender) {
                    echo.heard(at(s), GATEWAY, Form::Answer(sender));
                }
            }
        }
    }

    #[test]
    fn what_passes_is_learnt_while_nothing_is_wrong() {
        use Sender::{Own, Unspecified};
        let mut echo = Echo::default();
        assert_eq!(echo.state(at(0)), State::Unknown);
        run(&mut echo, 1, 2, &[Own, Unspecified]);
        assert_eq!(
            (echo.state(at(2)), echo.looks(at(2))),
            (State::Answered, Looks { first: Unspecified, works: true })
        );
        run(&mut echo, 2, 200, &[Own]);
        assert_eq!((echo.state(at(200)), echo.looks(at(200))), (State::Filtered, Looks { first: Own, works: true }));
        run(&mut echo, 200, 240, &[Own, Unspecified]);
        assert_eq!(echo.state(at(240)), State::Answered, "the filter is gone");
        run(&mut echo, 240, 400, &[]);
        assert_eq!((echo.state(at(400)), echo.looks(at(400)).works), (State::Nobody, false));
        echo.heard(at(400), GATEWAY, Form::Claim);
        assert_eq!(echo.state(at(400)), State::Nobody, "a claim is no answer");
        echo.heard(at(400), GATEWAY, Form::Answer(Own));
        assert_ne!(echo.state(at(400)), State::Nobody);
        let mut silent = Echo::default();
        run(&mut silent, 0, 90, &[]);
        assert_eq!(silent.state(at(90)), State::Unknown);
        run(&mut silent, 90, 120, &[]);
        assert_eq!(silent.state(at(120)), State::Nobody);
    }
}
