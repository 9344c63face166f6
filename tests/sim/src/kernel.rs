//! The kernel of a host: addresses with lifetimes. The timer is up to a second late (measured on Linux 6.18).

use mooring_agent_core::time::Time;

use crate::address_task::Job;
use crate::check::Look;
use crate::clock::{Nanos, SECOND};
use crate::queue::Item;
use crate::subject::Subject;
use crate::world::World;

/// An address on an interface.
#[derive(Clone, Copy, Debug)]
pub struct Standing {
    /// When its lifetime ends, by the host's own time (which stands still with the host); the timer is later. None: never.
    pub ends: Option<Nanos>,
    /// Which lifetime this is: a timer for another one does nothing.
    pub generation: u32,
    /// By the agent's boot clock: when it must be gone.
    pub deadline: Time,
    /// Whether that was the end of the node's Lease, not of a short fence.
    pub leased: bool,
    /// The process that asked for it.
    pub life: u32,
    /// Since when it has been there, whatever its lifetime was.
    pub since: Nanos,
}

impl<S: Subject> World<'_, S> {
    /// REPLACE: an address that is there gets another lifetime, one that is not is created.
    pub fn stand(&mut self, host: usize, vip: usize, lifetime: u32, deadline: Time, leased: bool) {
        let ends = self.now + Nanos::from(lifetime) * SECOND;
        let late = self.rng.below(SECOND);
        let due = self.hosts[host].clock.when(deadline.as_nanos()).max(self.now) + self.past_fence(host);
        let (generation, came) = self.replace(host, vip, Some(ends), deadline, leased);
        self.queue.put(ends + late, Item::Expire { host, vip, generation });
        self.queue.put(due, Item::Look(Look::Fence { host, vip, generation }));
        if came {
            self.came(host, vip);
        }
    }

    /// An address that nothing ends: kube-vip's.
    pub fn stand_for_ever(&mut self, host: usize, vip: usize) {
        if self.replace(host, vip, None, Time::from_nanos(u64::MAX), false).1 {
            self.came(host, vip);
        }
    }

    /// Which lifetime this is now, and whether there was none before.
    fn replace(&mut self, host: usize, vip: usize, ends: Option<Nanos>, deadline: Time, leased: bool) -> (u32, bool) {
        let of = &mut self.hosts[host];
        of.generation += 1;
        let (generation, life) = (of.generation, of.life);
        let since = of.vips[vip].map_or(self.now, |before| before.since);
        let before = of.vips[vip].replace(Standing { ends, generation, deadline, leased, life, since });
        (generation, before.is_none())
    }

    fn came(&mut self, host: usize, vip: usize) {
        self.note(|w| format!("{} carries VIP {vip}", w.names[host]));
        self.record_carry(host, vip, true);
        S::touched_vip(self, vip);
    }

    /// The kernel's timer.
    pub fn expire(&mut self, host: usize, vip: usize, generation: u32) {
        let Some(standing) = self.hosts[host].vips[vip].filter(|s| s.generation == generation) else { return };
        match standing.ends {
            // While the host stood still, so did its timer.
            Some(ends) if ends > self.now => {
                let late = self.rng.below(SECOND);
                self.queue.put(ends + late, Item::Expire { host, vip, generation });
            }
            Some(_) if self.hosts[host].asleep.is_some() => {}
            _ => self.fall(host, vip, true, "its lifetime is over"),
        }
    }

    /// An address is gone; whether the agent is told by the kernel's event.
    pub fn fall(&mut self, host: usize, vip: usize, told: bool, why: &str) {
        if self.hosts[host].vips[vip].take().is_none() {
            return;
        }
        self.note(|w| format!("{} no longer carries VIP {vip}: {why}", w.names[host]));
        self.record_carry(host, vip, false);
        S::touched_vip(self, vip);
        if told {
            self.job(host, Job::Gone { vip });
        }
    }

    /// The host has stood still for so long: what counts in its own time ends so much later.
    pub fn shift_lifetimes(&mut self, host: usize, by: Nanos) {
        for vip in 0..self.vips {
            if let Some(standing) = &mut self.hosts[host].vips[vip]
                && let Some(ends) = &mut standing.ends
            {
                *ends += by;
                let (ends, generation) = (*ends, standing.generation);
                let late = self.rng.below(SECOND);
                self.queue.put(ends + late, Item::Expire { host, vip, generation });
            }
        }
    }
}
