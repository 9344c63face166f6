//! Services of type `LoadBalancer`: carries words between the API server and what decides about their addresses.
//!
//! Claims, addresses and pools are heard for the allocation protocol's sake, and told on ([`told()`]); Services, nodes,
//! endpoints and the `ConfigMap` are heard for theirs alone. Writes wait in the one queue.

mod intake;
mod notes;
#[cfg(test)]
mod tests;
mod told;
mod writes;

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::Duration;

use bytes::Bytes;
use mooring_allocator_core::names::Key;
use mooring_services::machine::{self, Action, Event, Failure, Machine, Write};

use super::queue::Job;
use super::run::{Driver, Ended};
use super::writes::Prepared;
use crate::api::{ApiError, Fed, Resource, What};
use crate::clock;
use crate::settings::Services;

use intake::Intake;
pub(super) use told::told;

/// What decides about Services' addresses, and what is kept beside it.
#[derive(Debug)]
pub(super) struct Desk {
    machine: Machine,
    intake: Intake,
    settings: Services,
    /// The label that claims must have to be looked after.
    watch_filter: Option<String>,
    /// When Services were first seen that have no address.
    since: HashMap<Key, Duration>,
    /// Something may be another than what the metrics show.
    changed: bool,
    /// When that was last shown.
    shown: Duration,
}

impl Desk {
    pub(super) fn new(settings: Services, watch_filter: Option<String>, server: Option<IpAddr>) -> Self {
        let rules = machine::Settings { classes: settings.classes.clone(), home: settings.home.as_str().into() };
        Self {
            machine: Machine::new(rules),
            intake: Intake::new(server),
            settings,
            watch_filter,
            since: HashMap::new(),
            changed: true,
            shown: Duration::ZERO,
        }
    }

    /// When it wants to be told the time.
    pub(super) fn next_tick(&self) -> Option<Duration> {
        self.machine.next_tick()
    }

    /// The kinds that are to be followed.
    pub(super) fn wanted(&self) -> Vec<Resource> {
        let mut all = vec![Resource::Config, Resource::ClusterInfo, Resource::Nodes, Resource::Services];
        if self.wants_endpoints() {
            all.push(Resource::Endpoints);
        }
        all
    }

    /// Whether endpoints are to be followed.
    pub(super) fn wants_endpoints(&self) -> bool {
        self.machine.wants_endpoints()
    }

    /// Of a kind, only this one.
    pub(super) fn only(&self, resource: Resource) -> Option<(String, String)> {
        match resource {
            Resource::Config => Some(self.settings.config_map.clone()),
            Resource::ClusterInfo => Some(("kube-public".to_owned(), "cluster-info".to_owned())),
            _ => None,
        }
    }

    /// Remembers since when a Service waits.
    fn note_waiting(&mut self, event: &Event) {
        let now = clock::now();
        let mut seen = |service: &mooring_services::objects::Service| {
            if !service.load_balancer || service.notes.record.is_some() {
                self.since.remove(&service.key);
            } else if self.machine.seen(&service.key).is_none_or(|before| !before.load_balancer) {
                self.since.insert(service.key.clone(), now);
            }
        };
        match event {
            Event::Service(service) => seen(service),
            // How long those waited that are there at a start is not known.
            Event::Services(_) => self.since.clear(),
            Event::ServiceGone(key, _) => _ = self.since.remove(key),
            _ => {}
        }
    }
}

impl Driver {
    /// Something happened that Services' addresses depend on.
    pub(super) fn step_services(&mut self, event: Event) {
        let Some(desk) = &mut self.desk else { return };
        desk.note_waiting(&event);
        desk.changed |= !matches!(event, Event::Tick | Event::Leading(_));
        for action in desk.machine.step(clock::moment(), event) {
            match action {
                Action::Write { id, write } => self.queue.push(Job::Service(id, write)),
                Action::Report(report) => self.note_service(report),
            }
        }
    }

    /// Something was heard that only Services' addresses depend on.
    pub(super) fn heard_of_services(&mut self, Fed { resource, what }: Fed) {
        let Some(desk) = &mut self.desk else { return };
        let mut events = Vec::new();
        match what {
            What::Page { bytes, first, reply, .. } => {
                let beside = (&mut self.known.names, &self.known.scope);
                match desk.intake.page(beside, resource, &bytes, first) {
                    Ok((turned, all)) => {
                        // Nobody waits any more: then the follower has ended, with the whole allocator.
                        let _ = reply.send(turned);
                        events = all;
                    }
                    Err(error) => tracing::error!(%error, "a list makes no sense"),
                }
            }
            What::Lines(bytes) => {
                let beside = (&mut self.known.names, &self.known.scope);
                desk.intake.lines(beside, resource, &bytes, |event| match event {
                    Ok(event) => events.push(event),
                    Err(error) => tracing::error!(%error, "an object is passed over"),
                });
            }
            What::Missing => tracing::warn!(resource = resource.name(), "not served; asked for again"),
            What::Lost(error) => {
                if resource == Resource::ClusterInfo && matches!(error, ApiError::Status { code: 403, .. }) {
                    events.extend(desk.intake.control_plane_denied());
                    self.ops.readiness.set(resource.name(), None);
                }
                tracing::warn!(resource = resource.name(), %error, "nothing is heard of it; tried again");
            }
            What::Live => {
                self.ops.readiness.set(resource.name(), None);
                tracing::debug!(resource = resource.name(), "watched");
            }
        }
        for event in events {
            self.step_services(event);
        }
    }

    /// Sends a write.
    pub(super) fn send_for_service(&mut self, id: u64, write: Write, deadline: Duration) {
        let Some(desk) = &self.desk else { return };
        match desk.prepare(&self.known, &write) {
            Prepared::Call(call) => {
                let (client, ops) = (self.client.clone(), self.ops.clone());
                self.writing += 1;
                self.calls.push(Box::pin(async move {
                    let result = client.call(&call, deadline, &ops.metrics).await;
                    Ended::Service { id, write, result }
                }));
            }
            Prepared::Impossible(error) => {
                tracing::error!(error, ?write, "this cannot be written");
                self.step_services(Event::Answer { id, result: Err(Failure::Refused(error)) });
            }
            Prepared::Already | Prepared::Stale | Prepared::ReadThenPatch { .. } => {
                self.step_services(Event::Answer { id, result: Err(Failure::Conflict) });
            }
        }
    }

    /// A write was not sent, because this allocator leads no more. Nothing new will be shown for it.
    pub(super) fn not_sent_for_service(&mut self, id: u64) {
        self.step_services(Event::Answer { id, result: Err(Failure::Unknown) });
    }

    /// A write has ended.
    pub(super) fn ended_for_service(&mut self, id: u64, write: &Write, result: Result<Bytes, ApiError>) {
        self.writing -= 1;
        if let Err(error) = &result {
            self.service_write_failed(write, error);
        }
        self.step_services(Event::Answer { id, result: writes::done(write, result) });
    }
}
