//! What must hold of sessions and many VIPs, whatever goes wrong, beside what [`crate::check`] asks of every core.

mod serving;
mod settle;
mod single;
mod writes;

pub(super) use writes::gives;

use std::collections::{BTreeMap, BTreeSet};

use super::bounds;
use super::fault::Fault;
use super::{Plan, SessionVips};
use crate::check::Single;
use crate::clock::{Nanos, SECOND};
use crate::fault::{Fault as Any, has};
use crate::subject::Subject as _;
use crate::world::World;

/// What the checks remember.
#[derive(Debug)]
pub struct Checks {
    bounds: bounds::Own,
    /// Since when each VIP has not answered the client.
    silent: Vec<Option<Nanos>>,
    /// Since when each host could serve each VIP.
    able: Vec<Vec<Option<Nanos>>>,
    /// When a fault began or ended last.
    pub(super) last: Nanos,
    single: Option<Single>,
    settled: Option<Vec<Option<usize>>>,
    /// When something other than a renewal last happened: a change of carrier, a record, the begin or end of a session.
    stirred: Nanos,
    pub(super) moves: Vec<u32>,
    moved: Vec<u32>,
    abandoned: Vec<u32>,
    /// When incarnations ended, and when sessions began.
    ended: BTreeMap<(String, String, u32), Nanos>,
    began: BTreeMap<String, Nanos>,
    /// Incarnations that a member object has told of.
    pub(super) published: BTreeSet<(String, String, u32)>,
    /// When a node that was leaving stayed after all, or offers no more.
    withdrawn: BTreeMap<String, Nanos>,
    /// When a host was last told that a node is leaving, or offers VIPs: its watch may be behind.
    pub(super) told_leaving: BTreeMap<(usize, String), Nanos>,
    /// When a host last heard another host answer for a VIP that the record has long named that host for: listener, sender.
    heard_held: BTreeMap<(usize, usize), Nanos>,
    /// When a host last heard another host answer for its own address: listener, sender.
    pub(super) heard_own: BTreeMap<(usize, usize), Nanos>,
    /// Whether a host that sent the end of another's session had heard it in the last window: sender, the other.
    reached: BTreeMap<(usize, usize), bool>,
    /// For how long a host whose session another one sent the end of has answered: sender, the other.
    robs: BTreeMap<(usize, usize), Nanos>,
    /// Since when others that ask each host for its address are answered, if they are.
    reached_since: Vec<Option<Nanos>>,
    /// Since when a record names its holder.
    recorded: Vec<Nanos>,
    planned: bool,
    /// When the store was last restored from a backup.
    pub(super) restored: Option<Nanos>,
}

impl Checks {
    /// At the beginning of a run.
    #[must_use]
    pub fn new(plan: &Plan) -> Self {
        let (nodes, most) = (plan.settings.nodes, SessionVips::vips(&plan.settings));
        Self {
            bounds: bounds::of(&plan.settings).1,
            silent: vec![Some(0); most],
            able: vec![vec![None; most]; nodes],
            last: 0,
            single: None,
            settled: None,
            stirred: 0,
            moves: vec![0; most],
            moved: vec![0; most],
            abandoned: vec![0; nodes],
            ended: BTreeMap::new(),
            began: BTreeMap::new(),
            published: BTreeSet::new(),
            withdrawn: BTreeMap::new(),
            told_leaving: BTreeMap::new(),
            heard_held: BTreeMap::new(),
            heard_own: BTreeMap::new(),
            reached: BTreeMap::new(),
            robs: BTreeMap::new(),
            reached_since: vec![None; nodes],
            recorded: vec![0; most],
            planned: true,
            restored: None,
        }
    }

    /// When the session of a node began.
    #[must_use]
    pub fn began(&self, node: &str) -> Option<Nanos> {
        self.began.get(node).copied()
    }

    /// The session of a node says no longer that it leaves.
    pub fn withdraws(&mut self, node: &str, now: Nanos) {
        self.withdrawn.insert(node.to_owned(), now);
    }
}

/// What was decided by what a store said before it was restored has been written after so long.
const AFTER_RESTORE: Nanos = 10 * SECOND;

impl World<'_, SessionVips> {
    /// The store went back in time: an end that an agent has seen is undone, and the agent cannot know.
    pub(in crate::session_vips) fn is_restored(&self) -> bool {
        self.checks.restored.is_some_and(|at| self.now < at + AFTER_RESTORE)
    }

    /// The same, for a node whose API failed in the meantime: nothing told it.
    pub(in crate::session_vips) fn is_restored_unknown_to(&self, host: usize) -> bool {
        let fails = |fault: &Any<Fault>| match fault {
            Any::Api(..) => true,
            Any::ApiOf(node, _) => *node == host,
            Any::Partition(nodes, _, true) => has(*nodes, host),
            _ => false,
        };
        self.checks.restored.is_some_and(|at| {
            let failed = self.plan.faults.iter().filter(|f| fails(&f.fault) && f.at < at + AFTER_RESTORE);
            failed.map(|f| f.at + f.lasts).any(|until| until > at && self.now < until + AFTER_RESTORE)
        })
    }

    /// Something has happened that does not happen all the time.
    pub fn stirred(&mut self) {
        self.checks.stirred = self.now;
    }

    /// Requests of one node within ten seconds.
    pub(super) fn own_calls_allowed(&self) -> u32 {
        // A write of a record that loses to another program costs one more write, and a read.
        let nudged = self.plan.faults.iter().any(|planned| matches!(planned.fault, Any::Own(Fault::Nudge(_))));
        self.bounds.calls + if nudged { u32::try_from(self.vips * 6).unwrap_or(u32::MAX) } else { 0 }
    }
}
