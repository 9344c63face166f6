//! Whether probes are answered on a segment at all, and with which sender.
//!
//! A node asks a third party now and then while nothing is wrong: so it knows beforehand whether the network drops the probes of one
//! sender (OpenStack's port security and Dynamic ARP Inspection drop 0.0.0.0), or all of them.
//!
//! Whether one sender's probes are dropped is judged by one host at a time: it is asked with both senders, and answers one of them. A host
//! that is gone answers none, and what another one answers says nothing about it.
//!
//! Under a limit of frames the same is asked more slowly, and only what has left counts as asked.

use std::net::IpAddr;
use std::time::Duration;

use super::evidence::{Form, Sender};
use super::time::Time;
use super::witness::Looks;

/// A third party is asked this long after the last answer, or the last question.
const ROUND: Duration = Duration::from_secs(10);
/// The same after a question that was not answered, if nobody has answered for a round, until it is known that nobody answers. Under a
/// limit of frames, perhaps later.
const SOONER: Duration = Duration::from_secs(2);
/// Whoever was answered within this time is heard. Less than [`NOBODY`]: where all answers end at once, nobody is heard by then.
const HEARD: Duration = Duration::from_secs(15);
/// Whoever has been heard for so long, without a break, is sure of it. When an outage of the gateway ends, all who hear it again have said so by
/// then: they ask once in [`ROUND`], and say it with their next renewal. Where frames are limited, they may have waited for room: then it
/// takes longer by the time between two questions.
const SURE: Duration = Duration::from_secs(15);
/// Probes with sender 0.0.0.0 are tried again this long after the last answer to one, or the last try.
const TRY_AGAIN: Duration = Duration::from_secs(30);
/// An answer shows for so long that probes with its sender pass.
const WORKS: Duration = Duration::from_mins(1);
/// What is asked within this time is one try: the answer may be on its way, and each of several hosts may be gone.
const MOMENT: Duration = Duration::from_millis(50);
/// So many tries of which somebody has answered only the other sender show that the network drops probes from 0.0.0.0.
const DROPPED: u32 = 3;
/// A host that answers the other sender within this time after a try was there when it was asked.
const THERE: Duration = Duration::from_secs(2);
/// So many hosts are compared at a time.
const COMPARED: usize = 8;
/// So many unanswered tries in so long a time show that none is answered.
const NOBODY: (u32, Duration) = (10, Duration::from_secs(20));

/// What is known of probes on a segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// Too little was asked.
    #[default]
    Unknown,
    /// The same, and nobody will be asked to know it: the limit of frames is too low.
    NotAsked,
    /// Third parties answer.
    Answered,
    /// They answer only probes that name this node's own address as the sender: the network drops ARP from 0.0.0.0.
    Filtered,
    /// Nobody answers any probe.
    Nobody,
}

/// What is known of probes has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// They are answered, as anywhere: people need not be told.
    AsUsual,
    /// People should know.
    To(State),
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

/// How often third parties may be asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pace {
    /// Frames are not limited.
    #[default]
    Free,
    /// They are: at most one question in this time.
    Every(Duration),
    /// The limit leaves no room.
    Never,
}

/// The echo of one segment.
#[derive(Clone, Debug, Default)]
pub struct Echo {
    pace: Pace,
    unspecified: Tries,
    own: Tries,
    /// The interface has no IPv4 address of its own: all its probes come from 0.0.0.0.
    bare: bool,
    /// When a third party was last asked because it was due, and how often since the last answer. What is asked for other reasons, perhaps of
    /// hosts that are never heard, does not put that off.
    turn: Option<Time>,
    turns: u32,
    /// Who was asked with 0.0.0.0, and when: nobody has answered that yet.
    compared: Vec<(IpAddr, Time)>,
    /// Of so many such tries somebody has answered this node's own sender only.
    one_sided: u32,
    /// Since when this node has been heard without a break.
    heard_since: Option<Time>,
    /// It was heard for long enough at the last answer.
    sure: bool,
}

impl Echo {
    /// Whether the interface has an IPv4 address of its own for probes to come from.
    pub fn set_bare(&mut self, bare: bool) {
        self.bare = bare;
    }

    /// Sets how often third parties may be asked.
    pub fn set_pace(&mut self, pace: Pace) {
        self.pace = pace;
    }

    /// These third parties are asked with that sender.
    pub fn asked(&mut self, now: Time, sender: Sender, hosts: impl IntoIterator<Item = IpAddr>) {
        self.tries(sender).asked(now);
        if sender == Sender::Unspecified && !self.bare {
            self.compared.retain(|(_, at)| now.since(*at) <= THERE);
            let room = COMPARED.saturating_sub(self.compared.len());
            self.compared.extend(hosts.into_iter().take(room).map(|host| (host, now)));
        }
    }

    /// The same, because it was due.
    pub fn asked_in_turn(&mut self, now: Time, host: IpAddr, sender: Sender) {
        if sender == Sender::Own || self.bare {
            (self.turn, self.turns) = (Some(now), self.turns.saturating_add(1));
        }
        self.asked(now, sender, [host]);
    }

    /// Another host spoke for an address of its own. True: with that, this node has been heard for long enough to be sure of it.
    pub fn heard(&mut self, now: Time, address: IpAddr, form: Form) -> bool {
        let before = self.heard_just_now(now);
        for sender in [Sender::Unspecified, Sender::Own] {
            if form.answers(address, sender) {
                self.tries(sender).answered(now);
                self.turns = 0;
                self.compare(now, address, sender);
                self.heard_since = self.heard_since.filter(|_| before).or(Some(now));
            }
        }
        let sure = self.is_heard(now);
        let before = std::mem::replace(&mut self.sure, sure);
        sure && !before
    }

    /// A host has answered a probe with that sender: has it been asked with the other one?
    fn compare(&mut self, now: Time, address: IpAddr, sender: Sender) {
        if sender == Sender::Unspecified {
            (self.compared, self.one_sided) = (vec![], 0);
            return;
        }
        while let Some((_, at)) = self.compared.iter().find(|(host, at)| *host == address && now.since(*at) <= THERE) {
            let at = *at;
            self.one_sided = self.one_sided.saturating_add(1);
            // Whoever else was asked in that moment belongs to the same try.
            self.compared.retain(|(_, other)| *other + MOMENT <= at || at + MOMENT <= *other);
        }
    }

    fn tries(&mut self, sender: Sender) -> &mut Tries {
        match sender {
            Sender::Own if !self.bare => &mut self.own,
            Sender::Own | Sender::Unspecified => &mut self.unspecified,
        }
    }

    /// The probes by which this node knows whether it is answered at all.
    fn usual(&self) -> &Tries {
        if self.bare { &self.unspecified } else { &self.own }
    }

    fn sooner(&self) -> Duration {
        if let Pace::Every(pace) = self.pace { SOONER.max(pace) } else { SOONER }
    }

    /// When these are asked next.
    fn usual_due(&self) -> Time {
        let (tries, (many, _)) = (self.usual(), NOBODY);
        let from = self.turn.max(tries.answered);
        let usually = from.map_or_else(Time::default, |at| at + ROUND);
        // A pace is one that can be kept for ever.
        let soon = self.turns < many || self.pace != Pace::Free;
        match self.turn {
            // One host alone may be gone: others have answered just now.
            Some(turn) if tries.unanswered > 0 && soon => {
                usually.min((turn + self.sooner()).max(tries.answered.map_or(turn, |at| at + ROUND)))
            }
            _ => usually,
        }
    }

    /// The probes with sender 0.0.0.0 are asked next then: beside others, for as long as it is not clear whether they alone are dropped.
    fn unspecified_due(&self) -> Time {
        let zero = &self.unspecified;
        let unclear = zero.unanswered > 0 && self.one_sided < DROPPED && self.own.unanswered == 0;
        let due = zero.due(TRY_AGAIN);
        if unclear { due.min(self.usual_due()) } else { due }
    }

    /// This node stood still: unanswered probes say nothing. What was known before (`told`) is known until somebody answers.
    pub fn forget(&mut self, told: State) {
        if told == State::Nobody {
            return;
        }
        (self.unspecified.unanswered, self.own.unanswered, self.turns) = (0, 0, 0);
        (self.compared, self.one_sided) = (vec![], 0);
    }

    /// When third parties are asked next, if nothing else asks them.
    #[must_use]
    pub fn next(&self) -> Time {
        if self.bare { self.usual_due() } else { self.usual_due().min(self.unspecified_due()) }
    }

    /// Whether third parties are asked at all, because it is due.
    #[must_use]
    pub fn asks(&self) -> bool {
        self.pace != Pace::Never
    }

    /// The senders with which a third party is to be asked now: with 0.0.0.0 only beside its own, and first: so it is not answered last.
    pub fn due(&self, now: Time) -> impl Iterator<Item = Sender> {
        let unspecified = !self.bare && self.unspecified_due() <= now;
        let usual = (self.usual_due() <= now || unspecified) && self.asks();
        let first = if self.bare { Sender::Unspecified } else { Sender::Own };
        let other = (usual && unspecified).then_some(Sender::Unspecified);
        other.into_iter().chain(usual.then_some(first))
    }

    /// With which sender a VIP that may be free is looked for.
    #[must_use]
    pub fn looks(&self, now: Time) -> Looks {
        let (first, tries) =
            if self.is_filtered() { (Sender::Own, self.own) } else { (Sender::Unspecified, self.unspecified) };
        Looks { first, works: tries.answered.is_some_and(|at| now.since(at) <= WORKS) }
    }

    fn is_filtered(&self) -> bool {
        !self.bare && self.one_sided >= DROPPED
    }

    /// What is known now, if it was known otherwise.
    #[must_use]
    pub fn changed(&self, now: Time, told: &mut State) -> Option<Change> {
        let state = self.state(now);
        let before = std::mem::replace(told, state);
        let usual = |state| matches!(state, State::Unknown | State::NotAsked | State::Answered);
        match state {
            state if state == before => None,
            State::Answered if usual(before) => Some(Change::AsUsual),
            state if usual(state) && usual(before) => None,
            state => Some(Change::To(state)),
        }
    }

    /// Whether others hear this node, and have done so for a while without a break.
    #[must_use]
    pub fn is_heard(&self, now: Time) -> bool {
        self.heard_just_now(now) && self.heard_since.is_some_and(|since| now.since(since) >= self.sure_after())
    }

    fn sure_after(&self) -> Duration {
        if let Pace::Every(pace) = self.pace { SURE + pace } else { SURE }
    }

    fn heard_just_now(&self, now: Time) -> bool {
        let answered = self.own.answered.max(self.unspecified.answered);
        answered.is_some_and(|at| now.since(at) <= HEARD) && self.state(now) != State::Nobody
    }

    /// What is known now.
    #[must_use]
    pub fn state(&self, now: Time) -> State {
        let (many, long) = NOBODY;
        // Questions to hosts that are gone, or that this node does not hear, show nothing: those that are due ask whoever answered last.
        let asked = self.turns >= many;
        let silent = |tries: &Tries| asked && tries.unanswered >= many && now.since(tries.since) >= long;
        let answered = self.own.answered.max(self.unspecified.answered);
        let usual = self.usual();
        if silent(usual) && answered.is_none_or(|at| at <= usual.since) {
            State::Nobody
        } else if self.is_filtered() {
            State::Filtered
        } else if answered.is_some() {
            State::Answered
        } else if self.asks() {
            State::Unknown
        } else {
            State::NotAsked
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::Rules;

    const GATEWAY: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));
    const PEER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 2));

    fn at(s: u64) -> Time {
        Time::from_nanos(s * 1_000_000_000)
    }

    /// Asks when it is due for `seconds`; a host answers probes with these senders.
    fn run(echo: &mut Echo, from: u64, to: u64, answers: &[Sender]) {
        for s in from..to {
            for sender in echo.due(at(s)).collect::<Vec<_>>() {
                echo.asked_in_turn(at(s), GATEWAY, sender);
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
    }

    /// With an address of its own, and without one.
    #[test]
    fn nobody_is_known_to_answer_after_ten_questions_in_twenty_seconds() {
        for bare in [false, true] {
            let mut silent = Echo::default();
            silent.set_bare(bare);
            run(&mut silent, 1, 18, &[]);
            assert_eq!((silent.state(at(18)), silent.is_heard(at(18))), (State::Unknown, false));
            run(&mut silent, 18, 22, &[]);
            assert_eq!(silent.state(at(22)), State::Nobody);
            let asked = silent.usual().unanswered;
            run(&mut silent, 22, 82, &[]);
            assert!(silent.usual().unanswered - asked <= 7, "then it is asked seldom");
        }
    }

    /// It takes as long as ten questions take, and those that nobody was asked do not count.
    #[test]
    fn under_a_limit_of_frames_nobody_is_known_to_answer_later() {
        for (limit, seconds) in [(1_000, 20), (15, 20), (6, 46), (3, 91)] {
            let rules = Rules { frames_per_second: Some(limit), ..Rules::default() };
            let mut echo = Echo::default();
            echo.set_pace(rules.pace());
            run(&mut echo, 1, seconds - 2, &[]);
            assert_eq!(echo.state(at(seconds - 2)), State::Unknown, "limit {limit}");
            run(&mut echo, seconds - 2, seconds + 3, &[]);
            assert_eq!(echo.state(at(seconds + 3)), State::Nobody, "limit {limit}");
        }
        let mut echo = Echo::default();
        echo.set_pace(Rules { frames_per_second: Some(2), ..Rules::default() }.pace());
        run(&mut echo, 1, 300, &[]);
        assert_eq!(echo.state(at(300)), State::NotAsked);
        echo.heard(at(300), GATEWAY, Form::Answer(Sender::Own));
        assert_eq!(echo.state(at(300)), State::Answered, "it was asked for another reason");
    }

    /// Whoever hears the gateway again is not sure of that before those whose frames wait for room have heard it, too.
    #[test]
    fn under_a_limit_of_frames_a_node_is_sure_of_being_heard_later() {
        let mut echo = Echo::default();
        echo.set_pace(Pace::Every(Duration::from_secs(5)));
        run(&mut echo, 1, 20, &[Sender::Own]);
        assert!(!echo.is_heard(at(20)));
        run(&mut echo, 20, 23, &[Sender::Own]);
        assert!(echo.is_heard(at(23)));
    }

    /// The gateway is away for a while, and the nodes hear one another.
    #[test]
    fn a_host_that_is_gone_does_not_show_that_the_network_drops_probes() {
        let mut echo = Echo::default();
        run(&mut echo, 1, 60, &[Sender::Own, Sender::Unspecified]);
        for s in 60..240 {
            for sender in echo.due(at(s)).collect::<Vec<_>>() {
                echo.asked_in_turn(at(s), GATEWAY, sender);
            }
            // Peers answer what they are asked for other reasons.
            echo.heard(at(s), PEER, Form::Answer(Sender::Own));
            assert_eq!(echo.state(at(s)), State::Answered, "after {s} s");
        }
        // The gateway is back.
        run(&mut echo, 240, 300, &[Sender::Own, Sender::Unspecified]);
        assert!(echo.looks(at(300)).works);
    }

    /// It answers both questions, and late.
    #[test]
    fn a_slow_host_does_not_show_that_the_network_drops_probes() {
        let mut echo = Echo::default();
        for s in 1..240 {
            let due: Vec<Sender> = echo.due(at(s)).collect();
            for sender in &due {
                echo.asked_in_turn(at(s), GATEWAY, *sender);
            }
            for sender in due {
                echo.heard(at(s) + Duration::from_millis(700), GATEWAY, Form::Answer(sender));
                assert_ne!(echo.state(at(s) + Duration::from_millis(700)), State::Filtered);
            }
        }
    }

    /// These hosts are asked with both senders, and answer one of them so much later.
    fn one_sided(echo: &mut Echo, s: u64, hosts: &[IpAddr], later: u64) {
        for sender in [Sender::Unspecified, Sender::Own] {
            echo.asked(at(s), sender, hosts.iter().copied());
        }
        for host in hosts {
            echo.heard(at(s + later), *host, Form::Answer(Sender::Own));
        }
    }

    #[test]
    fn three_tries_show_that_the_network_drops_probes_however_many_hosts_each_asks() {
        let hosts: Vec<IpAddr> = (1..=20).map(|n| IpAddr::from([192, 0, 2, n])).collect();
        for hosts in [&hosts[..1], &hosts[..3], &hosts] {
            let mut echo = Echo::default();
            for (tries, expected) in [(1, State::Answered), (2, State::Answered), (3, State::Filtered)] {
                one_sided(&mut echo, tries * 40, hosts, 0);
                assert_eq!(echo.state(at(tries * 40)), expected, "{} hosts, {tries} tries", hosts.len());
            }
            echo.asked(at(200), Sender::Unspecified, hosts.iter().copied());
            assert!(echo.compared.len() <= COMPARED);
        }
    }

    /// It may have come meanwhile.
    #[test]
    fn a_host_that_answers_much_later_does_not_show_that_the_network_drops_probes() {
        let mut echo = Echo::default();
        for tries in 1..10 {
            one_sided(&mut echo, tries * 40, &[GATEWAY], 3);
            assert_eq!(echo.state(at(tries * 40 + 3)), State::Answered, "{tries} tries");
        }
    }

    #[test]
    fn a_filter_is_known_soon() {
        let mut echo = Echo::default();
        run(&mut echo, 1, 30, &[Sender::Own]);
        assert_eq!(echo.state(at(30)), State::Filtered);
    }

    /// Else it would not be known whether the host is there.
    #[test]
    fn no_host_is_asked_with_0_0_0_0_alone() {
        let mut echo = Echo::default();
        for s in 1..300 {
            let due: Vec<Sender> = echo.due(at(s)).collect();
            assert!(!due.contains(&Sender::Unspecified) || due.contains(&Sender::Own), "after {s} s");
            run(&mut echo, s, s + 1, &[Sender::Own, Sender::Unspecified]);
            if s % 7 == 0 {
                echo.heard(at(s), PEER, Form::Answer(Sender::Own));
            }
        }
    }

    /// A late step, or many.
    #[test]
    fn a_node_that_stood_still_knows_still_that_nobody_answers() {
        let mut echo = Echo::default();
        let mut told = State::Unknown;
        for s in 1..200 {
            run(&mut echo, s, s + 1, &[]);
            let changed = echo.changed(at(s), &mut told);
            if s > 30 {
                assert_eq!((told, changed), (State::Nobody, None), "after {s} s");
                echo.forget(told);
            }
        }
        echo.heard(at(200), GATEWAY, Form::Answer(Sender::Own));
        assert_eq!(echo.changed(at(200), &mut told), Some(Change::To(State::Answered)));
        // What was not known yet has to be found out anew.
        run(&mut echo, 201, 225, &[]);
        echo.forget(State::Answered);
        assert_eq!(echo.state(at(260)), State::Answered);
    }

    #[test]
    fn who_has_no_address_of_its_own_is_heard_by_what_it_asks_without_one() {
        let mut echo = Echo::default();
        echo.set_bare(true);
        run(&mut echo, 1, 40, &[Sender::Unspecified]);
        assert_eq!((echo.state(at(40)), echo.is_heard(at(40))), (State::Answered, true));
        echo.asked(at(41), Sender::Own, [GATEWAY]);
        assert_eq!(echo.unspecified.unanswered, 1, "its probes name no other sender");
        run(&mut echo, 42, 80, &[]);
        assert_eq!((echo.state(at(80)), echo.is_heard(at(80))), (State::Nobody, false));
    }

    /// Nodes that are never heard (isolated ports) are asked all the time while the API is away. The gateway is asked in between.
    #[test]
    fn questions_that_nobody_can_answer_do_not_put_off_those_that_are_due() {
        let mut echo = Echo::default();
        for s in 1..120 {
            echo.asked(at(s), Sender::Own, [PEER]);
            run(&mut echo, s, s + 1, &[Sender::Own, Sender::Unspecified]);
            assert_ne!(echo.state(at(s)), State::Nobody, "after {s} s");
        }
    }

    /// Under a limit of frames, only hosts are asked that have to be asked for other reasons.
    #[test]
    fn hosts_that_cannot_answer_do_not_show_that_nobody_does() {
        let mut echo = Echo::default();
        (1..200).for_each(|s| echo.asked(at(s), Sender::Own, [PEER]));
        assert_eq!(echo.state(at(200)), State::Unknown);
    }

    /// The gateway was away, and nodes do not hear each other: others may hear it a moment later, and are served meanwhile.
    #[test]
    fn who_is_heard_again_is_sure_of_it_after_a_while_only() {
        let mut echo = Echo::default();
        run(&mut echo, 1, 60, &[Sender::Own, Sender::Unspecified]);
        assert!(echo.is_heard(at(60)));
        run(&mut echo, 60, 120, &[]);
        assert_eq!((echo.state(at(120)), echo.is_heard(at(120))), (State::Nobody, false));
        let (mut first, mut told) = (None, 0);
        for s in 120..180 {
            for sender in echo.due(at(s)).collect::<Vec<_>>() {
                echo.asked_in_turn(at(s), GATEWAY, sender);
                told += u32::from(echo.heard(at(s), GATEWAY, Form::Answer(sender)));
                first = first.or(Some(s));
            }
            let since = first.map_or(0, |first| s - first);
            assert_eq!(echo.is_heard(at(s)), since >= 15, "{since} s after the first answer");
        }
        assert_eq!(told, 1);
    }

    /// All answers end at once: when the first node knows that nobody answers, no node counts as heard.
    #[test]
    fn who_was_answered_before_all_fell_silent_is_not_heard() {
        let mut echo = Echo::default();
        run(&mut echo, 1, 60, &[Sender::Own, Sender::Unspecified]);
        let last = echo.own.answered.unwrap();
        let (_, long) = NOBODY;
        assert!(echo.is_heard(last + HEARD) && !echo.is_heard(last + long));
    }
}
