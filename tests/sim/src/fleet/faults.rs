//! Faults begin and end.

use mooring_core::fleet::Event;
use mooring_core::session::Standing;

use super::api::Of;
use super::fault::Fault;
use super::queue::Item;
use super::settings;
use super::world::{BURST, World};
use crate::clock::{Clock, MS, Nanos, SECOND};
use crate::fault::{How, has};
use crate::host::Asleep;
use crate::segment::Way;

impl World<'_> {
    /// A fault begins.
    pub fn begin(&mut self, n: usize) {
        let planned = self.plan.faults[n];
        self.say(|_| format!("FAULT {n}: {planned}"));
        self.disturbed(n);
        if planned.lasts > 0 {
            self.active.push(n);
            self.put(planned.lasts, Item::End(n));
        }
        self.strike(planned.fault);
        self.rewire();
    }

    /// It ends.
    pub fn end(&mut self, n: usize) {
        let planned = self.plan.faults[n];
        self.say(|_| format!("over {n}: {:?}", planned.fault));
        self.active.retain(|a| *a != n);
        self.disturbed(n);
        self.heal(planned.fault);
        self.rewire();
    }

    fn is_active(&self, wanted: impl Fn(&Fault) -> bool) -> bool {
        self.active.iter().any(|n| wanted(&self.plan.faults[*n].fault))
    }

    fn tell_soon(&mut self, host: usize, event: Event) {
        let life = self.hosts[host].life;
        self.put(MS, Item::Tell { to: host, life, event: Box::new(event) });
    }

    fn strike(&mut self, fault: Fault) {
        match fault {
            Fault::Crash(host) => self.crash(host),
            Fault::Freeze(host) => {
                if self.hosts[host].agent.is_some() {
                    self.hosts[host].stopped += 1;
                }
            }
            Fault::Kill(host) => {
                if self.hosts[host].agent.is_some() {
                    self.end_agent(host);
                }
                self.hosts[host].wanted = false;
            }
            Fault::Restart(host) => {
                if self.hosts[host].is_awake() && self.hosts[host].agent.is_some() {
                    self.hosts[host].wanted = false;
                    self.tell_soon(host, Event::Shutdown);
                }
            }
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
            Fault::LinkDown(host, segment, known) => self.set_link(host, segment, false, known),
            Fault::Restore => self.restore(),
            Fault::DeleteSession(host) => {
                let node = settings::name(host);
                if self.store.sessions.remove(&node).is_some() {
                    self.store.version += 1;
                    self.publish(&Event::SessionDeleted(node));
                }
            }
            Fault::StripSession(host) => {
                if let Some(view) = self.store.sessions.get_mut(&settings::name(host)) {
                    self.store.version += 1;
                    (view.version, view.declared, view.end) = (self.store.version.to_string(), None, None);
                    let view = view.clone();
                    self.publish(&Event::Session(view));
                }
            }
            Fault::StripRecord(vip) => {
                if let Some(view) = self.store.addresses.get(&vip).cloned() {
                    self.set_record(vip, view.uid, None);
                }
            }
            Fault::Delete(vip) => self.unwant(vip),
            Fault::Burst(count) => {
                for vip in (0..count.min(BURST)).map(|n| self.plan.settings.vips + n) {
                    if !self.wanted.contains(&vip) {
                        self.want(vip);
                    }
                }
            }
            Fault::WatchBreak(host, of) => self.break_watch(host, of),
            Fault::WatchHang(host, only) => {
                for of in self.watches().iter().filter(|of| only.is_none_or(|only| only == **of)) {
                    if let Some(agent) = &mut self.hosts[host].agent {
                        agent.watches[*of as usize].silent = true;
                    }
                }
            }
            Fault::Withdraw(vip) => {
                if self.wanted.remove(&vip) {
                    self.publish(&Event::Unwanted(self.plan.settings.vip(vip)));
                    self.touched_vip(vip);
                }
            }
            Fault::Remake(vip) => {
                if self.wanted.contains(&vip) {
                    self.unwant(vip);
                    self.want(vip);
                }
            }
            Fault::Unplug(host, segment) => self.unplug(host, segment),
            Fault::Drain(host) => self.tell_soon(host, Event::Drain(true)),
            Fault::Rebalance(host) => self.tell_soon(host, Event::Rebalance),
            Fault::Strip(host) => {
                for vip in 0..self.most {
                    self.fall(host, vip, true, "somebody removed it");
                }
            }
            Fault::Foreign => self.wire.foreign = true,
            Fault::Api(How::Refused) => (0..self.hosts.len()).for_each(|host| self.break_watch(host, None)),
            Fault::ApiOf(host, How::Refused) => self.break_watch(host, None),
            _ => {}
        }
        self.endpoints_changed();
    }

    fn heal(&mut self, fault: Fault) {
        match fault {
            Fault::Crash(host) => {
                if !self.is_active(|f| matches!(f, Fault::Crash(h) if *h == host)) {
                    self.boot(host);
                }
            }
            Fault::Freeze(host) => {
                let of = &mut self.hosts[host];
                if of.stopped > 0 {
                    of.stopped -= 1;
                    if of.stopped == 0 && of.asleep.is_none() {
                        self.resume(host, false);
                    }
                }
            }
            Fault::Kill(host) | Fault::Restart(host) => {
                if !self.is_active(|f| matches!(f, Fault::Kill(h) | Fault::Restart(h) if *h == host)) {
                    self.hosts[host].wanted = true;
                    self.restart_if_wanted(host);
                }
            }
            Fault::Suspend(host) | Fault::Stun(host, _) => self.wake(host, matches!(fault, Fault::Stun(_, true))),
            Fault::LinkDown(host, segment, _) => {
                if !self.is_active(
                    |f| matches!(f, Fault::LinkDown(h, s, _) | Fault::Unplug(h, s) if *h == host && *s == segment),
                ) {
                    self.set_link(host, segment, true, true);
                }
            }
            Fault::Unplug(host, segment) => {
                if !self.is_active(|f| matches!(f, Fault::Unplug(h, s) if *h == host && *s == segment)) {
                    self.hosts[host].present[segment] = true;
                    let down = |f: &Fault| matches!(f, Fault::LinkDown(h, s, _) if *h == host && *s == segment);
                    if !self.is_active(down) {
                        self.set_link(host, segment, true, false);
                        self.hosts[host].told[segment] = true;
                    }
                    let event = self.node_event(host);
                    self.tell_soon(host, event);
                }
            }
            Fault::Delete(vip) => {
                if !self.is_active(|f| matches!(f, Fault::Delete(v) if *v == vip)) && !self.wanted.contains(&vip) {
                    self.want(vip);
                }
            }
            Fault::Withdraw(vip) => {
                let gone = |f: &Fault| matches!(f, Fault::Withdraw(v) | Fault::Delete(v) if *v == vip);
                if !self.is_active(gone) && self.store.addresses.contains_key(&vip) && self.wanted.insert(vip) {
                    let demand = self.plan.settings.demand(vip, &self.endpoints);
                    self.publish(&Event::Wanted(vec![demand]));
                    self.touched_vip(vip);
                }
            }
            Fault::Burst(_) => {
                if !self.is_active(|f| matches!(f, Fault::Burst(_))) {
                    let more: Vec<usize> = self.wanted.range(self.plan.settings.vips..).copied().collect();
                    for vip in more {
                        self.unwant(vip);
                    }
                }
            }
            // The edge finds it out, because the watch does not show its own writes.
            Fault::WatchHang(..) => self.distrust(),
            Fault::Drain(host) => {
                if !self.is_active(|f| matches!(f, Fault::Drain(h) if *h == host)) {
                    self.tell_soon(host, Event::Drain(false));
                }
            }
            Fault::Foreign => self.wire.foreign = false,
            Fault::SlowKernel(host, ms) => {
                let wait = 4 * Nanos::from(ms) * MS;
                self.hosts[host].slow_until = self.now + wait;
                self.put(wait, Item::Look(super::check::Look::Again));
            }
            _ => {}
        }
        self.endpoints_changed();
    }

    /// Endpoints and what Kubernetes says of nodes follow from the faults that are there.
    fn endpoints_changed(&mut self) {
        let mut endpoints: std::collections::BTreeSet<usize> = (0..self.hosts.len()).collect();
        let mut standing = vec![Standing::default(); self.hosts.len()];
        for n in &self.active {
            match self.plan.faults[*n].fault {
                Fault::NoEndpoints(host) => {
                    endpoints.remove(&host);
                }
                Fault::NoEndpointsAnywhere => endpoints.clear(),
                Fault::AllUnready => standing.iter_mut().for_each(|s| s.ready = false),
                Fault::Cordon(host) => standing[host].schedulable = false,
                _ => {}
            }
        }
        if endpoints != self.endpoints {
            self.endpoints = endpoints;
            let local = self.plan.settings.local.iter().filter(|v| self.wanted.contains(v));
            let demands = local.map(|v| self.plan.settings.demand(*v, &self.endpoints)).collect();
            self.publish(&Event::Wanted(demands));
        }
        if standing != self.standing {
            self.standing.clone_from(&standing);
            for (node, standing) in standing.into_iter().enumerate() {
                self.publish(&Event::Standing { node: settings::name(node), standing: Some(standing) });
            }
        }
    }

    fn restore(&mut self) {
        let Some(old) = self.backups.front().cloned() else { return };
        let wanted: std::collections::BTreeSet<usize> = old.addresses.keys().copied().collect();
        self.store = old;
        self.wanted = wanted;
        self.checks.restored = Some(self.now);
        self.backups.clear();
        // The watches of a store that was restored are broken by its restart.
        (0..self.hosts.len()).for_each(|host| self.break_watch(host, None));
        (0..self.most).for_each(|vip| self.touched_vip(vip));
    }

    fn crash(&mut self, host: usize) {
        self.end_agent(host);
        let of = &mut self.hosts[host];
        of.up = false;
        of.asleep = None;
        for vip in 0..self.most {
            self.fall(host, vip, false, "the host crashed");
        }
    }

    fn boot(&mut self, host: usize) {
        let boot = 10 * SECOND + self.rng.below(SECOND);
        let wall = self.hosts[host].clock.wall(self.now);
        let ppm = self.plan.settings.ppm[host];
        let of = &mut self.hosts[host];
        of.clock = Clock::new(self.now, boot, ppm, wall - i64::try_from(boot / 1_000).unwrap_or(0));
        of.up = true;
        of.stopped = 0;
        of.slept = 0;
        if of.wanted {
            let life = of.life;
            let wait = self.rng.between(100, 1_500) * MS;
            self.put(wait, Item::Start { host, life });
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
    }

    fn wake(&mut self, host: usize, set_right: bool) {
        let now = self.now;
        let Some(asleep) = self.hosts[host].asleep.take() else { return };
        let slept = now - asleep.since;
        if asleep.stunned {
            self.hosts[host].clock.go_on(now, set_right);
        }
        self.shift_lifetimes(host, slept);
        if let Some(agent) = &mut self.hosts[host].agent {
            agent.tick = agent.tick.saturating_add(slept);
        }
        self.hosts[host].slept = now;
        self.resume(host, true);
    }

    fn unplug(&mut self, host: usize, segment: usize) {
        self.hosts[host].present[segment] = false;
        self.set_link(host, segment, false, false);
        self.hosts[host].told[segment] = false;
        let event = self.node_event(host);
        self.tell_soon(host, event);
        for vip in (0..self.most).filter(|vip| self.plan.settings.segment_of(*vip) == segment) {
            self.fall(host, vip, true, "its interface is gone");
        }
    }

    fn set_link(&mut self, host: usize, segment: usize, up: bool, told: bool) {
        if !self.hosts[host].up || self.hosts[host].plugged[segment] == up {
            return;
        }
        self.hosts[host].plugged[segment] = up;
        if told && self.hosts[host].told[segment] != up {
            self.tell_soon(host, Event::Link { index: settings::index(segment), up });
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

    /// Everything that follows from the faults that are there now.
    fn rewire(&mut self) {
        self.wire.mend();
        self.islands = 0;
        self.api = None;
        self.api_of.fill(None);
        self.lag.fill([0; 2]);
        self.nudged = 0;
        for host in &mut self.hosts {
            (host.kernel, host.refuses, host.starved) = (0, false, 0);
        }
        for at in 0..self.active.len() {
            let fault = self.plan.faults[self.active[at]].fault;
            self.wire_for(fault);
        }
        self.unblock();
        self.eligible();
        self.touched();
    }

    fn wire_for(&mut self, fault: Fault) {
        let (stations, segments) = (self.wire.stations(), self.plan.settings.segments);
        match fault {
            Fault::Partition(set, segment, api) => {
                let inside = |s: usize| s < self.hosts.len() && has(set, s);
                for of in (0..segments).filter(|s| segment.is_none_or(|one| one == *s)) {
                    for a in 0..stations {
                        for b in (0..stations).filter(|b| inside(a) != inside(*b)) {
                            self.wire.worsen(of, a, b, Way::CUT);
                        }
                    }
                }
                if api {
                    self.islands |= set;
                }
            }
            Fault::Loss(a, b, p) => {
                (0..segments).for_each(|s| self.wire.worsen(s, a, b, Way { lost: p, ..Way::default() }));
            }
            Fault::Delay(a, b, ms) => {
                let way = Way { delay: Nanos::from(ms) * MS, ..Way::default() };
                (0..segments).for_each(|s| self.wire.worsen(s, a, b, way));
            }
            Fault::Api(how) => self.api = Some(how),
            Fault::ApiOf(host, how) => self.api_of[host] = Some(how),
            Fault::WatchLag(host, ms, only) => {
                for of in Of::BOTH.iter().filter(|of| only.is_none_or(|only| only == **of)) {
                    self.lag[host][*of as usize] = Nanos::from(ms) * MS;
                }
            }
            Fault::Nudge(permille) => self.nudged = u32::from(permille),
            Fault::Starve(host, ms) => self.hosts[host].starved = Nanos::from(ms) * MS,
            Fault::SlowKernel(host, ms) => self.hosts[host].kernel = Nanos::from(ms) * MS,
            Fault::Refuse(host) => self.hosts[host].refuses = true,
            _ => {}
        }
    }
}
