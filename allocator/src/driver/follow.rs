//! Which kinds are followed, and from when.

use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use mooring_allocator_core::names::PoolKind;

use super::claims::metal3::METAL3;
use super::endpoint_controller::EndpointController;
use super::machine_controller::MachineController;
use super::run::Driver;
use super::service_controller::{ServiceController, kind_of};
use crate::api::{Fed, Follow, Resource};

/// The tasks that follow kinds.
#[derive(Debug)]
pub(super) struct Followers {
    tell: mpsc::Sender<Fed>,
    /// Asks for a list of addresses.
    lists_asked: Option<mpsc::Receiver<u64>>,
    /// The same, of metal3's.
    metal3_lists_asked: Option<mpsc::Receiver<u64>>,
    /// Asks for lists of all kinds that Services, endpoints or machines depend on.
    relist: watch::Receiver<u64>,
    tasks: JoinSet<()>,
    started: Vec<Resource>,
}

impl Followers {
    pub(super) fn new(tell: mpsc::Sender<Fed>, asked: [mpsc::Receiver<u64>; 2], relist: watch::Receiver<u64>) -> Self {
        let [lists_asked, metal3_lists_asked] = asked.map(Some);
        Self { tell, lists_asked, metal3_lists_asked, relist, tasks: JoinSet::new(), started: Vec::new() }
    }
}

impl Driver {
    /// Follows the kinds whose turn has come: claims once Clusters are known, or cannot be listed; addresses once the first claims
    /// are known.
    pub(super) fn follow_more(&mut self) {
        let mut wanted: Vec<Resource> = vec![Resource::Clusters];
        let metal3 = METAL3.into_iter().filter(|_| self.index.names.serves(PoolKind::Metal3IPPool));
        let pools = self.index.pool_kinds.iter().copied().filter(|kind| *kind != PoolKind::Metal3IPPool);
        wanted.extend(pools.map(Resource::Pools));
        if self.index.clusters.let_claims_begin() {
            wanted.extend(metal3);
            wanted.push(Resource::Claims);
        }
        if self.claims.intake.claims_begun() {
            wanted.push(Resource::Addresses);
        }
        if self.index.needs_labels() {
            wanted.push(Resource::Namespaces);
        }
        wanted.extend(self.services.iter().flat_map(ServiceController::wanted));
        wanted.extend(self.endpoints.iter().flat_map(EndpointController::wanted));
        wanted.extend(self.machines.iter().flat_map(|_| MachineController::WANTED));
        let for_endpoints = |one| self.endpoints.as_ref().is_some_and(|endpoints| endpoints.waits_for(one));
        let for_machines = |one| self.machines.is_some() && MachineController::waits_for(one);
        let asked_again = |one: &Resource| kind_of(*one).is_some() || for_endpoints(*one) || for_machines(*one);
        let relisted: Vec<Resource> = wanted.iter().copied().filter(asked_again).collect();
        let followers = &mut self.followers;
        for resource in wanted {
            if followers.started.contains(&resource) {
                continue;
            }
            followers.started.push(resource);
            let asks = match resource {
                Resource::Addresses => followers.lists_asked.take(),
                Resource::Metal3Addresses => followers.metal3_lists_asked.take(),
                _ => None,
            };
            let follow = Follow {
                client: self.client.clone(),
                resource,
                only: self.services.as_ref().and_then(|services| services.only(resource)),
                deadline: self.settings.list_deadline,
                tell: followers.tell.clone(),
                asks: asks.unwrap_or_else(|| mpsc::channel(1).1),
                relist: relisted.contains(&resource).then(|| followers.relist.clone()),
                observe: self.out.ops.metrics.clone(),
            };
            followers.tasks.spawn(follow.run());
        }
    }

    /// Endpoints are wanted only once a Service depends on them.
    pub(super) fn follow_for_services(&mut self) {
        let wants = self.services.as_ref().is_some_and(ServiceController::wants_endpoints);
        if wants && !self.followers.started.contains(&Resource::Endpoints) {
            self.follow_more();
        }
    }
}
