//! From machines to claims, and from addresses to devices: `step(moment, event) -> actions`.
//!
//! The machine that decides ([`Machine`]; the other sort is [`crate::objects::VSphereMachine`]) is level-triggered, as the
//! allocation protocol is. An event changes the known state, and marks the machines that it concerns; each of these is evaluated
//! again. Each object has at most one write under way, on the version that was seen.
//!
//! Nothing is remembered of what was done: the next step follows from what the objects say ([`decide`]). So a restart, another
//! leader and a lost answer are the same thing.

mod action;
mod answers;
mod decide;
mod evaluate;
mod event;
pub(crate) mod flaws;
mod intake;
#[cfg(debug_assertions)]
mod invariants;
mod of_device;
mod release;
mod restored;
mod slots;
#[cfg(test)]
mod tests;
mod verdict;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use mooring_allocator_core::names::{Key, PoolRef};
use mooring_allocator_core::work::{Moment, WorkQueue};

use crate::objects::{Cluster, Pool, Template, VSphereMachine};
use crate::reason::{Condition, Reason};

pub use action::{Action, NewClaim, Parent, Report, Write};
pub use event::{Done, Event, Kind};
pub use mooring_allocator_core::work::{Failure, Target};

use self::flaws::{Flaw, planted};
use self::slots::Slot;

/// A passing state is reported only after it has lasted this long.
const LASTING: Duration = Duration::from_secs(5);

/// From machines to claims, and from addresses to devices.
///
/// Invariants, besides those of the parts: each claim is in the slot of its machine, and `owner_of` says which; a pending
/// write, and a read under way, is known to the queue.
#[derive(Debug)]
pub struct Machine {
    work: WorkQueue<BTreeSet<Key>, Write, Action>,
    /// The kinds that were not listed since this allocator leads.
    unlisted: BTreeSet<Kind>,
    /// The number of the last request for all lists.
    asked: u64,
    /// Machines, and claims whose machine is not there.
    slots: HashMap<Key, Slot>,
    /// The machine of each claim.
    owner_of: HashMap<Key, Key>,
    clusters: HashMap<Key, Cluster>,
    templates: HashMap<Key, Template>,
    pools: BTreeMap<Arc<PoolRef>, Pool>,
    /// Reads under way.
    reads: HashMap<u64, Key>,
}

impl Default for Machine {
    /// One that knows nothing yet.
    fn default() -> Self {
        Self {
            work: WorkQueue::default(),
            unlisted: Kind::ALL.into(),
            asked: 0,
            slots: HashMap::new(),
            owner_of: HashMap::new(),
            clusters: HashMap::new(),
            templates: HashMap::new(),
            pools: BTreeMap::new(),
            reads: HashMap::new(),
        }
    }
}

impl Machine {
    /// The latest time for an [`Event::Tick`]; None: no tick is needed.
    #[must_use]
    pub fn next_tick(&self) -> Option<Duration> {
        self.work.next_tick()
    }

    /// Where the addresses of a machine stand; None: it needs none of ours, or was not evaluated yet.
    #[must_use]
    pub fn standing(&self, machine: &Key) -> Option<&Condition> {
        self.slots.get(machine)?.verdict.as_ref().map(|(condition, _)| condition)
    }

    /// A machine, as last shown.
    #[must_use]
    pub fn seen(&self, machine: &Key) -> Option<&VSphereMachine> {
        self.slots.get(machine)?.machine.as_deref()
    }

    /// The number of machines for each reason, for a metric.
    #[must_use]
    pub fn counts(&self) -> BTreeMap<&'static str, usize> {
        let mut counts: BTreeMap<&'static str, usize> = Reason::ALL.map(|reason| (reason.name(), 0)).into();
        for (condition, _) in self.slots.values().filter_map(|slot| slot.verdict.as_ref()) {
            *counts.entry(condition.reason.name()).or_default() += 1;
        }
        counts
    }

    /// Processes an event and returns the actions to take.
    pub fn step(&mut self, moment: Moment, event: Event) -> Vec<Action> {
        self.work.begin(moment);
        self.take_in(event);
        self.work.wake_due();
        if (self.unlisted.is_empty() || planted(Flaw::ViewsOfDifferentAge)) && self.work.leading() {
            while let Some(key) = self.work.next_marked() {
                self.look_at(&key);
            }
        }
        #[cfg(debug_assertions)]
        self.check();
        self.work.end()
    }

    fn report(&mut self, report: Report) {
        self.work.act(Action::Report(report));
    }
}
