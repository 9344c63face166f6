//! The agent's loop, as in `agent/src/event_loop.rs`: events go into the core one by one, and the core's outputs go to the
//! address task, the segments and the API.

use mooring_agent_core::event::Moment;
use mooring_agent_core::rules::{LATE, SELF_PROBE, SHORT_FENCE};
use mooring_agent_core::time::Time;
use mooring_agent_core::{Core as _, Event, Output};

use crate::address_task::Job;
use crate::check::Rule;
use crate::clock::{MS, Nanos, SECOND};
use crate::host::Process;
use crate::queue::Item;
use crate::settings;
use crate::subject::{EventOf, OutputOf, Subject};
use crate::world::World;

/// The loop steps at least this often, so that clocks that jump are seen.
const IDLE: Nanos = SECOND;

impl<S: Subject> World<'_, S> {
    /// The agent's process begins.
    pub fn start_agent(&mut self, host: usize) {
        if !self.hosts[host].is_awake() || self.hosts[host].agent.is_some() {
            return;
        }
        self.note(|w| format!("the agent of {} starts", w.names[host]));
        self.counts.began(host);
        let of = &mut self.hosts[host];
        of.told_up = of.plugged.clone();
        of.agent = Some(Box::new(Process::new(host, of.life, &self.plan.settings)));
        S::start(self, host);
    }

    /// The agent's view of its interfaces.
    #[must_use]
    pub fn node_event(&self, host: usize) -> EventOf<S> {
        let mut interfaces = self.plan.settings.interfaces(host, self.hosts[host].port, &self.hosts[host].told_up);
        interfaces.retain(|one| self.hosts[host].present[settings::segment(one.index)]);
        Event::Node { interfaces, macs: vec![self.mac(host)] }
    }

    /// The process is gone; its addresses stay.
    pub fn end_agent(&mut self, host: usize) {
        let of = &mut self.hosts[host];
        of.agent = None;
        of.life += 1;
        of.stopped = 0;
        of.waiting.clear();
        S::ended(self, host);
    }

    /// The process is killed, and is not started again before somebody wants it.
    pub fn kill(&mut self, host: usize) {
        if self.hosts[host].agent.is_some() {
            self.end_agent(host);
        }
        self.hosts[host].wanted = false;
    }

    /// The agent is asked to end; whether it is started again then.
    pub fn terminate(&mut self, host: usize, comes_back: bool) {
        if self.hosts[host].is_awake() && self.hosts[host].agent.is_some() {
            self.hosts[host].wanted = comes_back;
            self.tell_soon(host, Event::Shutdown);
        }
    }

    /// The process of an agent that should run begins soon, if it is not there.
    pub fn restart_if_wanted(&mut self, host: usize) {
        if self.hosts[host].wanted && self.hosts[host].agent.is_none() && self.hosts[host].is_awake() {
            let life = self.hosts[host].life;
            let wait = self.rng.between(50, 1_000) * MS;
            self.put(wait, Item::Start { host, life });
        }
    }

    /// An agent that was starved runs again: overdue work is done at once.
    pub fn runs_again(&mut self, host: usize) {
        let (now, late) = (self.now, self.rng.below(MS));
        let of = &mut self.hosts[host];
        let awake = of.is_awake();
        if let Some(agent) = of.agent.as_mut().filter(|_| awake)
            && let Some(wake) = agent.wake
        {
            agent.tick = agent.tick.min(of.clock.when(wake.as_nanos()).max(now) + late);
            self.next_tick = self.next_tick.min(agent.tick);
        }
    }

    /// The agent gets an input within a millisecond.
    pub fn tell_soon(&mut self, host: usize, event: EventOf<S>) {
        self.tell_after(MS, host, event);
    }

    /// The agent gets an input after this time.
    pub fn tell_after(&mut self, after: Nanos, host: usize, event: EventOf<S>) {
        let life = self.hosts[host].life;
        self.put(after, Item::Tell { to: host, life, event: Box::new(event) });
    }

    /// The agent gets an input.
    pub fn tell(&mut self, host: usize, event: EventOf<S>) {
        let (at, clocks) = (self.hosts[host].moment(self.now), self.hosts[host].clocks(self.now));
        // A look at the interfaces shows what they are when it is told.
        let event = if matches!(event, Event::Node { .. }) { self.node_event(host) } else { event };
        let Some(agent) = &mut self.hosts[host].agent else { return };
        let last = agent.last.replace(clocks);
        if let Some(by) = last.and_then(|last| clocks.jump_since(&last)) {
            self.step(host, at, Event::ClockJump(by));
        }
        self.step(host, at, event);
    }

    fn step(&mut self, host: usize, at: Moment, event: EventOf<S>) {
        if self.verbose {
            self.note(|w| format!("    {} {} ◀ {event:?}", w.names[host], at.now));
        }
        self.counts.steps += 1;
        S::before_step(self, host, &event);
        let Some(agent) = &mut self.hosts[host].agent else { return };
        agent.ending |= matches!(event, Event::Shutdown);
        if matches!(event, Event::ClockJump(_)) || agent.wake.is_some_and(|wake| at.now > wake + LATE) {
            // An agent that carries nothing has nothing to be unsure of.
            agent.late = Some(at.now).filter(|_| !S::is_idle(&agent.core));
        }
        let outputs = agent.core.step(at, event);
        let wake = agent.core.wake();
        let second = self.now / SECOND;
        agent.steps = if agent.steps.0 == second { (second, agent.steps.1 + 1) } else { (second, 1) };
        let steps = agent.steps.1;
        self.check_awake(host, wake.is_some_and(|wake| wake <= at.now), steps, outputs.len());
        for output in outputs {
            self.act(host, at, output);
        }
        self.set_timer(host, wake);
        self.record_role(host);
        // An agent that has let go of everything has nothing to be unsure of any more.
        if let Some(agent) = self.hosts[host].agent.as_mut().filter(|agent| agent.late.is_some())
            && S::is_idle(&agent.core)
        {
            agent.late = None;
        }
        S::after_step(self, host);
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

    fn act(&mut self, host: usize, at: Moment, output: OutputOf<S>) {
        if self.verbose && !matches!(output, Output::Report(_)) {
            self.note(|w| format!("    {} ▶ {output:?}", w.names[host]));
        }
        match output {
            Output::Ensure { vips, deadline } => {
                let leased = self.check_deadline(host, at.now, deadline);
                let vips = vips.iter().filter_map(|vip| self.vip_of(vip.address)).collect();
                self.job(host, Job::Ensure { vips, deadline, leased });
            }
            Output::Remove(addresses) => {
                let vips = addresses.iter().filter_map(|address| self.vip_of(*address)).collect();
                self.job(host, Job::Remove { vips });
            }
            Output::Announce(vips) => {
                self.check_announcement(host, at.now);
                for vip in vips {
                    if let Some(number) = self.vip_of(vip.address) {
                        self.check_call(host, at.now, number);
                        self.announce(host, settings::segment(vip.interface), number);
                    }
                }
            }
            Output::Probe(probes) => {
                for probe in probes {
                    S::asks(self, host, &probe);
                    self.probe(host, settings::segment(probe.interface), probe.address, (probe.to, probe.sender));
                }
            }
            Output::Call(call) => S::call(self, host, call),
            Output::Report(report) => S::reported(self, host, report),
            Output::Exit => self.job(host, Job::Flush),
        }
    }

    /// An agent that came late announces nothing before a write of its own has succeeded since, or the segment had time to
    /// answer.
    fn check_announcement(&mut self, host: usize, now: Time) {
        let late = self.hosts[host].agent.as_ref().and_then(|agent| agent.late);
        if let Some(late) = late.filter(|late| now.since(*late) < SELF_PROBE) {
            let ago = now.since(late).as_millis();
            let text = format!("{} announces {ago} ms after a late step, and has not looked around", self.names[host]);
            self.violated(Rule::Late, text);
        }
    }

    /// Which deadline the core asks for: true, one of its Lease's. It must be no later than that or a short fence's.
    fn check_deadline(&mut self, host: usize, now: Time, deadline: Time) -> bool {
        let lease = self.plan.settings.rules.lease_duration;
        let confirmed = self.hosts[host].agent.as_ref().and_then(|agent| agent.confirmed);
        let end = confirmed.map(|sent| sent + lease);
        let short = deadline <= now + SHORT_FENCE;
        if end.is_some_and(|end| deadline <= end) {
            return !short || end == Some(deadline);
        }
        if !short {
            let text = format!("{} asks for a fence until {deadline}; its Lease ends {end:?}", self.names[host]);
            self.violated(Rule::Fence, text);
        }
        false
    }
}
