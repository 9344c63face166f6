//! The controller of Clusters' control-plane endpoints.
//!
//! Claims and addresses come from the index ([`translate`]); Clusters and namespaces from the same lists and watches as the
//! index's own; what Clusters name is followed for endpoints alone ([`intake`]). `Secret`s and the like are read when they are
//! needed ([`reads`]).

mod intake;
mod notes;
mod reads;
mod translate;
mod writes;

use std::time::Duration;

use bytes::Bytes;
use mooring_allocator_core::names::Key;
use mooring_allocator_core::scope::Scope;
use mooring_allocator_endpoints::machine::{self, Action, Event, Failure, Kind, Machine, Write};
use mooring_allocator_endpoints::objects::Companion;

use super::change::Change;
use super::controller::{Controller, ObjectRead, Outbox, Outcome, Prepared, Reader};
use super::index::Index;
use super::listing::{Asked, Follower};
use super::queue::{Job, Numbered};
use crate::api::{ApiError, CONTROL_PLANES, Resource};
use crate::clock;
use crate::settings::Endpoints;

use intake::Intake;

/// Shortest interval between two counts of Clusters by reason.
const COUNT_EVERY: Duration = Duration::from_secs(1);

/// The machine that decides about endpoints, and the state kept with it.
#[derive(Debug)]
pub struct EndpointController {
    machine: Machine,
    intake: Intake,
    settings: Endpoints,
    scope: Scope,
    /// The lists that the machine has asked for.
    asked: Asked,
    /// Whether the metrics may be out of date.
    changed: bool,
    /// When the metrics were last updated.
    shown: Duration,
}

impl EndpointController {
    pub fn new(settings: Endpoints, scope: Scope) -> Self {
        let kinds = settings.kinds.iter().map(|one| (one.group.into(), one.kind.into())).collect();
        Self {
            machine: Machine::new(machine::Settings { kinds }),
            intake: Intake::default(),
            settings,
            scope,
            asked: Asked::nothing(),
            changed: true,
            shown: Duration::ZERO,
        }
    }

    /// The kinds to follow.
    pub fn wanted(&self) -> Vec<Resource> {
        let kinds = self.settings.kinds.iter().copied().chain(CONTROL_PLANES);
        kinds.map(Resource::Parts).chain([Resource::Namespaces]).collect()
    }

    /// Whether decisions wait for a list of this kind.
    pub fn waits_for(&self, resource: Resource) -> bool {
        self.kind_of(resource).is_some()
    }

    fn kind_of(&self, resource: Resource) -> Option<Kind> {
        kind_of(&self.settings, resource)
    }

    /// The index has changed.
    pub fn observe(&mut self, index: &Index, change: &Change, out: &mut Outbox) {
        let is_cluster = |key: &Key| self.machine.seen(key).is_some();
        for event in translate::events(change, index, is_cluster) {
            self.step(event, out);
        }
    }

    fn told(&mut self, events: Vec<Event>, index: &Index, out: &mut Outbox) {
        for event in events {
            let clusters = match &event {
                Event::Cluster(cluster) => std::slice::from_ref(&**cluster),
                Event::Clusters(all) => all,
                _ => &[],
            };
            for claim in clusters.iter().flat_map(|cluster| translate::of_cluster(cluster, index)).collect::<Vec<_>>() {
                self.step(Event::Claim(Box::new(claim)), out);
            }
            self.step(event, out);
        }
    }

    /// A read has ended.
    pub fn read(&mut self, id: u64, what: &Companion, result: Result<Bytes, ApiError>, out: &mut Outbox) {
        let result = reads::reading(what, result, &mut self.intake);
        self.step(Event::Read { id, result }, out);
    }

    fn step(&mut self, event: Event, out: &mut Outbox) {
        self.changed |= !matches!(event, Event::Tick | Event::Leading(_));
        for action in self.machine.step(clock::moment(), event) {
            match action {
                Action::Write { id, write } => out.queue.push(Job::Endpoints(Numbered { id, write })),
                Action::Read { id, what } => {
                    let call = reads::call(&what, &self.intake);
                    out.objects.push(ObjectRead { id, call, of: Reader::Endpoints(what) });
                }
                Action::List(number) => {
                    let all = self.wanted().into_iter();
                    let all = all.chain([Resource::Clusters, Resource::Claims, Resource::Addresses]);
                    self.asked = Asked::ask(number, all, out);
                }
                Action::Report(report) => self.note(report, out),
            }
        }
    }

    /// Updates the metrics.
    pub fn show(&mut self, out: &Outbox) {
        let now = clock::now();
        if self.changed && self.shown + COUNT_EVERY <= now {
            (self.changed, self.shown) = (false, now);
            out.ops.metrics.endpoints(&self.machine.counts());
        }
    }

    /// When [`EndpointController::show`] will have something for sure.
    pub fn next_show(&self) -> Option<Duration> {
        self.changed.then(|| self.shown + COUNT_EVERY)
    }
}

/// Besides the kinds of its own, Clusters and namespaces.
impl Follower for EndpointController {
    fn page(
        &mut self,
        (resource, version): (Resource, &'static str),
        bytes: &Bytes,
        turn: (bool, bool),
        index: &Index,
        out: &mut Outbox,
    ) {
        if !self.waits_for(resource) {
            return;
        }
        match self.intake.page(&self.scope, (resource, version), bytes, turn) {
            Ok(events) => self.told(events, index, out),
            Err(error) => tracing::error!(%error, resource = resource.plural(), "list cannot be read"),
        }
    }

    fn lines(&mut self, resource: Resource, bytes: &Bytes, index: &Index, out: &mut Outbox) {
        if self.waits_for(resource) {
            let events = self.intake.lines(&self.scope, resource, bytes);
            self.told(events, index, out);
        }
    }

    fn missing(&mut self, resource: Resource, index: &Index, out: &mut Outbox) {
        let events = intake::list(resource, Vec::new()).into_iter().collect();
        self.told(events, index, out);
    }

    fn listed(&mut self, resource: Resource, epoch: Option<u64>, out: &mut Outbox) {
        if epoch.is_none() && self.kind_of(resource) == Some(Kind::Claims) {
            // An API server that has just started answers 404 for a moment.
            return;
        }
        let settings = &self.settings;
        if let Some(kind) = self.asked.listed(resource, epoch, |resource| kind_of(settings, resource)) {
            self.step(Event::Listed(kind, self.asked.number), out);
        }
    }
}

impl Controller for EndpointController {
    type Job = Numbered<Write>;

    fn next_tick(&self, _: &Index) -> Option<Duration> {
        self.machine.next_tick()
    }

    fn prepare(&self, index: &Index, job: &Self::Job) -> Prepared {
        writes::prepare(index, &self.intake, self.scope.watch_filter.as_deref(), &job.write)
    }

    fn answered(&mut self, _: &mut Index, job: &Self::Job, outcome: Outcome, out: &mut Outbox) {
        let write = &job.write;
        let mut said = None;
        let result = match outcome {
            // No new event will come for the Cluster.
            Outcome::NotSent => Err(Failure::Unknown),
            Outcome::Already | Outcome::Stale => Err(Failure::Conflict),
            Outcome::Impossible(error) => Err(Failure::Refused(error)),
            Outcome::Answered(result) => {
                if let Err(error) = &result {
                    out.ops.write_not_done(notes::name(write), write, error);
                    if let ApiError::Status { code: 500..=599, message, .. } = error {
                        said = Some(message.clone());
                    }
                }
                writes::done(write, result)
            }
        };
        self.step(Event::Answer { id: job.id, result, said }, out);
    }
}

/// The machine's kind that a resource is of.
fn kind_of(settings: &Endpoints, resource: Resource) -> Option<Kind> {
    match resource {
        Resource::Clusters => Some(Kind::Clusters),
        Resource::Namespaces => Some(Kind::Namespaces),
        Resource::Parts(kind) if kind.of_control_planes || settings.kinds.contains(&kind) => {
            Some(Kind::Parts(kind.group.into(), kind.kind.into()))
        }
        // A claim is told of with its address.
        Resource::Claims | Resource::Addresses => Some(Kind::Claims),
        _ => None,
    }
}
