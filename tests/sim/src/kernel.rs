//! The kernel of a host: addresses with lifetimes. The timer is up to a second late (measured on Linux 6.18).

use mooring_core::time::Time;

use crate::clock::{Nanos, SECOND};
use crate::host::Standing;
use crate::queue::Item;
use crate::world::World;

impl World<'_> {
    /// REPLACE: an address that is there gets another lifetime, one that is not is created.
    pub fn stand(&mut self, host: usize, vip: usize, lifetime: u32, until: Time, leased: bool) {
        let ends = self.now + Nanos::from(lifetime) * SECOND;
        let late = self.rng.below(SECOND);
        let of = &mut self.hosts[host];
        of.generation += 1;
        let (generation, life) = (of.generation, of.life);
        let was = of.vips[vip].replace(Standing { ends: Some(ends), generation, until, leased, life });
        self.queue.put(ends + late, Item::Expire { host, vip, generation });
        let due = self.hosts[host].clock.when(until.as_nanos()).max(self.now);
        self.queue.put(due + self.past_fence(host), Item::Look(crate::check::Look::Fence { host, vip, generation }));
        if was.is_none() {
            self.say(|w| format!("cp{} carries {}", host + 1, w.plan.settings.vips[vip]));
            self.record_carry(host, vip, true);
            self.touched();
        }
    }

    /// An address that nothing ends: kube-vip's.
    pub fn stand_for_ever(&mut self, host: usize, vip: usize) {
        let of = &mut self.hosts[host];
        of.generation += 1;
        let (generation, life) = (of.generation, of.life);
        let until = Time::from_nanos(u64::MAX);
        if of.vips[vip].replace(Standing { ends: None, generation, until, leased: false, life }).is_none() {
            self.say(|w| format!("cp{} carries {}", host + 1, w.plan.settings.vips[vip]));
            self.record_carry(host, vip, true);
            self.touched();
        }
    }

    /// The kernel's timer.
    pub fn expire(&mut self, host: usize, vip: usize, generation: u32) {
        let Some(standing) = self.hosts[host].vips[vip].filter(|s| s.generation == generation) else { return };
        // While the host stood still, so did its timer.
        match standing.ends {
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
        self.say(|w| format!("cp{} no longer carries {}: {why}", host + 1, w.plan.settings.vips[vip]));
        self.record_carry(host, vip, false);
        self.touched();
        if told {
            self.address_gone(host, vip);
        }
    }

    /// The host has stood still for so long: what counts in its own time ends so much later.
    pub fn shift_lifetimes(&mut self, host: usize, by: Nanos) {
        for vip in 0..self.hosts[host].vips.len() {
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
