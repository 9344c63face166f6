//! What a decision about one Cluster rests on.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use mooring_allocator_core::names::{Key, PoolRef, Uid, Version};
use mooring_allocator_core::work::Target;

use crate::notes::RequestError;
use crate::objects::{Claim, Cluster, Companion, ControlPlane, Infrastructure, Reading};
use crate::reason::{Condition, Reason};

use super::Write;
use super::action::Parent;
use super::flaws::{Flaw, planted};
use super::standstill::Standstill;

/// The known state of a Cluster and of everything that belongs to it.
pub(super) struct View<'a> {
    pub(super) now: Duration,
    pub(super) cluster: &'a Cluster,
    /// The pool of its endpoint; None: none is wanted.
    pub(super) wish: Result<Option<Arc<PoolRef>>, RequestError>,
    /// Its claims, by name.
    pub(super) claims: &'a BTreeMap<Arc<str>, Claim>,
    /// Whether a claim of this name exists and is not shown.
    pub(super) hidden: &'a dyn Fn(&str) -> bool,
    /// The infrastructure's kind is followed.
    pub(super) followed: bool,
    pub(super) infrastructure: Option<&'a Infrastructure>,
    pub(super) control_plane: Option<&'a ControlPlane>,
    /// What was read; None: there is no such object.
    pub(super) read: &'a dyn Fn(&Companion) -> Option<Option<Reading>>,
    /// When it was read.
    pub(super) read_at: &'a dyn Fn(&Companion) -> Option<Duration>,
    /// How long a Cluster that waits paused waits for the end of changes; None: it does not.
    pub(super) standstill: Option<Standstill>,
    /// The other Clusters whose machines get a `Secret`.
    pub(super) shared: &'a dyn Fn(&Companion) -> Vec<Arc<str>>,
    /// A write to an object other than a claim may take effect that is not shown yet.
    pub(super) unsure: bool,
}

/// What to do next.
#[derive(Debug)]
pub(super) enum Step {
    Write(Write),
    Read(Companion),
}

/// Why a decision ends before its end.
#[derive(Debug)]
pub(super) enum Stop {
    /// This is to be done first.
    Step(Box<Step>),
    /// This is to be waited for.
    Wait(Condition),
    /// The Cluster is none of ours.
    Nothing,
}

impl From<Write> for Stop {
    fn from(write: Write) -> Self {
        Self::Step(Box::new(Step::Write(write)))
    }
}

/// A wait.
pub(super) fn wait(reason: Reason, message: impl Into<String>) -> Stop {
    Stop::Wait(Condition::new(reason, message))
}

/// A target.
pub(super) fn target(key: &Key, uid: &Uid, version: &Version) -> Target {
    Target { key: key.clone(), uid: uid.clone(), version: version.clone() }
}

pub(super) fn claim_target(claim: &Claim) -> Target {
    target(&claim.key, &claim.uid, &claim.version)
}

impl View<'_> {
    pub(super) fn cluster_target(&self) -> Target {
        target(&self.cluster.key, &self.cluster.uid, &self.cluster.version)
    }

    /// Whether the Cluster is paused until its endpoint is written.
    pub(super) fn waits_for_us(&self) -> bool {
        self.cluster.paused && (self.cluster.notes.paused_for_endpoint || planted(Flaw::UnpausesAnyPause))
    }

    /// Whether the Cluster, or a part of it, is paused for another reason.
    pub(super) fn held(&self) -> bool {
        let parts = [self.infrastructure.map(|one| one.held), self.control_plane.map(|one| one.held)];
        let held = self.cluster.held || parts.contains(&Some(true)) || (self.cluster.paused && !self.waits_for_us());
        held && !planted(Flaw::ActsWhilePaused)
    }

    pub(super) fn initialised(&self) -> bool {
        self.cluster.initialised || self.control_plane.is_some_and(|one| one.initialised)
    }
}

/// What is between a claim and its Cluster.
pub(super) enum Bond {
    /// Label, finalizer and owner are as they should be, or cannot be changed any more.
    Whole,
    /// They are to be written.
    Missing(Write),
    /// The claim belongs to somebody else.
    Foreign,
}

/// What is between a claim and its Cluster.
pub(super) fn bond(claim: &Claim, cluster: &Cluster) -> Bond {
    if claim.retained.service.is_some() || claim.retained.elsewhere {
        return Bond::Foreign;
    }
    if claim.retained.owned && !claim.is_of_a_cluster() {
        return Bond::Foreign;
    }
    let labelled = claim.mark().is_some_and(|mark| mark.label.as_ref() == Some(&cluster.key.name));
    let kept = claim.in_use() || planted(Flaw::NoFinalizer);
    if claim.deleting || (labelled && is_owned(claim, cluster) && kept) {
        return Bond::Whole;
    }
    Bond::Missing(Write::AdoptClaim(claim_target(claim), Parent::of(cluster)))
}

/// Whether a claim belongs to this very Cluster.
pub(super) fn is_owned(claim: &Claim, cluster: &Cluster) -> bool {
    let owner = claim.mark().and_then(|mark| mark.owner.as_ref());
    owner.is_some_and(|owner| owner.uid == cluster.uid) && !claim.retained.elsewhere
}

/// Whether a claim belongs to another Cluster, of the same name.
pub(super) fn is_of_another(claim: &Claim, cluster: &Cluster) -> bool {
    claim.mark().and_then(|mark| mark.owner.as_ref()).is_some_and(|owner| owner.uid != cluster.uid)
}

/// Whether a claim says that this address stood in all places.
pub(super) fn stood(claim: &Claim, ip: IpAddr) -> bool {
    claim.mark().is_some_and(|mark| {
        let written = |(reason, message): &(Box<str>, Box<str>)| {
            Reason::named(reason) == Some(Reason::Written) && message.parse() == Ok(ip)
        };
        mark.stood == Some(ip) || mark.condition.as_ref().is_some_and(written)
    })
}

/// The address that a claim has.
///
/// # Errors
/// Why it has none.
pub(super) fn address_of(claim: &Claim) -> Result<IpAddr, Stop> {
    if let Some(ip) = claim.address.filter(|_| claim.bound.is_some()) {
        return Ok(ip);
    }
    let name = &claim.key.name;
    match claim.condition.as_ref().filter(|condition| !condition.ready) {
        Some(refused) => {
            Err(wait(Reason::of_claim(refused.reason.name()), format!("claim {name}: {}", refused.message)))
        }
        None => Err(wait(Reason::Allocating, format!("claim {name} waits for its address"))),
    }
}
