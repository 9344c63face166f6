//! Which reports become Events.

use mooring_allocator_core::names::{Key, PoolRef};
use mooring_allocator_core::protocol::{Report, Write};
use mooring_allocator_core::remote::{self, Drift};
use mooring_api::conditions;

use super::super::controller::Outbox;
use super::super::index::Index;
use crate::clock;
use crate::events::Note;
use crate::ops::metrics::reason_of;

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

/// Something is wrong with a pool, and was not before: people look at `kubectl describe`, and metal3's pools have no conditions.
/// Each has one Event, not one for each other pool that comes: a status tells of all.
pub(super) fn pool(index: &Index, write: &Write, out: &Outbox) {
    let Write::PoolStatus(target, status) = write else { return };
    let reference = &target.reference;
    let before = index.protocol.pool(reference).and_then(|pool| pool.status.clone()).unwrap_or_default();
    let invalid = if status.ready || reference.kind.is_remote() { "" } else { &status.message };
    let was_invalid = if before.ready { "" } else { &before.message };
    let overlaps = if before.overlapping.is_empty() { &status.overlapping } else { "" };
    let new = [
        (conditions::INVALID_SPEC, "Check", invalid, was_invalid),
        (conditions::PRE_ALLOCATION_REFUSED, "Check", &status.misplaced, &before.misplaced),
        (conditions::SHARED_WITH_OTHER_POOLS, "Compare", overlaps, ""),
    ];
    for (reason, action, text, before) in new {
        let Some(regarding) = index.regarding_pool(reference).filter(|_| !text.is_empty() && text != before) else {
            continue;
        };
        let (reason, text) = (reason.into(), text.to_owned());
        out.events.send(Note { regarding, pool: None, warning: true, reason, action, text }, &out.ops);
    }
}

/// Something else to tell.
pub(super) fn report(index: &Index, report: &Report, out: &Outbox) {
    let note = match report {
        Report::Released { address, pool, block } => {
            let block = block.map_or_else(|| "an address that cannot be read".to_owned(), |block| block.to_string());
            Note {
                regarding: index.regarding_address(address),
                pool: index.regarding_pool(pool),
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
            text: format!(
                "{} has the same address, and both are in use: delete one claim",
                told(other, &address.namespace)
            ),
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
        Report::AnotherAddress { claim, had, given } => Note {
            regarding: index.regarding_claim(claim, ""),
            pool: index.protocol.claim(claim).and_then(|claim| index.regarding_pool(&claim.pool)),
            warning: true,
            reason: "AddressChanged".into(),
            action: "Allocate",
            text: format!(
                "{given} in place of {had}, which the claim had (annotation mooring.dev/address): somebody else has that one, or it rests; change what points to it"
            ),
        },
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
        Report::Remote { pool, note } => match outside(index, pool, note) {
            Some(note) => note,
            None => return,
        },
        Report::Allocated { .. } | Report::Withdrawn { .. } | Report::Failed { .. } | Report::KeptForTheNext { .. } => {
            return;
        }
    };
    out.events.send(note, &out.ops);
}

/// Something about the outside system of a pool: an Event of the claim, or of the pool.
fn outside(index: &Index, pool: &PoolRef, note: &remote::Note) -> Option<Note> {
    use remote::Note as Said;
    let of_pool = index.regarding_pool(pool);
    let (claim, warning, text) = match note {
        Said::Orphan(entry) => (
            None,
            true,
            format!(
                "{} has an entry for claim {}, which is not here: see whether it can be deleted",
                entry.address, entry.host
            ),
        ),
        Said::OrphanReleased(entry) => (
            None,
            false,
            format!("the entry of {} for claim {}, which is gone, was deleted", entry.address, entry.host),
        ),
        Said::Missing(claim, address, drift) => {
            let then = if *drift == Drift::PutBack { "it is put back" } else { "put it back there" };
            (Some(claim), true, format!("the entry of {address} in the system of {pool} is gone or changed: {then}"))
        }
        Said::PutBack(claim, address) => {
            (Some(claim), false, format!("the entry of {address} was put back in the system of {pool}"))
        }
        Said::NotPutBack(claim, address, why) => (
            Some(claim),
            true,
            format!(
                "the entry of {address} cannot be put back in the system of {pool}: {why}; see who has the address there"
            ),
        ),
        Said::NotAsked(claim, address) => {
            let what = address.map_or_else(|| "an address".to_owned(), |address| address.to_string());
            (
                Some(claim),
                true,
                format!(
                    "{what} was let go without asking the system of {pool}, which was removed by force: delete the entry there"
                ),
            )
        }
    };
    let regarding = match claim {
        Some(key) => index.regarding_claim(key, index.protocol.claim(key).map_or("", |claim| &claim.uid.0)),
        None => of_pool.clone()?,
    };
    let pool = of_pool.filter(|_| claim.is_some());
    Some(Note { regarding, pool, warning, reason: reason_of(note).into(), action: "Compare", text })
}

/// An address, for the people of a namespace.
fn told(address: &Key, namespace: &str) -> String {
    if *address.namespace == *namespace {
        return format!("IPAddress {}", own(address));
    }
    address.told_in(namespace, "IPAddress")
}

/// The namespace and name of an address.
fn own(address: &Key) -> String {
    format!("{}/{}", address.namespace, address.object())
}
