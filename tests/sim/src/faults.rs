//! Faults begin and end.
//!
//! What a fault does once, when it begins and when it ends, is in [`World::strike`] and [`World::heal`]. What holds for as long
//! as it lasts is worked out anew after each change, from the faults that are there then: [`World::rewire`].

use mooring_agent_core::Event;

use crate::address_task::UNANSWERED;
use crate::check::Look;
use crate::clock::{MS, Nanos};
use crate::fault::{Fault, has};
use crate::queue::Item;
use crate::segment::Way;
use crate::subject::{FaultOf, Subject};
use crate::world::World;

impl<S: Subject> World<'_, S> {
    /// A fault begins.
    pub fn begin_fault(&mut self, n: usize) {
        let planned = self.plan.faults[n];
        self.note(|_| format!("FAULT {n}: {planned}"));
        S::disturbed(self, n);
        if planned.lasts > 0 {
            self.active.push(n);
            self.put(planned.lasts, Item::End(n));
        }
        self.strike(planned.fault);
        S::strike(self, planned.fault);
        self.rewire();
        self.watch_release_setting(n);
    }

    /// It ends.
    pub fn end_fault(&mut self, n: usize) {
        let planned = self.plan.faults[n];
        self.note(|_| format!("over {n}: {}", planned.fault));
        self.active.retain(|a| *a != n);
        S::disturbed(self, n);
        self.heal(planned.fault);
        S::heal(self, planned.fault);
        self.rewire();
    }

    /// Whether such a fault is there now.
    pub fn is_active(&self, wanted: impl Fn(&FaultOf<S>) -> bool) -> bool {
        self.active.iter().any(|n| wanted(&self.plan.faults[*n].fault))
    }

    fn strike(&mut self, fault: FaultOf<S>) {
        match fault {
            Fault::Crash(host) => self.crash(host),
            Fault::Freeze(host) => self.freeze(host),
            Fault::Kill(host) => self.kill(host),
            Fault::Restart(host) => self.terminate(host, false),
            Fault::Upgrade(apart) => {
                for host in 0..self.hosts.len() {
                    self.tell_after(Nanos::from(apart) * MS * host as u64 + MS, host, Event::Shutdown);
                }
            }
            Fault::Suspend(host) => self.sleep(host, false),
            Fault::Stun(host, _) => self.sleep(host, true),
            Fault::WallJump(host, by) => self.hosts[host].clock.set_wall(i64::from(by) * 1_000_000),
            Fault::LinkDown(host, segment, noticed) => self.set_link(host, segment, false, noticed),
            Fault::Unplug(host, segment) => self.set_present(host, segment, false, false),
            Fault::NewMac(host) => self.change_port(host),
            Fault::Mute(host, segment, what) => self.segment.mutes.begin(host, segment, what),
            Fault::Strip(host) => {
                for vip in 0..self.vips {
                    if S::is_ours(&self.hosts[host]) {
                        self.fall(host, vip, true, "somebody removed it");
                    }
                }
            }
            Fault::Primary(host) => self.hosts[host].own_address = false,
            Fault::Foreign(announces) => {
                self.segment.foreign = true;
                if announces {
                    self.announce(self.foreign(), 0, 0);
                }
            }
            _ => {}
        }
    }

    fn heal(&mut self, fault: FaultOf<S>) {
        match fault {
            Fault::Crash(host) => {
                if !self.is_active(|f| matches!(f, Fault::Crash(h) if *h == host)) {
                    self.boot(host);
                }
            }
            Fault::Freeze(host) => self.unfreeze(host),
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
                    let down = |f: &_| matches!(f, Fault::LinkDown(h, s, _) if *h == host && *s == segment);
                    let up = !self.is_active(down);
                    self.set_present(host, segment, true, up);
                }
            }
            Fault::Mute(host, segment, what) => self.segment.mutes.end(host, segment, what),
            Fault::Starve(host, _) => self.runs_again(host),
            Fault::Primary(host) => self.hosts[host].own_address = true,
            Fault::Foreign(_) => self.segment.foreign = false,
            Fault::SlowKernel(host, ms) => {
                // Requests that the slow kernel has already taken still take that long.
                let wait = 4 * Nanos::from(ms) * MS;
                self.hosts[host].slow_until = self.now + wait;
                self.put(wait, Item::Look(Look::Again));
            }
            Fault::KernelSilent(host, _) => {
                // The address task may still wait for an answer, with more to do after that.
                self.hosts[host].slow_until = self.now + 4 * UNANSWERED;
                self.put(4 * UNANSWERED, Item::Look(Look::Again));
            }
            _ => {}
        }
    }

    /// Everything that follows from the faults that are there now.
    pub fn rewire(&mut self) {
        self.segment.mend();
        self.api_faults.mend();
        for host in &mut self.hosts {
            (host.kernel, host.refuses, host.keeps, host.starved, host.unanswered) = (0, false, false, 0, 0);
        }
        S::mend(self);
        for at in 0..self.active.len() {
            let fault = self.plan.faults[self.active[at]].fault;
            self.apply(fault);
        }
        S::applied(self);
    }

    fn apply(&mut self, fault: FaultOf<S>) {
        let (stations, segments) = (self.segment.stations, self.plan.settings.segments);
        let others = |a: usize| (0..stations).filter(move |b| *b != a);
        match fault {
            Fault::Partition(set, segment, api) => {
                // The gateway, the client and the foreign host are with those outside of the set.
                let inside = |s: usize| s < self.hosts.len() && has(set, s);
                for of in (0..segments).filter(|s| segment.is_none_or(|one| one == *s)) {
                    for a in 0..stations {
                        for b in (0..stations).filter(|b| inside(a) != inside(*b)) {
                            self.segment.worsen(of, a, b, Way::CUT);
                        }
                    }
                }
                if api {
                    self.api_faults.islands |= set;
                }
            }
            Fault::Loss(a, b, p) => self.worsen(a, b, Way { lost: p, ..Way::default() }),
            Fault::Noise(a, p) => {
                for b in others(a) {
                    self.worsen(a, b, Way { lost: p, ..Way::default() });
                    self.worsen(b, a, Way { lost: p, ..Way::default() });
                }
            }
            Fault::Delay(a, b, ms) => self.worsen(a, b, Way { delay: Nanos::from(ms) * MS, ..Way::default() }),
            Fault::Twice(a, p) => {
                for b in others(a) {
                    self.worsen(a, b, Way { twice: p, ..Way::default() });
                }
            }
            Fault::Api(set, how) => {
                for (n, server) in self.api_faults.servers.iter_mut().enumerate() {
                    if has(set, n) {
                        *server = Some(how);
                    }
                }
            }
            Fault::ApiOf(host, how) => self.api_faults.nodes[host] = Some(how),
            Fault::Starve(host, ms) => self.hosts[host].starved = Nanos::from(ms) * MS,
            Fault::SlowKernel(host, ms) => self.hosts[host].kernel = Nanos::from(ms) * MS,
            Fault::Refuse(host) => self.hosts[host].refuses = true,
            Fault::KernelSilent(host, permille) => self.hosts[host].unanswered = u32::from(permille),
            Fault::Own(own) => S::apply(self, own),
            _ => {}
        }
    }

    /// A way is worse on every segment.
    fn worsen(&mut self, from: usize, to: usize, by: Way) {
        for segment in 0..self.plan.settings.segments {
            self.segment.worsen(segment, from, to, by);
        }
    }
}
