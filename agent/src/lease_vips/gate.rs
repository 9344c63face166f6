//! Whether a call for a Lease may go to the API servers, or is answered without them. Pure: the caller brings the time, and whoever
//! waits.
//!
//! With a Lease for each Service a node has hundreds of electors. Each of them tries again every second while the API is away. So
//! the gate closes when a call got no answer. Then one call at a time finds out whether the API is back, and the others wait for
//! what it finds: they fail with it, without having been sent. A call that hangs is not waited for alone: more are sent beside it.
//!
//! An API may answer some calls and not others: a webhook or a quota concerns one namespace. So a call whose last one was answered does
//! not wait for the gate.
//!
//! When a call is answered, the others go, but not all at once: each answer makes room for one more, so that API servers that have
//! just come back are asked as fast as they answer.

use std::collections::VecDeque;
use std::time::Duration;

use crate::core::time::Time;

/// The time between two calls that find out whether the API is back.
pub(super) const PROBE: Duration = Duration::from_millis(200);
/// So many calls that find it out may be under way: an API that is there, but does not answer some of the calls, answers others.
const MOST_PROBES: usize = 8;
/// So many calls are under way at first, when the API is back.
const AT_FIRST: usize = 16;
/// So many calls are under way at most.
const MOST: usize = 128;

/// One gate. `W` is who waits for its word.
#[derive(Debug)]
pub(super) struct Gate<W> {
    state: State,
    waiting: VecDeque<(Time, W)>,
    /// How many calls are under way that were sent since the gate last closed.
    running: usize,
    /// How often it has closed. Calls from before may hang for a while yet: they keep nobody waiting.
    closings: u64,
    /// When the latest of the calls was sent that have been answered.
    answered: Option<Time>,
}

#[derive(Clone, Copy, Debug)]
enum State {
    /// The API answers. So many calls may be under way.
    Open { room: usize },
    /// A call got no answer, and none was answered since.
    Closed {
        /// How many of the calls under way are to find out whether the API is back.
        probes: usize,
        /// When the last of them was sent.
        last: Option<Time>,
    },
}

/// The right to make one call. It is given back when the call ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pass {
    sent: Time,
    closings: u64,
    probe: bool,
}

/// The gate's word to who waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The call may be sent.
    Go(Pass),
    /// The API is away: the call is not sent.
    Away,
}

/// How a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// An API server answered, whatever it said.
    Answered,
    /// None did.
    Away,
    /// The call was never made.
    Unused,
}

impl<W> Default for Gate<W> {
    fn default() -> Self {
        Self {
            state: State::Open { room: AT_FIRST },
            waiting: VecDeque::new(),
            running: 0,
            closings: 0,
            answered: None,
        }
    }
}

impl<W> Gate<W> {
    /// Somebody wants to make a call, and waits for the gate's word until `until`.
    pub(super) fn ask(&mut self, now: Time, until: Time, who: W) -> Vec<(W, Verdict)> {
        self.waiting.push_back((until, who));
        self.verdicts(now)
    }

    /// A call goes without having asked: its last one was answered, whatever others meet.
    pub(super) fn goes(&mut self, now: Time) -> Pass {
        self.running += 1;
        Pass { sent: now, closings: self.closings, probe: false }
    }

    /// A call has ended.
    pub(super) fn ended(&mut self, now: Time, pass: Pass, end: End) -> Vec<(W, Verdict)> {
        if pass.closings == self.closings {
            self.running = self.running.saturating_sub(1);
            if let State::Closed { probes, .. } = &mut self.state {
                *probes = probes.saturating_sub(usize::from(pass.probe));
            }
        }
        match end {
            End::Answered => {
                self.answered = self.answered.max(Some(pass.sent));
                let room = if let State::Open { room } = self.state { room } else { AT_FIRST };
                self.state = State::Open { room: (room + 1).min(MOST) };
            }
            // The API has answered calls that were sent later: it is there, and this call alone met something.
            End::Away if self.answered > Some(pass.sent) => {}
            End::Away => {
                if matches!(self.state, State::Open { .. }) {
                    self.state = State::Closed { probes: 0, last: None };
                    (self.running, self.closings) = (0, self.closings + 1);
                }
            }
            End::Unused => {}
        }
        self.verdicts(now)
    }

    fn verdicts(&mut self, now: Time) -> Vec<(W, Verdict)> {
        // Who has waited too long has gone.
        self.waiting.retain(|(until, _)| *until > now);
        let mut all = vec![];
        let closings = self.closings;
        match &mut self.state {
            State::Open { room } => {
                let free = room.saturating_sub(self.running).min(self.waiting.len());
                let pass = Pass { sent: now, closings, probe: false };
                all.extend(self.waiting.drain(..free).map(|(_, who)| (who, Verdict::Go(pass))));
            }
            State::Closed { probes, last } => {
                let due = last.is_none_or(|last| now.since(last) >= PROBE) && *probes < MOST_PROBES;
                if let Some((_, who)) = self.waiting.pop_front_if(|_| due) {
                    (*probes, *last) = (*probes + 1, Some(now));
                    all.push((who, Verdict::Go(Pass { sent: now, closings, probe: true })));
                }
                if *probes == 0 {
                    all.extend(self.waiting.drain(..).map(|(_, who)| (who, Verdict::Away)));
                }
            }
        }
        self.running += all.iter().filter(|(_, verdict)| matches!(verdict, Verdict::Go(_))).count();
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const T: Time = Time::from_nanos(1_000_000_000);
    /// Longer than any test.
    const LONG: Duration = Duration::from_mins(1);

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn ask(gate: &mut Gate<u32>, now: Time, who: u32) -> Vec<(u32, Verdict)> {
        gate.ask(now, now + LONG, who)
    }

    /// Those who may go, with their passes; the others get no answer from the API.
    fn sorted(verdicts: Vec<(u32, Verdict)>) -> (Vec<(u32, Pass)>, Vec<u32>) {
        let (mut go, mut away) = (vec![], vec![]);
        for (who, verdict) in verdicts {
            match verdict {
                Verdict::Go(pass) => go.push((who, pass)),
                Verdict::Away => away.push(who),
            }
        }
        (go, away)
    }

    fn go(verdicts: Vec<(u32, Verdict)>) -> Pass {
        let (go, away) = sorted(verdicts);
        assert_eq!((go.len(), away), (1, vec![]));
        go[0].1
    }

    /// A gate whose first call got no answer at `T`.
    fn closed() -> Gate<u32> {
        let mut gate = Gate::default();
        let pass = go(ask(&mut gate, T, 0));
        assert_eq!(gate.ended(T, pass, End::Away), []);
        gate
    }

    #[test]
    fn while_the_api_answers_every_call_goes() {
        let mut gate = Gate::default();
        for who in 0..1_000 {
            let pass = go(ask(&mut gate, T + ms(u64::from(who)), who));
            assert_eq!(gate.ended(T + ms(u64::from(who)), pass, End::Answered), []);
        }
    }

    #[test]
    fn one_call_finds_out_for_all_that_the_api_is_away() {
        let mut gate = closed();
        let probe = go(ask(&mut gate, T, 1));
        for who in 2..500 {
            assert_eq!(ask(&mut gate, T, who), []);
        }
        let (sent, away) = sorted(gate.ended(T + ms(3), probe, End::Away));
        assert_eq!((sent, away), (vec![], (2..500).collect()));
        // Whoever comes now is answered at once, until it is time for another look.
        assert_eq!(ask(&mut gate, T + ms(4), 500), [(500, Verdict::Away)]);
        assert!(ask(&mut gate, T + PROBE - ms(1), 501) == [(501, Verdict::Away)]);
        go(ask(&mut gate, T + PROBE, 502));
    }

    #[test]
    fn calls_that_are_tried_again_every_second_are_few_while_the_api_is_away() {
        let (mut gate, mut sent) = (closed(), 0);
        // 500 electors, one second after the other, each call refused at once.
        for second in 0..10 {
            for who in 0..500 {
                let now = T + ms(second * 1_000 + u64::from(who) * 2);
                for (_, verdict) in ask(&mut gate, now, who) {
                    if let Verdict::Go(pass) = verdict {
                        sent += 1;
                        gate.ended(now, pass, End::Away);
                    }
                }
            }
        }
        assert!((45..=50).contains(&sent), "{sent} calls in ten seconds");
    }

    #[test]
    fn a_call_that_hangs_is_not_waited_for_alone() {
        let mut gate = closed();
        let hangs = go(ask(&mut gate, T, 1));
        assert_eq!(ask(&mut gate, T + ms(100), 2), []);
        // It is time for another: the first that waits.
        let (sent, away) = sorted(ask(&mut gate, T + PROBE, 3));
        assert_eq!((sent.len(), sent[0].0, away), (1, 2, vec![]));
        // The one that hung has failed: the other may still be answered.
        assert_eq!(gate.ended(T + ms(300), hangs, End::Away), []);
        let (go, away) = sorted(gate.ended(T + ms(301), sent[0].1, End::Answered));
        assert_eq!((go[0].0, away), (3, vec![]));
        // However long they hang, there are a few at most.
        let mut gate = closed();
        let sent = (0..100).flat_map(|nth| ask(&mut gate, T + PROBE * nth, nth)).count();
        assert_eq!(sent, MOST_PROBES);
    }

    #[test]
    fn when_the_api_is_back_calls_go_as_fast_as_they_are_answered() {
        let mut gate = closed();
        let probe = go(ask(&mut gate, T, 0));
        for who in 1..=500 {
            assert_eq!(ask(&mut gate, T, who), []);
        }
        let (mut running, _) = sorted(gate.ended(T, probe, End::Answered));
        assert_eq!(running.len(), AT_FIRST + 1);
        let (mut most, mut done) = (0, 0);
        while let Some((_, pass)) = running.pop() {
            most = most.max(running.len() + 1);
            done += 1;
            let (more, away) = sorted(gate.ended(T, pass, End::Answered));
            assert_eq!(away, Vec::<u32>::new());
            // One for the one that ended, one for the answer.
            assert!(more.len() <= 2);
            running.extend(more);
        }
        assert_eq!((done, most), (500, MOST));
    }

    #[test]
    fn a_call_that_hung_says_nothing_if_later_ones_were_answered() {
        let mut gate = Gate::default();
        let hangs = go(ask(&mut gate, T, 0));
        let pass = go(ask(&mut gate, T + ms(500), 1));
        assert_eq!(gate.ended(T + ms(510), pass, End::Answered), []);
        assert_eq!(gate.ended(T + ms(2_000), hangs, End::Away), []);
        // Both may go: the gate is open.
        go(ask(&mut gate, T + ms(2_001), 2));
        go(ask(&mut gate, T + ms(2_001), 3));
    }

    #[test]
    fn calls_that_still_hang_when_the_api_is_back_keep_nobody_waiting() {
        let mut gate = Gate::default();
        let hang: Vec<Pass> = (0..16).map(|who| go(ask(&mut gate, T, who))).collect();
        assert_eq!(gate.ended(T + ms(2_000), hang[0], End::Away), []);
        let probe = go(ask(&mut gate, T + ms(2_000), 20));
        for who in 21..30 {
            assert_eq!(ask(&mut gate, T + ms(2_000), who), []);
        }
        let (sent, _) = sorted(gate.ended(T + ms(2_001), probe, End::Answered));
        assert_eq!(sent.len(), 9);
        // When they fail at last, that is no news.
        for pass in &hang[1..] {
            assert_eq!(gate.ended(T + ms(2_100), *pass, End::Away), []);
        }
        go(ask(&mut gate, T + ms(2_100), 30));
    }

    #[test]
    fn an_answer_to_an_older_call_opens_the_gate() {
        let mut gate = Gate::default();
        let (slow, fails) = (go(ask(&mut gate, T, 0)), go(ask(&mut gate, T, 1)));
        assert_eq!(gate.ended(T, fails, End::Away), []);
        let _probe = go(ask(&mut gate, T, 2));
        assert_eq!(ask(&mut gate, T, 3), []);
        let (sent, _) = sorted(gate.ended(T + ms(1), slow, End::Answered));
        assert_eq!(sent.len(), 1);
    }

    #[test]
    fn who_waited_too_long_is_not_sent() {
        let mut gate = closed();
        let probe = go(ask(&mut gate, T, 1));
        assert_eq!(gate.ask(T, T + ms(50), 2), []);
        assert_eq!(gate.ask(T, T + ms(150), 3), []);
        let (sent, away) = sorted(gate.ended(T + ms(100), probe, End::Answered));
        assert_eq!((sent.len(), sent[0].0, away), (1, 3, vec![]));
    }

    #[test]
    fn a_pass_that_is_not_used_goes_to_the_next() {
        let mut gate = closed();
        let probe = go(ask(&mut gate, T, 1));
        assert_eq!(ask(&mut gate, T, 2), []);
        // Nobody found out anything, and it is too soon for another.
        assert_eq!(gate.ended(T, probe, End::Unused), [(2, Verdict::Away)]);
        let mut gate = Gate::default();
        let passes: Vec<Pass> = (0..AT_FIRST).map(|_| go(ask(&mut gate, T, 7))).collect();
        assert_eq!(ask(&mut gate, T, 8), []);
        go(gate.ended(T, passes[0], End::Unused));
    }
}
