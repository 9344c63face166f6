//! A node: its kernel, its clocks, the process of its agent; and its life: it crashes, boots, stands still, goes on.

use std::collections::VecDeque;

use mooring_agent_core::clocks::Clocks;
use mooring_agent_core::event::Moment;
use mooring_agent_core::lease::Record;
use mooring_agent_core::mac::Mac;
use mooring_agent_core::time::{Time, WallTime};

use crate::address_task::AddressTask;
use crate::clock::{Clock, MS, Nanos, SECOND};
use crate::kernel::Standing;
use crate::queue::Item;
use crate::settings::{self, Settings};
use crate::subject::Subject;
use crate::world::World;

/// Why a host is silent, with nothing in it going on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asleep {
    /// Since when.
    pub since: Nanos,
    /// Its boot clock stands still too.
    pub stunned: bool,
}

/// A node.
#[derive(Debug)]
pub struct Host<S: Subject> {
    /// Its clocks.
    pub clock: Clock,
    /// It has power, and has booted.
    pub up: bool,
    /// It stands still.
    pub asleep: Option<Asleep>,
    /// When it last stood still, since it booted.
    pub slept: Nanos,
    /// Which of its network cards is in use: a bond changes it.
    pub port: u8,
    /// Whether frames pass, by segment.
    pub plugged: Vec<bool>,
    /// What the agent was told of that.
    pub told_up: Vec<bool>,
    /// Whether the interface is there, by segment.
    pub present: Vec<bool>,
    /// The node's own addresses are there.
    pub own_address: bool,
    /// The VIPs on the interfaces.
    pub vips: Vec<Option<Standing>>,
    /// Counts lifetimes.
    pub generation: u32,
    /// How long the kernel takes for addresses.
    pub kernel: Nanos,
    /// Until then the kernel may still be busy with what it was slow at.
    pub slow_until: Nanos,
    /// The kernel refuses addresses.
    pub refuses: bool,
    /// The kernel removes no address.
    pub keeps: bool,
    /// Of a thousand requests for addresses, the kernel does not answer so many.
    pub unanswered: u32,
    /// The agent, while its process is there.
    pub agent: Option<Box<Process<S>>>,
    /// Which agent that is.
    pub life: u32,
    /// The agent is stopped so many times over.
    pub stopped: u32,
    /// What waits for a stopped agent, or a host that stands still; how long after it stopped that came.
    pub waiting: VecDeque<(Nanos, Item<S>)>,
    /// How late the agent gets the processor, at most.
    pub starved: Nanos,
    /// The agent should be running: something else than a fault ended it otherwise.
    pub wanted: bool,
    /// What this core's world keeps of it.
    pub own: S::Host,
}

/// The agent's process.
#[derive(Debug)]
pub struct Process<S: Subject> {
    /// The core.
    pub core: S::Core,
    /// When the loop's timer goes off.
    pub tick: Nanos,
    /// The wake-up that the timer was set for.
    pub wake: Option<Time>,
    /// The clocks at the last step.
    pub last: Option<Clocks>,
    /// The address task.
    pub addresses: AddressTask,
    /// It has been asked to end.
    pub ending: bool,
    /// It has looked for what an earlier run left.
    pub looked: bool,
    /// Its writes of its Lease that took effect, and when each was sent.
    pub effects: VecDeque<(Record, Time)>,
    /// When the last of those that it was shown was sent.
    pub confirmed: Option<Time>,
    /// Its last step that came late, as long as it has not looked around since.
    pub late: Option<Time>,
    /// So many steps within this second of simulated time.
    pub steps: (Nanos, u32),
    /// What this core's world keeps of it.
    pub own: S::Process,
}

/// So many writes are remembered.
const EFFECTS: usize = 32;

impl<S: Subject> Process<S> {
    /// A process that has just begun.
    #[must_use]
    pub fn new(n: usize, life: u32, settings: &Settings<S>) -> Self {
        let (core, own) = S::process(n, life, settings);
        Self {
            core,
            tick: Nanos::MAX,
            wake: None,
            last: None,
            addresses: AddressTask::default(),
            ending: false,
            looked: false,
            effects: VecDeque::new(),
            confirmed: None,
            late: None,
            steps: (0, 0),
            own,
        }
    }

    /// A write of its Lease has taken effect.
    pub fn took_effect(&mut self, record: Record, sent: Time) {
        self.effects.push_back((record, sent));
        if self.effects.len() > EFFECTS {
            self.effects.pop_front();
        }
    }

    /// A Lease was shown to it, by an answer, a read, a watch: perhaps the effect of its own write.
    pub fn was_shown(&mut self, record: &Record) {
        if let Some((_, sent)) = self.effects.iter().rev().find(|(one, _)| one == record) {
            self.confirmed = self.confirmed.max(Some(*sent));
            self.late = self.late.filter(|late| *late > *sent);
        }
    }
}

impl<S: Subject> Host<S> {
    /// A host that has booted, without an agent.
    #[must_use]
    pub fn new(n: usize, settings: &Settings<S>, boot: u64, wall: i64) -> Self {
        let wired: Vec<bool> = (0..settings.segments).map(|segment| settings.is_wired(n, segment)).collect();
        Self {
            clock: Clock::new(0, boot, settings.ppm[n], wall),
            up: true,
            asleep: None,
            slept: 0,
            port: 0,
            plugged: wired.clone(),
            told_up: wired,
            present: vec![true; settings.segments],
            own_address: true,
            vips: vec![None; S::vips(settings)],
            generation: 0,
            kernel: 0,
            slow_until: 0,
            refuses: false,
            keeps: false,
            unanswered: 0,
            agent: None,
            life: 0,
            stopped: 0,
            waiting: VecDeque::new(),
            starved: 0,
            wanted: true,
            own: S::host(n, settings),
        }
    }

    /// Its kernel runs.
    #[must_use]
    pub fn is_awake(&self) -> bool {
        self.up && self.asleep.is_none()
    }

    /// Its agent can act.
    #[must_use]
    pub fn is_live(&self) -> bool {
        self.is_awake() && self.stopped == 0 && self.agent.as_ref().is_some_and(|agent| agent.looked)
    }

    /// Whether the machine stood still, and has gone on within the last five seconds.
    #[must_use]
    pub fn has_just_slept(&self, now: Nanos) -> bool {
        self.slept > 0 && self.slept + 5 * SECOND > now
    }

    /// Frames on that segment pass.
    #[must_use]
    pub fn hears(&self, segment: usize) -> bool {
        self.is_awake() && self.plugged[segment]
    }

    /// Its kernel answers for that VIP.
    #[must_use]
    pub fn carries(&self, vip: usize) -> bool {
        self.up && self.vips[vip].is_some()
    }

    /// The clocks.
    #[must_use]
    pub fn moment(&self, now: Nanos) -> Moment {
        Moment { now: Time::from_nanos(self.clock.boot(now)), wall: WallTime(self.clock.wall(now)) }
    }

    /// All clocks.
    #[must_use]
    pub fn clocks(&self, now: Nanos) -> Clocks {
        let Moment { now: boot, wall } = self.moment(now);
        Clocks { boot, monotonic: self.clock.monotonic(now), wall }
    }
}

impl<S: Subject> World<'_, S> {
    /// The host is gone, all at once.
    pub fn crash(&mut self, host: usize) {
        self.end_agent(host);
        let of = &mut self.hosts[host];
        of.up = false;
        of.asleep = None;
        for vip in 0..self.vips {
            self.fall(host, vip, false, "the host crashed");
        }
    }

    /// It boots.
    pub fn boot(&mut self, host: usize) {
        let boot = 10 * SECOND + self.rng.below(SECOND);
        let wall = self.hosts[host].clock.wall(self.now);
        let ppm = self.plan.settings.ppm[host];
        let of = &mut self.hosts[host];
        of.clock = Clock::new(self.now, boot, ppm, wall - i64::try_from(boot / 1_000).unwrap_or(0));
        of.up = true;
        of.own_address = true;
        of.stopped = 0;
        of.slept = 0;
        if of.wanted {
            let life = of.life;
            let wait = self.rng.between(100, 1_500) * MS;
            self.put(wait, Item::Start { host, life });
        }
    }

    /// The machine stands still; its boot clock too if it is stunned.
    pub fn sleep(&mut self, host: usize, stunned: bool) {
        let (now, of) = (self.now, &mut self.hosts[host]);
        if !of.up || of.asleep.is_some() {
            return;
        }
        of.asleep = Some(Asleep { since: now, stunned });
        if stunned {
            of.clock.stop(now);
        }
    }

    /// It goes on; whether its wall clock was set right meanwhile.
    pub fn wake(&mut self, host: usize, set_right: bool) {
        let now = self.now;
        let Some(asleep) = self.hosts[host].asleep.take() else { return };
        let slept = now - asleep.since;
        if asleep.stunned {
            self.hosts[host].clock.go_on(now, set_right);
        } else {
            self.hosts[host].clock.was_suspended(slept);
        }
        self.shift_lifetimes(host, slept);
        // Timers count the time that the machine was awake.
        if let Some(agent) = &mut self.hosts[host].agent {
            agent.tick = agent.tick.saturating_add(slept);
        }
        S::wake(self, host, slept);
        self.hosts[host].slept = now;
        self.resume(host, true);
        // What should have started the agent again meanwhile stood still too.
        self.restart_if_wanted(host);
    }

    /// The agent is stopped (SIGSTOP).
    pub fn freeze(&mut self, host: usize) {
        if self.hosts[host].agent.is_some() {
            self.hosts[host].stopped += 1;
        }
    }

    /// It goes on (SIGCONT).
    pub fn unfreeze(&mut self, host: usize) {
        let of = &mut self.hosts[host];
        if of.stopped > 0 {
            of.stopped -= 1;
            if of.stopped == 0 && of.asleep.is_none() {
                self.resume(host, false);
            }
        }
    }

    /// A stopped agent goes on, or a host that stood still: what waited comes now. Frames first, as the loop takes them;
    /// packets for a host that stood still are sent again, after a while, those of one connection in order.
    fn resume(&mut self, host: usize, slept: bool) {
        if slept {
            S::stall_watches(self, host);
        }
        let waiting = std::mem::take(&mut self.hosts[host].waiting);
        let (frames, rest): (Vec<_>, Vec<_>) =
            waiting.into_iter().partition(|(_, item)| matches!(item, Item::Heard(_)));
        for (n, (after, item)) in frames.into_iter().chain(rest).enumerate() {
            let wait = match &item {
                Item::Own(item) if slept && S::is_answer(item) => self.rng.between(50, 3_000) * MS,
                Item::Heard(_) => 0,
                // Its watch holds it up.
                Item::Own(item) if S::is_watched(item) => 1_000 * n as u64,
                // What happened on the host itself is told at once.
                Item::Tell { .. } | Item::AddressTask { .. } => 1_000 * n as u64,
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

    /// The link to a segment goes up or down; whether the host notices.
    pub fn set_link(&mut self, host: usize, segment: usize, up: bool, noticed: bool) {
        let up = up && self.plan.settings.is_wired(host, segment);
        if self.hosts[host].plugged[segment] == up {
            return;
        }
        // A host that is down finds its link as it is when it boots.
        self.hosts[host].plugged[segment] = up;
        // An agent that is stopped, or whose host stands still, is told both changes when it goes on.
        let waits = self.hosts[host].stopped > 0 || self.hosts[host].asleep.is_some();
        if noticed && self.hosts[host].up && (waits || self.hosts[host].told_up[segment] != up) {
            self.tell_soon(host, mooring_agent_core::Event::Link { interface: crate::settings::index(segment), up });
        }
    }

    /// The interface on a segment is gone, or is there again.
    pub fn set_present(&mut self, host: usize, segment: usize, present: bool, up: bool) {
        let up = up && self.plan.settings.is_wired(host, segment);
        self.hosts[host].present[segment] = present;
        if present == up {
            self.set_link(host, segment, up, false);
            self.hosts[host].told_up[segment] = up;
        }
        let event = self.node_event(host);
        self.tell_soon(host, event);
        if !present {
            for vip in (0..self.vips).filter(|vip| S::segment_of(&self.plan.settings, *vip) == segment) {
                self.fall(host, vip, true, "its interface is gone");
            }
        }
    }

    /// A bond uses its other port: the node's Ethernet address changes. The kernel tells the agent, and the agent looks at the
    /// node a little later.
    pub fn change_port(&mut self, host: usize) {
        self.hosts[host].port ^= 1;
        self.proxies_learn_port(host);
        let event = self.node_event(host);
        let wait = self.rng.between(200, 500) * crate::clock::MS;
        self.tell_after(wait, host, event);
    }

    /// The Ethernet address that a station uses now.
    #[must_use]
    pub fn mac(&self, station: usize) -> Mac {
        settings::mac(station, self.hosts.get(station).map_or(0, |host| host.port))
    }
}
