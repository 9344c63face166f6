//! From Clusters to claims, and from addresses to the places that need them: `step(moment, event) -> actions`.
//!
//! The machine is level-triggered, as the allocation protocol is. An event changes the known state, and marks the Clusters that
//! it concerns. The machine then evaluates each of these again. Each object has at most one write under way, on the version
//! that was seen.
//!
//! Nothing is remembered of what was done: the next step follows from what the objects say ([`decide`]). So a restart, another
//! leader and a lost answer are the same thing.

mod action;
mod answers;
mod decide;
mod evaluate;
mod event;
mod flaws;
mod for_services;
mod intake;
#[cfg(debug_assertions)]
mod invariants;
mod letting_go;
mod places;
mod put_back;
mod reading;
mod release;
mod shared;
mod slots;
mod standstill;
#[cfg(test)]
mod tests;
mod verdict;
mod view;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use mooring_allocator_core::names::Key;
use mooring_allocator_core::work::{Moment, WorkQueue};

use crate::objects::{Cluster, Companion, ControlPlane, Infrastructure, Reference};
use crate::reason::{Condition, Reason};

pub use action::{Action, Change, NewClaim, Parent, Report, Write};
pub use event::{Done, Event, Kind};
pub use mooring_allocator_core::work::{Failure, Target};

use self::flaws::{Flaw, planted};
use self::slots::Slot;

/// The group of the kinds of control planes whose places are known.
pub const CONTROL_PLANE_GROUP: &str = "controlplane.cluster.x-k8s.io";
/// The kinds of control planes whose places are known.
pub const CONTROL_PLANES: [&str; 2] = ["KubeadmControlPlane", "KamajiControlPlane"];

/// A passing state is written into a condition only after it has lasted this long: of a thousand Clusters made at once, none
/// gets a write only to say that it waits.
const LASTING: Duration = Duration::from_secs(5);

/// The settings of the machine.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// The kinds of infrastructure clusters that this allocator is shown: group and kind.
    pub kinds: BTreeSet<(Arc<str>, Arc<str>)>,
}

/// From Clusters to claims, and from addresses to the places that need them.
///
/// Invariants, besides those of the parts: each claim is in the slot of its Cluster, and `cluster_of` says which; a Cluster that
/// names an object is in the object's set in `named_by`, and nothing else is; the same of `users`; a pending write, and a read under way, is known
/// to the queue.
#[derive(Debug)]
pub struct Machine {
    settings: Settings,
    work: WorkQueue<BTreeSet<Key>, Write, Action>,
    /// The kinds that were not listed since this allocator leads.
    unlisted: BTreeSet<Kind>,
    /// The number of the last request for all lists.
    asked: u64,
    /// Clusters, and claims whose Cluster is not there.
    slots: HashMap<Key, Slot>,
    /// The Cluster of each claim.
    cluster_of: HashMap<Key, Key>,
    infrastructures: HashMap<Reference, Infrastructure>,
    control_planes: HashMap<Reference, ControlPlane>,
    /// The Clusters that name an infrastructure cluster or a control plane.
    named_by: HashMap<Reference, BTreeSet<Key>>,
    /// The control planes that get files from a `Secret`.
    users: HashMap<Companion, BTreeSet<Reference>>,
    /// The pools that namespaces name.
    defaults: BTreeMap<Arc<str>, Box<str>>,
    /// Reads under way.
    reads: HashMap<u64, (Key, Companion)>,
}

impl Settings {
    /// The kinds of objects of which the machine is told.
    #[must_use]
    pub fn all(&self) -> BTreeSet<Kind> {
        let planes = CONTROL_PLANES.map(|kind| Kind::Parts(CONTROL_PLANE_GROUP.into(), kind.into()));
        let infrastructures = self.kinds.iter().map(|(group, kind)| Kind::Parts(group.clone(), kind.clone()));
        Kind::NEEDED.into_iter().chain(planes).chain(infrastructures).collect()
    }
}

impl Machine {
    /// Creates a machine that knows nothing yet.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Self {
            work: WorkQueue::default(),
            unlisted: settings.all(),
            asked: 0,
            slots: HashMap::new(),
            cluster_of: HashMap::new(),
            infrastructures: HashMap::new(),
            control_planes: HashMap::new(),
            named_by: HashMap::new(),
            users: HashMap::new(),
            defaults: BTreeMap::new(),
            reads: HashMap::new(),
            settings,
        }
    }

    /// The latest time for an [`Event::Tick`]; None: no tick is needed.
    #[must_use]
    pub fn next_tick(&self) -> Option<Duration> {
        self.work.next_tick()
    }

    /// Where the endpoint of a Cluster stands; None: it is none of ours, or was not evaluated yet.
    #[must_use]
    pub fn standing(&self, cluster: &Key) -> Option<&Condition> {
        self.slots.get(cluster)?.verdict.as_ref().map(|(condition, _)| condition)
    }

    /// A Cluster, as last shown.
    #[must_use]
    pub fn seen(&self, cluster: &Key) -> Option<&Cluster> {
        self.slots.get(cluster)?.cluster.as_deref()
    }

    /// The number of Clusters for each reason, for a metric.
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
        let listed = !Kind::NEEDED.iter().any(|kind| self.unlisted.contains(kind));
        if (listed || planted(Flaw::ViewsOfDifferentAge)) && self.work.leading() {
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
