//! The agent's address task, as `agent/src/datapath` has it: one job at a time, in order, each for a list of VIPs; the clock
//! is read before and after each request to the kernel.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use mooring_agent_core::time::Time;
use mooring_agent_core::{Event, Vip, fence};

use crate::clock::{MS, Nanos};
use crate::queue::Item;
use crate::settings;
use crate::subject::Subject;
use crate::world::World;

/// How long the task waits for an answer that does not come.
pub const UNANSWERED: Nanos = 1_100 * MS;
/// How often VIPs are put at most when the kernel takes so long that their lifetime may outlast the Lease.
const ROUNDS: u32 = 10;

/// What the task is asked to do; a list is one netlink datagram.
#[derive(Clone, Debug)]
pub enum Job {
    /// Have VIPs there.
    Ensure {
        /// The VIPs.
        vips: Vec<usize>,
        /// The end of their fence.
        deadline: Time,
        /// Whether that is the end of the node's Lease.
        leased: bool,
    },
    /// Have VIPs away.
    Remove {
        /// The VIPs.
        vips: Vec<usize>,
    },
    /// The kernel says that an address is gone.
    Gone {
        /// The VIP.
        vip: usize,
    },
    /// Look for what an earlier run left.
    Look,
    /// The process ends when all before this is done.
    Flush,
}

/// How far a job has come.
#[derive(Clone, Copy, Debug, Default)]
enum Stage {
    /// The clock is about to be read.
    #[default]
    Before,
    /// This lifetime is on its way to the kernel.
    Asked(u32),
    /// The kernel has answered; the clock is about to be read again.
    Answered(u32),
    /// The kernel has not answered, and the task looks at the addresses. The lifetime, if that shows that the kernel has done it.
    Unanswered(Option<u32>),
    /// The removal is on its way.
    Removing,
}

/// The task.
#[derive(Debug, Default)]
pub struct AddressTask {
    jobs: VecDeque<Job>,
    stage: Stage,
    rounds: u32,
    /// When the present round began, and how long the last one took.
    began: Time,
    took: Duration,
    busy: bool,
    /// The addresses that the task added and that were not reported as gone.
    put: BTreeSet<usize>,
    /// The addresses that the kernel did not remove. The removal is tried again.
    kept: BTreeSet<usize>,
}

impl AddressTask {
    /// Those of the VIPs of the present job that no later job is about: a later one removes them, or gives them another fence.
    fn still_wanted(&self, vips: &[usize], deadline: Time) -> Vec<usize> {
        let is_later = |job: &Job, vip: &usize| match job {
            Job::Ensure { vips, deadline: later, .. } => *later != deadline && vips.contains(vip),
            Job::Remove { vips } => vips.contains(vip),
            Job::Gone { .. } | Job::Look | Job::Flush => false,
        };
        let later = |vip: &usize| self.jobs.iter().skip(1).any(|job| is_later(job, vip));
        let begun = !matches!(self.stage, Stage::Before) || self.rounds > 0;
        vips.iter().copied().filter(|vip| begun || !later(vip)).collect()
    }
}

impl<S: Subject> World<'_, S> {
    /// The task is given a job.
    pub fn job(&mut self, host: usize, job: Job) {
        let life = self.hosts[host].life;
        let Some(agent) = &mut self.hosts[host].agent else { return };
        agent.addresses.jobs.push_back(job);
        if !agent.addresses.busy {
            agent.addresses.busy = true;
            self.put(5_000, Item::AddressTask { host, life });
        }
    }

    /// How long the kernel takes for a request.
    fn kernel_takes(&mut self, host: usize) -> Nanos {
        self.rng.between(10_000, 60_000) + self.hosts[host].kernel
    }

    /// The task goes on.
    pub fn address_task_goes_on(&mut self, host: usize) {
        let Some(agent) = &mut self.hosts[host].agent else { return };
        let Some(job) = agent.addresses.jobs.front().cloned() else {
            agent.addresses.busy = false;
            return;
        };
        let wait = match job {
            Job::Ensure { vips, deadline, leased } => self.ensure_goes_on(host, &vips, deadline, leased),
            Job::Remove { vips } => {
                if matches!(agent.addresses.stage, Stage::Before) {
                    agent.addresses.stage = Stage::Removing;
                    Some(self.kernel_takes(host))
                } else {
                    self.remove_now(host, &vips);
                    None
                }
            }
            Job::Gone { vip } => {
                if agent.addresses.kept.remove(&vip) {
                    let address = S::vip(&self.plan.settings, vip);
                    self.tell(host, Event::Removed(vec![address]));
                } else if agent.addresses.put.remove(&vip) {
                    let address = S::vip(&self.plan.settings, vip);
                    self.tell(host, Event::Gone(address));
                }
                None
            }
            Job::Look => {
                let found = self.adopt_left_over(host);
                if !found.is_empty() {
                    self.tell(host, Event::LeftOver(found));
                }
                S::touched(self);
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
            agent.addresses.jobs.pop_front();
            (agent.addresses.stage, agent.addresses.rounds) = (Stage::Before, 0);
            agent.addresses.took = Duration::ZERO;
            5_000
        });
        self.put(wait, Item::AddressTask { host, life });
    }

    /// The kernel is asked to remove addresses: it does, or it keeps those that are there.
    fn remove_now(&mut self, host: usize, vips: &[usize]) {
        let address = |vip: &usize| S::vip(&self.plan.settings, *vip);
        let addresses: Vec<_> = vips.iter().map(address).collect();
        let keeps = self.hosts[host].keeps;
        let (kept, gone): (Vec<_>, Vec<_>) =
            vips.iter().zip(addresses).partition(|(vip, _)| keeps && self.hosts[host].vips[**vip].is_some());
        let Some(agent) = &mut self.hosts[host].agent else { return };
        let mut told = vec![];
        for (vip, address) in kept {
            agent.addresses.put.remove(vip);
            if agent.addresses.kept.insert(*vip) {
                told.push(address);
            }
        }
        for (vip, _) in &gone {
            agent.addresses.put.remove(*vip);
            agent.addresses.kept.remove(*vip);
        }
        for (vip, _) in &gone {
            self.fall(host, **vip, false, "its agent removed it");
        }
        if !gone.is_empty() {
            self.tell(host, Event::Removed(gone.into_iter().map(|(_, address)| address).collect()));
        }
        for address in told {
            self.tell(host, Event::RemoveFailed { address, reason: "simulated".into() });
        }
    }

    /// The kernel removes addresses again: the task tries what failed before.
    pub fn remove_kept(&mut self, host: usize) {
        let Some(agent) = &self.hosts[host].agent else { return };
        let vips: Vec<usize> = agent.addresses.kept.iter().copied().collect();
        if !vips.is_empty() {
            self.job(host, Job::Remove { vips });
        }
    }

    /// The next stage; None when the VIPs are there, or are given up.
    fn ensure_goes_on(&mut self, host: usize, vips: &[usize], deadline: Time, leased: bool) -> Option<Nanos> {
        let clock = self.hosts[host].moment(self.now).now;
        let refuses = self.hosts[host].refuses;
        let agent = self.hosts[host].agent.as_mut()?;
        let wanted = agent.addresses.still_wanted(vips, deadline);
        let vips = &wanted[..];
        match agent.addresses.stage {
            Stage::Before if vips.is_empty() => None,
            Stage::Before => {
                for vip in vips {
                    agent.addresses.kept.remove(vip);
                }
                agent.addresses.rounds += 1;
                agent.addresses.began = clock;
                let lifetime = fence::lifetime(clock + agent.addresses.took, deadline);
                let lifetime = lifetime.filter(|_| agent.addresses.rounds <= ROUNDS);
                agent.addresses.stage = lifetime.map_or(Stage::Removing, Stage::Asked);
                Some(self.kernel_takes(host))
            }
            Stage::Asked(lifetime) => {
                agent.addresses.stage = Stage::Answered(lifetime);
                let unanswered = self.hosts[host].unanswered;
                let silent = unanswered > 0 && self.rng.chance(unanswered);
                let done = !silent || self.rng.chance(500);
                if silent {
                    let shown = done && self.rng.chance(500);
                    if let Some(agent) = &mut self.hosts[host].agent {
                        agent.addresses.stage = Stage::Unanswered(shown.then_some(lifetime));
                    }
                }
                for vip in vips.iter().filter(|_| done) {
                    let there = self.hosts[host].present[S::segment_of(&self.plan.settings, *vip)];
                    if there && (!refuses || self.hosts[host].vips[*vip].is_some()) {
                        self.stand(host, *vip, lifetime, deadline, leased);
                    }
                }
                Some(if silent { UNANSWERED } else { 20_000 })
            }
            Stage::Unanswered(Some(lifetime)) => {
                agent.addresses.stage = Stage::Answered(lifetime);
                Some(20_000)
            }
            // What an earlier round gave a lifetime that may be too long is put again.
            Stage::Unanswered(None) if agent.addresses.rounds > 1 => {
                agent.addresses.took = clock.since(agent.addresses.began);
                agent.addresses.stage = Stage::Before;
                Some(2_000)
            }
            Stage::Unanswered(None) => {
                let put = agent.addresses.put.clone();
                let stays = |vip: &&usize| put.contains(*vip) && self.hosts[host].vips[**vip].is_some();
                let (stay, not): (Vec<usize>, Vec<usize>) = vips.iter().partition(stays);
                let addresses = stay.iter().map(|vip| S::vip(&self.plan.settings, *vip)).collect();
                if !stay.is_empty() {
                    self.tell(host, Event::NotRefreshed(addresses));
                }
                self.not_ensured(host, &not);
                None
            }
            Stage::Answered(lifetime) if fence::covers(clock, lifetime, deadline) => {
                let (there, not): (Vec<usize>, Vec<usize>) =
                    vips.iter().partition(|vip| self.hosts[host].vips[**vip].is_some());
                if let Some(agent) = &mut self.hosts[host].agent {
                    agent.addresses.put.extend(there.iter().copied());
                }
                let addresses = there.iter().map(|vip| S::vip(&self.plan.settings, *vip)).collect();
                self.tell(host, Event::Ensured(addresses));
                self.not_ensured(host, &not);
                None
            }
            Stage::Answered(_) => {
                agent.addresses.took = clock.since(agent.addresses.began);
                agent.addresses.stage = Stage::Before;
                Some(2_000)
            }
            Stage::Removing => {
                for vip in vips {
                    self.fall(host, *vip, false, "its fence is over");
                }
                self.not_ensured(host, vips);
                None
            }
        }
    }

    fn not_ensured(&mut self, host: usize, vips: &[usize]) {
        for vip in vips {
            if let Some(agent) = &mut self.hosts[host].agent {
                agent.addresses.put.remove(vip);
            }
            let address = S::vip(&self.plan.settings, *vip);
            self.tell(host, Event::EnsureFailed { address, reason: "simulated".into() });
        }
    }

    /// The process has begun: what an earlier run left is adopted.
    pub fn adopt_left_over(&mut self, host: usize) -> Vec<Vip> {
        let found: Vec<usize> = (0..self.vips).filter(|vip| self.hosts[host].carries(*vip)).collect();
        if let Some(agent) = &mut self.hosts[host].agent {
            agent.looked = true;
            agent.addresses.put.extend(found.iter().copied());
        }
        let of = &self.plan.settings;
        let vip = |vip| Vip { address: S::vip(of, vip), interface: settings::index(S::segment_of(of, vip)) };
        found.into_iter().map(vip).collect()
    }
}
