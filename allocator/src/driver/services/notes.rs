//! What is worth an Event, a metric, or a line in the log.

use std::time::Duration;

use mooring_services::machine::{Report, Write};

use super::super::run::Driver;
use crate::api::ApiError;
use crate::clock;
use crate::people::{Note, Regarding};
use mooring_allocator_core::names::Key;

/// Services by reason are counted so often at most: that goes through all of them.
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

impl Driver {
    fn service(&self, key: &Key) -> Regarding {
        let seen = self.desk.as_ref().and_then(|desk| desk.machine.seen(key));
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
    fn config_map(&self) -> Option<Regarding> {
        let desk = self.desk.as_ref()?;
        let (namespace, name) = desk.settings.config_map.clone();
        let uid = desk.intake.config_uid.as_deref().unwrap_or_default().to_owned();
        Some(Regarding { group: "", version: "v1", kind: "ConfigMap", namespace, name, uid })
    }

    /// Tells people.
    pub(super) fn note_service(&mut self, report: Report) {
        let metrics = &self.ops.metrics;
        let (regarding, warning, reason, action, text) = match report {
            Report::Assigned { service, addresses, before } => {
                metrics.services_assigned.inc();
                let since = self.desk.as_mut().and_then(|desk| desk.since.remove(&service));
                if let Some(since) = since {
                    metrics.service_after(clock::now().saturating_sub(since));
                }
                tracing::info!(%service, addresses, before, "a Service has its address");
                let text = if before.is_empty() { addresses } else { format!("{addresses} in place of {before}") };
                (Some(self.service(&service)), false, "AddressAssigned".into(), "Assign", text)
            }
            Report::Released { service, addresses } => {
                metrics.services_released.inc();
                tracing::info!(%service, addresses, "a Service has given its address back");
                let text = format!("{addresses} was given back");
                (Some(self.service(&service)), false, "AddressReleased".into(), "Release", text)
            }
            Report::Told { service, condition, warning } => {
                tracing::info!(%service, reason = &*condition.reason, message = &*condition.message, warning, "a Service is told");
                let reason = condition.reason.into_string().into();
                (Some(self.service(&service)), warning, reason, "Assign", condition.message.into_string())
            }
            Report::PoolRefused { pool, why } => {
                tracing::warn!(%pool, why, "a pool made from the ConfigMap is refused");
                let text = format!("the pool {pool} that is made from it is refused: {why}");
                (self.config_map(), true, "PoolRefused".into(), "MakePools", text)
            }
            Report::Problem(problem) => {
                tracing::warn!(%problem, "an entry of the ConfigMap cannot be read");
                (self.config_map(), true, "InvalidEntry".into(), "MakePools", problem.to_string())
            }
        };
        let Some(regarding) = regarding else { return };
        self.events.send(Note { regarding, pool: None, warning, reason, action, text }, &self.ops);
    }

    /// A write that failed.
    pub(super) fn service_write_failed(&self, write: &Write, error: &ApiError) {
        self.ops.write_not_done(name(write), write, error);
    }

    /// Shows how many Services there are of each reason, and what is wrong with the `ConfigMap`.
    pub(in super::super) fn show_services(&mut self) {
        let now = clock::now();
        let Some(desk) = self.desk.as_mut().filter(|desk| desk.changed && desk.shown + COUNT_EVERY <= now) else {
            return;
        };
        (desk.changed, desk.shown) = (false, now);
        let metrics = &self.ops.metrics;
        metrics.services(&desk.machine.counts());
        metrics.config_problems.set(i64::try_from(desk.machine.config().problems.len()).unwrap_or(i64::MAX));
    }

    /// When [`Driver::show_services`] has something for sure.
    pub(in super::super) fn next_show(&self) -> Option<Duration> {
        self.desk.as_ref().filter(|desk| desk.changed).map(|desk| desk.shown + COUNT_EVERY)
    }
}
