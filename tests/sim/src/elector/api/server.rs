//! The API servers: which of them answer whom, which of them reach the store.

use crate::api::Fate;
use crate::check::Look;
use crate::clock::{MS, Nanos};
use crate::elector::Elector;
use crate::elector::settings::{Shape, servers};
use crate::fault::How;
use crate::queue::Item;
use crate::settings::Settings;
use crate::world::World;

/// One API server.
#[derive(Clone, Debug, Default)]
pub struct Server {
    /// Its `/readyz` says no, whatever else it does.
    pub unready: bool,
    /// It shows changes so late.
    pub lag: Nanos,
    /// It reaches the store, and the store has a majority.
    pub stored: bool,
}

/// All of them.
#[derive(Debug)]
pub struct Servers {
    /// By number; on the host of the same number, unless they are remote.
    pub all: Vec<Server>,
    /// They are not on the nodes.
    pub remote: bool,
    /// Where etcd's leader is.
    pub leader: usize,
    /// There is none until then.
    pub leaderless: Nanos,
    /// A fault says that there is none.
    pub no_leader: bool,
}

impl Servers {
    /// All is well.
    #[must_use]
    pub fn new(settings: &Settings<Elector>) -> Self {
        let remote = settings.own.shape == Shape::Remote;
        Self {
            all: vec![Server { stored: true, ..Server::default() }; servers(settings)],
            remote,
            leader: 0,
            leaderless: 0,
            no_leader: false,
        }
    }
}

impl World<'_, Elector> {
    /// Whether packets pass between a host and a server.
    #[must_use]
    pub fn reaches(&self, host: usize, server: usize) -> bool {
        if !self.hosts[host].is_awake() {
            return false;
        }
        if self.api.servers.remote {
            return self.hosts[host].plugged[0] && !self.api_faults.is_island(host);
        }
        if host == server {
            return true;
        }
        self.links(host, server)
    }

    /// Whether packets (not single frames) pass between two hosts.
    fn links(&self, a: usize, b: usize) -> bool {
        let cut = |host| self.api_faults.is_island(host);
        let torn = |x: usize, y: usize| self.segment.way(0, x, y).lost >= 700;
        self.is_plugged(a, 0) && self.is_plugged(b, 0) && cut(a) == cut(b) && !(torn(a, b) || torn(b, a))
    }

    /// How a host's request to a server fares, as things are now.
    pub fn fate(&mut self, host: usize, server: usize) -> Fate {
        let reaches = self.reaches(host, server);
        self.fate_of(host, server, reaches)
    }

    /// Whether a server serves at all: its host is there and it reaches the store.
    #[must_use]
    pub fn serves(&self, server: usize) -> bool {
        let there = self.api.servers.remote || self.hosts[server].is_awake();
        there
            && self.api.servers.all[server].stored
            && self.now >= self.api.servers.leaderless
            && !self.api.servers.no_leader
    }

    /// Whether `/readyz` of a server says yes. None: it says nothing.
    #[must_use]
    pub fn is_ready(&self, server: usize) -> Option<bool> {
        if !self.api.servers.remote && !self.hosts[server].is_awake() {
            return None;
        }
        match self.api_faults.servers[server] {
            Some(How::Hangs) => None,
            Some(How::Refused | How::Errors | How::Forbidden) => Some(false),
            _ => Some(!self.api.servers.all[server].unready && self.serves(server)),
        }
    }

    /// Whether a host has an API to speak to: some server answers it, and soon.
    #[must_use]
    pub fn has_api(&self, host: usize) -> bool {
        self.has_api_that(host, |how| how.is_none())
    }

    /// Whether some server answers a host, however late and however seldom.
    #[must_use]
    pub fn has_some_api(&self, host: usize) -> bool {
        self.has_api_that(host, |how| !matches!(how, Some(How::Refused | How::Hangs | How::Errors | How::Forbidden)))
    }

    fn has_api_that(&self, host: usize, fine: impl Fn(Option<How>) -> bool) -> bool {
        fine(self.api_faults.nodes[host])
            && (0..self.api.servers.all.len())
                .any(|s| self.reaches(host, s) && self.serves(s) && fine(self.api_faults.servers[s]))
    }

    /// Hosts came or went, or the ways between them changed: where etcd has its majority.
    pub fn elect(&mut self) {
        if self.plan.settings.own.shape != Shape::Stacked {
            return;
        }
        let nodes = self.hosts.len();
        let mut seat = None;
        for a in 0..nodes {
            let awake = self.hosts[a].is_awake();
            let with = (0..nodes).filter(|b| *b != a && awake && self.links(a, *b)).count() + usize::from(awake);
            self.api.servers.all[a].stored = with * 2 > nodes;
            if self.api.servers.all[a].stored && seat.is_none() {
                seat = Some(a);
            }
        }
        if !self.api.servers.all[self.api.servers.leader].stored
            && let Some(seat) = seat
        {
            self.api.servers.leader = seat;
            self.api.servers.leaderless = self.now + self.rng.between(1_000, 3_000) * MS;
            self.queue.put(self.api.servers.leaderless, Item::Look(Look::Again));
        }
    }
}
