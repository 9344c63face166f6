//! The agent's datapath task, as `agent/src/driver/place.rs` and `agent/src/datapath/put.rs` have it: one job at a time, in
//! order; the clock is read before and after each refresh.

use std::collections::VecDeque;
use std::net::IpAddr;

use mooring_core::event::Event;
use mooring_core::fence;
use mooring_core::time::Time;

use crate::clock::Nanos;
use crate::queue::Item;
use crate::world::World;

/// What the task is asked to do.
#[derive(Clone, Copy, Debug)]
pub enum Job {
    /// Have the VIP there.
    Put {
        /// The VIP.
        vip: usize,
        /// The end of its fence.
        until: Time,
        /// Whether that is the end of the holder's Lease.
        leased: bool,
    },
    /// Have it away.
    Remove {
        /// The VIP.
        vip: usize,
    },
    /// The kernel says that the address is gone.
    Gone {
        /// The VIP.
        vip: usize,
    },
    /// Look for what an earlier run left.
    Look,
    /// The process ends when all before this is done.
    Flush,
}

/// How far a put has come.
#[derive(Clone, Copy, Debug)]
enum Stage {
    /// The clock is about to be read.
    Before,
    /// This lifetime is on its way to the kernel.
    Asked(u32),
    /// The kernel has answered; the clock is about to be read again.
    Answered(u32),
    /// Too late twice: the removal is on its way.
    Removing,
}

/// See the module's text.
#[derive(Debug)]
pub struct Place {
    jobs: VecDeque<Job>,
    stage: Stage,
    rounds: u32,
    busy: bool,
    /// What it has put there, and nobody has said that it is gone.
    put: Vec<bool>,
}

impl Place {
    /// With nothing to do.
    #[must_use]
    pub fn new(vips: usize) -> Self {
        Self { jobs: VecDeque::new(), stage: Stage::Before, rounds: 0, busy: false, put: vec![false; vips] }
    }
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

    /// The kernel's event for an address that is gone comes to the agent.
    pub fn address_gone(&mut self, host: usize, vip: usize) {
        if self.hosts[host].agent.is_some() {
            self.job(host, Job::Gone { vip });
        }
    }

    fn vip_address(&self, vip: usize) -> IpAddr {
        self.plan.settings.vips[vip]
    }

    /// How long the kernel takes for a request.
    fn kernel_takes(&mut self, host: usize) -> Nanos {
        self.rng.between(10_000, 60_000) + self.hosts[host].kernel
    }

    /// The task goes on.
    pub fn place_goes_on(&mut self, host: usize) {
        let Some(agent) = &mut self.hosts[host].agent else { return };
        let Some(job) = agent.place.jobs.front().copied() else {
            agent.place.busy = false;
            return;
        };
        let wait = match job {
            Job::Put { vip, until, leased } => self.put_goes_on(host, vip, until, leased),
            Job::Remove { vip } => {
                let late = matches!(agent.place.stage, Stage::Before);
                if late {
                    agent.place.stage = Stage::Removing;
                    Some(self.kernel_takes(host))
                } else {
                    agent.place.put[vip] = false;
                    self.fall(host, vip, false, "its agent removed it");
                    None
                }
            }
            Job::Gone { vip } => {
                if std::mem::take(&mut agent.place.put[vip]) {
                    let address = self.vip_address(vip);
                    self.tell(host, Event::Gone { address });
                }
                None
            }
            Job::Look => {
                self.look(host);
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
            agent.place.stage = Stage::Before;
            agent.place.rounds = 0;
            5_000
        });
        self.put(wait, Item::Place { host, life });
    }

    /// The next stage of a put; None when it is done.
    fn put_goes_on(&mut self, host: usize, vip: usize, until: Time, leased: bool) -> Option<Nanos> {
        let clock = Time::from_nanos(self.hosts[host].clock.boot(self.now));
        let of = &mut self.hosts[host];
        let refused = of.refuses && of.vips[vip].is_none();
        let agent = of.agent.as_mut()?;
        match agent.place.stage {
            Stage::Before => {
                agent.place.rounds += 1;
                let lifetime = fence::lifetime(clock, until).filter(|_| agent.place.rounds <= 2);
                agent.place.stage = lifetime.map_or(Stage::Removing, Stage::Asked);
                Some(self.kernel_takes(host))
            }
            Stage::Asked(lifetime) => {
                if refused {
                    return self.put_failed(host, vip);
                }
                agent.place.stage = Stage::Answered(lifetime);
                self.stand(host, vip, lifetime, until, leased);
                Some(20_000)
            }
            Stage::Answered(lifetime) if fence::covers(clock, lifetime, until) => {
                agent.place.put[vip] = true;
                let address = self.vip_address(vip);
                self.tell(host, Event::Put { address });
                None
            }
            Stage::Answered(_) => {
                agent.place.stage = Stage::Before;
                Some(2_000)
            }
            Stage::Removing => {
                self.fall(host, vip, false, "its fence is over");
                self.put_failed(host, vip)
            }
        }
    }

    fn put_failed(&mut self, host: usize, vip: usize) -> Option<Nanos> {
        if let Some(agent) = &mut self.hosts[host].agent {
            agent.place.put[vip] = false;
        }
        let address = self.vip_address(vip);
        self.tell(host, Event::PutFailed { address, reason: "simulated".into() });
        None
    }

    /// The process has begun: what an earlier run left is adopted.
    fn look(&mut self, host: usize) {
        let found: Vec<usize> = (0..self.plan.settings.vips.len()).filter(|v| self.hosts[host].carries(*v)).collect();
        let addresses: Vec<IpAddr> = found.iter().map(|v| self.vip_address(*v)).collect();
        if let Some(agent) = &mut self.hosts[host].agent {
            agent.looked = true;
            for vip in found {
                agent.place.put[vip] = true;
            }
        }
        if !addresses.is_empty() {
            self.tell(host, Event::LeftOver(addresses));
        }
        self.touched();
    }
}
