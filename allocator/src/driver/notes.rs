//! What is worth an Event.

use std::sync::Arc;

use mooring_allocator_core::names::{Key, PoolRef};
use mooring_allocator_core::protocol::{Report, Write};
use mooring_api::address::IpAddress;
use mooring_api::claim::IpAddressClaim;
use mooring_api::versions::Version as _;
use mooring_api::{GROUP, conditions};

use super::run::Driver;
use crate::clock;
use crate::people::{Note, Regarding};

impl Driver {
    fn claim(&self, key: &Key, uid: &str) -> Regarding {
        Regarding {
            group: GROUP,
            version: self.known.served.name(),
            kind: IpAddressClaim::KIND,
            namespace: key.namespace.to_string(),
            name: key.name.to_string(),
            uid: uid.to_owned(),
        }
    }

    fn address(&self, key: &Key) -> Regarding {
        Regarding { kind: IpAddress::KIND, ..self.claim(key, "") }
    }

    pub(super) fn pool(&self, reference: &Arc<PoolRef>) -> Option<Regarding> {
        let pool = self.known.pools.get(reference)?;
        Some(Regarding {
            group: GROUP,
            version: pool.api.name(),
            kind: reference.kind.name(),
            namespace: reference.namespace.to_string(),
            name: reference.name.to_string(),
            uid: pool.seen.meta.uid.clone().unwrap_or_default(),
        })
    }

    /// A claim is bound.
    pub(super) fn note_binding(&mut self, write: &Write) {
        let Write::Bind(target, _, condition) = write else { return };
        let Some(known) = self.known.claims.get(&target.uid.0) else { return };
        if let Some(since) = known.since() {
            self.ops.metrics.bound_after(clock::now().saturating_sub(since));
        }
        let pool = &known.beside.pool;
        let text = format!("{} out of {pool}", condition.message);
        let note = Note {
            regarding: self.claim(&target.key, &target.uid.0),
            pool: self.pool(pool),
            warning: false,
            reason: conditions::ADDRESS_ALLOCATED.into(),
            action: "Allocate",
            text,
        };
        self.events.send(note, &self.ops);
    }

    /// A claim cannot have an address.
    pub(super) fn note_refusal(&mut self, write: &Write) {
        let Write::Condition(target, condition) = write else { return };
        if condition.ready {
            return;
        }
        let pool = self.known.claims.get(&target.uid.0).and_then(|known| self.pool(&known.beside.pool));
        let note = Note {
            regarding: self.claim(&target.key, &target.uid.0),
            pool,
            warning: true,
            reason: condition.reason.name().into(),
            action: "Allocate",
            text: condition.message.clone(),
        };
        self.events.send(note, &self.ops);
    }

    /// Something else to tell.
    pub(super) fn note_report(&mut self, report: &Report) {
        let note = match report {
            Report::Released { address, block } => {
                let block = block.map_or_else(|| "its address".to_owned(), |block| block.to_string());
                Note {
                    regarding: self.address(address),
                    pool: None,
                    warning: false,
                    reason: "AddressReleased".into(),
                    action: "Release",
                    text: format!("{block} was given back"),
                }
            }
            Report::Duplicate { address, other } => Note {
                regarding: self.address(address),
                pool: None,
                warning: true,
                reason: "DuplicateAddress".into(),
                action: "Compare",
                text: format!("IPAddress {other} has the same address, and both are in use: delete one claim"),
            },
            Report::Conflict { claim, block, heard, kept } => {
                let then = if *kept { "the claim asked for it, and keeps it" } else { "the claim gets another" };
                Note {
                    regarding: self.claim(claim, ""),
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
                    regarding: self.address(address),
                    pool: None,
                    warning: true,
                    reason: "QuarantineFailed".into(),
                    action: "Release",
                    text: format!("{block} was released without its quarantine: {why}"),
                }
            }
            Report::Allocated { .. } | Report::Withdrawn { .. } | Report::Failed { .. } => return,
        };
        self.events.send(note, &self.ops);
    }
}
