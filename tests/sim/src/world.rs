//! The world: everything that is simulated, and the order in which it happens.

use std::time::Duration;

use mooring_core::action::Action;
use mooring_core::event::{Event, Moment};

use crate::api::{Call, Servers, Store};
use crate::check::{Checks, Rule, Violation};
use crate::client::NeighbourCache;
use crate::clock::{MS, Nanos, SECOND};
use crate::counts::Counts;
use crate::host::Host;
use crate::plan::Plan;
use crate::queue::{Item, Queue};
use crate::record::Record;
use crate::rng::Rng;
use crate::segment::{Segment, What};
use crate::settings;

/// What the world runs by.
#[derive(Debug)]
pub struct Setting<'a> {
    /// Settings and faults.
    pub plan: &'a Plan,
    /// The nodes' names.
    pub names: Vec<String>,
}

impl std::ops::Deref for Setting<'_> {
    type Target = Plan;

    fn deref(&self) -> &Plan {
        self.plan
    }
}

/// See the module's text.
#[derive(Debug)]
pub struct World<'a> {
    /// What it runs by.
    pub plan: Setting<'a>,
    /// Simulated time.
    pub now: Nanos,
    /// Chance, for everything that is not in the plan.
    pub rng: Rng,
    /// What is going to happen.
    pub queue: Queue,
    /// The nodes.
    pub hosts: Vec<Host>,
    /// The first of their timers.
    pub next_tick: Nanos,
    /// Frames.
    pub segment: Segment,
    /// API servers.
    pub servers: Servers,
    /// The Lease.
    pub store: Store,
    /// Calls, over or not.
    pub calls: Vec<Call>,
    /// The client.
    pub client: NeighbourCache,
    /// Which of the plan's faults are there now.
    pub active: Vec<usize>,
    /// What must hold.
    pub checks: Checks,
    /// What was counted.
    pub counts: Counts,
    /// What happened, if anybody wants to read it.
    pub log: Option<Record>,
    /// Everything that goes into the cores and comes out of them is put there too.
    pub verbose: bool,
}

/// Frames that wait for a stopped agent; what comes then is lost, as in a full socket.
const SOCKET: usize = 300;

impl<'a> World<'a> {
    /// At its beginning.
    #[must_use]
    pub fn new(plan: &'a Plan) -> Self {
        let of = &plan.settings;
        let mut rng = Rng::new(plan.seed, 2);
        let mut hosts = vec![];
        for n in 0..of.nodes {
            // Clocks have nothing to do with each other: hosts booted at other times, and wall clocks may be far off.
            let boot = rng.between(60, 3_000_000) * SECOND + rng.below(SECOND);
            let off = i64::try_from(rng.below(40_000_000)).unwrap_or(0) - 20_000_000;
            let wall = 1_800_000_000_000_000 + if rng.chance(200) { off * 1_000 } else { off }
                - i64::try_from(boot / 1_000).unwrap_or(0);
            hosts.push(Host::new(n, of, boot, wall));
        }
        let mut world = Self {
            plan: Setting { plan, names: (0..of.nodes).map(settings::name).collect() },
            now: 0,
            rng,
            queue: Queue::default(),
            hosts,
            next_tick: Nanos::MAX,
            segment: Segment::new(of.nodes),
            servers: Servers::new(of),
            store: Store::default(),
            calls: vec![],
            client: NeighbourCache::new(of.vips.len()),
            active: vec![],
            checks: Checks::new(plan),
            counts: Counts::new(of.nodes),
            log: None,
            verbose: false,
        };
        for host in 0..of.nodes {
            let at = world.rng.below(of.spread + 1) + 200 * MS;
            world.queue.put(at, Item::Start { host, life: 0 });
        }
        for (n, fault) in plan.faults.iter().enumerate() {
            world.queue.put(fault.at, Item::Begin(n));
        }
        world.queue.put(100 * MS, Item::Ping);
        world.client.planned = true;
        world.plan_looks();
        world
    }

    /// Runs until then, or until something is violated.
    pub fn run(&mut self, end: Nanos) {
        while self.checks.violation.is_none() {
            let queued = self.queue.next().unwrap_or(Nanos::MAX);
            let next = queued.min(self.next_tick);
            if next > end {
                break;
            }
            self.now = self.now.max(next);
            if queued <= self.next_tick {
                if let Some((_, item)) = self.queue.take() {
                    self.counts.items += 1;
                    self.happen(item);
                }
            } else {
                self.tick();
            }
        }
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

    /// That will happen after so long.
    pub fn put(&mut self, after: Nanos, item: Item) {
        self.queue.put(self.now + after, item);
    }

    /// Whose process something goes on in, if in an agent's; none if that process is gone.
    #[expect(clippy::option_option, reason = "gone, of nobody, of a host: three cases, used once")]
    fn process(&self, item: &Item) -> Option<Option<usize>> {
        let alive = |host: usize, life: u32| (self.hosts[host].life == life).then_some(Some(host));
        match *item {
            Item::Heard { to, .. } | Item::Watch { to, .. } => Some(Some(to)),
            Item::WatchAgain { host, .. } => Some(Some(host)),
            Item::Tell { to, life, .. } => alive(to, life),
            Item::Place { host, life } | Item::Health { host, life } | Item::Ended { host, life } => alive(host, life),
            Item::Answer { call, .. } | Item::Patience { call, .. } | Item::Deadline { call } => {
                let call = &self.calls[call as usize];
                alive(call.host(), call.life())
            }
            _ => Some(None),
        }
    }

    fn happen(&mut self, item: Item) {
        let Some(process) = self.process(&item) else { return };
        if let Some(host) = process {
            let of = &mut self.hosts[host];
            let frame = matches!(item, Item::Heard { .. });
            if frame && !(of.is_awake() && of.link) || of.agent.is_none() {
                return;
            }
            if let (Item::Heard { what, from, .. }, Some(agent)) = (&item, &mut of.agent) {
                if matches!(what, What::Vip(_)) {
                    agent.heard = self.now;
                    agent.heard_from[*from] = self.now;
                } else {
                    agent.third = self.now;
                }
            }
            if of.stopped > 0 || of.asleep.is_some() {
                if !frame || of.waiting.len() < SOCKET {
                    let since = of.asleep.map_or(self.now, |asleep| asleep.since);
                    of.waiting.push_back((self.now - since, item));
                }
                return;
            }
        }
        self.dispatch(item);
    }

    fn dispatch(&mut self, item: Item) {
        match item {
            Item::Heard { to, what, from } => {
                self.hosts[to].heard_in_tenure(from, what, self.plan.names.get(from), self.now);
                let (address, mac) = (self.address(what), settings::mac(from));
                self.tell(to, Event::Heard { address, mac });
            }
            Item::Asked { to, what, by } => self.answer(0, to, what, by),
            Item::Arrive { call, server } => self.arrive(call, server),
            Item::Answer { call, server, answer } => self.answered(call, server, *answer),
            Item::Patience { call, tries } => self.impatient(call, tries),
            Item::Deadline { call } => self.give_up(call),
            Item::Watch { to, connection, message } => self.watched(to, connection, *message),
            Item::WatchAgain { host, connection } => {
                let current = self.hosts[host].agent.as_ref().map(|a| a.api.watch.connection);
                if current == Some(connection) {
                    self.follow(host);
                }
            }
            Item::Tell { to, event, .. } => self.tell(to, *event),
            Item::Place { host, .. } => self.place_goes_on(host),
            Item::Health { host, .. } => self.ask_health(host),
            Item::Expire { host, vip, generation } => self.expire(host, vip, generation),
            Item::Start { host, life } => {
                if self.hosts[host].life == life && self.hosts[host].wanted {
                    if self.hosts[host].rival.is_some() {
                        self.start_rival(host);
                    } else {
                        self.start_agent(host);
                    }
                }
            }
            Item::Ended { host, .. } => {
                self.say(|_| format!("the agent of cp{} has ended", host + 1));
                self.end_agent(host);
                self.restart_if_wanted(host);
            }
            Item::Rival { host, life } => self.rival_turn(host, life),
            Item::Ping => self.ping(),
            Item::Begin(n) => self.begin(n),
            Item::End(n) => self.end(n),
            Item::Look(look) => self.look_again(look),
        }
    }

    /// A stopped agent goes on, or a host that stood still: what waited comes now. Frames first, as the loop takes them;
    /// packets for a host that stood still are sent again, after a while.
    pub fn resume(&mut self, host: usize, slept: bool) {
        let waiting = std::mem::take(&mut self.hosts[host].waiting);
        let (frames, rest): (Vec<_>, Vec<_>) =
            waiting.into_iter().partition(|(_, item)| matches!(item, Item::Heard { .. }));
        for (n, (after, item)) in frames.into_iter().chain(rest).enumerate() {
            let wait = match &item {
                Item::Answer { .. } | Item::Watch { .. } if slept => self.rng.between(50, 3_000) * MS,
                Item::Heard { .. } => 0,
                // What happened on the host itself is told at once.
                Item::Tell { .. } | Item::Place { .. } => 1_000 * n as u64,
                _ if slept => after,
                // In the order in which it came.
                _ => 1_000 * n as u64,
            };
            self.put(wait, item);
        }
        if let Some(agent) = &mut self.hosts[host].agent {
            agent.tick = agent.tick.max(self.now + 300_000);
            self.next_tick = self.next_tick.min(agent.tick);
        }
    }

    /// For the log.
    pub fn say(&mut self, text: impl FnOnce(&Self) -> String) {
        if self.log.is_some() {
            let line = (self.now, text(self));
            if let Some(log) = &mut self.log {
                log.lines.push(line);
            }
        }
    }

    /// What goes into a core.
    pub fn record(&mut self, host: usize, at: Moment, event: &Event) {
        if self.verbose {
            self.say(|_| format!("    cp{} {} ◀ {event:?}", host + 1, at.now));
        }
    }

    /// What comes out of it.
    pub fn record_action(&mut self, host: usize, action: &Action) {
        if self.verbose && !matches!(action, Action::Report(_)) {
            self.say(|_| format!("    cp{} ▶ {action:?}", host + 1));
        }
    }

    /// Something that must hold does not. The first one ends the run.
    pub fn violated(&mut self, rule: Rule, text: String) {
        if self.checks.violation.is_none() {
            self.say(|_| format!("VIOLATION ({rule}): {text}"));
            self.checks.violation = Some(Violation { rule, at: self.now, text });
        }
    }

    /// A duration of the rules.
    #[must_use]
    pub fn nanos(time: Duration) -> Nanos {
        Nanos::try_from(time.as_nanos()).unwrap_or(Nanos::MAX)
    }
}
