//! The controller of placement hints: it copies pools' texts about interface and nodes onto the addresses that agents
//! advertise.

use std::sync::Arc;
use std::time::Duration;

use mooring_allocator_core::names::{PoolRef, Uid};
use mooring_allocator_core::placement_hints::{Action, Event, HintedAddress, Hints, PlacementHints, Write};
use mooring_allocator_core::work::Failure;
use mooring_api::versions::Version as _;

use super::change::Change;
use super::controller::{Controller, Outbox, Outcome, Prepared};
use super::index::Index;
use super::queue::Job;
use crate::api::{Call, Resource, Verb};
use crate::clock;
use crate::decode::placement_hints::{annotation, patch};
use crate::events::Note;

/// The name of this kind of write for people.
const NAME: &str = "what a pool says, on an address";

/// The controller of placement hints.
#[derive(Debug, Default)]
pub struct HintController {
    machine: PlacementHints,
}

impl HintController {
    /// The index has changed.
    pub fn observe(&mut self, index: &Index, change: &Change, out: &mut Outbox) {
        for event in events(change, index) {
            self.step(index, event, out);
        }
    }

    fn step(&mut self, index: &Index, event: Event, out: &mut Outbox) {
        for action in self.machine.step(clock::now(), event) {
            match action {
                Action::Write(write) => out.queue.push(Job::Hints(write)),
                Action::Wrong(pool, hint, error) => {
                    report_invalid(index, &pool, annotation(hint), &error.to_string(), out);
                }
            }
        }
    }
}

impl Controller for HintController {
    type Job = Write;

    fn next_tick(&self, _: &Index) -> Option<Duration> {
        self.machine.next_tick()
    }

    fn prepare(&self, index: &Index, write: &Write) -> Prepared {
        let key = &write.target.key;
        let path = Resource::Addresses.object(index.served.name(), &key.namespace, &key.name);
        let body = patch(write).to_string().into();
        Prepared::Call(Call { verb: Verb::Patch, resource: Resource::Addresses.plural(), path, body })
    }

    fn answered(&mut self, index: &mut Index, write: &Write, outcome: Outcome, out: &mut Outbox) {
        let result = match outcome {
            Outcome::Answered(result) => {
                if let Err(error) = &result {
                    out.ops.write_not_done(NAME, write, error);
                }
                result.map(drop).map_err(|error| error.failure())
            }
            // No new event will come for the address: try again.
            Outcome::NotSent | Outcome::Already | Outcome::Stale | Outcome::Impossible(_) => Err(Failure::Unknown),
        };
        self.step(index, Event::Answer { uid: write.target.uid.clone(), result }, out);
    }
}

/// Translates a change to an event of the placement hints.
pub(super) fn events(change: &Change, index: &Index) -> Vec<Event> {
    let mut events = vec![event(change, index)];
    // A claim decides whether an address belongs to this allocator. Addresses may have been listed before the claims.
    if matches!(change, Change::Claims(_)) {
        let all = index.protocol.addresses().filter_map(|known| address(&known.uid, index)).collect();
        events.push(Event::Addresses(all));
    }
    events
}

fn event(change: &Change, index: &Index) -> Event {
    match change {
        Change::Tick => Event::Tick,
        Change::Leading(until) => Event::Leading(*until),
        Change::Claims(all) => {
            let going = |key: &&_| index.protocol.claim(key).is_some_and(|claim| claim.deleting);
            Event::Going(all.iter().filter(going).cloned().collect())
        }
        Change::Claim(key, _) => {
            let going = index.protocol.claim(key).is_some_and(|claim| claim.deleting);
            Event::ClaimGoing(key.clone(), going)
        }
        Change::ClaimGone(key, _) => Event::ClaimGoing(key.clone(), false),
        Change::Addresses(all) => Event::Addresses(all.iter().filter_map(|uid| address(uid, index)).collect()),
        Change::Address(uid) => match address(uid, index) {
            Some(address) => Event::Address(Box::new(address)),
            None => Event::AddressGone(uid.clone()),
        },
        Change::AddressGone(uid) => Event::AddressGone(uid.clone()),
        Change::Pools(all) => {
            Event::Pools(all.iter().filter_map(|pool| Some((pool.clone(), hints(pool, index)?))).collect())
        }
        Change::Pool(reference) => match hints(reference, index) {
            Some(hints) => Event::Pool(reference.clone(), hints),
            None => Event::PoolGone(reference.clone()),
        },
        Change::PoolGone(reference, _) => Event::PoolGone(reference.clone()),
    }
}

/// The pool's texts, unless the pool is paused.
fn hints(reference: &Arc<PoolRef>, index: &Index) -> Option<Hints> {
    let paused = index.protocol.pool(reference).is_none_or(|pool| pool.paused.is_some());
    Some(index.pools.get(reference)?.seen.hints()).filter(|_| !paused)
}

/// An address that agents may advertise and that belongs to this allocator.
fn address(uid: &Uid, index: &Index) -> Option<HintedAddress> {
    let address = index.protocol.address(uid)?;
    let facts = address.hints.as_deref()?;
    let claim = address.owner.as_ref().and_then(|owner| index.claim(owner));
    let ours = index.scope.has_namespace(&address.key.namespace)
        && claim.is_none_or(|claim| !claim.retained.elsewhere && !claim.retained.paused);
    ours.then(|| HintedAddress {
        key: address.key.clone(),
        uid: address.uid.clone(),
        version: address.version.clone(),
        pool: address.pool.clone(),
        claim: address.claim.clone(),
        facts: facts.clone(),
    })
}

fn report_invalid(index: &Index, reference: &Arc<PoolRef>, name: &'static str, error: &str, out: &Outbox) {
    tracing::warn!(pool = %reference, annotation = name, error, "annotation of pool is invalid; ignored, its addresses keep what they have");
    let Some(regarding) = index.regarding_pool(reference) else { return };
    let text = format!("the annotation {name} is left out: {error}");
    let note = Note { regarding, pool: None, warning: true, reason: "InvalidAnnotation".into(), action: "Steer", text };
    out.events.send(note, &out.ops);
}
