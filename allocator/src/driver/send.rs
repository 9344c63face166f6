//! Sends the controllers' writes, and reports the results to the controllers.

use std::time::Duration;

use bytes::Bytes;
use futures::future::LocalBoxFuture;
use mooring_allocator_core::protocol::Event;
use mooring_allocator_core::remote;
use mooring_allocator_core::work::Failure;

use super::claims::{read_of_claim, read_then_patch};
use super::controller::{ClaimRead, Controller as _, ObjectRead, Outcome, Prepared, Reader};
use super::queue::Job;
use super::run::Driver;
use crate::api::ApiError;
use crate::clock;

/// A finished call.
pub(super) enum Ended {
    /// A write.
    Write(Job, Result<Bytes, ApiError>),
    /// A claim was read.
    Read(ClaimRead, Result<Bytes, ApiError>),
    /// An object was read: the action's number, and who wanted it.
    Object(u64, Reader, Result<Bytes, ApiError>),
    /// A call to an outside system.
    Outside(u64, Result<remote::Answer, remote::Failure>),
}

impl Driver {
    /// Sends the waiting writes, within the limits.
    pub(super) fn pump(&mut self) {
        while self.writing < self.settings.writes && !self.out.queue.is_empty() {
            let now = clock::now();
            if !self.pace.take(now) {
                return;
            }
            let Some(job) = self.out.queue.pop() else { return };
            let left = self.leads.map_or(Duration::ZERO, |until| until.saturating_sub(now));
            if left.is_zero() {
                self.answered(&job, Outcome::NotSent);
            } else {
                self.send(job, self.settings.call_deadline.min(left));
            }
        }
    }

    fn send(&mut self, job: Job, deadline: Duration) {
        let (client, ops) = (self.client.clone(), self.out.ops.clone());
        let call: LocalBoxFuture<'static, Ended> = match self.prepare(&job) {
            Prepared::Call(call) => Box::pin(async move {
                let result = client.call(&call, deadline, &ops.metrics).await;
                Ended::Write(job, result)
            }),
            Prepared::ReadThenPatch { path, target, change } => Box::pin(async move {
                let result = read_then_patch(&client, path, &target, &change, deadline, &ops.metrics).await;
                Ended::Write(job, result)
            }),
            Prepared::Already => return self.answered(&job, Outcome::Already),
            Prepared::Stale => return self.answered(&job, Outcome::Stale),
            Prepared::Impossible(error) => {
                tracing::error!(error, write = ?job, "write cannot be encoded; it counts as refused");
                return self.answered(&job, Outcome::Impossible(error));
            }
        };
        self.writing += 1;
        self.calls.push(call);
    }

    fn prepare(&self, job: &Job) -> Prepared {
        let index = &self.index;
        match job {
            Job::Claims(job) => self.claims.prepare(index, job),
            Job::Services(job) => {
                self.services.as_ref().map_or(Prepared::Stale, |services| services.prepare(index, job))
            }
            Job::Endpoints(job) => {
                self.endpoints.as_ref().map_or(Prepared::Stale, |endpoints| endpoints.prepare(index, job))
            }
            Job::Machines(job) => {
                self.machines.as_ref().map_or(Prepared::Stale, |machines| machines.prepare(index, job))
            }
            Job::Hints(job) => self.hints.prepare(index, job),
        }
    }

    fn answered(&mut self, job: &Job, outcome: Outcome) {
        let (index, out) = (&mut self.index, &mut self.out);
        match job {
            Job::Claims(job) => self.claims.answered(index, job, outcome, out),
            Job::Services(job) => {
                if let Some(services) = &mut self.services {
                    services.answered(index, job, outcome, out);
                }
            }
            Job::Endpoints(job) => {
                if let Some(endpoints) = &mut self.endpoints {
                    endpoints.answered(index, job, outcome, out);
                }
            }
            Job::Machines(job) => {
                if let Some(machines) = &mut self.machines {
                    machines.answered(index, job, outcome, out);
                }
            }
            Job::Hints(job) => self.hints.answered(index, job, outcome, out),
        }
    }

    /// A call has ended.
    pub(super) fn ended(&mut self, ended: Ended) {
        match ended {
            Ended::Write(job, result) => {
                self.writing -= 1;
                self.answered(&job, Outcome::Answered(result));
            }
            Ended::Read(ClaimRead { id, key, owner }, result) => {
                let result = self.index.claim_read(&key, &owner, result).unwrap_or_else(|| {
                    tracing::debug!(claim = %key, "IPAddress of ours is owned by a claim of another provider's pool; its owner is read again later");
                    Err(Failure::Exists)
                });
                self.step(Event::ClaimRead { id, result });
            }
            Ended::Outside(id, result) => self.step(Event::Remote { id, result }),
            Ended::Object(id, Reader::Endpoints(what), result) => {
                if let Some(endpoints) = &mut self.endpoints {
                    endpoints.read(id, &what, result, &mut self.out);
                }
            }
            Ended::Object(id, Reader::Machines, result) => {
                if let Some(machines) = &mut self.machines {
                    machines.read(id, result, &mut self.out);
                }
            }
        }
    }

    /// Reads what endpoints and machines depend on besides what is watched.
    pub(super) fn read_objects(&mut self) {
        for ObjectRead { id, call, of } in std::mem::take(&mut self.out.objects) {
            let (client, ops, deadline) = (self.client.clone(), self.out.ops.clone(), self.settings.call_deadline);
            self.calls.push(Box::pin(async move {
                let result = client.call(&call, deadline, &ops.metrics).await;
                Ended::Object(id, of, result)
            }));
        }
    }

    /// Calls outside systems, for the leader only. A call that ends after the lead has ended does no harm: see the core.
    pub(super) fn call_outside(&mut self) {
        while !self.out.outside.is_empty() {
            for call in std::mem::take(&mut self.out.outside) {
                let left = self.leads.map_or(Duration::ZERO, |until| until.saturating_sub(clock::now()));
                if left.is_zero() {
                    self.step(Event::Remote { id: call.id, result: Err(remote::Failure::NotSent) });
                    continue;
                }
                let deadline = self.settings.call_deadline;
                let future = self.outside.call(&self.index, &self.client, &self.out.ops, call, deadline);
                self.calls.push(future);
            }
        }
    }

    /// Reads the claims that the allocation protocol asks for.
    pub(super) fn read_claims(&mut self) {
        for read in std::mem::take(&mut self.out.reads) {
            let (client, ops, deadline) = (self.client.clone(), self.out.ops.clone(), self.settings.call_deadline);
            let call = read_of_claim(&self.index, &read.key);
            self.calls.push(Box::pin(async move {
                let result = client.call(&call, deadline, &ops.metrics).await;
                Ended::Read(read, result)
            }));
        }
    }
}
