//! When it is worth a write that a Service waits, in a state that passes by itself as a rule.

use std::time::Duration;

/// A Service that waits is told so after this time.
const LASTING: Duration = Duration::from_secs(5);
/// As long as Services got on within this time, the others wait their turn: nothing is told.
const TURN: Duration = Duration::from_secs(2);
/// But not for longer than this.
const LONGEST: Duration = Duration::from_secs(30);

/// Of a thousand Services made at once, none gets a write only to say that it waits for those before it.
#[derive(Debug, Default)]
pub(super) struct Passing {
    /// When a Service last left such a state.
    got_on: Option<Duration>,
}

impl Passing {
    /// A Service has left such a state.
    pub(super) fn one_got_on(&mut self, now: Duration) {
        self.got_on = Some(now);
    }

    /// When a Service is told that it has been in such a state since then. This may become later.
    pub(super) fn told_at(&self, since: Duration) -> Duration {
        let turn = self.got_on.map_or(Duration::ZERO, |at| at + TURN);
        (since + LASTING).max(turn).min(since + LONGEST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_is_told_that_it_waits_when_no_other_gets_on() {
        let at = Duration::from_secs;
        let mut passing = Passing::default();
        assert_eq!(passing.told_at(at(10)), at(15));
        // One that got on long ago delays nothing.
        passing.one_got_on(at(11));
        assert_eq!(passing.told_at(at(10)), at(15));
        passing.one_got_on(at(14));
        assert_eq!(passing.told_at(at(10)), at(16));
        passing.one_got_on(at(39));
        assert_eq!(passing.told_at(at(10)), at(40), "not later than after 30 s");
    }
}
