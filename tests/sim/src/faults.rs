//! Faults begin and end.

use crate::clock::{MS, Nanos, SECOND};
use crate::fault::{Fault, How, has};
use crate::host::Asleep;
use crate::queue::Item;
use crate::segment::Way;
use crate::world::World;

use mooring_core::event::Event;

impl World<'_> {
    /// A fault begins.
    pub fn begin(&mut self, n: usize) {
        let planned = self.plan.faults[n];
        self.say(|_| format!("FAULT {n}: {planned}"));
        self.disturbed(n);
        self.strike(planned.fault);
        if planned.lasts > 0 {
            self.active.push(n);
            self.put(planned.lasts, Item::End(n));
        }
        self.rewire();
    }

    /// It ends.
    pub fn end(&mut self, n: usize) {
        let planned = self.plan.faults[n];
        self.say(|_| format!("over {n}: {}", planned.fault));
        self.active.retain(|a| *a != n);
        self.heal(planned.fault);
        self.disturbed(n);
        self.rewire();
    }

    fn is_active(&self, wanted: impl Fn(&Fault) -> bool) -> bool {
        self.active.iter().any(|n| wanted(&self.plan.faults[*n].fault))
    }

    fn strike(&mut self, fault: Fault) {
        match fault {
            Fault::Crash(host) => self.crash(host),
            Fault::Freeze(host) => self.stop(host),
            Fault::Kill(host) => {
                if self.hosts[host].agent.is_some() {
                    self.end_agent(host);
                }
                self.hosts[host].wanted = false;
            }
            Fault::Restart(host) => self.terminate(host, false),
            Fault::Upgrade(apart) => {
                for host in 0..self.hosts.len() {
                    let life = self.hosts[host].life;
                    let event = Box::new(Event::Shutdown);
                    self.put(Nanos::from(apart) * MS * host as u64 + MS, Item::Tell { to: host, life, event });
                }
            }
            Fault::Suspend(host) => self.sleep(host, false),
            Fault::Stun(host, _) => self.sleep(host, true),
            Fault::WallJump(host, by) => self.hosts[host].clock.set_wall(i64::from(by) * 1_000_000),
            Fault::LinkDown(host) => self.set_link(host, false),
            Fault::Restore => {
                if let Some(old) = self.store.before.first().cloned() {
                    let before = self.store.holder().to_owned();
                    self.store.put(self.now, Some(old.clone()));
                    self.store.version = old.version.parse().unwrap_or(self.store.version);
                    self.store.before.clear();
                    self.written(None, &before, &old);
                    // The watches of a store that was restored are broken by its restart.
                    for host in 0..self.hosts.len() {
                        self.break_watch(host);
                    }
                }
            }
            Fault::Delete => {
                self.store.version += 1;
                self.store.put(self.now, None);
                self.publish(None);
            }
            Fault::StripNotes => {
                self.checks.stripped(self.now);
                if let Some(lease) = self.store.lease.clone() {
                    let view = self.store.set(self.now, lease.record, mooring_core::lease::Notes::default());
                    self.publish(Some(&view));
                }
            }
            Fault::WatchBreak(host) => self.break_watch(host),
            Fault::WatchHang(host) => {
                if let Some(agent) = &mut self.hosts[host].agent {
                    agent.api.watch.silent = true;
                }
            }
            Fault::WatchGone(host) => self.deliver(host, MS, crate::api::Message::Gone),
            Fault::WatchReplay(host) => {
                for view in self.store.before.clone() {
                    self.deliver(host, MS, crate::api::Message::Changed(Some(view)));
                }
            }
            Fault::Strip(host) => {
                for vip in 0..self.plan.settings.vips.len() {
                    if self.hosts[host].rival.is_none() {
                        self.fall(host, vip, true, "somebody removed it");
                    }
                }
            }
            Fault::Primary(host) => {
                self.hosts[host].own = false;
                if self.plan.settings.short_prefix && self.hosts[host].rival.is_none() {
                    self.fall(host, 0, true, "it went with the node's own address");
                }
            }
            Fault::Foreign(announces) => {
                self.segment.foreign = true;
                if announces {
                    self.announce(self.foreign_station(), 0);
                }
            }
            Fault::Api(servers, How::Refused) => {
                for server in (0..self.servers.all.len()).filter(|s| has(servers, *s)) {
                    self.drop_watches(server, true);
                }
            }
            Fault::ApiOf(host, How::Refused) => self.break_watch(host),
            _ => {}
        }
    }

    fn heal(&mut self, fault: Fault) {
        match fault {
            Fault::Crash(host) => {
                if !self.is_active(|f| matches!(f, Fault::Crash(h) if *h == host)) {
                    self.boot(host);
                }
            }
            Fault::Freeze(host) => self.go_on(host),
            Fault::Kill(host) | Fault::Restart(host) => {
                let down = |f: &Fault| matches!(f, Fault::Kill(h) | Fault::Restart(h) if *h == host);
                if !self.is_active(down) {
                    self.hosts[host].wanted = true;
                    self.restart_if_wanted(host);
                }
            }
            Fault::Suspend(host) | Fault::Stun(host, _) => self.wake(host, matches!(fault, Fault::Stun(_, true))),
            Fault::LinkDown(host) => {
                if !self.is_active(|f| matches!(f, Fault::LinkDown(h) if *h == host)) {
                    self.set_link(host, true);
                }
            }
            Fault::Starve(host, _) => self.runs_again(host),
            Fault::Primary(host) => self.hosts[host].own = true,
            Fault::Foreign(_) => self.segment.foreign = false,
            Fault::SlowKernel(host, ms) => {
                // What it was asked before takes as long as it does.
                let wait = 4 * Nanos::from(ms) * MS;
                self.hosts[host].slow_until = self.now + wait;
                self.put(wait, Item::Look(crate::check::Look::Again));
            }
            _ => {}
        }
    }

    /// An agent that was starved has time again: what is overdue is done at once.
    fn runs_again(&mut self, host: usize) {
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

    fn crash(&mut self, host: usize) {
        self.end_agent(host);
        let of = &mut self.hosts[host];
        of.up = false;
        of.asleep = None;
        for vip in 0..self.plan.settings.vips.len() {
            self.fall(host, vip, false, "the host crashed");
        }
        if let Some(rival) = self.hosts[host].rival.take() {
            self.hosts[host].rival = Some(rival.ended());
        }
        if !self.servers.remote {
            self.drop_watches(host, false);
        }
    }

    fn boot(&mut self, host: usize) {
        let boot = 10 * SECOND + self.rng.below(SECOND);
        let wall = self.hosts[host].clock.wall(self.now);
        let of = &mut self.hosts[host];
        of.clock = crate::clock::Clock::new(
            self.now,
            boot,
            self.plan.plan.settings.ppm[host],
            wall - i64::try_from(boot / 1_000).unwrap_or(0),
        );
        of.up = true;
        of.own = true;
        of.link = true;
        of.stopped = 0;
        if of.wanted {
            let life = of.life;
            let wait = self.rng.between(100, 1_500) * MS;
            self.put(wait, Item::Start { host, life });
        }
    }

    fn stop(&mut self, host: usize) {
        if self.hosts[host].agent.is_some() {
            self.hosts[host].stopped += 1;
        }
    }

    fn go_on(&mut self, host: usize) {
        let of = &mut self.hosts[host];
        if of.stopped > 0 {
            of.stopped -= 1;
            if of.stopped == 0 && of.asleep.is_none() {
                self.resume(host, false);
            }
        }
    }

    fn sleep(&mut self, host: usize, stunned: bool) {
        let (now, of) = (self.now, &mut self.hosts[host]);
        if !of.up || of.asleep.is_some() {
            return;
        }
        of.asleep = Some(Asleep { since: now, stunned });
        if stunned {
            of.clock.stop(now);
        }
        if !self.servers.remote {
            self.drop_watches(host, false);
        }
    }

    fn wake(&mut self, host: usize, set_right: bool) {
        let now = self.now;
        let Some(asleep) = self.hosts[host].asleep.take() else { return };
        let slept = now - asleep.since;
        if asleep.stunned {
            self.hosts[host].clock.go_on(now, set_right);
        }
        self.shift_lifetimes(host, slept);
        // Timers count the time that the machine was awake.
        if let Some(agent) = &mut self.hosts[host].agent {
            agent.tick = agent.tick.saturating_add(slept);
            if let Some(server) = agent.api.watch.server
                && !self.servers.remote
                && server != host
                && slept > 30 * SECOND
            {
                agent.api.watch.silent = true;
            }
        }
        self.checks.slept(host, now);
        self.resume(host, true);
        // What should have started it again meanwhile stood still too.
        self.restart_if_wanted(host);
        if let Some(rival) = self.hosts[host].rival.clone() {
            self.put(MS, Item::Rival { host, life: rival.life() });
        }
    }

    fn set_link(&mut self, host: usize, up: bool) {
        if !self.hosts[host].up || self.hosts[host].link == up {
            return;
        }
        self.hosts[host].link = up;
        let life = self.hosts[host].life;
        self.put(MS, Item::Tell { to: host, life, event: Box::new(Event::Link { up }) });
    }

    /// The agent is asked to end.
    pub fn terminate(&mut self, host: usize, comes_back: bool) {
        if !self.hosts[host].is_awake() || self.hosts[host].agent.is_none() {
            return;
        }
        self.hosts[host].wanted = comes_back;
        let life = self.hosts[host].life;
        self.put(MS, Item::Tell { to: host, life, event: Box::new(Event::Shutdown) });
    }

    /// The process of an agent that should run begins soon, if it is not there.
    pub fn restart_if_wanted(&mut self, host: usize) {
        if self.hosts[host].wanted && self.hosts[host].agent.is_none() && self.hosts[host].is_awake() {
            let life = self.hosts[host].life;
            let wait = self.rng.between(50, 1_000) * MS;
            self.put(wait, Item::Start { host, life });
        }
    }

    fn break_watch(&mut self, host: usize) {
        self.deliver(host, MS, crate::api::Message::Broken);
    }

    /// Everything that follows from the faults that are there now.
    pub fn rewire(&mut self) {
        self.segment.mend();
        self.servers.islands = 0;
        self.servers.no_leader = false;
        for server in &mut self.servers.all {
            (server.how, server.unready, server.lag) = (None, false, 0);
        }
        self.servers.of.fill(None);
        for host in 0..self.hosts.len() {
            (self.hosts[host].kernel, self.hosts[host].refuses, self.hosts[host].starved) = (0, false, 0);
        }
        for at in 0..self.active.len() {
            let fault = self.plan.faults[self.active[at]].fault;
            self.wire_for(fault);
        }
        self.elect();
        self.unblock();
        self.wake_probers();
        self.touched();
        self.touch_client();
    }

    fn wire_for(&mut self, fault: Fault) {
        let stations = self.segment.stations;
        let lost = |p: u16| Way { lost: p, ..Way::default() };
        match fault {
            Fault::Partition(set, api) => {
                for a in 0..stations {
                    for b in 0..stations {
                        // The gateway, the client and the foreign host are with those outside of the set.
                        let inside = |s: usize| s < self.hosts.len() && has(set, s);
                        if inside(a) != inside(b) {
                            self.segment.worsen(a, b, Way::CUT);
                        }
                    }
                }
                if api {
                    self.servers.islands |= set;
                }
            }
            Fault::Loss(a, b, p) => self.segment.worsen(a, b, lost(p)),
            Fault::Noise(a, p) => {
                for b in (0..stations).filter(|b| *b != a) {
                    self.segment.worsen(a, b, lost(p));
                    self.segment.worsen(b, a, lost(p));
                }
            }
            Fault::Delay(a, b, ms) => {
                self.segment.worsen(a, b, Way { delay: Nanos::from(ms) * MS, ..Way::default() });
            }
            Fault::Twice(a, p) => {
                for b in (0..stations).filter(|b| *b != a) {
                    self.segment.worsen(a, b, Way { twice: p, ..Way::default() });
                }
            }
            Fault::Api(servers, how) => {
                for server in (0..self.servers.all.len()).filter(|s| has(servers, *s)) {
                    self.servers.all[server].how = Some(how);
                }
            }
            Fault::ApiOf(host, how) => self.servers.of[host] = Some(how),
            Fault::NoLeader => self.servers.no_leader = true,
            Fault::WatchLag(server, ms) => self.servers.all[server].lag = Nanos::from(ms) * MS,
            Fault::Unhealthy(host) if !self.servers.remote => self.servers.all[host].unready = true,
            Fault::AllUnhealthy => self.servers.all.iter_mut().for_each(|s| s.unready = true),
            Fault::Starve(host, ms) => self.hosts[host].starved = Nanos::from(ms) * MS,
            Fault::SlowKernel(host, ms) => self.hosts[host].kernel = Nanos::from(ms) * MS,
            Fault::Refuse(host) => self.hosts[host].refuses = true,
            _ => {}
        }
    }
}
