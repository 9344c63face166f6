//! The ways to the API and back, whatever is stored there: requests that get lost, answers that get lost, watches that keep
//! their order, fall silent, break.

use crate::clock::{MS, Nanos, SECOND};
use crate::fault::{How, has};
use crate::subject::Subject;
use crate::world::World;

/// How the API fails now.
#[derive(Debug)]
pub struct ApiFaults {
    /// By API server.
    pub servers: Vec<Option<How>>,
    /// By node, whichever server is asked.
    pub nodes: Vec<Option<How>>,
    /// Hosts that are cut off from the API.
    pub islands: u64,
}

impl ApiFaults {
    /// None.
    #[must_use]
    pub fn new(nodes: usize, servers: usize) -> Self {
        Self { servers: vec![None; servers], nodes: vec![None; nodes], islands: 0 }
    }

    /// As if there were no fault.
    pub fn mend(&mut self) {
        self.servers.fill(None);
        self.nodes.fill(None);
        self.islands = 0;
    }

    /// How a node's requests to a server fail.
    pub fn hows(&self, node: usize, server: usize) -> impl Iterator<Item = How> + use<> {
        [self.nodes[node], self.servers[server]].into_iter().flatten()
    }

    /// Whether a node is cut off.
    #[must_use]
    pub fn is_island(&self, node: usize) -> bool {
        has(self.islands, node)
    }

    /// Whether nothing that a server shows reaches a node's watch.
    #[must_use]
    pub fn silences(&self, node: usize, server: usize) -> bool {
        self.hows(node, server).any(|how| matches!(how, How::Hangs | How::Refused))
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
    /// 500, or 403: the server says no.
    Denied,
}

impl Fate {
    /// After how long the agent knows that the request has failed; None: it does not fail, or nobody says so.
    #[must_use]
    pub fn fails_after(self) -> Option<Nanos> {
        match self {
            Self::Goes(_) | Self::Hangs => None,
            Self::Refused => Some(MS / 5),
            Self::Unreachable => Some(SECOND),
            Self::Denied => Some(2 * MS),
        }
    }
}

impl<S: Subject> World<'_, S> {
    /// How a node's request to a server fares, as things are now; whether packets pass between the two.
    pub fn fate_of(&mut self, node: usize, server: usize, reaches: bool) -> Fate {
        if !reaches {
            // A connection that stood is not known to be dead; a new one is not made.
            return if self.rng.chance(500) { Fate::Hangs } else { Fate::Unreachable };
        }
        let (low, high) = self.plan.settings.api;
        let mut wait = self.rng.between(low, high);
        for how in self.api_faults.hows(node, server) {
            match how {
                How::Refused => return Fate::Refused,
                How::Hangs => return Fate::Hangs,
                How::Errors | How::Forbidden => return Fate::Denied,
                How::Slow(ms) => wait += Nanos::from(ms) * MS,
                How::LosesRequests(p) if self.rng.chance(u32::from(p)) => return Fate::Hangs,
                How::LosesRequests(_) | How::LosesAnswers(_) => {}
            }
        }
        Fate::Goes(wait)
    }

    /// Whether the answer to a node is lost; if so, whether the agent is told that its connection broke.
    pub fn loses_answer(&mut self, node: usize, server: usize) -> Option<bool> {
        for how in self.api_faults.hows(node, server) {
            if let How::LosesAnswers(p) = how
                && self.rng.chance(u32::from(p))
            {
                return Some(self.rng.chance(500));
            }
        }
        None
    }
}

/// A watch: what was held up is shown later, in order.
#[derive(Debug)]
pub struct Watch<M> {
    /// Which connection: what an earlier one says is not heard.
    pub connection: u32,
    /// The server that the watch is open at.
    pub server: Option<usize>,
    /// It is dead, and nobody knows.
    pub silent: bool,
    /// What could not be delivered yet, in order.
    pub missed: Vec<M>,
    last: Nanos,
    stalled: Nanos,
    held: Nanos,
}

impl<M> Default for Watch<M> {
    fn default() -> Self {
        Self { connection: 0, server: None, silent: false, missed: vec![], last: 0, stalled: 0, held: 0 }
    }
}

impl<M> Watch<M> {
    /// One of a process that has just begun: connections of the host's earlier processes are others.
    #[must_use]
    pub fn of_process(life: u32) -> Self {
        Self { connection: life << 16, ..Self::default() }
    }

    /// A list is asked for, to watch from there on.
    pub fn begin(&mut self) {
        self.connection += 1;
        self.server = None;
        self.silent = false;
        self.missed.clear();
        self.stalled = 0;
    }

    /// When something arrives that is sent now and takes so long: nothing overtakes what was sent before.
    pub fn arrival(&mut self, now: Nanos, wait: Nanos) -> Nanos {
        self.last = (now + wait).max(self.last + 1);
        self.last
    }

    /// The host stood still, and what was sent meanwhile is sent again: nothing is heard before `until`.
    pub fn stall(&mut self, until: Nanos) {
        (self.stalled, self.held) = (until, until);
    }

    /// When to hear what has arrived now, if not now: in the order in which it arrived.
    pub fn heard_at(&mut self, now: Nanos) -> Option<Nanos> {
        (now < self.stalled).then(|| {
            self.held += 1;
            self.held
        })
    }
}
