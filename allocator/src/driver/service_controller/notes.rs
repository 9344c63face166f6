//! Which reports become an Event, a metric, or a log line.

use std::time::Duration;

use mooring_allocator_services::machine::{Report, Write};
use mooring_allocator_services::words;

use super::super::controller::Outbox;
use super::ServiceController;
use crate::clock;
use crate::events::{Note, Regarding};
use mooring_allocator_core::names::Key;

/// Shortest interval between two counts of Services by reason: a count goes through all Services.
const COUNT_EVERY: Duration = Duration::from_secs(1);

/// A short name.
pub const fn name(write: &Write) -> &'static str {
    match write {
        Write::CreateClaim(_) => "a claim for a Service",
        Write::UpdateClaim(..) => "the Services of a claim",
        Write::DeleteClaim(_) => "the end of a claim",
        Write::Exchange(..) => "what is wrong with an address",
        Write::Annotate(..) => "the annotations of a Service",
        Write::Status(..) => "the status of a Service",
        Write::RemoveCleanup(_) => "a finalizer of a Service",
        Write::CreatePool(_) => "a pool made from the ConfigMap",
        Write::UpdatePool(..) => "a pool made from the ConfigMap, edited",
        Write::DeletePool(_) => "the end of a pool made from the ConfigMap",
    }
}

impl ServiceController {
    fn service(&self, key: &Key) -> Regarding {
        let seen = self.machine.seen(key);
        Regarding {
            group: "",
            version: "v1",
            kind: "Service",
            namespace: key.namespace.to_string(),
            name: key.name.to_string(),
            uid: seen.map(|service| service.uid.to_string()).unwrap_or_default(),
        }
    }

    /// The `ConfigMap` of addresses.
    fn config_map(&self) -> Regarding {
        let (namespace, name) = self.settings.config_map.clone();
        let uid = self.intake.config_uid.as_deref().unwrap_or_default().to_owned();
        Regarding { group: "", version: "v1", kind: "ConfigMap", namespace, name, uid }
    }

    /// Reports to people.
    pub(super) fn note(&mut self, report: Report, out: &Outbox) {
        let metrics = &out.ops.metrics;
        let (regarding, warning, reason, action, text) = match report {
            Report::Assigned { service, addresses, before } => {
                metrics.services_assigned.inc();
                let since = self.since.remove(&service);
                if let Some(since) = since {
                    metrics.service_after(clock::now().saturating_sub(since));
                }
                tracing::info!(%service, addresses, before, "Service has its address");
                let text = if before.is_empty() { addresses } else { format!("{addresses} in place of {before}") };
                (self.service(&service), false, "AddressAssigned".into(), "Assign", text)
            }
            Report::Kept { service, addresses } => {
                tracing::info!(%service, addresses, "Service was to get another address, and keeps its own: it asks for that, or its pool has it");
                let text = format!(
                    "{addresses} stays, because the Service asks for it, or its pool has it: ask for another with the annotation \
                     kube-vip.io/loadbalancerIPs, or name another pool with {}",
                    words::POOL
                );
                (self.service(&service), false, "AddressKept".into(), "Assign", text)
            }
            Report::Released { service, addresses } => {
                metrics.services_released.inc();
                tracing::info!(%service, addresses, "Service released its address");
                let text = format!("{addresses} was given back");
                (self.service(&service), false, "AddressReleased".into(), "Release", text)
            }
            Report::ConditionChanged { service, condition, warning } => {
                tracing::info!(%service, reason = &*condition.reason, message = &*condition.message, warning, "condition of Service changed");
                let reason = condition.reason.into_string().into();
                (self.service(&service), warning, reason, "Assign", condition.message.into_string())
            }
            Report::Contested { service, addresses } => {
                tracing::warn!(%service, addresses, "another controller writes addresses into the status of the Service; Mooring leaves the Service to it");
                let text = format!(
                    "another controller writes {addresses} into the status, again and again: Mooring leaves the Service to it and takes \
                     its own address back. Set spec.loadBalancerClass, or the annotation kube-vip.io/ignore, on Services \
                     that only one of the two is to serve"
                );
                (self.service(&service), true, "ServedByAnother".into(), "Release", text)
            }
            Report::NotHonoured { service, text } => {
                tracing::warn!(%service, text, "annotations of MetalLB on Service have no effect");
                (self.service(&service), true, "AnnotationNotHonoured".into(), "Assign", text)
            }
            Report::PoolRefused { pool, why } => {
                tracing::warn!(%pool, why, "API server refuses a pool made from the ConfigMap; retrying");
                let text = format!("the pool {pool} that is made from it is refused: {why}");
                (self.config_map(), true, "PoolRefused".into(), "MakePools", text)
            }
            Report::Problem(problem) => {
                tracing::warn!(%problem, "entry of the ConfigMap is invalid; ignored");
                (self.config_map(), true, "InvalidEntry".into(), "MakePools", problem.to_string())
            }
        };
        out.events.send(Note { regarding, pool: None, warning, reason, action, text }, &out.ops);
    }

    /// Updates the metrics: the number of Services for each reason, and the errors in the `ConfigMap`.
    pub fn show(&mut self, out: &Outbox) {
        let now = clock::now();
        if !self.changed || self.shown + COUNT_EVERY > now {
            return;
        }
        (self.changed, self.shown) = (false, now);
        let metrics = &out.ops.metrics;
        metrics.services(&self.machine.counts());
        metrics.config_problems.set(i64::try_from(self.machine.config().problems.len()).unwrap_or(i64::MAX));
    }

    /// When [`ServiceController::show`] will have something for sure.
    pub fn next_show(&self) -> Option<Duration> {
        self.changed.then(|| self.shown + COUNT_EVERY)
    }
}
