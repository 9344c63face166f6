//! The controller of `VSphereMachine`s' addresses.
//!
//! Claims, addresses and pools come from the index ([`translate`]); Clusters from the same list and watch as the index's own;
//! machines and their templates are followed for this alone ([`intake`]). Whether a machine is gone is read when it matters.

mod intake;
mod notes;
mod translate;
mod writes;

use std::time::Duration;

use bytes::Bytes;
use mooring_allocator_core::names::{Key, Uid};
use mooring_allocator_core::scope::Scope;
use mooring_allocator_machines::machine::{Action, Event, Failure, Kind, Machine, Write};
use mooring_allocator_machines::objects::POOL_KINDS;
use serde_json::Value;

use super::change::Change;
use super::controller::{Controller, ObjectRead, Outbox, Outcome, Prepared, Reader};
use super::index::Index;
use super::listing::{Asked, Follower};
use super::queue::{Job, Numbered};
use crate::api::{ApiError, Call, Resource, Verb};
use crate::clock;

use intake::Intake;

/// Shortest interval between two counts of machines by reason.
const COUNT_EVERY: Duration = Duration::from_secs(1);

/// The machine that decides about machines' addresses, and the state kept with it.
#[derive(Debug)]
pub struct MachineController {
    machine: Machine,
    intake: Intake,
    scope: Scope,
    /// The lists that the machine has asked for.
    asked: Asked,
    /// Whether the metrics may be out of date.
    changed: bool,
    /// When the metrics were last updated.
    shown: Duration,
}

/// The machine's kind that a resource is of.
fn kind_of(resource: Resource) -> Option<Kind> {
    match resource {
        Resource::Clusters => Some(Kind::Clusters),
        Resource::Machines => Some(Kind::Machines),
        Resource::MachineTemplates => Some(Kind::Templates),
        Resource::Pools(kind) if POOL_KINDS.contains(&kind) => Some(Kind::Pools),
        // A claim is told of with its address.
        Resource::Claims | Resource::Addresses => Some(Kind::Claims),
        _ => None,
    }
}

impl MachineController {
    /// The kinds to follow for machines alone.
    pub const WANTED: [Resource; 2] = [Resource::Machines, Resource::MachineTemplates];

    pub fn new(scope: Scope) -> Self {
        Self {
            machine: Machine::default(),
            intake: Intake::default(),
            scope,
            asked: Asked::nothing(),
            changed: true,
            shown: Duration::ZERO,
        }
    }

    /// Whether decisions wait for a list of this kind.
    pub fn waits_for(resource: Resource) -> bool {
        kind_of(resource).is_some()
    }

    /// The index has changed.
    pub fn observe(&mut self, index: &Index, change: &Change, out: &mut Outbox) {
        for event in translate::events(change, index) {
            self.step(event, out);
        }
    }

    /// A read of a machine has ended.
    pub fn read(&mut self, id: u64, result: Result<Bytes, ApiError>, out: &mut Outbox) {
        let result = match result {
            Ok(bytes) => uid(&bytes).map(Some),
            Err(error) if error.is_not_found() => Ok(None),
            // That the kind is not served says nothing about the machine.
            Err(error) => Err(error.failure()),
        };
        self.step(Event::Read { id, result }, out);
    }

    fn step(&mut self, event: Event, out: &mut Outbox) {
        self.changed |= !matches!(event, Event::Tick | Event::Leading(_));
        for action in self.machine.step(clock::moment(), event) {
            match action {
                Action::Write { id, write } => out.queue.push(Job::Machines(Numbered { id, write })),
                Action::Read { id, machine } => {
                    let call = self.read_call(&machine);
                    out.objects.push(ObjectRead { id, call, of: Reader::Machines });
                }
                Action::List(number) => {
                    let all = Self::WANTED.into_iter().chain(POOL_KINDS.map(Resource::Pools));
                    let all = all.chain([Resource::Clusters, Resource::Claims, Resource::Addresses]);
                    self.asked = Asked::ask(number, all, out);
                }
                Action::Report(report) => self.note(report, out),
            }
        }
    }

    fn read_call(&self, machine: &Key) -> Call {
        let path = Resource::Machines.object(self.intake.served(), &machine.namespace, &machine.name);
        Call::read(Verb::Get, Resource::Machines.plural(), path)
    }

    /// Updates the metrics.
    pub fn show(&mut self, out: &Outbox) {
        let now = clock::now();
        if self.changed && self.shown + COUNT_EVERY <= now {
            (self.changed, self.shown) = (false, now);
            out.ops.metrics.machines(&self.machine.counts());
        }
    }

    /// When [`MachineController::show`] will have something for sure.
    pub fn next_show(&self) -> Option<Duration> {
        self.changed.then(|| self.shown + COUNT_EVERY)
    }
}

/// The uid of an object that was read.
fn uid(bytes: &[u8]) -> Result<Uid, Failure> {
    let value: Value = serde_json::from_slice(bytes).map_err(|_| Failure::Unknown)?;
    crate::decode::endpoint::uid(&value).ok_or(Failure::Unknown)
}

/// Besides the kinds of its own, Clusters.
impl Follower for MachineController {
    fn page(
        &mut self,
        (resource, version): (Resource, &'static str),
        bytes: &Bytes,
        turn: (bool, bool),
        _: &Index,
        out: &mut Outbox,
    ) {
        match self.intake.page(&self.scope, (resource, version), bytes, turn) {
            Ok(Some(event)) => self.step(event, out),
            Ok(None) => {}
            Err(error) => tracing::error!(%error, resource = resource.plural(), "list cannot be read"),
        }
    }

    fn lines(&mut self, resource: Resource, bytes: &Bytes, _: &Index, out: &mut Outbox) {
        for event in self.intake.lines(&self.scope, resource, bytes) {
            self.step(event, out);
        }
    }

    fn missing(&mut self, resource: Resource, _: &Index, out: &mut Outbox) {
        if let Some(event) = intake::list(resource, Vec::new()) {
            self.step(event, out);
        }
    }

    fn listed(&mut self, resource: Resource, epoch: Option<u64>, out: &mut Outbox) {
        if epoch.is_none() && kind_of(resource) == Some(Kind::Claims) {
            // An API server that has just started answers 404 for a moment.
            return;
        }
        if let Some(kind) = self.asked.listed(resource, epoch, kind_of) {
            self.step(Event::Listed(kind, self.asked.number), out);
        }
    }
}

impl Controller for MachineController {
    type Job = Numbered<Write>;

    fn next_tick(&self, _: &Index) -> Option<Duration> {
        self.machine.next_tick()
    }

    fn prepare(&self, index: &Index, job: &Self::Job) -> Prepared {
        writes::prepare(index, self.intake.served(), self.scope.watch_filter.as_deref(), &job.write)
    }

    fn answered(&mut self, _: &mut Index, job: &Self::Job, outcome: Outcome, out: &mut Outbox) {
        let write = &job.write;
        let result = match outcome {
            // No new event will come for the machine.
            Outcome::NotSent => Err(Failure::Unknown),
            Outcome::Already | Outcome::Stale => Err(Failure::Conflict),
            Outcome::Impossible(error) => Err(Failure::Refused(error)),
            Outcome::Answered(result) => {
                if let Err(error) = &result {
                    out.ops.write_not_done(notes::name(write), write, error);
                }
                super::claim_writes::done(matches!(write, Write::DeleteClaim(_)), result)
            }
        };
        self.step(Event::Answer { id: job.id, result }, out);
    }
}
