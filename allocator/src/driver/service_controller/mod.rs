//! The controller of Services of type `LoadBalancer`.
//!
//! Claims, addresses and pools come from the index ([`translate`]). Services, nodes, endpoints and the `ConfigMap` are followed
//! for Services alone.

mod early;
mod intake;
mod notes;
#[cfg(test)]
mod tests;
mod translate;
mod writes;

use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;
use std::time::Duration;

use mooring_allocator_core::names::Key;
use mooring_allocator_core::scope::Scope;
use mooring_allocator_services::machine::{self, Action, Event, Failure, Kind, Machine, Write};

use super::change::Change;
use super::controller::{Controller, Outbox, Outcome, Prepared};
use super::index::Index;
use super::queue::{Job, Numbered};
use crate::api::{ApiError, Fed, POOLS, Resource, What};
use crate::clock;
use crate::settings::Services;

use early::Early;
use intake::Intake;

/// The machine that decides about Services' addresses, and the state kept with it.
#[derive(Debug)]
pub struct ServiceController {
    machine: Machine,
    intake: Intake,
    early: Early,
    settings: Services,
    /// The label that claims must have to be handled by this allocator.
    watch_filter: Option<String>,
    /// When Services without an address were first seen.
    since: HashMap<Key, Duration>,
    /// Whether the metrics may be out of date.
    changed: bool,
    /// When the metrics were last updated.
    shown: Duration,
    /// The machine's number of the last request for lists of all kinds, that of the lists, and the kinds of which none has come.
    asked: (u64, u64, BTreeSet<Resource>),
}

/// The kinds of object that every decision about Services depends on.
const KINDS: [(Kind, &[Resource]); 6] = [
    (Kind::Services, &[Resource::Services]),
    (Kind::Claims, &[Resource::Claims]),
    (Kind::Addresses, &[Resource::Addresses]),
    (
        Kind::Pools,
        &[
            Resource::Pools(POOLS[0]),
            Resource::Pools(POOLS[1]),
            Resource::Pools(POOLS[2]),
            Resource::Pools(POOLS[3]),
            // If a pool selects them by label.
            Resource::Namespaces,
        ],
    ),
    (Kind::Config, &[Resource::Config]),
    (Kind::Reserved, &[Resource::Nodes, Resource::ClusterInfo]),
];

/// The kind that a resource belongs to; None: no decision about Services waits for a list of it.
pub fn kind_of(resource: Resource) -> Option<Kind> {
    KINDS.iter().find(|(_, all)| all.contains(&resource)).map(|(kind, _)| *kind)
}

impl ServiceController {
    pub fn new(settings: Services, scope: Scope, server: Option<IpAddr>) -> Self {
        let watch_filter = scope.watch_filter.clone();
        let (classes, home) = (settings.classes.clone(), settings.home.as_str().into());
        let outside_pools = settings.outside_pools;
        let rules = machine::Settings { classes, home, scope, outside_pools };
        Self {
            machine: Machine::new(rules),
            intake: Intake::new(server),
            early: Early::default(),
            settings,
            watch_filter,
            since: HashMap::new(),
            changed: true,
            shown: Duration::ZERO,
            asked: (0, 0, BTreeSet::new()),
        }
    }

    /// The kinds to follow.
    pub fn wanted(&self) -> Vec<Resource> {
        let mut all = vec![Resource::Config, Resource::ClusterInfo, Resource::Nodes, Resource::Services];
        if self.wants_endpoints() {
            all.push(Resource::Endpoints);
        }
        all
    }

    /// Whether to follow endpoints.
    pub fn wants_endpoints(&self) -> bool {
        self.machine.wants_endpoints()
    }

    /// The only object of this kind to follow.
    pub fn only(&self, resource: Resource) -> Option<(String, String)> {
        match resource {
            Resource::Config => Some(self.settings.config_map.clone()),
            Resource::ClusterInfo => Some(("kube-public".to_owned(), "cluster-info".to_owned())),
            _ => None,
        }
    }

    /// Remembers since when a Service waits.
    fn note_waiting(&mut self, event: &Event) {
        let now = clock::now();
        let mut seen = |service: &mooring_allocator_services::objects::Service| {
            if !service.load_balancer || service.notes.record.is_some() {
                self.since.remove(&service.key);
            } else if self.machine.seen(&service.key).is_none_or(|before| !before.load_balancer) {
                self.since.insert(service.key.clone(), now);
            }
        };
        match event {
            Event::Service(service) => seen(service),
            // The waiting time of Services that exist at the start is unknown.
            Event::Services(_) => self.since.clear(),
            Event::ServiceGone(key, _) => _ = self.since.remove(key),
            _ => {}
        }
    }
}

impl ServiceController {
    /// The index has changed.
    pub fn observe(&mut self, index: &Index, change: &Change, out: &mut Outbox) {
        if let Some(event) = translate::event(change, index) {
            self.step(event, out);
        }
        if matches!(change, Change::Pools(_) | Change::Pool(_) | Change::PoolGone(..)) {
            self.look_at_namespaces(index, out);
        }
    }

    /// Namespaces, or the pools that select them by label, have changed.
    pub fn look_at_namespaces(&mut self, index: &Index, out: &mut Outbox) {
        if !index.needs_labels() && self.does_without_namespaces() {
            self.step(Event::Listed(Kind::Pools, self.asked.0), out);
        }
        for service in self.early.come(index) {
            self.step(Event::Service(Box::new(service)), out);
        }
    }

    /// A list of this resource is complete. `epoch`: the list began after this request; None: there are no such objects, or
    /// they may not be read.
    pub fn listed(&mut self, resource: Resource, epoch: Option<u64>, index: &Index, out: &mut Outbox) {
        if let Some(kind) = self.complete(resource, epoch, index.needs_labels()) {
            self.step(Event::Listed(kind, self.asked.0), out);
        }
    }

    /// The kind that is complete with a list of this resource, if any. `labels`: a pool selects namespaces by label.
    fn complete(&mut self, resource: Resource, epoch: Option<u64>, labels: bool) -> Option<Kind> {
        if epoch.is_none() && matches!(resource, Resource::Claims | Resource::Addresses) {
            // An API server that has just started answers 404 for a moment. The watch of before may be behind what the
            // previous leader wrote.
            return None;
        }
        let (_, asked, unlisted) = &mut self.asked;
        if epoch.is_some_and(|epoch| epoch < *asked) || !unlisted.remove(&resource) {
            return None;
        }
        if !labels && kind_of(resource) == Some(Kind::Pools) {
            self.does_without_namespaces();
        }
        kind_of(resource).filter(|kind| self.asked.2.iter().all(|one| kind_of(*one) != Some(*kind)))
    }

    /// No pool selects namespaces by label. Whether nothing but a list of them was missing to know the pools.
    fn does_without_namespaces(&mut self) -> bool {
        let unlisted = &mut self.asked.2;
        let mut missing = unlisted.iter().filter(|one| kind_of(**one) == Some(Kind::Pools));
        let only = missing.next() == Some(&Resource::Namespaces) && missing.next().is_none();
        only && unlisted.remove(&Resource::Namespaces)
    }

    /// A list or watch shows something that only Services' addresses depend on.
    pub fn received(&mut self, Fed { resource, what }: Fed, index: &mut Index, out: &mut Outbox) {
        let mut events = Vec::new();
        let mut listed = None;
        match what {
            What::Page { bytes, first, epoch, reply, .. } => {
                let shared = (&mut index.names, &index.scope);
                match self.intake.page(shared, resource, &bytes, first) {
                    Ok((turned, all)) => {
                        listed = turned.next.is_empty().then_some(Some(epoch));
                        // Nobody waits any more: the follower has ended, together with the whole allocator.
                        let _ = reply.send(turned);
                        events = all;
                    }
                    Err(error) => tracing::error!(%error, "list cannot be read; it is listed again"),
                }
            }
            What::Lines(bytes) => {
                let shared = (&mut index.names, &index.scope);
                self.intake.lines(shared, resource, &bytes, |event| match event {
                    Ok(event) => events.push(event),
                    Err(error) => {
                        tracing::error!(%error, "watch event cannot be read; the object is ignored until it changes");
                    }
                });
            }
            What::Missing => {
                tracing::warn!(resource = resource.name(), "kind is not served by the API server; retrying");
            }
            What::Lost(error) => {
                if resource == Resource::ClusterInfo && matches!(error, ApiError::Status { code: 403, .. }) {
                    events.extend(self.intake.control_plane_denied());
                    listed = Some(None);
                    out.ops.readiness.set(resource.name(), None);
                }
                tracing::warn!(resource = resource.name(), %error, "list or watch failed; retrying");
            }
            What::Live => {
                out.ops.readiness.set(resource.name(), None);
                tracing::debug!(resource = resource.name(), "list is complete; watching");
            }
        }
        for event in events {
            let known = |service: &Key| self.machine.seen(service).is_some();
            if let Some(event) = self.early.keep_back(event, index, known) {
                self.step(event, out);
            }
        }
        if let Some(epoch) = listed {
            self.listed(resource, epoch, index, out);
        }
    }

    /// Processes an event that Services' addresses depend on.
    fn step(&mut self, event: Event, out: &mut Outbox) {
        self.note_waiting(&event);
        self.changed |= !matches!(event, Event::Tick | Event::Leading(_));
        for action in self.machine.step(clock::moment(), event) {
            match action {
                Action::Write { id, write } => out.queue.push(Job::Services(Numbered { id, write })),
                Action::List(asked) => {
                    let all = KINDS.iter().flat_map(|(_, all)| all.iter().copied()).collect();
                    self.asked = (asked, out.ask_for_lists(), all);
                }
                Action::Report(report) => self.note(report, out),
            }
        }
    }
}

impl Controller for ServiceController {
    type Job = Numbered<Write>;

    fn next_tick(&self, _: &Index) -> Option<Duration> {
        self.machine.next_tick()
    }

    fn prepare(&self, index: &Index, job: &Self::Job) -> Prepared {
        self.prepare_write(index, &job.write)
    }

    fn answered(&mut self, _: &mut Index, job: &Self::Job, outcome: Outcome, out: &mut Outbox) {
        let write = &job.write;
        let result = match outcome {
            // No new event will come for the Service.
            Outcome::NotSent => Err(Failure::Unknown),
            Outcome::Already | Outcome::Stale => Err(Failure::Conflict),
            Outcome::Impossible(error) => Err(Failure::Refused(error)),
            Outcome::Answered(result) => {
                if let Err(error) = &result {
                    out.ops.write_not_done(notes::name(write), write, error);
                }
                writes::done(write, result)
            }
        };
        self.step(Event::Answer { id: job.id, result }, out);
    }
}
