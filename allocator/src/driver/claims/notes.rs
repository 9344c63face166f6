//! Which reports become Events.

use mooring_allocator_core::names::Key;
use mooring_allocator_core::protocol::{Report, Write};
use mooring_api::conditions;

use super::super::controller::Outbox;
use super::super::index::Index;
use crate::clock;
use crate::events::Note;

/// A claim is bound.
pub(super) fn binding(index: &Index, write: &Write, out: &Outbox) {
    let Write::Bind(target, _, condition) = write else { return };
    let Some(claim) = index.claim(&target.uid) else { return };
    if let Some(since) = index.waiting_since.get(&target.uid) {
        out.ops.metrics.bound_after(clock::now().saturating_sub(*since));
    }
    let pool = &claim.pool;
    let text = format!("{} out of {pool}", condition.message);
    let note = Note {
        regarding: index.regarding_claim(&target.key, &target.uid.0),
        pool: index.regarding_pool(pool),
        warning: false,
        reason: conditions::ADDRESS_ALLOCATED.into(),
        action: "Allocate",
        text,
    };
    out.events.send(note, &out.ops);
}

/// A claim cannot have an address.
pub(super) fn refusal(index: &Index, write: &Write, out: &Outbox) {
    let Write::Condition(target, condition) = write else { return };
    if condition.ready {
        return;
    }
    let pool = index.claim(&target.uid).and_then(|claim| index.regarding_pool(&claim.pool));
    let note = Note {
        regarding: index.regarding_claim(&target.key, &target.uid.0),
        pool,
        warning: true,
        reason: condition.reason.name().into(),
        action: "Allocate",
        text: condition.message.clone(),
    };
    out.events.send(note, &out.ops);
}

/// Something else to tell.
pub(super) fn report(index: &Index, report: &Report, out: &Outbox) {
    let note = match report {
        Report::Released { address, block } => {
            let block = block.map_or_else(|| "an address that cannot be read".to_owned(), |block| block.to_string());
            Note {
                regarding: index.regarding_address(address),
                pool: None,
                warning: false,
                reason: "AddressReleased".into(),
                action: "Release",
                text: format!("{block} of IPAddress {} was released", own(address)),
            }
        }
        Report::Duplicate { address, other } => Note {
            regarding: index.regarding_address(address),
            pool: None,
            warning: true,
            reason: "DuplicateAddress".into(),
            action: "Compare",
            text: format!("IPAddress {} has the same address, and both are in use: delete one claim", own(other)),
        },
        Report::Conflict { claim, block, heard, kept } => {
            let then = if *kept { "the claim asked for it, and keeps it" } else { "the claim gets another" };
            Note {
                regarding: index.regarding_claim(claim, ""),
                pool: None,
                warning: true,
                reason: "AddressConflict".into(),
                action: "Quarantine",
                text: format!("somebody else was heard to have {block} ({heard}): {then}"),
            }
        }
        Report::NotRested { address, block, why } => {
            let block = block.map_or_else(|| "its address".to_owned(), |block| block.to_string());
            Note {
                regarding: index.regarding_address(address),
                pool: None,
                warning: true,
                reason: "QuarantineFailed".into(),
                action: "Release",
                text: format!("{block} was released without its quarantine: {why}"),
            }
        }
        Report::Allocated { .. } | Report::Withdrawn { .. } | Report::Failed { .. } => return,
    };
    out.events.send(note, &out.ops);
}

/// The namespace and name of an address.
fn own(address: &Key) -> String {
    format!("{}/{}", address.namespace, address.object())
}
