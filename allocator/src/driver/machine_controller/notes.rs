//! Which reports become an Event, a metric, or a log line.

use mooring_allocator_core::names::Key;
use mooring_allocator_machines::machine::{Report, Write};
use mooring_allocator_machines::words;

use super::super::controller::Outbox;
use super::MachineController;
use crate::events::{Note, Regarding, WRITE};

/// A short name.
pub const fn name(write: &Write) -> &'static str {
    match write {
        Write::CreateClaim(_) => "a claim for a machine",
        Write::AdoptClaim(..) => "the machine of a claim",
        Write::ReleaseClaim(_) => "a finalizer of a claim",
        Write::DeleteClaim(_) => "the end of a claim",
        Write::Devices(..) => "the devices of a machine",
    }
}

impl MachineController {
    fn regarding(&self, key: &Key) -> Regarding {
        let seen = self.machine.seen(key);
        Regarding {
            group: words::GROUP,
            version: seen.map_or_else(|| self.intake.served(), |machine| machine.api),
            kind: words::KIND,
            namespace: key.namespace.to_string(),
            name: key.name.to_string(),
            uid: seen.map(|machine| machine.uid.to_string()).unwrap_or_default(),
        }
    }

    /// Reports to people.
    pub(super) fn note(&self, report: Report, out: &Outbox) {
        let (regarding, warning, reason, action, text) = match report {
            Report::Wrote { machine, what } => {
                out.ops.metrics.machine_writes.inc();
                tracing::info!(%machine, what, "written for the addresses of a VSphereMachine");
                (self.regarding(&machine), false, "AddressWritten", WRITE, what)
            }
            Report::ConditionChanged { machine, condition } => {
                let (reason, warning) = (condition.reason.name(), condition.reason.warns());
                tracing::info!(%machine, reason, message = condition.message, warning, "where the addresses of a VSphereMachine stand");
                (self.regarding(&machine), warning, reason, "Assign", condition.message)
            }
            // The allocation protocol says what becomes of the address.
            Report::Released { claim } => {
                return tracing::info!(%claim, "VSphereMachine is gone; its claim is released");
            }
        };
        let note = Note { regarding, pool: None, warning, reason: reason.into(), action, text };
        out.events.send(note, &out.ops);
    }
}
