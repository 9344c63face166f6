//! A host's kernel: addresses with lifetimes, and the agent's datapath task before it. The timer is up to a second late.

use std::collections::{BTreeSet, VecDeque};

use mooring_core::fence;
use mooring_core::fleet::Event;
use mooring_core::time::Time;

use super::check::Look;
use super::queue::Item;
use super::settings;
use super::world::World;
use crate::clock::{Nanos, SECOND};

/// An address on an interface.
#[derive(Clone, Copy, Debug)]
pub struct Standing {
    /// When its lifetime ends, by the host's own time; the timer is later.
    pub ends: Nanos,
    /// Which lifetime: a timer for another one does nothing.
    pub generation: u32,
    /// By the agent's boot clock: when it must be gone.
    pub until: Time,
    /// Whether that is the end of the session.
    pub leased: bool,
}

/// What the datapath's task is asked to do; lists, as one netlink datagram.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "the names of the fields say it")]
pub enum Job {
    /// Have the VIPs there.
    Put { vips: Vec<usize>, until: Time, leased: bool },
    /// Have them away.
    Remove { vips: Vec<usize> },
    /// The kernel says that one is gone.
    Gone { vip: usize },
    /// The process ends when all before this is done.
    Flush,
}

#[derive(Clone, Copy, Debug, Default)]
enum Stage {
    #[default]
    Before,
    Asked(u32),
    Answered(u32),
    Removing,
}

/// The datapath's task.
#[derive(Debug, Default)]
pub struct Place {
    jobs: VecDeque<Job>,
    stage: Stage,
    rounds: u32,
    busy: bool,
    /// What it has put there, and nobody has said that it is gone.
    pub put: BTreeSet<usize>,
}

impl World<'_> {
    /// The task is given a job.
    pub fn job(&mut self, host: usize, job: Job) {
        let life = self.hosts[host].life;
        let Some(agent) = &mut self.hosts[host].agent else { return };
        agent.place.jobs.push_back(job);
        if !agent.place.busy {
            agent.place.busy = true;
            self.put(5_000, Item::Place { host, life });
        }
    }

    fn kernel_takes(&mut self, host: usize) -> Nanos {
        self.rng.between(10_000, 60_000) + self.hosts[host].kernel
    }

    /// The task goes on.
    pub fn place_goes_on(&mut self, host: usize) {
        let Some(agent) = &mut self.hosts[host].agent else { return };
        let Some(job) = agent.place.jobs.front().cloned() else {
            agent.place.busy = false;
            return;
        };
        let wait = match job {
            Job::Put { vips, until, leased } => self.put_goes_on(host, &vips, until, leased),
            Job::Remove { vips } => {
                if matches!(agent.place.stage, Stage::Before) {
                    agent.place.stage = Stage::Removing;
                    Some(self.kernel_takes(host))
                } else {
                    for vip in vips {
                        if let Some(agent) = &mut self.hosts[host].agent {
                            agent.place.put.remove(&vip);
                        }
                        self.fall(host, vip, false, "its agent removed it");
                    }
                    None
                }
            }
            Job::Gone { vip } => {
                if agent.place.put.remove(&vip) {
                    let address = self.plan.settings.vip(vip);
                    self.tell(host, Event::Gone(address));
                }
                None
            }
            Job::Flush => {
                let life = self.hosts[host].life;
                self.put(10_000, Item::Ended { host, life });
                None
            }
        };
        let life = self.hosts[host].life;
        let Some(agent) = &mut self.hosts[host].agent else { return };
        let wait = wait.unwrap_or_else(|| {
            agent.place.jobs.pop_front();
            (agent.place.stage, agent.place.rounds) = (Stage::Before, 0);
            5_000
        });
        self.put(wait, Item::Place { host, life });
    }

    fn put_goes_on(&mut self, host: usize, vips: &[usize], until: Time, leased: bool) -> Option<Nanos> {
        let clock = self.hosts[host].moment(self.now).now;
        let refuses = self.hosts[host].refuses;
        let agent = self.hosts[host].agent.as_mut()?;
        match agent.place.stage {
            Stage::Before => {
                agent.place.rounds += 1;
                let lifetime = fence::lifetime(clock, until).filter(|_| agent.place.rounds <= 2);
                agent.place.stage = lifetime.map_or(Stage::Removing, Stage::Asked);
                Some(self.kernel_takes(host))
            }
            Stage::Asked(lifetime) => {
                agent.place.stage = Stage::Answered(lifetime);
                for vip in vips {
                    let there = self.hosts[host].present[self.plan.settings.segment_of(*vip)];
                    if there && (!refuses || self.hosts[host].vips[*vip].is_some()) {
                        self.stand(host, *vip, lifetime, until, leased);
                    }
                }
                Some(20_000)
            }
            Stage::Answered(lifetime) if fence::covers(clock, lifetime, until) => {
                let (there, not): (Vec<usize>, Vec<usize>) =
                    vips.iter().partition(|v| self.hosts[host].vips[**v].is_some());
                if let Some(agent) = &mut self.hosts[host].agent {
                    agent.place.put.extend(there.iter().copied());
                }
                let addresses = there.iter().map(|v| self.plan.settings.vip(*v)).collect();
                self.tell(host, Event::Put(addresses));
                self.not_put(host, &not);
                None
            }
            Stage::Answered(_) => {
                agent.place.stage = Stage::Before;
                Some(2_000)
            }
            Stage::Removing => {
                for vip in vips {
                    self.fall(host, *vip, false, "its fence is over");
                }
                self.not_put(host, vips);
                None
            }
        }
    }

    fn not_put(&mut self, host: usize, vips: &[usize]) {
        for vip in vips {
            if let Some(agent) = &mut self.hosts[host].agent {
                agent.place.put.remove(vip);
            }
            let address = self.plan.settings.vip(*vip);
            self.tell(host, Event::PutFailed { address, reason: "simulated".into() });
        }
    }

    fn stand(&mut self, host: usize, vip: usize, lifetime: u32, until: Time, leased: bool) {
        let ends = self.now + Nanos::from(lifetime) * SECOND;
        let late = self.rng.below(SECOND);
        let of = &mut self.hosts[host];
        of.generation += 1;
        let generation = of.generation;
        let was = of.vips[vip].replace(Standing { ends, generation, until, leased });
        self.queue.put(ends + late, Item::Expire { host, vip, generation });
        let due = self.hosts[host].clock.when(until.as_nanos()).max(self.now);
        self.queue.put(due + self.past_fence(host), Item::Look(Look::Fence { host, vip, generation }));
        if was.is_none() {
            self.say(|_| format!("{} carries VIP {vip}", settings::name(host)));
            self.touched_vip(vip);
        }
    }

    /// The kernel's timer.
    pub fn expire(&mut self, host: usize, vip: usize, generation: u32) {
        let Some(standing) = self.hosts[host].vips[vip].filter(|s| s.generation == generation) else { return };
        if standing.ends > self.now {
            // While the host stood still, so did its timer.
            let late = self.rng.below(SECOND);
            self.queue.put(standing.ends + late, Item::Expire { host, vip, generation });
        } else if self.hosts[host].asleep.is_none() {
            self.fall(host, vip, true, "its lifetime is over");
        }
    }

    /// An address is gone; whether the agent is told by the kernel's event.
    pub fn fall(&mut self, host: usize, vip: usize, told: bool, why: &str) {
        if self.hosts[host].vips[vip].take().is_none() {
            return;
        }
        self.say(|_| format!("{} no longer carries VIP {vip}: {why}", settings::name(host)));
        self.touched_vip(vip);
        if told {
            self.job(host, Job::Gone { vip });
        }
    }

    /// The host has stood still for so long.
    pub fn shift_lifetimes(&mut self, host: usize, by: Nanos) {
        for vip in 0..self.most {
            if let Some(standing) = &mut self.hosts[host].vips[vip] {
                standing.ends += by;
                let (ends, generation) = (standing.ends, standing.generation);
                let late = self.rng.below(SECOND);
                self.queue.put(ends + late, Item::Expire { host, vip, generation });
            }
        }
    }
}
