//! Leader election on a Lease, for programs that need no VIP: one of several instances works.
//!
//! The record is client-go's, and so are the rules. The holder of the Lease renews it every `retry_period`, and works
//! until `renew_deadline` after the last renewal was *sent*. Others take the Lease when they have not seen it change
//! for `lease_duration`. The time between the two allows for differences of clocks and for slow calls. [`Observation`]
//! judges expiry: by the own clock, and blind time does not count.

use std::time::Duration;

use super::failure::Failure;
use super::lease::{LeaseView, Notes, Record};
use super::observation::{Observation, Timing};
use super::time::{Time, WallTime};

/// The rules of an election.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rules {
    /// The name of this instance; no two may have the same identity.
    pub identity: String,
    /// For how long a renewal lasts. Whole seconds.
    pub lease_duration: Duration,
    /// How long a failing renewal is tried. Shorter than `lease_duration`.
    pub renew_deadline: Duration,
    /// The time between two renewals.
    pub retry_period: Duration,
}

impl Default for Rules {
    /// client-go's times.
    fn default() -> Self {
        Self {
            identity: String::new(),
            lease_duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry_period: Duration::from_secs(2),
        }
    }
}

impl Timing for Rules {
    fn lease_duration(&self) -> Duration {
        self.lease_duration
    }

    fn retry_period(&self) -> Duration {
        self.retry_period
    }
}

/// An input of the leader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// Nothing but time has passed.
    Tick,
    /// A read ended: the Lease as it is, none if there is none; or the read failed.
    Read {
        /// The action's number.
        id: u64,
        /// What it showed.
        result: Result<Option<LeaseView>, Failure>,
    },
    /// A write ended.
    Wrote {
        /// The action's number.
        id: u64,
        /// The Lease as it is now.
        result: Result<LeaseView, Failure>,
    },
    /// The process is to end: the leader releases the Lease.
    Stop,
}

/// An output of the leader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Read the Lease, consistently.
    Read {
        /// The number that the answer repeats.
        id: u64,
        /// The answer's deadline.
        within: Duration,
    },
    /// Write the Lease.
    Write {
        /// The number that the answer repeats.
        id: u64,
        /// The version that the Lease must have; None: the Lease must not exist.
        base: Option<String>,
        /// The record.
        record: Record,
        /// The answer's deadline.
        within: Duration,
    },
    /// Until when this instance surely leads; None: it does not lead.
    Leads(Option<Time>),
    /// The leader was stopped, and holds no Lease that it could release.
    Exit,
}

/// A call under way.
#[derive(Clone, Copy, Debug)]
struct Flight {
    id: u64,
    sent: Time,
    until: Time,
    purpose: Purpose,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Purpose {
    Read,
    Hold,
    Release,
}

/// A call without an answer counts as ended this long after its deadline.
const FORGOTTEN: Duration = Duration::from_secs(1);
/// The deadline of a release.
const RELEASE_WITHIN: Duration = Duration::from_secs(1);

/// An instance that takes part in the election.
#[derive(Debug)]
pub struct Leader {
    rules: Rules,
    seen: Observation,
    now: Time,
    wall: WallTime,
    flight: Option<Flight>,
    /// Until when it leads, by the last answered write.
    leads: Option<Time>,
    told: Option<Time>,
    /// The earliest time of the next read or write.
    not_before: Time,
    /// The next renewal.
    renew_at: Time,
    stopping: bool,
    exited: bool,
    ids: u64,
    actions: Vec<Action>,
}

impl Leader {
    /// An instance that has seen nothing yet.
    #[must_use]
    pub fn new(rules: Rules) -> Self {
        Self {
            rules,
            seen: Observation::default(),
            now: Time::default(),
            wall: WallTime::default(),
            flight: None,
            leads: None,
            told: None,
            not_before: Time::default(),
            renew_at: Time::default(),
            stopping: false,
            exited: false,
            ids: 0,
            actions: Vec::new(),
        }
    }

    /// The Lease as last seen.
    #[must_use]
    pub fn seen(&self) -> &Observation {
        &self.seen
    }

    /// When a [`Event::Tick`] is wanted at the latest.
    #[must_use]
    pub fn next_tick(&self) -> Option<Time> {
        if self.exited {
            return None;
        }
        let forgotten = self.flight.map(|flight| flight.until + FORGOTTEN);
        let next = if self.flight.is_some() { None } else { Some(self.next_call()) };
        [forgotten, next, self.leads].into_iter().flatten().min()
    }

    /// Takes in an event and returns what to do.
    pub fn step(&mut self, now: Time, wall: WallTime, event: Event) -> Vec<Action> {
        // Without a clock every Lease looks expired: take no Lease.
        if now == Time::END {
            return vec![];
        }
        (self.now, self.wall) = (now, wall);
        match event {
            Event::Tick => {}
            Event::Stop => self.stopping = true,
            Event::Read { id, result } => self.read(id, result),
            Event::Wrote { id, result } => self.wrote(id, result),
        }
        if self.flight.is_some_and(|flight| now >= flight.until + FORGOTTEN) {
            self.failed(Failure::Away);
        }
        if self.leads.is_some_and(|until| now >= until) {
            self.leads = None;
        }
        self.advance();
        let tell = self.leads.filter(|_| !self.stopping);
        if tell != self.told {
            self.told = tell;
            self.actions.push(Action::Leads(tell));
        }
        std::mem::take(&mut self.actions)
    }

    fn holds(&self) -> bool {
        !self.rules.identity.is_empty() && self.seen.holder() == self.rules.identity
    }

    /// The time between two reads of an instance that does not lead: short enough that a late or failed read does not make
    /// it blind, because blind time does not count toward expiry.
    fn look_period(&self) -> Duration {
        self.rules.retry_period.min(self.rules.blind_after() / 3)
    }

    /// When the next call is due.
    fn next_call(&self) -> Time {
        let due = if self.stopping {
            self.now
        } else if self.leads.is_some() {
            self.renew_at
        } else if self.may_take() {
            self.now
        } else {
            let again = self.seen.proven().map_or(self.now, |at| at + self.look_period());
            let expires = self.seen.expires(&self.rules).filter(|_| self.seen.is_fresh(self.now, &self.rules));
            expires.map_or(again, |at| again.min(at.max(self.now)))
        };
        due.max(self.not_before)
    }

    fn advance(&mut self) {
        if self.flight.is_some() || self.exited {
            return;
        }
        if self.stopping {
            if self.holds() && self.seen.is_known() && self.not_before <= self.now {
                return self.release();
            }
            self.exited = true;
            return self.actions.push(Action::Exit);
        }
        if self.next_call() > self.now {
            return;
        }
        if self.leads.is_some() || self.may_take() { self.take() } else { self.ask() }
    }

    /// Whether this instance may take the Lease: free, its own, or not renewed for its duration.
    fn may_take(&self) -> bool {
        if !self.seen.is_fresh(self.now, &self.rules) {
            return false;
        }
        let free = self.seen.view().is_none() || self.seen.holder().is_empty();
        free || self.holds() || self.seen.expires(&self.rules).is_some_and(|at| at <= self.now)
    }

    fn call(&mut self, purpose: Purpose, within: Duration) -> u64 {
        self.ids += 1;
        self.flight = Some(Flight { id: self.ids, sent: self.now, until: self.now + within, purpose });
        self.ids
    }

    fn ask(&mut self) {
        let within = self.look_period().max(Duration::from_secs(1));
        let id = self.call(Purpose::Read, within);
        self.actions.push(Action::Read { id, within });
    }

    /// Takes the Lease, or renews it.
    fn take(&mut self) {
        let old = self.seen.view().map(|view| view.record.clone());
        let (acquired, transitions) = match old {
            Some(old) if old.holder == self.rules.identity => (old.acquired, old.transitions),
            Some(old) => (Some(self.wall), old.transitions.saturating_add(1)),
            None => (Some(self.wall), 0),
        };
        let record = Record {
            holder: self.rules.identity.clone(),
            duration: self.rules.lease_duration,
            acquired,
            renewed: Some(self.wall),
            transitions,
        };
        self.write(Purpose::Hold, record, self.rules.retry_period.max(Duration::from_secs(1)));
    }

    /// Releases the Lease as client-go does: no holder, and a duration of 1 s.
    fn release(&mut self) {
        let transitions = self.seen.view().map_or(0, |view| view.record.transitions);
        let record = Record {
            holder: String::new(),
            duration: Duration::from_secs(1),
            acquired: Some(self.wall),
            renewed: Some(self.wall),
            transitions,
        };
        self.leads = None;
        self.write(Purpose::Release, record, RELEASE_WITHIN);
    }

    fn write(&mut self, purpose: Purpose, record: Record, within: Duration) {
        let id = self.call(purpose, within);
        let base = self.seen.version().map(str::to_owned);
        self.actions.push(Action::Write { id, base, record, within });
    }

    fn ended(&mut self, id: u64) -> Option<Flight> {
        self.flight.take_if(|flight| flight.id == id)
    }

    fn read(&mut self, id: u64, result: Result<Option<LeaseView>, Failure>) {
        if self.flight.is_none_or(|flight| flight.id != id) {
            return;
        }
        match result {
            Ok(view) => {
                self.ended(id);
                self.seen.see_anew(self.now, view, &self.rules);
                if !self.holds() {
                    self.leads = None;
                }
            }
            Err(failure) => self.failed(failure),
        }
    }

    fn wrote(&mut self, id: u64, result: Result<LeaseView, Failure>) {
        if self.flight.is_none_or(|flight| flight.id != id) {
            return;
        }
        match result {
            Ok(view) => {
                let Some(flight) = self.ended(id) else { return };
                self.seen.see(self.now, Some(view), &self.rules);
                if flight.purpose == Purpose::Hold && self.holds() {
                    let until = flight.sent + self.rules.renew_deadline;
                    self.leads = (until > self.now).then_some(until);
                    self.renew_at = flight.sent + self.rules.retry_period;
                    self.not_before = Time::default();
                }
            }
            Err(failure) => self.failed(failure),
        }
    }

    /// The call under way failed. Its base version may be old: a conflict is followed by a read.
    fn failed(&mut self, failure: Failure) {
        let Some(flight) = self.flight.take() else { return };
        if failure == Failure::Conflict && !self.stopping {
            self.not_before = Time::default();
            return self.ask();
        }
        let wait = if flight.purpose == Purpose::Hold { self.rules.retry_period / 4 } else { self.look_period() };
        self.not_before = self.now + wait;
    }

    /// A Lease as it would be seen, for tests of edges.
    #[must_use]
    pub fn view(version: &str, record: Record) -> LeaseView {
        LeaseView { version: version.to_owned(), record, notes: Notes::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::{Action, Event, Failure, Leader, LeaseView, Rules};
    use crate::time::{Time, WallTime};
    use std::collections::VecDeque;
    use std::time::Duration;

    fn at(millis: u64) -> Time {
        Time::from_nanos(millis * 1_000_000)
    }

    /// A store of one Lease, and the instances that want it. Calls take effect at once or later; answers may be lost.
    struct World {
        now: u64,
        lease: Option<LeaseView>,
        version: u64,
        all: Vec<One>,
        random: u64,
    }

    struct One {
        leader: Leader,
        calls: VecDeque<(u64, Action)>,
        leads: Option<Time>,
        exited: bool,
        /// The instance neither steps nor hears until then.
        frozen: u64,
    }

    impl World {
        fn new(many: usize, seed: u64) -> Self {
            Self::with(many, seed, &Rules::default())
        }

        fn with(many: usize, seed: u64, rules: &Rules) -> Self {
            let one = |n| One {
                leader: Leader::new(Rules { identity: format!("a{n}"), ..rules.clone() }),
                calls: VecDeque::new(),
                leads: None,
                exited: false,
                frozen: 0,
            };
            Self { now: 1_000, lease: None, version: 0, all: (0..many).map(one).collect(), random: seed }
        }

        fn draw(&mut self, most: u64) -> u64 {
            self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (self.random >> 33) % most
        }

        fn step(&mut self, n: usize, event: Event) {
            let one = &mut self.all[n];
            let wall = WallTime(i64::try_from(self.now).unwrap() * 1_000);
            for action in one.leader.step(at(self.now), wall, event) {
                match action {
                    Action::Leads(until) => one.leads = until,
                    Action::Exit => one.exited = true,
                    call => one.calls.push_back((self.now, call)),
                }
            }
        }

        /// A call takes effect; its answer arrives, or is lost.
        fn serve(&mut self, n: usize, lost: bool) {
            let Some((_, call)) = self.all[n].calls.pop_front() else { return };
            let event = match call {
                Action::Read { id, .. } => Event::Read { id, result: Ok(self.lease.clone()) },
                Action::Write { id, base, record, .. } => {
                    let fits = self.lease.as_ref().map(|view| view.version.clone()) == base;
                    if fits {
                        self.version += 1;
                        self.lease = Some(Leader::view(&self.version.to_string(), record));
                    }
                    let result = self.lease.clone().filter(|_| fits).ok_or(Failure::Conflict);
                    Event::Wrote { id, result }
                }
                Action::Leads(_) | Action::Exit => return,
            };
            let event = match event {
                Event::Read { id, .. } if lost => Event::Read { id, result: Err(Failure::Away) },
                Event::Wrote { id, .. } if lost => Event::Wrote { id, result: Err(Failure::Away) },
                event => event,
            };
            self.step(n, event);
        }

        fn leading(&self) -> Vec<usize> {
            let leads = |one: &One| one.leads.is_some_and(|until| at(self.now) < until);
            (0..self.all.len()).filter(|&n| leads(&self.all[n])).collect()
        }

        /// Lets time pass without faults.
        fn run(&mut self, millis: u64) {
            let end = self.now + millis;
            while self.now < end {
                self.now += 50;
                for n in 0..self.all.len() {
                    if self.all[n].frozen > self.now {
                        continue;
                    }
                    while !self.all[n].calls.is_empty() {
                        self.serve(n, false);
                    }
                    if self.all[n].leader.next_tick().is_some_and(|tick| tick <= at(self.now)) {
                        self.step(n, Event::Tick);
                    }
                }
                assert!(self.leading().len() <= 1, "{:?} lead at {}", self.leading(), self.now);
            }
        }
    }

    #[test]
    fn without_a_clock_nothing_is_asked_or_taken() {
        let mut leader = Leader::new(Rules { identity: "a".into(), ..Rules::default() });
        assert_eq!(leader.step(Time::END, WallTime(0), Event::Tick), []);
    }

    #[test]
    fn one_of_three_leads_and_goes_on() {
        let mut world = World::new(3, 1);
        world.run(3_000);
        let first = world.leading();
        assert_eq!(first.len(), 1);
        world.run(60_000);
        assert_eq!(world.leading(), first);
        assert_eq!(world.lease.as_ref().unwrap().record.transitions, 0, "nobody else took it");
    }

    #[test]
    fn a_released_lease_is_taken_soon() {
        let mut world = World::new(2, 1);
        world.run(3_000);
        let first = world.leading()[0];
        world.step(first, Event::Stop);
        assert_eq!(world.all[first].leads, None);
        world.run(3_000);
        assert!(world.all[first].exited);
        assert_eq!(world.leading(), [1 - first]);
    }

    #[test]
    fn a_frozen_leader_leads_no_more_when_it_thaws() {
        let mut world = World::new(2, 1);
        world.run(3_000);
        let first = world.leading()[0];
        world.all[first].frozen = world.now + 60_000;
        world.run(20_000);
        assert_eq!(world.leading(), [1 - first], "by expiry");
        world.run(50_000);
        assert_eq!(world.leading(), [1 - first]);
    }

    #[test]
    fn a_standby_takes_over_whatever_the_times_are() {
        // Lease, deadline and retry period in milliseconds: client-go's, and others that settings accept.
        let times = [
            (15_000, 10_000, 2_000),
            (60_000, 40_000, 5_000),
            (137_000, 107_000, 26_000),
            (30_000, 25_000, 20_000),
            (15_000, 13_000, 10_000),
            (15_000, 14_000, 11_600),
            (3_000, 2_000, 1_600),
            (600_000, 599_000, 499_000),
        ];
        for (lease, renew, retry) in times {
            let ms = Duration::from_millis;
            let rules = Rules {
                lease_duration: ms(lease),
                renew_deadline: ms(renew),
                retry_period: ms(retry),
                ..Rules::default()
            };
            let mut world = World::with(2, 1, &rules);
            world.run(lease * 3);
            let first = world.leading();
            assert_eq!(first.len(), 1, "{rules:?}");
            assert_eq!(world.lease.as_ref().unwrap().record.transitions, 0, "{rules:?}: nobody else took it");
            // Its node dies.
            world.all[first[0]].frozen = u64::MAX;
            world.run(lease * 2 + retry);
            assert_eq!(world.leading(), [1 - first[0]], "{rules:?}");
        }
    }

    #[test]
    fn a_leader_that_cannot_renew_stops_before_another_begins() {
        let mut world = World::new(2, 1);
        world.run(3_000);
        let first = world.leading()[0];
        let renewed = world.now;
        let mut ended = None;
        while world.leading() != [1 - first] {
            // The first instance's calls get no answer.
            world.all[first].calls.clear();
            world.run(50);
            if world.leading().is_empty() {
                ended.get_or_insert(world.now);
            }
            assert!(world.now < renewed + 30_000, "nobody took it");
        }
        let ended = ended.expect("a time without a leader");
        assert!(ended <= renewed + 10_050 && world.now >= renewed + 13_000, "{ended} {}", world.now);
    }

    #[test]
    fn never_two_whatever_is_lost_late_or_frozen() {
        for seed in 0..300 {
            let mut world = World::new(3, seed * 7 + 1);
            let mut led = 0;
            for _ in 0..4_000 {
                world.now += 25 + world.draw(100);
                for n in 0..3 {
                    if world.all[n].frozen > world.now {
                        continue;
                    }
                    match world.draw(40) {
                        0 => world.all[n].frozen = world.now + world.draw(40_000),
                        1..=8 => {}
                        9 => world.serve(n, true),
                        _ => world.serve(n, false),
                    }
                    if world.all[n].leader.next_tick().is_some_and(|tick| tick <= at(world.now)) {
                        world.step(n, Event::Tick);
                    }
                }
                let leading = world.leading();
                assert!(leading.len() <= 1, "seed {seed}: {leading:?} lead at {}", world.now);
                led += leading.len();
            }
            assert!(led > 400, "seed {seed}: somebody led {led} times of 4000");
        }
    }

    #[test]
    fn the_surely_valid_time_counts_from_when_the_write_was_sent() {
        let mut world = World::new(1, 1);
        world.step(0, Event::Tick);
        world.serve(0, false);
        let sent = world.now;
        world.now += 4_000;
        world.serve(0, false);
        assert_eq!(world.all[0].leads, Some(at(sent) + Duration::from_secs(10)));
        world.now = sent + 10_000;
        world.step(0, Event::Tick);
        assert_eq!(world.all[0].leads, None);
    }
}
