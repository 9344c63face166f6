//! The loop: what is heard goes into the machine, what it wants goes to the API server.

use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use futures::future::LocalBoxFuture;
use futures::stream::FuturesUnordered;
use mooring_allocator_core::in_cluster::InCluster;
use mooring_allocator_core::protocol::{Action, Done, Event, Failure, Machine, Pool, Write};
use mooring_allocator_core::steering::Steering;
use mooring_api::versions::Version as _;
use mooring_edge::kubeconfig::ConfigError;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use super::answers::{Sent, claim_path, read_then_patch};
use super::intake::Intake;
use super::known::Known;
use super::pace::Pace;
use super::queue::{Job, Queue};
use super::services::{self, Desk};
use super::steering;
use super::writes::Prepared;
use crate::api::{Client, Fed, Follow, POOLS, Resource, What, random};
use crate::clock;
use crate::ops::Ops;
use crate::people::Events;
use crate::settings::Settings;

/// Batches of what was heard that may wait.
const HEARD: usize = 64;

/// The loop goes round so often, whatever happens: so it can be seen to live.
const BEAT: Duration = Duration::from_secs(10);
/// A claim of another provider's pool, which owns an address of ours, is asked for so often.
const FOREIGN_AGAIN: Duration = Duration::from_mins(1);
/// What people can do.
const NOT_SERVED: &str =
    "the API server does not serve it: install Cluster API, or the CRDs of `mooring-allocator crds --standalone`";

/// The allocator cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum DriverError {
    /// There is nothing to connect with.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The election ended.
    #[error("the election ended")]
    Election,
}

/// A call that ended.
pub(super) enum Ended {
    Write(Sent),
    /// A write on behalf of Services.
    Service {
        id: u64,
        write: mooring_services::machine::Write,
        result: Result<bytes::Bytes, crate::api::ApiError>,
    },
    /// What a pool says was written on an address.
    Steering {
        write: mooring_allocator_core::steering::Write,
        result: Result<bytes::Bytes, crate::api::ApiError>,
    },
    Read {
        id: u64,
        key: mooring_allocator_core::names::Key,
        owner: mooring_allocator_core::names::Uid,
        result: Result<bytes::Bytes, crate::api::ApiError>,
    },
    /// The claim that was read is of no pool of ours; that was told late.
    Foreign {
        id: u64,
    },
}

pub(super) struct Driver {
    settings: Settings,
    pub(super) client: Client,
    pub(super) ops: Arc<Ops>,
    pub(super) events: Events,
    pub(super) machine: Machine<InCluster>,
    pub(super) known: Known,
    intake: Intake,
    pub(super) steering: Steering,
    /// None: Services are none of its business.
    pub(super) desk: Option<Desk>,
    pub(super) queue: Queue,
    pace: Pace,
    pub(super) calls: FuturesUnordered<LocalBoxFuture<'static, Ended>>,
    pub(super) writing: usize,
    leads: Option<Duration>,
    /// Asks the follower of addresses for a list.
    lists: mpsc::Sender<u64>,
    tell: mpsc::Sender<Fed>,
    following: JoinSet<()>,
    started: Vec<Resource>,
    lists_asked: Option<mpsc::Receiver<u64>>,
}

/// Runs for ever; `leads` says until when this allocator surely leads. `server`: the API server's address.
///
/// # Errors
/// See [`DriverError`].
pub async fn run(
    settings: Settings,
    client: Client,
    ops: Arc<Ops>,
    events: Events,
    server: Option<IpAddr>,
    mut leads: watch::Receiver<Option<Duration>>,
) -> Result<Infallible, DriverError> {
    let (tell, mut heard) = mpsc::channel(HEARD);
    let (lists, lists_asked) = mpsc::channel(8);
    let scope = settings.scope.clone();
    let pace = Pace::new(settings.writes_per_second);
    let desk = settings.services.clone().map(|services| Desk::new(services, scope.watch_filter.clone(), server));
    let mut driver = Driver {
        settings,
        client,
        ops,
        events,
        machine: Machine::new(InCluster::default(), random()),
        known: Known { scope, ..Known::default() },
        intake: Intake::default(),
        steering: Steering::default(),
        desk,
        queue: Queue::default(),
        pace,
        calls: FuturesUnordered::new(),
        writing: 0,
        leads: None,
        lists,
        tell,
        following: JoinSet::new(),
        started: Vec::new(),
        lists_asked: Some(lists_asked),
    };
    let wanted = driver.desk.as_ref().map(Desk::wanted).unwrap_or_default();
    for resource in [Resource::Claims, Resource::Addresses].into_iter().chain(wanted) {
        driver.ops.readiness.set(resource.name(), Some("not listed yet".into()));
    }
    driver.follow_more();
    driver.lead(*leads.borrow_and_update());
    loop {
        let tick = driver.next_tick();
        tokio::select! {
            biased;
            changed = leads.changed() => {
                changed.map_err(|_| DriverError::Election)?;
                let until = *leads.borrow_and_update();
                driver.lead(until);
            }
            Some(ended) = driver.calls.next(), if !driver.calls.is_empty() => driver.ended(ended),
            Some(fed) = heard.recv() => driver.heard(fed),
            () = sleep_until(tick) => driver.step(Event::Tick),
        }
        driver.tell_again();
        driver.follow_for_services();
        driver.pump();
        driver.show();
    }
}

async fn sleep_until(at: Option<Duration>) {
    let wait = at.map_or(BEAT, |at| at.saturating_sub(clock::now()));
    tokio::time::sleep(wait.min(BEAT)).await;
}

impl Driver {
    fn next_tick(&self) -> Option<Duration> {
        let leads = self.leads.is_some_and(|until| clock::now() < until);
        let services = self.desk.as_ref().and_then(Desk::next_tick).filter(|_| leads);
        let steering = self.steering.next_tick().filter(|_| leads);
        let machine = self.machine.next_tick().into_iter().chain(services).chain(steering).min().filter(|_| leads);
        let paced = self.pace.next().filter(|_| !self.queue.is_empty() && self.writing < self.settings.writes);
        machine.into_iter().chain(self.intake.next()).chain(paced).chain(self.next_show()).min()
    }

    fn step(&mut self, event: Event) {
        let told = self.desk.as_ref().and_then(|_| services::told(&event, &self.known));
        let steering = steering::told(&event, &self.known);
        self.step_protocol(event);
        if let Some(told) = told {
            self.step_services(told);
        }
        if let Some(told) = steering {
            self.step_steering(told);
        }
    }

    fn step_protocol(&mut self, event: Event) {
        self.show_pools(&event);
        for action in self.machine.step(clock::moment(), event) {
            self.act(action);
        }
    }

    fn act(&mut self, action: Action) {
        match action {
            Action::Write { id, write } => {
                self.note_refusal(&write);
                self.queue.push(Job::Protocol(id, write));
            }
            Action::ListAddresses { id } => {
                // The machine has one list under way at a time.
                if self.lists.try_send(id).is_err() {
                    tracing::warn!("a list of addresses could not be asked for");
                }
            }
            Action::ReadClaim { id, key, owner } => {
                let (client, ops, deadline) = (self.client.clone(), self.ops.clone(), self.settings.call_deadline);
                let call = claim_path(self.known.served.name(), &key);
                self.calls.push(Box::pin(async move {
                    let result = client.call(&call, deadline, &ops.metrics).await;
                    Ended::Read { id, key, owner, result }
                }));
            }
            Action::Report(report) => {
                self.ops.report(&report);
                self.note_report(&report);
            }
        }
    }

    fn lead(&mut self, until: Option<Duration>) {
        self.leads = until;
        self.step(Event::Leading(until));
    }

    fn heard(&mut self, fed: Fed) {
        if fed.resource.for_services() {
            self.heard_of_services(fed);
            return self.follow_more();
        }
        let Fed { resource, what } = fed;
        let now = clock::now();
        match what {
            What::Page { version, bytes, first, asked, reply } => {
                let page = (resource, version, &bytes);
                match self.intake.page(&mut self.known, now, page, first, asked) {
                    Ok((turned, events)) => {
                        // Nobody waits any more: then the follower has ended, with the whole allocator.
                        let _ = reply.send(turned);
                        for event in events {
                            self.step(event);
                        }
                    }
                    Err(error) => tracing::error!(%error, "a list makes no sense"),
                }
                self.follow_more();
            }
            What::Lines(bytes) => {
                let mut events = Vec::new();
                self.intake.lines(&mut self.known, now, resource, &bytes, |event| events.push(event));
                for event in events {
                    match event {
                        Ok(event) => self.step(event),
                        Err(error) => tracing::error!(%error, "an object is passed over"),
                    }
                }
                self.follow_more();
            }
            What::Missing => {
                // The others may well be absent.
                if matches!(resource, Resource::Claims | Resource::Addresses) {
                    self.ops.readiness.set(resource.name(), Some(NOT_SERVED.into()));
                }
                let events = self.intake.missing(&mut self.known, resource);
                for event in events {
                    self.step(event);
                }
                self.follow_more();
            }
            What::Lost(error) => {
                tracing::warn!(resource = resource.plural(), %error, "nothing is heard of it; tried again");
            }
            What::Live => {
                self.ops.readiness.set(resource.name(), None);
                tracing::debug!(resource = resource.plural(), "watched");
            }
        }
    }

    /// Claims whose hold has changed.
    fn tell_again(&mut self) {
        for key in self.intake.take_again(clock::now(), &mut self.known) {
            if let Some(claim) = self.machine.claim(&key).cloned() {
                // Nothing new: Services need not be told.
                let held = self.known.held(claim);
                self.step_protocol(Event::Claim(held));
            }
        }
    }

    /// Follows the kinds whose turn has come: claims when Clusters are known, addresses when the first claims
    /// are.
    fn follow_more(&mut self) {
        let mut wanted: Vec<Resource> = vec![Resource::Clusters];
        wanted.extend(POOLS.map(Resource::Pools));
        if self.intake.clusters_known() {
            wanted.push(Resource::Claims);
        }
        if self.intake.claims_begun() {
            wanted.push(Resource::Addresses);
        }
        if self.known.pools.values().any(|pool| pool.seen.needs_labels()) {
            wanted.push(Resource::Namespaces);
        }
        wanted.extend(self.desk.iter().flat_map(Desk::wanted));
        for resource in wanted {
            if self.started.contains(&resource) {
                continue;
            }
            self.started.push(resource);
            let asks = if resource == Resource::Addresses { self.lists_asked.take() } else { None };
            let follow = Follow {
                client: self.client.clone(),
                resource,
                only: self.desk.as_ref().and_then(|desk| desk.only(resource)),
                deadline: self.settings.list_deadline,
                tell: self.tell.clone(),
                asks: asks.unwrap_or_else(|| mpsc::channel(1).1),
                observe: self.ops.metrics.clone(),
            };
            self.following.spawn(follow.run());
        }
    }

    /// Some kinds are wanted only once there is a Service that depends on them.
    fn follow_for_services(&mut self) {
        if self.desk.as_ref().is_some_and(Desk::wants_endpoints) && !self.started.contains(&Resource::Endpoints) {
            self.follow_more();
        }
    }

    /// Sends what waits, as far as it may.
    fn pump(&mut self) {
        while self.writing < self.settings.writes && !self.queue.is_empty() {
            let now = clock::now();
            if !self.pace.take(now) {
                return;
            }
            let Some(job) = self.queue.pop() else { return };
            let left = self.leads.map_or(Duration::ZERO, |until| until.saturating_sub(now));
            let deadline = self.settings.call_deadline.min(left);
            match job {
                // Decided on while it led, and not sent.
                Job::Protocol(id, _) if left.is_zero() => self.answer(id, Err(Failure::Conflict)),
                Job::Service(id, _) if left.is_zero() => self.not_sent_for_service(id),
                Job::Steering(write) if left.is_zero() => self.steering_not_sent(&write),
                Job::Protocol(id, write) => {
                    let prepared = self.known.prepare(&write);
                    self.send(id, write, prepared, deadline);
                }
                Job::Service(id, write) => self.send_for_service(id, write, deadline),
                Job::Steering(write) => self.send_steering(write, deadline),
            }
        }
    }

    fn send(&mut self, id: u64, write: Write, prepared: Prepared, deadline: Duration) {
        let (client, ops) = (self.client.clone(), self.ops.clone());
        let call: LocalBoxFuture<'static, Ended> = match prepared {
            Prepared::Call(call) => Box::pin(async move {
                let result = client.call(&call, deadline, &ops.metrics).await;
                Ended::Write(Sent { id, write, result })
            }),
            Prepared::ReadThenPatch { path, target, change } => Box::pin(async move {
                let result = read_then_patch(&client, path, &target, &change, deadline, &ops.metrics).await;
                Ended::Write(Sent { id, write, result })
            }),
            Prepared::Already => return self.already(id, &write),
            Prepared::Stale => return self.answer(id, Err(Failure::Conflict)),
            Prepared::Impossible(error) => {
                tracing::error!(error, ?write, "this cannot be written");
                return self.answer(id, Err(Failure::Refused(error)));
            }
        };
        self.writing += 1;
        self.calls.push(call);
    }

    fn already(&mut self, id: u64, write: &Write) {
        self.remember(write);
        self.answer(id, Ok(Done::Written));
    }

    fn ended(&mut self, ended: Ended) {
        match ended {
            Ended::Write(Sent { id, write, result }) => {
                self.writing -= 1;
                if let Err(error) = &result {
                    self.ops.write_failed(&write, error);
                } else {
                    self.remember(&write);
                    self.note_binding(&write);
                }
                let result = self.known.done(&write, result);
                self.answer(id, result);
            }
            Ended::Service { id, write, result } => self.ended_for_service(id, &write, result),
            Ended::Steering { write, result } => self.steering_ended(&write, result),
            Ended::Read { id, key, owner, result } => {
                let Some(result) = self.known.claim_read(&key, &owner, result) else {
                    tracing::debug!(claim = %key, "a claim of another provider's pool owns an address of ours");
                    return self.calls.push(Box::pin(async move {
                        tokio::time::sleep(FOREIGN_AGAIN).await;
                        Ended::Foreign { id }
                    }));
                };
                self.step(Event::ClaimRead { id, result });
            }
            // Only now is it asked for again.
            Ended::Foreign { id } => self.step(Event::ClaimRead { id, result: Err(Failure::Unknown) }),
        }
    }

    fn answer(&mut self, id: u64, result: Result<Done, Failure>) {
        self.step(Event::Answer { id, result });
    }

    /// Pools are shown in the metrics as their statuses have them: so those who do not lead show them too.
    fn show_pools(&self, event: &Event) {
        let metrics = &self.ops.metrics;
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

    /// What is shown in the metrics.
    fn show(&mut self) {
        let metrics = &self.ops.metrics;
        metrics.waiting.set(i64::try_from(self.queue.len()).unwrap_or(i64::MAX));
        metrics.under_way.set(i64::try_from(self.writing).unwrap_or(i64::MAX));
        self.intake.take_times().into_iter().for_each(|time| metrics.bound_after(time));
        self.show_services();
        self.ops.liveness.beat();
    }

    /// Not all of a pool's status can be read back: what was written is remembered.
    fn remember(&mut self, write: &Write) {
        if let Write::PoolStatus(target, status) = write
            && let Some(pool) = self.known.pools.get_mut(&target.reference)
        {
            pool.written = Some(status.clone());
        }
    }
}
