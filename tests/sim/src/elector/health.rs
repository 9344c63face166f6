//! The agent asks its node's API server how it is, as `agent/src/control_plane/health.rs` has it: where the cluster lists it. While
//! nothing changes the questions are left out: their answers would change nothing.

use std::net::IpAddr;

use mooring_agent_core::control_plane::{Event, Input};
use mooring_agent_core::health::{Health, Listed, Verdict};

use crate::clock::{MS, Nanos};
use crate::elector::Elector;
use crate::elector::queue::Item;
use crate::elector::settings::api_address;
use crate::queue::Item as Common;
use crate::settings::Settings;
use crate::subject::Subject as _;
use crate::world::World;

/// What the agent knows of its API server's health.
#[derive(Debug)]
pub struct Prober {
    health: Health,
    asleep: bool,
    /// Where API servers are listed was read.
    listed: bool,
    /// When the next request would have been due.
    next: Nanos,
}

impl Prober {
    /// It knows nothing yet.
    #[must_use]
    pub fn new(settings: &Settings<Elector>) -> Self {
        Self {
            health: Health::new(settings.own.health.rise, settings.own.health.fall),
            asleep: false,
            listed: false,
            next: 0,
        }
    }

    /// What it says.
    #[must_use]
    pub fn verdict(&self) -> Option<Verdict> {
        self.health.verdict()
    }
}

/// A question to all API servers about their health, while some are silent.
#[derive(Debug)]
pub struct Question {
    id: u64,
    healthy: Vec<IpAddr>,
    silent: Vec<usize>,
}

impl World<'_, Elector> {
    /// One question, and its answer.
    pub fn ask_health(&mut self, host: usize) {
        let remote = self.api.servers.remote;
        // Where no API server is, the connection is refused.
        let ready = if remote { Some(false) } else { self.is_ready(host) };
        let ready = ready.filter(|_| !self.hosts[host].own.own_probe_fails);
        let api_server = api_address(host, &self.plan.settings);
        let settings = self.plan.settings.own.health;
        let life = self.hosts[host].life;
        let Some(agent) = &mut self.hosts[host].agent else { return };
        let took = if ready.is_some() { MS } else { settings.timeout };
        let read = agent.own.client.has_answered() && !agent.own.prober.listed;
        agent.own.prober.listed |= read;
        let listed = match (agent.own.prober.listed, remote) {
            (false, _) => Listed::Unknown,
            (true, true) => Listed::Elsewhere,
            (true, false) => Listed::Here,
        };
        let verdict = agent.own.prober.health.result(ready == Some(true), listed);
        agent.own.prober.next = self.now + settings.interval.max(took);
        // Another result like this one would change nothing.
        let known = agent.own.prober.health.verdict().map(|verdict| verdict == Verdict::Healthy);
        agent.own.prober.asleep = known == Some(ready == Some(true)) && agent.own.prober.listed;
        if !agent.own.prober.asleep {
            let at = agent.own.prober.next;
            self.queue.put(at, Common::Own(Item::Health { host, life }));
        }
        if read && !remote {
            self.tell_soon(host, Event::Input(Input::ApiServers(vec![api_server])));
        }
        if let Some(verdict) = verdict
            && let Some(agent) = &mut self.hosts[host].agent
        {
            agent.own.client.prefer_local = verdict == Verdict::Healthy;
            // The set of hosts that can serve has changed.
            Elector::touched(self);
            self.tell_after(took, host, Event::Input(Input::Health(verdict)));
        }
    }

    /// Something about API servers has changed: those who had stopped asking ask again, at their own times.
    pub fn wake_probers(&mut self) {
        let interval = self.plan.settings.own.health.interval;
        for host in 0..self.hosts.len() {
            let (life, now) = (self.hosts[host].life, self.now);
            let Some(agent) = &mut self.hosts[host].agent else { continue };
            if std::mem::take(&mut agent.own.prober.asleep) {
                let behind = now.saturating_sub(agent.own.prober.next);
                let at = agent.own.prober.next + behind.div_ceil(interval) * interval;
                self.queue.put(at.max(now), Common::Own(Item::Health { host, life }));
            }
        }
    }

    /// An agent asks its peers' API servers, and its own: its verdict may be older than what the peers say now.
    pub fn ask_peers(&mut self, host: usize, id: u64, within: Nanos) {
        let mut question = Question { id, healthy: vec![], silent: vec![] };
        for server in 0..self.api.servers.all.len() {
            match self.says(host, server) {
                Some(true) => question.healthy.push(api_address(server, &self.plan.settings)),
                Some(false) => {}
                None => question.silent.push(server),
            }
        }
        if question.silent.is_empty() {
            self.tell_after(4 * MS, host, Event::Input(Input::Peers { id, healthy: question.healthy }));
        } else {
            let life = self.hosts[host].life;
            let question = Box::new(question);
            self.queue.put(self.now + within, Common::Own(Item::AskedLongEnough { host, life, question }));
        }
    }

    /// The time for the answers is over. A server that was silent, and is well again by now, may just have answered.
    pub(super) fn asked_long_enough(&mut self, host: usize, question: Question) {
        let Question { id, mut healthy, silent } = question;
        for server in silent {
            let in_time = (id + server as u64).is_multiple_of(2);
            if in_time && self.says(host, server) == Some(true) {
                healthy.push(api_address(server, &self.plan.settings));
            }
        }
        self.tell_soon(host, Event::Input(Input::Peers { id, healthy }));
    }

    /// What an API server says of itself to a host. None: it does not answer.
    fn says(&self, host: usize, server: usize) -> Option<bool> {
        let fails = !self.api.servers.remote && server == host && self.hosts[host].own.own_probe_fails;
        self.is_ready(server).filter(|_| self.reaches(host, server) && !fails)
    }
}
