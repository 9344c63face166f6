//! Pools steer the agents: carries words between the API server and what decides about it.

use std::time::Duration;

use bytes::Bytes;
use mooring_allocator_core::names::{Key, PoolRef};
use mooring_allocator_core::protocol::{self, Pool};
use mooring_allocator_core::steering::{Action, Event, Steered, Write};
use mooring_api::versions::Version as _;

use super::known::Known;
use super::queue::Job;
use super::run::{Driver, Ended};
use crate::api::{ApiError, Call, Resource, Verb};
use crate::clock;
use crate::people::Note;
use crate::wire::steering::{annotation, patch};

/// What people call such a write.
const NAME: &str = "what a pool says, on an address";

/// What the protocol is told, in the words of steering. None: it is nothing to it.
#[must_use]
pub fn told(event: &protocol::Event, known: &Known) -> Option<Event> {
    use protocol::Event as Told;
    Some(match event {
        Told::Tick => Event::Tick,
        Told::Leading(until) => Event::Leading(*until),
        Told::Claims(all) => {
            Event::Going(all.iter().filter(|claim| claim.deleting).map(|claim| claim.key.clone()).collect())
        }
        Told::Claim(claim) => Event::ClaimGoing(claim.key.clone(), claim.deleting),
        Told::ClaimGone(key, _) => Event::ClaimGoing(key.clone(), false),
        Told::Addresses(all, _) => Event::Addresses(all.iter().filter_map(|one| steered(one, known)).collect()),
        Told::Address(one) => match steered(one, known) {
            Some(steered) => Event::Address(Box::new(steered)),
            None => Event::AddressGone(one.uid.clone()),
        },
        Told::AddressGone(uid) => Event::AddressGone(uid.clone()),
        Told::Pools(all) => Event::Pools(
            all.iter()
                .filter(|pool| !pool.paused)
                .filter_map(|pool| Some((pool.reference.clone(), said(pool, known)?)))
                .collect(),
        ),
        Told::Pool(pool) => match said(pool, known).filter(|_| !pool.paused) {
            Some(said) => Event::Pool(pool.reference.clone(), said),
            None => Event::PoolGone(pool.reference.clone()),
        },
        Told::PoolGone(reference, _) => Event::PoolGone(reference.clone()),
        Told::Answer { .. } | Told::ClaimRead { .. } => return None,
    })
}

fn said(pool: &Pool, known: &Known) -> Option<mooring_allocator_core::steering::Said> {
    Some(known.pools.get(&pool.reference)?.seen.said())
}

/// An address that agents may advertise, and that is this allocator's affair.
fn steered(address: &protocol::Address, known: &Known) -> Option<Steered> {
    let facts = known.facts.get(&address.uid.0)?;
    let beside = address.owner.as_ref().and_then(|owner| known.claims.get(&owner.0)).map(|claim| &claim.beside);
    let ours =
        known.scope.has_namespace(&address.key.namespace) && beside.is_none_or(|one| !one.elsewhere && !one.paused);
    ours.then(|| Steered {
        key: address.key.clone(),
        uid: address.uid.clone(),
        version: address.version.clone(),
        pool: address.pool.clone(),
        claim: address.claim.clone(),
        facts: (**facts).clone(),
    })
}

impl Driver {
    /// Something happened that steering depends on.
    pub(super) fn step_steering(&mut self, event: Event) {
        for action in self.steering.step(clock::now(), event) {
            match action {
                Action::Write(write) => self.queue.push(Job::Steering(write)),
                Action::Wrong(pool, word, error) => self.note_wrong(&pool, annotation(word), &error.to_string()),
            }
        }
    }

    fn note_wrong(&mut self, reference: &std::sync::Arc<PoolRef>, name: &'static str, error: &str) {
        tracing::warn!(pool = %reference, annotation = name, error, "an annotation of a pool makes no sense, and is left out");
        let Some(regarding) = self.pool(reference) else { return };
        let text = format!("the annotation {name} is left out: {error}");
        let note =
            Note { regarding, pool: None, warning: true, reason: "InvalidAnnotation".into(), action: "Steer", text };
        self.events.send(note, &self.ops);
    }

    /// Sends a write.
    pub(super) fn send_steering(&mut self, write: Write, deadline: Duration) {
        let path = self.address_path(&write.target.key);
        let body = patch(&write).to_string().into();
        let call = Call { verb: Verb::Patch, resource: Resource::Addresses.plural(), path, body };
        let (client, ops) = (self.client.clone(), self.ops.clone());
        self.writing += 1;
        self.calls.push(Box::pin(async move {
            let result = client.call(&call, deadline, &ops.metrics).await;
            Ended::Steering { write, result }
        }));
    }

    fn address_path(&self, key: &Key) -> String {
        Resource::Addresses.object(self.known.served.name(), &key.namespace, &key.name)
    }

    /// A write has ended.
    pub(super) fn steering_ended(&mut self, write: &Write, result: Result<Bytes, ApiError>) {
        self.writing -= 1;
        if let Err(error) = &result {
            self.ops.write_not_done(NAME, write, error);
        }
        let result = result.map(drop).map_err(|error| error.failure());
        self.step_steering(Event::Answer { uid: write.target.uid.clone(), result });
    }

    /// A write was not sent, because this allocator leads no more.
    pub(super) fn steering_not_sent(&mut self, write: &Write) {
        let result = Err(protocol::Failure::Unknown);
        self.step_steering(Event::Answer { uid: write.target.uid.clone(), result });
    }
}
