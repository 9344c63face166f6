//! A node: its kernel, its clocks, and the process of its agent; and the loop of that.

use std::collections::VecDeque;
use std::time::Duration;

use mooring_core::action::Cause;
use mooring_core::event::Moment;
use mooring_core::fleet::{Action, Event, Fleet, Report};
use mooring_core::lease::Record;
use mooring_core::rules::{LATE, Rules, SELF_PROBE};
use mooring_core::time::{Time, WallTime};

use super::api::Watch;
use super::check::Rule;
use super::kernel::{Place, Standing};
use super::queue::Item;
use super::settings::{self, Settings};
use super::world::World;
use crate::clock::{Clock, MS, Nanos, SECOND};
use crate::host::Asleep;

/// The loop steps at least this often, so that clocks that jump are seen.
const IDLE: Nanos = SECOND;
/// A difference of the clocks' steps above this, in microseconds, is taken for time that the machine stood still.
const JUMP: i64 = 1_000_000;
/// More steps than this in a second are a loop that does not sleep.
const STEPS: u32 = 30_000;

/// See the module's text.
#[derive(Debug)]
pub struct Host {
    /// Its clocks.
    pub clock: Clock,
    /// It has power, and has booted.
    pub up: bool,
    /// It stands still.
    pub asleep: Option<Asleep>,
    /// Whether frames pass, by segment.
    pub plugged: Vec<bool>,
    /// What the agent was told of that.
    pub told: Vec<bool>,
    /// Whether the interface is there, by segment.
    pub present: Vec<bool>,
    /// The VIPs on the interfaces.
    pub vips: Vec<Option<Standing>>,
    /// Counts lifetimes.
    pub generation: u32,
    /// How long the kernel takes for addresses.
    pub kernel: Nanos,
    /// Until then it may still be busy.
    pub slow_until: Nanos,
    /// The kernel refuses addresses.
    pub refuses: bool,
    /// The agent, while its process is there.
    pub agent: Option<Box<Agent>>,
    /// Which agent that is.
    pub life: u32,
    /// The agent is stopped so many times over.
    pub stopped: u32,
    /// What waits for a stopped agent, or a host that stands still.
    pub waiting: VecDeque<(Nanos, Item)>,
    /// How late the agent gets the processor, at most.
    pub starved: Nanos,
    /// The agent should be running.
    pub wanted: bool,
    /// When it last stood still.
    pub slept: Nanos,
}

/// The agent's process.
#[derive(Debug)]
pub struct Agent {
    /// The core.
    pub fleet: Fleet,
    /// When the loop's timer goes off.
    pub tick: Nanos,
    /// The wake-up that it was set for.
    pub wake: Option<Time>,
    /// The clocks at the last step.
    pub last: Option<Moment>,
    /// The datapath's task.
    pub place: Place,
    /// The watches.
    pub watches: [Watch; 2],
    /// It has been asked to end.
    pub ending: bool,
    /// It is drained.
    pub drained: bool,
    /// When its last write of its session that took effect, and was answered or shown, was sent.
    pub confirmed: Option<Time>,
    /// Its session writes that took effect: the record of each, and when it was sent.
    pub effects: VecDeque<(Record, Time)>,
    /// When a third party was heard, by segment.
    pub third: Vec<Nanos>,
    /// When it last asked everybody for each VIP.
    pub asked: Vec<Nanos>,
    /// Its last step that came late, as long as it has not looked around since.
    pub late: Option<Time>,
    /// Steps within this second.
    pub steps: (Nanos, u32),
}

impl Host {
    /// One that has booted, without an agent.
    #[must_use]
    pub fn new(n: usize, settings: &Settings, most: usize, boot: u64, wall: i64) -> Self {
        Self {
            clock: Clock::new(0, boot, settings.ppm[n], wall),
            up: true,
            asleep: None,
            plugged: vec![true; settings.segments],
            told: vec![true; settings.segments],
            present: vec![true; settings.segments],
            vips: vec![None; most],
            generation: 0,
            kernel: 0,
            slow_until: 0,
            refuses: false,
            agent: None,
            life: 0,
            stopped: 0,
            waiting: VecDeque::new(),
            starved: 0,
            wanted: true,
            slept: 0,
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
        self.is_awake() && self.stopped == 0 && self.agent.is_some()
    }

    /// The clocks.
    #[must_use]
    pub fn moment(&self, now: Nanos) -> Moment {
        Moment { now: Time::from_nanos(self.clock.boot(now)), wall: WallTime(self.clock.wall(now)) }
    }
}

impl World<'_> {
    /// The agent's process begins.
    pub fn start_agent(&mut self, host: usize) {
        if !self.hosts[host].is_awake() || self.hosts[host].agent.is_some() {
            return;
        }
        self.say(|_| format!("the agent of {} starts", settings::name(host)));
        let rules = Rules { node: settings::name(host), ..self.plan.settings.rules.clone() };
        let of = &mut self.hosts[host];
        of.told = of.plugged.clone();
        of.agent = Some(Box::new(Agent {
            fleet: Fleet::new(rules),
            tick: Nanos::MAX,
            wake: None,
            last: None,
            place: Place::default(),
            watches: Default::default(),
            ending: false,
            drained: false,
            confirmed: None,
            effects: VecDeque::new(),
            third: vec![0; self.plan.settings.segments],
            asked: vec![0; self.most],
            late: None,
            steps: (0, 0),
        }));
        let found = (0..self.most).filter(|v| self.hosts[host].vips[*v].is_some());
        let found: Vec<usize> = found.collect();
        if let Some(agent) = &mut self.hosts[host].agent {
            agent.place.put.extend(found.iter().copied());
        }
        let found =
            found.iter().map(|v| (self.plan.settings.vip(*v), settings::index(self.plan.settings.segment_of(*v))));
        let found = found.collect();
        let event = self.node_event(host);
        self.tell(host, event);
        self.tell(host, Event::LeftOver(found));
        for of in self.watches() {
            self.follow(host, *of);
        }
        self.eligible();
    }

    /// What the agent is told of its interfaces.
    #[must_use]
    pub fn node_event(&self, host: usize) -> Event {
        let mut interfaces = self.plan.settings.interfaces(host, &self.hosts[host].told);
        interfaces.retain(|one| self.hosts[host].present[settings::segment(one.index)]);
        Event::Node { interfaces, macs: vec![settings::mac(host)] }
    }

    /// The process is gone; its addresses stay.
    pub fn end_agent(&mut self, host: usize) {
        let of = &mut self.hosts[host];
        of.agent = None;
        of.life += 1;
        of.stopped = 0;
        of.waiting.clear();
        self.touched();
        self.eligible();
    }

    /// The agent is told something.
    pub fn tell(&mut self, host: usize, event: Event) {
        let at = self.hosts[host].moment(self.now);
        let Some(agent) = &mut self.hosts[host].agent else { return };
        let jump = agent.last.replace(at).map_or(0, |last| {
            let boot = i64::try_from(at.now.since(last.now).as_micros()).unwrap_or(0);
            at.wall.0.saturating_sub(last.wall.0).max(0) - boot
        });
        if jump > JUMP {
            self.step(host, at, Event::ClockJump(Duration::from_micros(u64::try_from(jump).unwrap_or(0))));
        }
        self.step(host, at, event);
    }

    fn step(&mut self, host: usize, at: Moment, event: Event) {
        if self.verbose {
            self.say(|_| format!("    {} {} ◀ {event:?}", settings::name(host), at.now));
        }
        let Some(agent) = &mut self.hosts[host].agent else { return };
        match &event {
            Event::Session(view) | Event::WroteSession { result: Ok(view), .. } => agent.was_shown(&view.record),
            Event::Sessions { result: Ok(views), .. } => {
                for view in views {
                    agent.was_shown(&view.record);
                }
            }
            Event::Shutdown => agent.ending = true,
            Event::Drain(drained) => agent.drained = *drained,
            _ => {}
        }
        self.counts.steps += 1;
        let jumped = matches!(event, Event::ClockJump(_));
        if jumped || agent.wake.is_some_and(|wake| at.now > wake + LATE) {
            agent.late = Some(at.now);
        }
        let ended = matches!(event, Event::Shutdown | Event::Drain(_));
        let actions = agent.fleet.step(at, event);
        let wake = agent.fleet.wake();
        let second = self.now / SECOND;
        agent.steps = if agent.steps.0 == second { (second, agent.steps.1 + 1) } else { (second, 1) };
        let spins = agent.steps.1 > STEPS || wake.is_some_and(|wake| wake <= at.now);
        if spins {
            self.violated(Rule::Stuck, format!("{} does not sleep any more: {wake:?}", settings::name(host)));
        }
        if actions.len() > 100 + 4 * self.most {
            self.violated(Rule::Stuck, format!("{} wants {} things done at once", settings::name(host), actions.len()));
        }
        for action in actions {
            self.act(host, at, action);
        }
        self.set_timer(host, wake);
        if ended {
            self.eligible();
        }
    }

    /// The loop sleeps until the core wants to be stepped, to the next millisecond; longer when it is starved.
    fn set_timer(&mut self, host: usize, wake: Option<Time>) {
        let idle = self.now + IDLE;
        let of = &mut self.hosts[host];
        let Some(agent) = &mut of.agent else { return };
        if agent.wake != wake || agent.tick <= self.now || agent.tick == Nanos::MAX {
            let late = if of.starved > 0 { self.rng.below(of.starved) } else { self.rng.below(MS) };
            let at = wake.map_or(idle, |wake| of.clock.when(wake.as_nanos()).min(idle));
            agent.wake = wake;
            agent.tick = at + late;
            self.next_tick = self.next_tick.min(agent.tick);
        }
    }

    fn act(&mut self, host: usize, at: Moment, action: Action) {
        if self.verbose && !matches!(action, Action::Report(_)) {
            self.say(|_| format!("    {} ▶ {action:?}", settings::name(host)));
        }
        match action {
            Action::Carry { addresses, until } => {
                let leased = self.check_fence_asked(host, at.now, until);
                let vips = addresses.iter().filter_map(|(a, _)| self.vip_of(*a)).collect();
                self.job(host, super::kernel::Job::Put { vips, until, leased });
            }
            Action::Drop(addresses) => {
                let vips = addresses.iter().filter_map(|a| self.vip_of(*a)).collect();
                self.job(host, super::kernel::Job::Remove { vips });
            }
            Action::Announce(addresses) => {
                let late = self.hosts[host].agent.as_ref().and_then(|a| a.late);
                if let Some(late) = late.filter(|late| at.now.since(*late) < SELF_PROBE) {
                    let ago = at.now.since(late).as_millis();
                    let text = format!("{} announces {ago} ms after a late step", settings::name(host));
                    self.violated(Rule::Late, text);
                }
                for (address, index) in addresses {
                    if let Some(vip) = self.vip_of(address) {
                        self.announce(host, settings::segment(index), vip);
                    }
                }
            }
            Action::Probe(asks) => {
                for ask in asks {
                    self.note_asked(host, &ask);
                    self.probe(host, settings::segment(ask.index), ask.address, ask.to);
                }
            }
            Action::Report(report) => {
                if let Report::Took { address, cause: Cause::Provisional } = &report {
                    self.check_provisional(host, *address);
                }
                self.say(|_| format!("{}: {report:?}", settings::name(host)));
            }
            Action::Exit => self.job(host, super::kernel::Job::Flush),
            call => {
                self.check_end_sent(host, &call);
                self.check_take_sent(host, at.now, &call);
                self.call(host, at.now, call);
            }
        }
    }
}

impl Agent {
    /// A session was shown to it: perhaps an own write's effect.
    fn was_shown(&mut self, record: &Record) {
        if let Some((_, sent)) = self.effects.iter().rev().find(|(one, _)| one == record) {
            self.confirmed = self.confirmed.max(Some(*sent));
            self.late = self.late.filter(|late| *late > *sent);
        }
    }
}
