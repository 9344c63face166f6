//! The loop: the events of lists and watches go to the controllers, and the controllers' calls go to the API server.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use futures::future::LocalBoxFuture;
use futures::stream::FuturesUnordered;
use mooring_allocator_core::names::{ClaimKind, PoolKind};
use mooring_allocator_core::protocol::Event;
use mooring_common::kubeconfig::ConfigError;
use tokio::sync::{mpsc, watch};

use super::change::Change;
use super::claims::ClaimController;
use super::claims::metal3::Known;
use super::claims::pools::component;
use super::controller::{Controller as _, Outbox};
use super::endpoint_controller::EndpointController;
use super::follow::Followers;
use super::index::Index;
use super::listing::Follower as _;
use super::machine_controller::MachineController;
use super::outside::Outside;
use super::pace::Pace;
use super::placement_hints::HintController;
use super::queue::Queue;
use super::send::Ended;
use super::service_controller::ServiceController;
use crate::api::{ApiError, Client, Fed, Resource, What, random};
use crate::clock;
use crate::events::Events;
use crate::ops::Ops;
use crate::settings::Settings;

/// Number of batches from followers that may wait.
const RECEIVED: usize = 64;

/// Longest interval between two loop rounds: so the liveness check sees progress.
const BEAT: Duration = Duration::from_secs(10);
/// Shortest interval between two lines of the log about a kind that may not be listed.
const REFUSED_AGAIN: Duration = Duration::from_mins(1);
/// What people can do about the failure.
const NOT_SERVED: &str =
    "the API server does not serve it: install Cluster API, or the CRDs of `mooring-allocator crds --standalone`";

/// The allocator cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum DriverError {
    /// There is no cluster to connect to.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The election ended.
    #[error("the election ended")]
    Election,
}

/// The loop's state.
pub(super) struct Driver {
    pub(super) settings: Settings,
    pub(super) client: Client,
    pub(super) index: Index,
    pub(super) claims: ClaimController,
    /// None: Services are left alone.
    pub(super) services: Option<ServiceController>,
    /// None: Clusters are left alone.
    pub(super) endpoints: Option<EndpointController>,
    /// None: machines are left alone.
    pub(super) machines: Option<MachineController>,
    pub(super) hints: HintController,
    pub(super) outside: Outside,
    pub(super) out: Outbox,
    pub(super) followers: Followers,
    pub(super) pace: Pace,
    pub(super) calls: FuturesUnordered<LocalBoxFuture<'static, Ended>>,
    /// The number of writes under way.
    pub(super) writing: usize,
    pub(super) leads: Option<Duration>,
    /// When the log last said that a kind may not be listed.
    pub(super) refused: BTreeMap<Resource, Duration>,
}

/// Whether only claims of its own pools wait while a kind may not be listed.
const fn waits_alone(resource: Resource) -> bool {
    resource.of_metal3() || matches!(resource, Resource::Pools(kind) if kind.is_remote())
}

/// Runs for ever; `leads` gives the time until which this allocator surely leads. `server`: the API server's address.
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
    let (tell, mut received) = mpsc::channel(RECEIVED);
    let (lists, lists_asked) = mpsc::channel(8);
    let (metal3_lists, metal3_lists_asked) = mpsc::channel(8);
    let (relist, relist_asked) = watch::channel(0);
    let (scope, pace) = (settings.scope.clone(), Pace::new(settings.writes_per_second));
    let mut driver = Driver {
        services: settings.services.clone().map(|services| ServiceController::new(services, scope.clone(), server)),
        endpoints: settings.endpoints.clone().map(|endpoints| EndpointController::new(endpoints, scope.clone())),
        machines: settings.machine_addresses.then(|| MachineController::new(scope.clone())),
        client,
        index: Index { one_network: settings.one_network, ..Index::new(scope, random()) },
        claims: ClaimController::default(),
        hints: HintController::default(),
        out: Outbox {
            queue: Queue::default(),
            reads: Vec::new(),
            objects: Vec::new(),
            outside: Vec::new(),
            lists,
            metal3_lists,
            relist,
            events,
            ops,
        },
        followers: Followers::new(tell, [lists_asked, metal3_lists_asked], relist_asked),
        pace,
        calls: FuturesUnordered::new(),
        writing: 0,
        leads: None,
        refused: BTreeMap::new(),
        outside: Outside::new(&settings),
        settings,
    };
    let metal3 = driver.settings.metal3.then_some(PoolKind::Metal3IPPool);
    let openstack = driver.settings.openstack.then_some(PoolKind::OpenStackFloatingIPPool);
    let phpipam = driver.settings.phpipam.then_some(PoolKind::PHPIPAMIPPool);
    for kind in metal3.into_iter().chain(openstack).chain(phpipam) {
        driver.index.serve(kind);
    }
    let for_services = driver.services.as_ref().map(ServiceController::wanted).unwrap_or_default();
    let for_endpoints = driver.endpoints.as_ref().map(EndpointController::wanted).unwrap_or_default();
    let for_machines = driver.machines.iter().flat_map(|_| MachineController::WANTED);
    let all = [Resource::Claims, Resource::Addresses].into_iter().chain(for_services).chain(for_endpoints);
    for resource in all.chain(for_machines) {
        driver.out.ops.readiness.set(resource.name(), Some("not listed yet".into()));
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
            Some(fed) = received.recv() => driver.received(fed),
            () = sleep_until(tick) => driver.step(Event::Tick),
        }
        driver.claims.step_changed_holds(&mut driver.index, &mut driver.out);
        driver.follow_for_services();
        driver.pump();
        driver.read_claims();
        driver.read_objects();
        driver.call_outside();
        driver.show();
    }
}

async fn sleep_until(at: Option<Duration>) {
    let wait = at.map_or(BEAT, |at| at.saturating_sub(clock::now()));
    tokio::time::sleep(wait.min(BEAT)).await;
}

impl Driver {
    fn next_tick(&self) -> Option<Duration> {
        let index = &self.index;
        let services = self.services.as_ref().and_then(|services| services.next_tick(index));
        let endpoints = self.endpoints.as_ref().and_then(|endpoints| endpoints.next_tick(index));
        let of_machines = self.machines.as_ref().and_then(|machines| machines.next_tick(index));
        let machines = [self.claims.next_tick(index), services, endpoints, of_machines, self.hints.next_tick(index)];
        let leads = self.leads.is_some_and(|until| clock::now() < until);
        let machines = machines.into_iter().flatten().min().filter(|_| leads);
        let paced = self.pace.next().filter(|_| !self.out.queue.is_empty() && self.writing < self.settings.writes);
        let services_show = self.services.as_ref().and_then(ServiceController::next_show);
        let endpoints_show = self.endpoints.as_ref().and_then(EndpointController::next_show);
        let machines_show = self.machines.as_ref().and_then(MachineController::next_show);
        let shown = [services_show, endpoints_show, machines_show, self.claims.waiting.next_show()];
        let shown = shown.into_iter().flatten();
        machines.into_iter().chain(ClaimController::next_hold(index)).chain(paced).chain(shown).min()
    }

    /// Steps the allocation protocol first: the other controllers follow the state of the index afterwards.
    pub(super) fn step(&mut self, event: Event) {
        let change = Change::of(&event);
        ClaimController::step(&mut self.index, event, &mut self.out);
        let Some(change) = change else { return };
        if matches!(change, Change::Claims(_) | Change::Claim(..) | Change::ClaimGone(..)) {
            self.claims.waiting.changed();
        }
        if let Some(services) = &mut self.services {
            services.observe(&self.index, &change, &mut self.out);
        }
        if let Some(endpoints) = &mut self.endpoints {
            endpoints.observe(&self.index, &change, &mut self.out);
        }
        if let Some(machines) = &mut self.machines {
            machines.observe(&self.index, &change, &mut self.out);
        }
        self.hints.observe(&self.index, &change, &mut self.out);
    }

    fn lead(&mut self, until: Option<Duration>) {
        self.leads = until;
        self.step(Event::Leading(until));
    }

    fn received(&mut self, fed: Fed) {
        if fed.resource.for_services() {
            if let Some(services) = &mut self.services {
                services.received(fed, &mut self.index, &mut self.out);
            }
            return self.follow_more();
        }
        if let Resource::Parts(_) = fed.resource {
            if let Some(endpoints) = &mut self.endpoints {
                endpoints.received(fed, &self.index, &mut self.out);
            }
            return;
        }
        if MachineController::WANTED.contains(&fed.resource) {
            if let Some(machines) = &mut self.machines {
                machines.received(fed, &self.index, &mut self.out);
            }
            return;
        }
        let Fed { resource, what } = fed;
        let now = clock::now();
        match what {
            What::Page { version, bytes, first, asked, epoch, reply } => {
                let page = (resource, version, &bytes);
                match self.claims.intake.page(&mut self.index, now, page, first, asked) {
                    Ok((turned, events)) => {
                        let complete = turned.next.is_empty();
                        // Nobody waits any more: the follower has ended, together with the whole allocator.
                        let _ = reply.send(turned);
                        for event in events {
                            self.step(event);
                        }
                        if let Some(endpoints) = &mut self.endpoints {
                            endpoints.page((resource, version), &bytes, (first, complete), &self.index, &mut self.out);
                        }
                        if let Some(machines) = &mut self.machines {
                            machines.page((resource, version), &bytes, (first, complete), &self.index, &mut self.out);
                        }
                        if complete {
                            self.listed(resource, Some(epoch));
                        }
                        self.look_at_namespaces(resource);
                    }
                    Err(error) => tracing::error!(%error, "list cannot be read; it is listed again"),
                }
                self.follow_more();
            }
            What::Lines(bytes) => {
                let mut events = Vec::new();
                self.claims.intake.lines(&mut self.index, now, resource, &bytes, |event| events.push(event));
                for event in events {
                    match event {
                        Ok(event) => self.step(event),
                        // No address may be missed. The protocol has not asked for this list; its numbers begin with 1.
                        Err(error) if matches!(resource, Resource::Addresses | Resource::Metal3Addresses) => {
                            tracing::error!(%error, "watch event cannot be read; all are listed again, until they can be read");
                            // If there is no room, a list is asked for already.
                            let of_metal3 = resource == Resource::Metal3Addresses;
                            let of = if of_metal3 { ClaimKind::Metal3 } else { ClaimKind::ClusterApi };
                            let _ = self.out.lists(of).try_send(0);
                        }
                        Err(error) => {
                            tracing::error!(%error, "watch event cannot be read; the object is ignored until it changes");
                        }
                    }
                }
                if let Some(endpoints) = &mut self.endpoints {
                    endpoints.lines(resource, &bytes, &self.index, &mut self.out);
                }
                if let Some(machines) = &mut self.machines {
                    machines.lines(resource, &bytes, &self.index, &mut self.out);
                }
                self.look_at_namespaces(resource);
                self.follow_more();
            }
            What::Missing => {
                self.out.ops.readiness.set(resource.name(), None);
                // The other kinds may be absent.
                if matches!(resource, Resource::Claims | Resource::Addresses) {
                    self.out.ops.readiness.set(resource.name(), Some(NOT_SERVED.into()));
                }
                for event in self.claims.intake.missing(&mut self.index, resource) {
                    self.step(event);
                }
                self.listed(resource, None);
                self.follow_more();
            }
            What::Lost(error @ ApiError::Status { code: 401 | 403, .. }) if waits_alone(resource) => {
                self.may_not_list(resource, &error, now);
            }
            What::Lost(error) if resource == Resource::Clusters && !self.index.clusters.are_known() => {
                tracing::warn!(%error, "Clusters cannot be listed; claims that name a Cluster wait, the others go on");
                self.out.ops.readiness.set(resource.name(), Some(error.to_string()));
                self.index.clusters.list_failed();
                self.follow_more();
            }
            What::Lost(error) => {
                tracing::warn!(resource = resource.plural(), %error, "list or watch failed; retrying");
            }
            What::Live => {
                self.out.ops.readiness.set(resource.name(), None);
                tracing::debug!(resource = resource.plural(), "list is complete; watching");
            }
        }
    }

    /// The API server does not let this program list a kind of which only claims of its own pools wait.
    fn may_not_list(&mut self, resource: Resource, error: &ApiError, now: Duration) {
        let resource_name = resource.name();
        if self.refused.get(&resource).is_none_or(|at| *at + REFUSED_AGAIN <= now) {
            self.refused.insert(resource, now);
            let component = component(resource);
            tracing::error!(resource = resource_name, %error, component, "no permission to list; claims of this kind's pools wait, the others go on");
        }
        self.out.ops.readiness.set(resource_name, Some(error.to_string()));
        let events = match resource {
            Resource::Pools(kind) if kind.is_remote() => self.claims.intake.pools_refused(&self.index, kind),
            _ => self.claims.intake.metal3_unlisted(&mut self.index, resource, Known::Refused),
        };
        for event in events {
            self.step(event);
        }
        self.follow_more();
    }

    /// A list of this kind is complete. `epoch`: it began after this request; None: the kind is not served.
    fn listed(&mut self, resource: Resource, epoch: Option<u64>) {
        if let Some(services) = &mut self.services {
            services.listed(resource, epoch, &self.index, &mut self.out);
        }
        if let Some(endpoints) = &mut self.endpoints {
            endpoints.listed(resource, epoch, &mut self.out);
        }
        if let Some(machines) = &mut self.machines {
            machines.listed(resource, epoch, &mut self.out);
        }
    }

    /// A list or watch of this kind has shown something. If of namespaces, Services may wait for one.
    fn look_at_namespaces(&mut self, resource: Resource) {
        if let Some(services) = self.services.as_mut().filter(|_| resource == Resource::Namespaces) {
            services.look_at_namespaces(&self.index, &mut self.out);
        }
    }

    /// Updates the metrics.
    fn show(&mut self) {
        let metrics = &self.out.ops.metrics;
        metrics.waiting.set(i64::try_from(self.out.queue.len()).unwrap_or(i64::MAX));
        metrics.under_way.set(i64::try_from(self.writing).unwrap_or(i64::MAX));
        self.claims.intake.take_times().into_iter().for_each(|time| metrics.bound_after(time));
        self.claims.waiting.show(&self.index, &self.out);
        if let Some(services) = &mut self.services {
            services.show(&self.out);
        }
        if let Some(endpoints) = &mut self.endpoints {
            endpoints.show(&self.out);
        }
        if let Some(machines) = &mut self.machines {
            machines.show(&self.out);
        }
        self.out.ops.liveness.beat();
    }
}
