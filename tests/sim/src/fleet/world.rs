//! The world: everything that is simulated, and the order in which it happens.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use mooring_core::fleet::Event;
use mooring_core::session::Standing;

use super::api::{Call, Store};
use super::check::{Checks, Rule, Violation};
use super::host::Host;
use super::plan::Plan;
use super::queue::{Item, Queue};
use super::settings;
use super::wire::{What, Wire};
use crate::clock::{MS, Nanos, SECOND};
use crate::counts::Counts;
use crate::fault::How;
use crate::rng::Rng;

/// See the module's text.
#[derive(Debug)]
pub struct World<'a> {
    /// What it runs by.
    pub plan: &'a Plan,
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
    pub wire: Wire,
    /// What is stored.
    pub store: Store,
    /// What it was at times, for a restored backup.
    pub backups: VecDeque<Store>,
    /// Calls, over or not.
    pub calls: Vec<Call>,
    /// How the API fails for all.
    pub api: Option<How>,
    /// And for each node.
    pub api_of: Vec<Option<How>>,
    /// How late each node's watches are.
    pub lag: Vec<[Nanos; 2]>,
    /// Somebody else writes the `IPAddress` just before so many of a thousand record writes.
    pub nudged: u32,
    /// Nodes that are cut off from the API.
    pub islands: u64,
    /// Numbers of VIPs are below this.
    pub most: usize,
    /// VIPs that should exist.
    pub wanted: BTreeSet<usize>,
    /// Nodes with endpoints.
    pub endpoints: BTreeSet<usize>,
    /// What Kubernetes says of the nodes.
    pub standing: Vec<Standing>,
    /// Which of the plan's faults are there now.
    pub active: Vec<usize>,
    /// What must hold.
    pub checks: Checks,
    /// What was counted.
    pub counts: Counts,
    /// What happened, if anybody wants to read it.
    pub log: Option<Vec<(Nanos, String)>>,
    /// Everything that goes into the cores and comes out of them is put there too.
    pub verbose: bool,
}

/// Frames that wait for a stopped agent; what comes then is lost, as in a full socket.
const SOCKET: usize = 300;
/// VIPs that a burst may add.
pub const BURST: usize = 20;

impl<'a> World<'a> {
    /// At its beginning.
    #[must_use]
    pub fn new(plan: &'a Plan) -> Self {
        let of = &plan.settings;
        let mut rng = Rng::new(plan.seed, 12);
        let most = of.vips + BURST;
        let mut hosts = vec![];
        for n in 0..of.nodes {
            let boot = rng.between(60, 3_000_000) * SECOND + rng.below(SECOND);
            let off = i64::try_from(rng.below(40_000_000)).unwrap_or(0) - 20_000_000;
            let wall = 1_800_000_000_000_000 + off - i64::try_from(boot / 1_000).unwrap_or(0);
            hosts.push(Host::new(n, of, most, boot, wall));
        }
        let mut world = Self {
            plan,
            now: 0,
            rng,
            queue: Queue::default(),
            hosts,
            next_tick: Nanos::MAX,
            wire: Wire::new(of.nodes, of.segments),
            store: Store { version: 1_000, ..Store::default() },
            backups: VecDeque::new(),
            calls: vec![],
            api: None,
            api_of: vec![None; of.nodes],
            lag: vec![[0; 2]; of.nodes],
            nudged: 0,
            islands: 0,
            most,
            wanted: BTreeSet::new(),
            endpoints: (0..of.nodes).collect(),
            standing: vec![Standing::default(); of.nodes],
            active: vec![],
            checks: Checks::new(plan, most),
            counts: Counts::new(of.nodes),
            log: None,
            verbose: false,
        };
        for vip in 0..of.vips {
            world.want(vip);
        }
        for host in 0..of.nodes {
            let at = world.rng.below(of.spread + 1) + 200 * MS;
            world.queue.put(at, Item::Start { host, life: 0 });
        }
        for (n, fault) in plan.faults.iter().enumerate() {
            world.queue.put(fault.at, Item::Begin(n));
        }
        world.queue.put(100 * MS, Item::Ping);
        world.plan_looks();
        world
    }

    /// Runs until then, or until something is violated.
    pub fn run(&mut self, end: Nanos) {
        while self.checks.violation.is_none() {
            let queued = self.queue.next().unwrap_or(Nanos::MAX);
            let next = queued.min(self.next_tick);
            if next > end.min(self.checks.over) {
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
        let end = end.min(self.checks.over);
        self.now = self.now.max(end.min(self.queue.next().unwrap_or(end)));
    }

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

    /// In whose process something goes on, if in an agent's; none if that process is gone.
    #[expect(clippy::option_option, reason = "gone, of nobody, of a host: three cases, used once")]
    fn process(&self, item: &Item) -> Option<Option<usize>> {
        let alive = |host: usize, life: u32| (self.hosts[host].life == life).then_some(Some(host));
        match *item {
            Item::Heard { to, .. } => Some((to < self.hosts.len()).then_some(to)),
            Item::Watch { to, .. } => Some(Some(to)),
            Item::Follow { host, .. } => Some(Some(host)),
            Item::Tell { to, life, .. } => alive(to, life),
            Item::Place { host, life } | Item::Ended { host, life } => alive(host, life),
            Item::Answer { call, .. } | Item::Deadline { call } => alive(self.calls[call].host, self.calls[call].life),
            _ => Some(None),
        }
    }

    fn happen(&mut self, item: Item) {
        let Some(process) = self.process(&item) else { return };
        if let Some(host) = process {
            let of = &mut self.hosts[host];
            let frame = matches!(item, Item::Heard { .. });
            if frame && !of.is_awake() || of.agent.is_none() {
                return;
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
            Item::Heard { to, segment, what, from } => {
                let (address, mac, index) =
                    (self.address(segment, what), settings::mac(from), settings::index(segment));
                let now = self.now;
                match what {
                    // The edge passes on what means something: an agent that was never told of a VIP hears nothing of it.
                    What::Vip(_) if !self.hosts[to].agent.as_ref().is_some_and(|a| a.fleet.knows(address)) => return,
                    What::Vip(vip) => self.note_heard(to, vip, from),
                    What::Own(_) => {
                        if let Some(agent) = &mut self.hosts[to].agent {
                            agent.third[segment] = now;
                        }
                    }
                }
                self.tell(to, Event::Heard { index, address, mac });
            }
            Item::Asked { to, segment, what, by } => self.asked(0, to, segment, what, by),
            Item::Arrive { call } => self.arrive(call),
            Item::Answer { call, answer } => self.answered(call, *answer),
            Item::Deadline { call } => self.answered(call, super::api::Answer::Away),
            Item::Watch { to, of, connection, message } => self.watched(to, of, connection, *message),
            Item::Follow { host, of, connection } => {
                if self.hosts[host].agent.as_ref().map(|a| a.watches[of as usize].connection) == Some(connection) {
                    self.follow(host, of);
                }
            }
            Item::Tell { to, event, .. } => {
                if let Event::Link { index, up } = *event {
                    self.hosts[to].told[settings::segment(index)] = up;
                }
                self.tell(to, *event);
            }
            Item::Place { host, .. } => self.place_goes_on(host),
            Item::Expire { host, vip, generation } => self.expire(host, vip, generation),
            Item::Start { host, life } => {
                if self.hosts[host].life == life && self.hosts[host].wanted {
                    self.start_agent(host);
                }
            }
            Item::Ended { host, .. } => {
                self.say(|_| format!("the agent of {} has ended", settings::name(host)));
                self.end_agent(host);
                self.restart_if_wanted(host);
            }
            Item::Ping => self.ping(),
            Item::Begin(n) => self.begin(n),
            Item::End(n) => self.end(n),
            Item::Look(look) => self.look_again(look),
        }
    }

    /// A stopped agent goes on, or a host that stood still: what waited comes now, frames first.
    pub fn resume(&mut self, host: usize, slept: bool) {
        let waiting = std::mem::take(&mut self.hosts[host].waiting);
        let (frames, rest): (Vec<_>, Vec<_>) =
            waiting.into_iter().partition(|(_, item)| matches!(item, Item::Heard { .. }));
        for (n, (after, item)) in frames.into_iter().chain(rest).enumerate() {
            let wait = match &item {
                Item::Answer { .. } | Item::Watch { .. } if slept => self.rng.between(50, 3_000) * MS,
                Item::Heard { .. } => 0,
                Item::Tell { .. } | Item::Place { .. } => 1_000 * n as u64,
                _ if slept => after,
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
                log.push(line);
            }
        }
    }

    /// What was said, a line an entry.
    #[must_use]
    pub fn text(&self) -> String {
        let lines = self.log.iter().flatten().map(|(at, line)| {
            let micros = at / 1_000;
            format!("{:>5}.{:06} {line}\n", micros / 1_000_000, micros % 1_000_000)
        });
        lines.collect()
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
