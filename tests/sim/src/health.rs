//! The agent asks its node's API server how it is, as `agent/src/api/health.rs` and `agent/src/driver/api.rs` have it. While
//! nothing changes the questions are left out: their answers would change nothing.

use mooring_core::event::Event;
use mooring_core::health::Health;

use crate::clock::{MS, Nanos};
use crate::queue::Item;
use crate::settings::Settings;
use crate::world::World;

/// See the module's text.
#[derive(Debug)]
pub struct Prober {
    health: Health,
    asleep: bool,
    /// When it would have asked next.
    next: Nanos,
}

impl Prober {
    /// It knows nothing yet.
    #[must_use]
    pub fn new(settings: &Settings) -> Self {
        Self { health: Health::new(settings.health.rise, settings.health.fall), asleep: false, next: 0 }
    }

    /// What it says.
    #[must_use]
    pub fn verdict(&self) -> Option<bool> {
        self.health.verdict()
    }
}

impl World<'_> {
    /// One question, and its answer.
    pub fn ask_health(&mut self, host: usize) {
        let ready = if self.servers.remote { Some(true) } else { self.is_ready(host) };
        let settings = self.plan.settings.health;
        let life = self.hosts[host].life;
        let Some(agent) = &mut self.hosts[host].agent else { return };
        let took = if ready.is_some() { MS } else { settings.timeout };
        let verdict = agent.prober.health.result(ready == Some(true));
        agent.prober.next = self.now + settings.interval.max(took);
        // Another result like this one would change nothing.
        agent.prober.asleep = agent.prober.health.verdict() == Some(ready == Some(true));
        if !agent.prober.asleep {
            let at = agent.prober.next;
            self.queue.put(at, Item::Health { host, life });
        }
        if let Some(verdict) = verdict {
            agent.api.prefer_local = verdict;
            // Who could serve has changed.
            self.touched();
            self.put(took, Item::Tell { to: host, life, event: Box::new(Event::Health(verdict)) });
        }
    }

    /// Something about API servers has changed: those who had stopped asking ask again, at their own times.
    pub fn wake_probers(&mut self) {
        let interval = self.plan.settings.health.interval;
        for host in 0..self.hosts.len() {
            let (life, now) = (self.hosts[host].life, self.now);
            let Some(agent) = &mut self.hosts[host].agent else { continue };
            if std::mem::take(&mut agent.prober.asleep) {
                let behind = now.saturating_sub(agent.prober.next);
                let at = agent.prober.next + behind.div_ceil(interval) * interval;
                self.queue.put(at.max(now), Item::Health { host, life });
            }
        }
    }

    /// An agent asks its peers' API servers.
    pub fn ask_peers(&mut self, host: usize, id: u64, within: Nanos) {
        let mut healthy = vec![];
        let mut took = 4 * MS;
        if self.servers.remote {
            // What the agent takes for peers are the API servers: none of them is a node.
            took = 3 * MS;
        } else {
            // The own one is asked as well: its verdict may be older than what the peers say now.
            for peer in 0..self.hosts.len() {
                match self.is_ready(peer).filter(|_| self.reaches(host, peer)) {
                    Some(true) => healthy.push(crate::settings::own(peer)),
                    Some(false) => {}
                    None => took = within,
                }
            }
        }
        let life = self.hosts[host].life;
        self.put(took, Item::Tell { to: host, life, event: Box::new(Event::Peers { id, healthy }) });
    }
}
