//! From Services to claims, and back: `step(moment, event) -> actions`.
//!
//! The machine is level-triggered, as the allocation protocol is. An event changes the known state, and marks the
//! Services and claims that the event concerns. The machine then evaluates each of these again. Each has at most one
//! write under way. A waiting Service names what it waits for, and is evaluated when this changes: the cost of an event
//! depends on what it concerns, however many Services there are.
//!
//! The content of the claim decides. A Service has an address once the store has shown a bound claim that names the
//! Service. Everything on the Service itself is written afterwards, for people. So the machine restores any lost or
//! edited part of the Service, and a restart reads from the claims which Service has what.

mod action;
mod advising;
mod answers;
mod claims;
mod contest;
mod decide;
mod event;
mod flaws;
mod foreign;
mod intake;
#[cfg(debug_assertions)]
mod invariants;
mod inviting;
mod join;
mod moving;
mod not_yet;
mod passing;
mod place;
mod pools;
mod publish;
mod recorded;
mod release;
mod served;
mod slots;
mod state;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
mod unclaimed;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use mooring_allocator_core::names::Key;
use mooring_allocator_core::scope::Scope;
use mooring_allocator_core::work::{Moment, RETRY, SHOWN_WITHIN, STALE_WITHIN, UNSHOWN, WorkQueue};

use crate::class::ClassRules;
use crate::configmap::Config;
use crate::objects::Service;
use crate::reason::Condition;

pub use action::{Action, NewClaim, Notice, Report, Status, Write};
pub use event::{Done, Event, Kind};
pub use mooring_allocator_core::work::{Failure, PoolTarget, Target};

use self::flaws::{Flaw, planted};
use self::passing::Passing;
use self::slots::{Slot, Topic};
use self::state::{Claims, MadePools, Seen, Takeover};

/// The settings of the machine.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Which Services Mooring handles.
    pub classes: ClassRules,
    /// The namespace of the claims that Services of several namespaces may share: the allocator's own.
    pub home: Arc<str>,
    /// The namespaces whose Services this allocator is shown.
    pub scope: Scope,
    /// Whether a Service gets an address that it asks for and that no pool has.
    pub outside_pools: bool,
}

/// What to evaluate next.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Who {
    Pools,
    Service(Key),
    Claim(Key),
}

/// From Services to claims, and back.
///
/// Invariants, besides those of the parts: a claim that a Service holds is known, and counts the Service among its
/// members; a Service that is filed under a topic lists this topic among its waits; a pending write of a Service, a
/// claim or a pool is under way.
#[derive(Debug)]
pub struct Machine {
    settings: Settings,
    work: WorkQueue<BTreeSet<Who>, Write, Action>,
    seen: Seen,
    services: HashMap<Key, Slot>,
    claims: Claims,
    made: MadePools,
    takeover: Takeover,
    passing: Passing,
    /// Services by the topic they wait for.
    waiting: BTreeMap<Topic, BTreeSet<Key>>,
}

impl Machine {
    /// Creates a machine that knows nothing yet.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            work: WorkQueue::default(),
            seen: Seen::default(),
            services: HashMap::new(),
            claims: Claims::default(),
            made: MadePools::default(),
            takeover: Takeover::default(),
            passing: Passing::default(),
            waiting: BTreeMap::new(),
        }
    }

    /// The latest time for an [`Event::Tick`]; None: no tick is needed.
    #[must_use]
    pub fn next_tick(&self) -> Option<Duration> {
        self.work.next_tick()
    }

    /// The verdict about a Service; None: Mooring does not handle the Service, or did not evaluate it yet.
    #[must_use]
    pub fn standing(&self, service: &Key) -> Option<&Condition> {
        self.services.get(service)?.verdict.as_ref().map(|(condition, _)| condition)
    }

    /// A Service, as last shown.
    #[must_use]
    pub fn seen(&self, service: &Key) -> Option<&Service> {
        Some(&*self.services.get(service)?.service)
    }

    /// Whether [`Event::Endpoints`] are wanted: only sharing among Services with `externalTrafficPolicy: Local` depends
    /// on endpoints. Once wanted, endpoints stay wanted.
    #[must_use]
    pub const fn wants_endpoints(&self) -> bool {
        self.seen.endpoints.wanted
    }

    /// The number of Services for each reason, for a metric.
    #[must_use]
    pub fn counts(&self) -> BTreeMap<&str, usize> {
        let mut counts = BTreeMap::new();
        for (condition, _) in self.services.values().filter_map(|slot| slot.verdict.as_ref()) {
            *counts.entry(&*condition.reason).or_default() += 1;
        }
        counts
    }

    /// The content of the `ConfigMap`, and its errors.
    #[must_use]
    pub const fn config(&self) -> &Config {
        &self.seen.config
    }

    /// Whether this pool is wanted.
    #[cfg(test)]
    pub(crate) fn wants(&self, made: &crate::objects::Made) -> bool {
        self.made.wanted.values().any(|wanted| wanted == made)
    }

    /// Processes an event and returns the actions to take.
    pub fn step(&mut self, moment: Moment, event: Event) -> Vec<Action> {
        self.work.begin(moment);
        self.take_in(event);
        self.work.wake_due();
        if (self.seen.unlisted.is_empty() || planted(Flaw::ViewsOfDifferentAge)) && self.work.leading() {
            if !self.takeover.restored {
                self.restore();
            }
            while let Some(who) = self.work.next_marked() {
                match who {
                    Who::Service(key) => self.look_at_service(&key),
                    Who::Claim(key) => self.look_at_claim(&key),
                    Who::Pools => self.look_at_pools(),
                }
            }
        }
        #[cfg(debug_assertions)]
        self.check();
        self.work.end()
    }

    fn enqueue_service(&mut self, key: &Key) {
        self.work.mark(Who::Service(key.clone()));
    }

    fn enqueue_claim(&mut self, key: &Key) {
        self.work.mark(Who::Claim(key.clone()));
    }

    fn write(&mut self, who: Who, write: Write) -> u64 {
        self.work.write(who, write, |id, write| Action::Write { id, write })
    }

    fn report(&mut self, report: Report) {
        self.work.act(Action::Report(report));
    }

    /// Marks the Services that wait for this topic.
    fn wake(&mut self, topic: &Topic) {
        for key in self.waiting.remove(topic).into_iter().flatten() {
            self.work.mark(Who::Service(key));
        }
    }

    fn wait(&mut self, service: &Key, topic: Topic) {
        let Some(slot) = self.services.get_mut(service) else { return };
        if !slot.waits.contains(&topic) {
            slot.waits.push(topic.clone());
        }
        self.waiting.entry(topic).or_default().insert(service.clone());
    }

    fn wait_no_more(&mut self, service: &Key) {
        let Some(slot) = self.services.get_mut(service) else { return };
        for topic in std::mem::take(&mut slot.waits) {
            if let Some(keys) = self.waiting.get_mut(&topic) {
                keys.remove(service);
                if keys.is_empty() {
                    self.waiting.remove(&topic);
                }
            }
        }
    }
}
