//! The API servers: which of them answer whom, which of them reach the store.

use crate::clock::{MS, Nanos};
use crate::fault::{How, has};
use crate::settings::{Settings, Shape};
use crate::world::World;

/// One API server.
#[derive(Clone, Debug, Default)]
pub struct Server {
    /// How it fails, if it does.
    pub how: Option<How>,
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
    /// How each node's calls fail, whichever server they go to.
    pub of: Vec<Option<How>>,
    /// Where etcd's leader is.
    pub leader: usize,
    /// There is none until then.
    pub leaderless: Nanos,
    /// A fault says that there is none.
    pub no_leader: bool,
    /// Hosts that are cut off from API traffic beyond themselves.
    pub islands: u64,
}

impl Servers {
    /// All is well.
    #[must_use]
    pub fn new(settings: &Settings) -> Self {
        let remote = settings.shape == Shape::Remote;
        let count = if remote { 3 } else { settings.nodes };
        Self {
            all: vec![Server { stored: true, ..Server::default() }; count],
            remote,
            of: vec![None; settings.nodes],
            leader: 0,
            leaderless: 0,
            no_leader: false,
            islands: 0,
        }
    }
}

/// How a request fares on its way to a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It arrives after so long.
    Goes(Nanos),
    /// No connection, and that is known at once.
    Refused,
    /// No connection, and that is known after the time-out for one.
    Unreachable,
    /// Nothing more is heard of it.
    Hangs,
    /// 500.
    Errors,
    /// 403.
    Forbidden,
}

impl World<'_> {
    /// Whether packets pass between a host and a server.
    #[must_use]
    pub fn reaches(&self, host: usize, server: usize) -> bool {
        if !self.hosts[host].is_awake() {
            return false;
        }
        let cut = self.servers.islands;
        if self.servers.remote {
            return self.hosts[host].link && !has(cut, host);
        }
        if host == server {
            return true;
        }
        self.links(host, server)
    }

    /// Whether packets (not single frames) pass between two hosts.
    fn links(&self, a: usize, b: usize) -> bool {
        let cut = self.servers.islands;
        let torn = |x: usize, y: usize| self.segment.way(x, y).lost >= 700;
        self.is_plugged(a) && self.is_plugged(b) && has(cut, a) == has(cut, b) && !(torn(a, b) || torn(b, a))
    }

    /// How a host's request to a server fares, as things are now.
    pub fn fate(&mut self, host: usize, server: usize) -> Fate {
        if !self.reaches(host, server) {
            // A connection that stood is not known to be dead; a new one is not made.
            return if self.rng.chance(500) { Fate::Hangs } else { Fate::Unreachable };
        }
        let (low, high) = self.plan.settings.api;
        let mut wait = self.rng.between(low, high);
        for how in [self.servers.of[host], self.servers.all[server].how].into_iter().flatten() {
            match how {
                How::Refused => return Fate::Refused,
                How::Hangs => return Fate::Hangs,
                How::Errors => return Fate::Errors,
                How::Forbidden => return Fate::Forbidden,
                How::Slow(ms) => wait += Nanos::from(ms) * MS,
                How::LosesRequests(p) if self.rng.chance(u32::from(p)) => return Fate::Hangs,
                How::LosesRequests(_) | How::LosesAnswers(_) => {}
            }
        }
        Fate::Goes(wait)
    }

    /// Whether a server serves at all: its host is there and it reaches the store.
    #[must_use]
    pub fn serves(&self, server: usize) -> bool {
        let there = self.servers.remote || self.hosts[server].is_awake();
        there && self.servers.all[server].stored && self.now >= self.servers.leaderless && !self.servers.no_leader
    }

    /// Whether `/readyz` of a server says yes. None: it says nothing.
    #[must_use]
    pub fn is_ready(&self, server: usize) -> Option<bool> {
        if !self.servers.remote && !self.hosts[server].is_awake() {
            return None;
        }
        match self.servers.all[server].how {
            Some(How::Hangs) => None,
            Some(How::Refused | How::Errors | How::Forbidden) => Some(false),
            _ => Some(!self.servers.all[server].unready && self.serves(server)),
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
        fine(self.servers.of[host])
            && (0..self.servers.all.len())
                .any(|s| self.reaches(host, s) && self.serves(s) && fine(self.servers.all[s].how))
    }

    /// Hosts came or went, or the ways between them changed: where etcd has its majority.
    pub fn elect(&mut self) {
        if self.plan.settings.shape != Shape::Stacked {
            return;
        }
        let nodes = self.hosts.len();
        let mut seat = None;
        for a in 0..nodes {
            let awake = self.hosts[a].is_awake();
            let with = (0..nodes).filter(|b| *b != a && awake && self.links(a, *b)).count() + usize::from(awake);
            self.servers.all[a].stored = with * 2 > nodes;
            if self.servers.all[a].stored && seat.is_none() {
                seat = Some(a);
            }
        }
        if !self.servers.all[self.servers.leader].stored
            && let Some(seat) = seat
        {
            self.servers.leader = seat;
            self.servers.leaderless = self.now + self.rng.between(1_000, 3_000) * MS;
            self.queue.put(self.servers.leaderless, crate::queue::Item::Look(crate::check::Look::Again));
        }
    }
}
