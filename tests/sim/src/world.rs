//! The world: everything that is simulated, and the order in which it happens.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use mooring_agent_core::Event;

use crate::api::ApiFaults;
use crate::bounds::Bounds;
use crate::check::{Look, Rule, Violation};
use crate::clock::{MS, Nanos, SECOND};
use crate::counts::Counts;
use crate::host::Host;
use crate::plan::Plan;
use crate::queue::{Item, Queue};
use crate::record::Record;
use crate::rng::Rng;
use crate::segment::Segment;
use crate::settings;
use crate::subject::Subject;

/// Everything that is simulated.
#[derive(Debug)]
pub struct World<'a, S: Subject> {
    /// Settings and faults of the run.
    pub plan: &'a Plan<S>,
    /// The nodes' names.
    pub names: Vec<String>,
    /// Numbers of VIPs are below this.
    pub vips: usize,
    /// Simulated time.
    pub now: Nanos,
    /// Chance, for everything that is not in the plan.
    pub rng: Rng,
    /// What is going to happen.
    pub queue: Queue<S>,
    /// The nodes.
    pub hosts: Vec<Host<S>>,
    /// The first of the agents' timers.
    pub next_tick: Nanos,
    /// Frames.
    pub segment: Segment,
    /// How the API fails.
    pub api_faults: ApiFaults,
    /// The API: objects, calls.
    pub api: S::Api,
    /// Which of the plan's faults are there now.
    pub active: Vec<usize>,
    /// How long anything may take.
    pub bounds: Bounds,
    /// What the checks remember.
    pub checks: S::Checks,
    /// Which two hosts carry which VIP together now, and since when.
    pub pairs: BTreeMap<(usize, usize, usize), Nanos>,
    /// The first rule that did not hold.
    pub violation: Option<Violation>,
    /// All has been quiet: the run is over then.
    pub over: Nanos,
    /// What was counted.
    pub counts: Counts,
    /// What happened, if anybody wants to read it.
    pub log: Option<Record>,
    /// The log also gets everything that goes into the cores and comes out of them.
    pub verbose: bool,
}

/// Frames that wait for a stopped agent; what comes then is lost, as in a full socket.
const SOCKET: usize = 300;

impl<'a, S: Subject> World<'a, S> {
    /// The world of a plan, at its beginning.
    #[must_use]
    pub fn new(plan: &'a Plan<S>) -> Self {
        let of = &plan.settings;
        let mut rng = Rng::new(plan.seed, S::STREAM + 1);
        let mut hosts = vec![];
        for n in 0..of.nodes {
            // Clocks have nothing to do with each other: hosts booted at other times, and wall clocks may be far off.
            let boot = rng.between(60, 3_000_000) * SECOND + rng.below(SECOND);
            let off = i64::try_from(rng.below(40_000_000)).unwrap_or(0) - 20_000_000;
            let off = if rng.chance(S::CLOCKS_FAR_OFF) { off * 1_000 } else { off };
            let wall = 1_800_000_000_000_000 + off - i64::try_from(boot / 1_000).unwrap_or(0);
            hosts.push(Host::new(n, of, boot, wall));
        }
        let mut world = Self {
            plan,
            names: (0..of.nodes).map(settings::name::<S::Fault>).collect(),
            vips: S::vips(of),
            now: 0,
            rng,
            queue: Queue::default(),
            hosts,
            next_tick: Nanos::MAX,
            segment: Segment::new(of.nodes, of.segments),
            api_faults: ApiFaults::new(of.nodes, S::servers(of)),
            api: S::api(of),
            active: vec![],
            bounds: S::bounds(of),
            checks: S::checks(plan),
            pairs: BTreeMap::new(),
            violation: None,
            over: Nanos::MAX,
            counts: Counts::new(of.nodes),
            log: None,
            verbose: false,
        };
        S::begin(&mut world);
        for host in 0..of.nodes {
            let at = world.rng.below(of.spread + 1) + 200 * MS;
            world.queue.put(at, Item::Start { host, life: 0 });
        }
        for (n, fault) in plan.faults.iter().enumerate() {
            world.queue.put(fault.at, Item::Begin(n));
        }
        world.begin_talk();
        world.queue.put(100 * MS, Item::Ping);
        let settled = plan.faults_end() + world.bounds.settle;
        world.queue.put(settled, Item::Look(Look::Settled));
        S::plan_looks(&mut world);
        world
    }

    /// When the run is over at the latest.
    #[must_use]
    pub fn end_of_run(&self) -> Nanos {
        self.plan.faults_end() + self.bounds.settle + self.bounds.stay
    }

    /// Runs until then, or until something is violated.
    pub fn run(&mut self, end: Nanos) {
        while self.violation.is_none() {
            let queued = self.queue.next().unwrap_or(Nanos::MAX);
            let next = queued.min(self.next_tick);
            if next > end.min(self.over) {
                break;
            }
            self.now = self.now.max(next);
            if queued <= self.next_tick {
                if let Some(item) = self.queue.take() {
                    self.counts.items += 1;
                    self.happen(item);
                }
            } else {
                self.tick();
            }
        }
        let end = end.min(self.over);
        self.now = self.now.max(end.min(self.queue.next().unwrap_or(end)));
    }

    /// The timer of an agent's loop goes off.
    fn tick(&mut self) {
        let mut next = Nanos::MAX;
        for host in 0..self.hosts.len() {
            let of = &self.hosts[host];
            let Some(agent) = &of.agent else { continue };
            if of.stopped > 0 || of.asleep.is_some() {
                continue;
            }
            if agent.tick <= self.now {
                self.tell(host, Event::Tick);
            }
            if let Some(agent) = &self.hosts[host].agent {
                next = next.min(agent.tick);
            }
        }
        self.next_tick = next;
    }

    /// The item will happen after so long.
    pub fn put(&mut self, after: Nanos, item: Item<S>) {
        self.queue.put(self.now + after, item);
    }

    /// The host whose agent an item belongs to, if it belongs to an agent; None if that agent's process is gone.
    #[expect(clippy::option_option, reason = "gone, nobody's, a host's: three cases, used once")]
    fn process_of(&self, item: &Item<S>) -> Option<Option<usize>> {
        let alive = |host: usize, life: u32| (self.hosts[host].life == life).then_some(Some(host));
        match item {
            Item::Heard(frame) => Some((frame.to < self.hosts.len()).then_some(frame.to)),
            Item::Tell { to, life, .. } => alive(*to, *life),
            Item::AddressTask { host, life } | Item::Ended { host, life } => alive(*host, *life),
            Item::Own(item) => S::process_of(self, item),
            _ => Some(None),
        }
    }

    fn happen(&mut self, item: Item<S>) {
        let Some(process) = self.process_of(&item) else { return };
        if let Some(host) = process {
            let of = &self.hosts[host];
            let frame = if let Item::Heard(frame) = &item { Some(*frame) } else { None };
            if of.agent.is_none() || frame.is_some_and(|frame| !of.hears(frame.segment)) {
                return;
            }
            if let Some(frame) = &frame {
                S::frame_arrives(self, frame);
            }
            let of = &mut self.hosts[host];
            if of.stopped > 0 || of.asleep.is_some() {
                if frame.is_none() || of.waiting.len() < SOCKET {
                    let since = of.asleep.map_or(self.now, |asleep| asleep.since);
                    of.waiting.push_back((self.now - since, item));
                }
                return;
            }
        }
        self.dispatch(item);
    }

    fn dispatch(&mut self, item: Item<S>) {
        match item {
            Item::Heard(frame) => {
                if S::frame_taken(self, &frame) {
                    let (address, mac, form) = (self.address(frame.segment, frame.what), frame.mac, frame.form);
                    let interface = settings::index(frame.segment);
                    self.tell(frame.to, Event::Heard { interface, address, mac, form });
                }
            }
            Item::Asked { to, segment, what, by, sender } => self.answer(0, to, segment, what, (by, sender)),
            Item::Tell { to, event, .. } => {
                if let Event::Link { interface, up } = *event {
                    self.hosts[to].told_up[settings::segment(interface)] = up;
                }
                self.tell(to, *event);
            }
            Item::AddressTask { host, .. } => self.address_task_goes_on(host),
            Item::Expire { host, vip, generation } => self.expire(host, vip, generation),
            Item::Start { host, life } => {
                if self.hosts[host].life == life && self.hosts[host].wanted {
                    if S::is_ours(&self.hosts[host]) {
                        self.start_agent(host);
                    } else {
                        S::start_rival(self, host);
                    }
                }
            }
            Item::Ended { host, .. } => {
                self.note(|w| format!("the agent of {} has ended", w.names[host]));
                self.end_agent(host);
                self.restart_if_wanted(host);
            }
            Item::Talk(station) => self.talk(station),
            Item::Ping => S::ping(self),
            Item::Begin(n) => self.begin_fault(n),
            Item::End(n) => self.end_fault(n),
            Item::Look(look) => self.look(look),
            Item::Own(item) => S::happen(self, item),
        }
    }

    /// Adds a line to the log.
    pub fn note(&mut self, text: impl FnOnce(&Self) -> String) {
        if self.log.is_some() {
            let line = (self.now, text(self));
            if let Some(log) = &mut self.log {
                log.lines.push(line);
            }
        }
    }

    /// Something that must hold does not. The first one ends the run.
    pub fn violated(&mut self, rule: Rule, text: String) {
        if self.violation.is_none() {
            self.note(|_| format!("VIOLATION ({rule}): {text}"));
            self.violation = Some(Violation { rule, at: self.now, text });
        }
    }

    /// The names of hosts, for people.
    #[must_use]
    pub fn names_of(&self, who: &[usize]) -> String {
        let mut all = String::new();
        for (n, host) in who.iter().enumerate() {
            let _ = write!(all, "{}{}", if n == 0 { "" } else { " and " }, self.names[*host]);
        }
        if all.is_empty() { "nobody".into() } else { all }
    }
}

/// A duration of the rules.
#[must_use]
pub fn nanos(time: Duration) -> Nanos {
    Nanos::try_from(time.as_nanos()).unwrap_or(Nanos::MAX)
}
