//! The agent's loop, as `agent/src/driver/run.rs` has it: events go into the core one by one, and its actions to the edges.

use std::time::Duration;

use mooring_core::action::{Action, Report};
use mooring_core::event::{Event, Moment};
use mooring_core::rules::{LATE, SELF_PROBE, SHORT_FENCE};
use mooring_core::time::Time;

use crate::api::Kind;
use crate::clock::{MS, Nanos, SECOND};
use crate::host::{self, Agent};
use crate::place::Job;
use crate::queue::Item;
use crate::world::World;

/// The loop steps at least this often, so that clocks that jump are seen.
const IDLE: Nanos = SECOND;
/// A difference of the clocks' steps above this, in microseconds, is taken for time that the machine stood still.
const JUMP: i64 = 1_000_000;
/// More steps than this in a second of simulated time are a loop that does not sleep.
const STEPS: u32 = 20_000;

fn nanos(time: Duration) -> Nanos {
    Nanos::try_from(time.as_nanos()).unwrap_or(Nanos::MAX)
}

impl World<'_> {
    /// The agent's process begins.
    pub fn start_agent(&mut self, host: usize) {
        if !self.hosts[host].is_awake() || self.hosts[host].agent.is_some() || self.hosts[host].rival.is_some() {
            return;
        }
        self.say(|_| format!("the agent of cp{} starts", host + 1));
        let vips = self.plan.settings.vips.clone();
        self.hosts[host].agent = Some(Box::new(Agent::new(host, &self.plan.settings)));
        let (life, link) = (self.hosts[host].life, self.hosts[host].link);
        self.tell(host, Event::Vips(vips));
        self.tell(host, host::node(host, &self.plan.settings));
        self.tell(host, Event::Link { up: link });
        self.job(host, Job::Look);
        self.follow(host);
        let first = self.now + self.rng.below(20 * MS);
        self.queue.put(first, Item::Health { host, life });
    }

    /// The process is gone; its addresses stay.
    pub fn end_agent(&mut self, host: usize) {
        let of = &mut self.hosts[host];
        of.agent = None;
        of.life += 1;
        of.stopped = 0;
        of.waiting.clear();
        self.touched();
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
            let by = Duration::from_micros(u64::try_from(jump).unwrap_or(0));
            self.step(host, at, Event::ClockJump(by));
        }
        self.step(host, at, event);
    }

    fn step(&mut self, host: usize, at: Moment, event: Event) {
        let Some(agent) = &mut self.hosts[host].agent else { return };
        let mut kick = false;
        match &event {
            Event::Shutdown => agent.ending = true,
            Event::Wrote { result: Ok(view), .. } | Event::Seen(Some(view)) => agent.was_shown(view),
            Event::Read { result: Ok(Some(read)), .. } => {
                kick = agent.keeper.snapshot().lease.is_some_and(|known| known.version != read.version);
                agent.was_shown(read);
            }
            _ => {}
        }
        self.counts.steps += 1;
        self.record(host, at, &event);
        if kick {
            self.distrust_watch(host);
        }
        let Some(agent) = &mut self.hosts[host].agent else { return };
        let jumped = matches!(event, Event::ClockJump(_));
        if jumped || agent.wake.is_some_and(|wake| at.now > wake + LATE) {
            // Who carries nothing has nothing to be unsure of; it begins to look anew.
            agent.late = Some(at.now.as_nanos()).filter(|_| agent.keeper.snapshot().role != "following");
        }
        let actions = agent.keeper.step(at, event);
        let wake = agent.keeper.wake();
        let second = self.now / SECOND;
        agent.steps = if agent.steps.0 == second { (second, agent.steps.1 + 1) } else { (second, 1) };
        let spins = agent.steps.1 > STEPS || wake.is_some_and(|wake| wake <= at.now);
        if spins {
            self.violated(
                crate::check::Rule::Stuck,
                format!("cp{} does not sleep any more: woken at {wake:?}", host + 1),
            );
        }
        let many = actions.len();
        for action in actions {
            self.act(host, at, action);
        }
        if many > 64 + 16 * self.hosts.len() {
            self.violated(crate::check::Rule::Stuck, format!("cp{} wants {many} things done in one step", host + 1));
        }
        self.set_timer(host, wake);
        self.record_role(host);
        // Who has let go has nothing to be unsure of any more; what it takes next it looks for anew.
        if let Some(agent) = self.hosts[host].agent.as_mut().filter(|agent| agent.late.is_some())
            && agent.keeper.snapshot().role == "following"
        {
            agent.late = None;
        }
    }

    /// The loop sleeps until the core wants to be stepped, to the next millisecond; longer when it is starved.
    pub fn set_timer(&mut self, host: usize, wake: Option<Time>) {
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
        self.record_action(host, &action);
        match action {
            Action::Read { id, within } => self.call(host, id, Kind::Read, nanos(within)),
            Action::Write { id, base, record, notes, within } => {
                if let Some(agent) = &mut self.hosts[host].agent {
                    agent.api.sent.retain(|sent| at.now.since(sent.1) < Duration::from_mins(1));
                    agent.api.sent.push((id, at.now));
                }
                self.call(host, id, Kind::Write { base, record, notes }, nanos(within));
            }
            Action::AskPeers { id, within } => self.ask_peers(host, id, nanos(within)),
            Action::Carry { address, until } => {
                let Some(crate::segment::What::Vip(vip)) = self.what(address) else { return };
                let leased = self.check_fence_asked(host, at.now, until);
                self.job(host, Job::Put { vip, until, leased });
            }
            Action::Drop { address } => {
                if let Some(crate::segment::What::Vip(vip)) = self.what(address) {
                    self.job(host, Job::Remove { vip });
                }
            }
            Action::Announce { address } => {
                if let Some(crate::segment::What::Vip(vip)) = self.what(address) {
                    self.check_announcement(host, at.now);
                    self.announce(host, vip);
                }
            }
            Action::Probe { address, to } => self.probe(host, address, to),
            Action::Report(report) => self.reported(host, &report),
            Action::Exit => self.job(host, Job::Flush),
        }
    }

    fn reported(&mut self, host: usize, report: &Report) {
        if !matches!(report, Report::ProbeMissed) {
            self.say(|_| format!("cp{}: {report:?}", host + 1));
        }
        if let (Report::LetGo(_), Some(agent)) = (report, &mut self.hosts[host].agent) {
            agent.let_go = self.now;
        }
        self.check_report(host, report);
    }

    /// An agent that came late announces nothing before a write of its own has succeeded since, or the segment had time to
    /// answer.
    fn check_announcement(&mut self, host: usize, now: Time) {
        let Some(agent) = &self.hosts[host].agent else { return };
        let Some(late) = agent.late.map(Time::from_nanos) else { return };
        if now.since(late) >= SELF_PROBE {
            return;
        }
        let ago = now.since(late).as_millis();
        let text = format!("cp{} announces the VIP {ago} ms after a late step, and has not looked around", host + 1);
        self.violated(crate::check::Rule::Late, text);
    }

    /// Which fence the core asks for: true, the Lease's. It must be no longer than that or a short one.
    fn check_fence_asked(&mut self, host: usize, now: Time, until: Time) -> bool {
        let lease = self.plan.settings.rules.lease_duration;
        let confirmed = self.hosts[host].agent.as_ref().and_then(|agent| agent.confirmed);
        let end = confirmed.map(|sent| sent + lease);
        if end == Some(until) {
            return true;
        }
        if until > now + SHORT_FENCE && end.is_none_or(|end| until > end) {
            let text = format!("cp{} asks for a fence until {until}; its Lease ends {end:?}", host + 1);
            self.violated(crate::check::Rule::Fence, text);
        }
        false
    }
}
