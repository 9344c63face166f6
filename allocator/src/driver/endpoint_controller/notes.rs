//! Which reports become an Event, a metric, or a log line.

use mooring_allocator_core::names::Key;
use mooring_allocator_endpoints::machine::{Report, Write};
use mooring_api::cluster;

use super::super::controller::Outbox;
use super::EndpointController;
use crate::events::{Note, Regarding, WRITE};

/// A short name.
pub const fn name(write: &Write) -> &'static str {
    match write {
        Write::CreateClaim(_) => "a claim for a Cluster",
        Write::AdoptClaim(..) => "the Cluster of a claim",
        Write::ReleaseClaim(_) => "a finalizer of a claim",
        Write::DeleteClaim(_) => "the end of a claim",
        Write::Condition(..) => "where an endpoint stands",
        Write::Text(..) => "a text with a Cluster's addresses",
        Write::ControlPlane(..) => "the control plane of a Cluster",
        Write::Host(..) => "the host of an endpoint",
        Write::Variables(..) => "the variables of a topology",
        Write::Unpause(_) => "the end of a Cluster's pause",
        Write::Unmark(_) => "an annotation of a Cluster",
    }
}

impl EndpointController {
    fn cluster(&self, key: &Key) -> Regarding {
        let seen = self.machine.seen(key);
        Regarding {
            group: cluster::GROUP,
            version: seen.map_or("v1beta2", |cluster| cluster.api),
            kind: "Cluster",
            namespace: key.namespace.to_string(),
            name: key.name.to_string(),
            uid: seen.map(|cluster| cluster.uid.to_string()).unwrap_or_default(),
        }
    }

    /// Reports to people.
    pub(super) fn note(&self, report: Report, out: &Outbox) {
        let (regarding, warning, reason, action, text) = match report {
            Report::Wrote { cluster, what } => {
                out.ops.metrics.endpoint_writes.inc();
                tracing::info!(%cluster, what, "written for the endpoint of a Cluster");
                (self.cluster(&cluster), false, "EndpointWritten", WRITE, what)
            }
            Report::PutBack { cluster, message } => {
                tracing::warn!(%cluster, message, "what was written for the endpoint of a Cluster is put back again and again");
                (self.cluster(&cluster), true, "PutBack", WRITE, message)
            }
            Report::ConditionChanged { cluster, condition, warning } => {
                let reason = condition.reason.name();
                tracing::info!(%cluster, reason, message = condition.message, warning, "where the endpoint of a Cluster stands");
                (self.cluster(&cluster), warning, reason, "Assign", condition.message)
            }
            // The allocation protocol says what becomes of the address.
            Report::Released { claim } => return tracing::info!(%claim, "Cluster is gone; its claim is released"),
        };
        let note = Note { regarding, pool: None, warning, reason: reason.into(), action, text };
        out.events.send(note, &out.ops);
    }
}
