//! The controller of the allocation protocol: claims, addresses and pools go into the index, and the protocol's
//! decisions go to the API server.

mod answers;
pub mod floating_ips;
mod intake;
pub mod metal3;
mod metal3_writes;
mod notes;
mod pool_status;
pub mod pools;
#[cfg(test)]
mod tests;
mod waiting;
mod writes;

use std::time::Duration;

use mooring_allocator_core::names::ClaimKind;
use mooring_allocator_core::protocol::{Action, Event, Pool, Write};
use mooring_allocator_core::work::Failure;

pub use answers::{read_of_claim, read_then_patch};
pub use intake::{Intake, Unreadable, turned};
pub use waiting::Waiting;

use super::controller::{ClaimRead, Controller, Outbox, Outcome, Prepared};
use super::index::Index;
use super::queue::{Job, Numbered};
use crate::clock;

/// The allocation protocol's controller. The protocol itself is in the [`Index`]: the others look there.
#[derive(Debug, Default)]
pub struct ClaimController {
    /// The events of lists and watches.
    pub intake: Intake,
    /// The claims that wait for an address.
    pub waiting: Waiting,
}

impl ClaimController {
    /// Something happened.
    pub fn step(index: &mut Index, event: Event, out: &mut Outbox) {
        show_pools(&event, out);
        for action in index.protocol.step(clock::moment(), event) {
            match action {
                Action::Write { id, write } => {
                    notes::refusal(index, &write, out);
                    notes::pool(index, &write, out);
                    out.queue.push(Job::Claims(Numbered { id, write }));
                }
                Action::ListAddresses { of: ClaimKind::Metal3, id } if !index.metal3.wants_list(id) => {
                    // There are no such objects.
                    Self::step(index, Event::Metal3Addresses(Vec::new(), Some(id)), out);
                }
                Action::ListAddresses { of, id } => {
                    // The machine has one list of a kind under way at a time.
                    if out.lists(of).try_send(id).is_err() {
                        tracing::warn!(?of, "consistent list of IPAddresses could not be requested");
                    }
                }
                Action::ReadClaim { id, key, owner } => out.reads.push(ClaimRead { id, key, owner }),
                Action::Remote(call) => out.outside.push(call),
                Action::Report(report) => {
                    out.ops.report(&report);
                    notes::report(index, &report, out);
                }
            }
        }
    }

    /// Steps the claims whose hold has changed. Nothing else about them is new: the other controllers need no event.
    pub fn step_changed_holds(&mut self, index: &mut Index, out: &mut Outbox) {
        for key in self.intake.take_changed_holds(clock::now(), index) {
            if let Some(claim) = index.protocol.claim(&key) {
                let held = index.held((**claim).clone());
                self.waiting.changed();
                Self::step(index, Event::Claim(held), out);
            }
        }
        let paused = index.protocol.vanished().filter_map(|(claim, before)| {
            let paused = index.clusters.pauses_the_next_of(claim);
            (paused != before).then(|| Event::VanishedPaused(claim.key.clone(), paused))
        });
        for event in paused.collect::<Vec<_>>() {
            Self::step(index, event, out);
        }
    }

    /// The latest time at which a claim must be judged again.
    pub fn next_hold(index: &Index) -> Option<Duration> {
        index.clusters.next()
    }
}

impl Controller for ClaimController {
    type Job = Numbered<Write>;

    fn next_tick(&self, index: &Index) -> Option<Duration> {
        index.protocol.next_tick()
    }

    fn prepare(&self, index: &Index, job: &Self::Job) -> Prepared {
        index.prepare(&job.write)
    }

    fn answered(&mut self, index: &mut Index, job: &Self::Job, outcome: Outcome, out: &mut Outbox) {
        let write = &job.write;
        let result = match outcome {
            Outcome::NotSent | Outcome::Stale => Err(Failure::Conflict),
            Outcome::Impossible(error) => Err(Failure::Refused(error)),
            Outcome::Already => {
                remember(index, write);
                Ok(answers::NOT_SHOWN)
            }
            Outcome::Answered(result) => {
                if let Err(error) = &result {
                    out.ops.write_failed(write, error);
                } else {
                    remember(index, write);
                    notes::binding(index, write, out);
                }
                index.done(write, result)
            }
        };
        Self::step(index, Event::Answer { id: job.id, result }, out);
    }
}

/// A pool's status cannot be read back completely: the written status is remembered.
fn remember(index: &mut Index, write: &Write) {
    if let Write::PoolStatus(target, status) = write
        && let Some(pool) = index.pools.get(&target.reference)
    {
        let uid = pool.seen.uid();
        index.written.written(&target.reference, &uid, status.clone());
    }
}

/// The metrics show pools by their statuses: so allocators that do not lead show them too.
fn show_pools(event: &Event, out: &Outbox) {
    let metrics = &out.ops.metrics;
    let show = |pool: &Pool| metrics.pool(&pool.reference, pool.status.as_ref().map(|status| &status.counts));
    match event {
        Event::Pools(all) => {
            metrics.no_pools();
            all.iter().for_each(show);
        }
        Event::Pool(pool) => show(pool),
        Event::PoolGone(reference, _) => metrics.pool(reference, None),
        _ => {}
    }
}
