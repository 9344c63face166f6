//! What is counted in a run.

use std::collections::{BTreeMap, VecDeque};

use crate::clock::{MS, Nanos, SECOND};

/// The window in which requests are counted.
pub const WINDOW: Nanos = 10 * SECOND;

/// The counters of a run.
#[derive(Clone, Debug)]
pub struct Counts {
    /// Steps of cores.
    pub steps: u64,
    /// Things that happened.
    pub items: u64,
    /// Probes sent.
    pub probes: u64,
    /// By node and segment: the probes of the last second.
    seconds: BTreeMap<(usize, usize), VecDeque<Nanos>>,
    /// The most probes that any node sent on a segment within a second, whenever that began.
    pub busiest: usize,
    /// Announcements sent.
    pub announcements: u64,
    /// Requests sent, of all nodes.
    pub calls: u64,
    /// What watches brought to all nodes.
    pub events: u64,
    /// Objects in lists, of all nodes.
    pub listed: u64,
    /// Bytes of events and lists.
    pub bytes: u64,
    /// By node: the window, and the requests in it.
    pub windows: Vec<(Nanos, u32)>,
    /// The most that any node sent in a window.
    pub most: u32,
}

impl Counts {
    /// Nothing yet.
    #[must_use]
    pub fn new(nodes: usize) -> Self {
        Self {
            steps: 0,
            items: 0,
            probes: 0,
            seconds: BTreeMap::new(),
            busiest: 0,
            announcements: 0,
            calls: 0,
            events: 0,
            listed: 0,
            bytes: 0,
            windows: vec![(0, 0); nodes],
            most: 0,
        }
    }

    /// A process begins, and does not know what the one before it has sent.
    pub fn began(&mut self, host: usize) {
        self.seconds.retain(|(of, _), _| *of != host);
    }

    /// A node sends a probe.
    pub fn probes(&mut self, now: Nanos, host: usize, segment: usize) {
        self.probes += 1;
        let second = self.seconds.entry((host, segment)).or_default();
        // By the node's own clock, which may run a little fast.
        while second.front().is_some_and(|at| at + SECOND - MS <= now) {
            second.pop_front();
        }
        second.push_back(now);
        self.busiest = self.busiest.max(second.len());
    }

    /// A watch brings an event to a node.
    pub fn event(&mut self, bytes: u64) {
        self.events += 1;
        self.bytes += bytes;
    }

    /// A list with so many objects goes to a node.
    pub fn list(&mut self, objects: u64, bytes: u64) {
        self.listed += objects;
        self.bytes += bytes;
    }

    /// A node sends a request.
    pub fn requests(&mut self, now: Nanos, host: usize) {
        self.calls += 1;
        let window = &mut self.windows[host];
        if window.0 != now / WINDOW {
            *window = (now / WINDOW, 0);
        }
        window.1 += 1;
        self.most = self.most.max(window.1);
    }
}
