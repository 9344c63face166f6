//! An agent's end of the API: which server it asks first, as `common/src/api/servers.rs` has it.

use super::Watch;
use crate::clock::{Nanos, SECOND};
use crate::elector::Elector;
use crate::elector::settings::{Shape, servers};
use crate::settings::Settings;

/// What an agent remembers of a server.
#[derive(Clone, Copy, Debug, Default)]
struct Memory {
    failures: u32,
    bad_until: Nanos,
}

/// What an agent remembers of the API servers, and its watch.
#[derive(Debug)]
pub struct Client {
    local: Option<usize>,
    first: usize,
    /// The local one comes first while it is healthy.
    pub prefer_local: bool,
    known: Vec<Memory>,
    current: Option<usize>,
    answered: bool,
    /// The watch.
    pub watch: Watch,
}

impl Client {
    /// That of a node.
    #[must_use]
    pub fn new(node: usize, life: u32, settings: &Settings<Elector>) -> Self {
        let remote = settings.own.shape == Shape::Remote;
        let count = servers(settings);
        Self {
            local: (!remote).then_some(node),
            first: node % count,
            prefer_local: true,
            known: vec![Memory::default(); count],
            current: None,
            answered: false,
            watch: Watch::of_process(life),
        }
    }

    /// The servers in the order in which to ask them now.
    #[must_use]
    pub fn order(&self, now: Nanos) -> Vec<usize> {
        let count = self.known.len();
        let mut all: Vec<usize> = (0..count).map(|n| (n + self.first) % count).collect();
        all.sort_by_key(|s| {
            let local = self.prefer_local && self.local == Some(*s);
            (now < self.known[*s].bad_until, !local, self.current != Some(*s))
        });
        all
    }

    /// It answered.
    pub fn good(&mut self, server: usize) {
        self.known[server] = Memory::default();
        self.current = Some(server);
        self.answered = true;
    }

    /// Whether any has answered: the agent knows then where the API servers are.
    #[must_use]
    pub fn has_answered(&self) -> bool {
        self.answered
    }

    /// It did not.
    pub fn bad(&mut self, server: usize, now: Nanos) {
        let known = &mut self.known[server];
        if now >= known.bad_until {
            known.bad_until = now + (SECOND << known.failures.min(8)).min(10 * SECOND);
            known.failures += 1;
        }
        if self.current == Some(server) {
            self.current = None;
        }
    }
}
