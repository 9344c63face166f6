//! What is kept beside the protocol's own view: whatever a patch must not lose, and what holds claims back.

use std::collections::HashMap;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::Duration;

use mooring_allocator_core::names::{Key, PoolKind, PoolRef, Uid, Version};
use mooring_allocator_core::protocol::{self, Claim, Hold};
use mooring_allocator_core::steering::Facts;
use mooring_api::versions::{IpamVersion, PoolVersion};

use super::held::Scope;
use crate::wire::claim::{Beside, Stamp};
use crate::wire::names::{Finalizers, Names};
use crate::wire::pool::{Namespaces, Seen};

/// All that is kept.
#[derive(Debug, Default)]
pub struct Known {
    /// Texts that are held once.
    pub names: Names,
    /// Claims, by uid.
    pub claims: HashMap<Arc<str>, KnownClaim>,
    /// The finalizers of `IPAddress` objects that have others than ours, and the version at which they had them; by uid.
    pub odd: HashMap<Arc<str>, (Version, Finalizers)>,
    /// Who holds addresses, by their objects' uids.
    pub holders: HashMap<Arc<str>, Arc<str>>,
    /// What steering needs of addresses, by their objects' uids: of those that agents may advertise.
    pub facts: HashMap<Arc<str>, Box<Facts>>,
    /// Pools.
    pub pools: HashMap<Arc<PoolRef>, KnownPool>,
    /// In which version each kind of pool is spoken of.
    pub pools_served: HashMap<PoolKind, PoolVersion>,
    /// Whether each Cluster is paused.
    pub clusters: HashMap<Key, bool>,
    /// This cluster knows no Clusters at all: what a claim says of one is no reason to wait.
    pub no_clusters: bool,
    /// Namespaces and their labels, once a pool asks for them.
    pub namespaces: Namespaces,
    /// They were listed.
    pub labels_listed: bool,
    /// How often the namespaces have changed.
    pub namespaces_changed: u64,
    /// In which version claims and addresses are spoken of.
    pub served: IpamVersion,
    /// Which claims are this allocator's.
    pub scope: Scope,
}

/// What is kept of a claim.
#[derive(Clone, Debug)]
pub struct KnownClaim {
    /// What its patches must not lose.
    pub beside: Beside,
    /// The list that showed it last.
    pub round: u32,
    /// Its Cluster was not seen yet, and may be on its way.
    pub grace: bool,
    /// When it was first seen, until it is bound; on the clock of all deadlines, in microseconds.
    since: Option<NonZeroU64>,
}

impl KnownClaim {
    /// A claim as it is shown; `since`: when it was first seen, unless it is bound.
    #[must_use]
    pub fn new(beside: Beside, round: u32, grace: bool, since: Option<Duration>) -> Self {
        let since = since.and_then(|at| NonZeroU64::new(u64::try_from(at.as_micros()).unwrap_or(u64::MAX)));
        Self { beside, round, grace, since }
    }

    /// When it was first seen; none: it is bound.
    #[must_use]
    pub fn since(&self) -> Option<Duration> {
        self.since.map(|micros| Duration::from_micros(micros.get()))
    }

    /// It is bound.
    pub const fn is_bound(&mut self) {
        self.since = None;
    }
}

/// What is kept of a pool.
#[derive(Clone, Debug)]
pub struct KnownPool {
    /// As it was last seen.
    pub seen: Seen,
    /// In which version.
    pub api: PoolVersion,
    /// The status that was written last.
    pub written: Option<protocol::PoolStatus>,
}

impl Known {
    /// A claim, if this is the version that is known.
    #[must_use]
    pub fn claim_at(&self, uid: &Uid, version: &Version) -> Option<&Beside> {
        self.claims.get(&uid.0).map(|known| &known.beside).filter(|beside| beside.at == Stamp::from(version))
    }

    /// Whether a claim must be left alone.
    #[must_use]
    pub fn hold(&self, claim: &Claim) -> Hold {
        let Some(known) = self.claims.get(&claim.uid.0) else { return Hold::None };
        let beside = &known.beside;
        if beside.paused || beside.elsewhere {
            return Hold::Paused;
        }
        let Some(cluster) = &beside.cluster else { return Hold::None };
        let key = Key { namespace: claim.key.namespace.clone(), name: cluster.clone() };
        match self.clusters.get(&key) {
            _ if self.no_clusters => Hold::None,
            Some(true) => Hold::Paused,
            Some(false) => Hold::None,
            None if known.grace && !claim.deleting => Hold::Paused,
            None => Hold::NoCluster(Box::from(&**cluster)),
        }
    }

    /// A claim, with its hold.
    #[must_use]
    pub fn held(&self, mut claim: Claim) -> Claim {
        claim.hold = self.hold(&claim);
        claim
    }

    /// Whether a Cluster that a claim names was not seen.
    #[must_use]
    pub fn lacks_cluster(&self, beside: &Beside) -> bool {
        beside.cluster.as_ref().is_some_and(|cluster| {
            let key = Key { namespace: beside.key.namespace.clone(), name: cluster.clone() };
            !self.no_clusters && !self.clusters.contains_key(&key)
        })
    }
}
