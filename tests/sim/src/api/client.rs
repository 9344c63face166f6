//! An agent's end of the API: which server it asks first, as `agent/src/api/servers.rs` has it.

use mooring_core::time::Time;

use super::Watch;
use crate::clock::{Nanos, SECOND};
use crate::settings::{Settings, Shape};

/// What an agent remembers of a server.
#[derive(Clone, Copy, Debug, Default)]
struct Memory {
    failures: u32,
    bad_until: Nanos,
}

/// See the module's text.
#[derive(Debug)]
pub struct Client {
    local: Option<usize>,
    first: usize,
    /// The local one comes first while it is healthy.
    pub prefer_local: bool,
    known: Vec<Memory>,
    current: Option<usize>,
    /// The watch.
    pub watch: Watch,
    /// When each write under way was sent.
    pub sent: Vec<(u64, Time)>,
}

impl Client {
    /// That of a node.
    #[must_use]
    pub fn new(node: usize, settings: &Settings) -> Self {
        let remote = settings.shape == Shape::Remote;
        let count = if remote { 3 } else { settings.nodes };
        Self {
            local: (!remote).then_some(node),
            first: node % count,
            prefer_local: true,
            known: vec![Memory::default(); count],
            current: None,
            watch: Watch::default(),
            sent: vec![],
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
