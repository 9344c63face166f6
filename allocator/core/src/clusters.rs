//! Clusters, as far as claims depend on them: the allocator leaves alone a claim of a paused Cluster, or of a Cluster
//! that does not exist.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use crate::names::{Key, Uid};
use crate::protocol::{Claim, Hold};

/// Grace period for a claim whose Cluster was not seen: both may have been made at the same time.
pub const GRACE: Duration = Duration::from_secs(1);

/// Whether this API server has Clusters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Kind {
    /// Not known yet: no claim can be judged.
    #[default]
    Unknown,
    /// The API server does not serve the kind. The server may have just started: claims wait for their Clusters.
    Missing,
    /// The API server serves claims and not Clusters: a claim that names a Cluster does not wait.
    Absent,
    /// The Clusters were listed.
    Listed,
}

/// What claims depend on of a Cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pause {
    /// It is not paused.
    None,
    /// It is paused, and has no control-plane endpoint yet, or waits for nothing else.
    BeforeEndpoint,
    /// It has its control-plane endpoint, and is paused for something else: it may be on its way from another management
    /// cluster, and its claims' addresses with it.
    WithEndpoint,
}

/// The existing Clusters, and the claims that wait for theirs.
///
/// Invariants: a claim has its grace once, from the first time it is shown until [`GRACE`] is over, and `waiting` has
/// its uid for exactly this time; `ends` has an entry for each waiting claim, in order of time (and perhaps entries of
/// claims that are gone).
#[derive(Debug, Default)]
pub struct Clusters {
    kind: Kind,
    /// A list has failed.
    failed: bool,
    /// Whether each Cluster that was seen is paused.
    paused: HashMap<Key, Pause>,
    /// The same, of the pages of an unfinished list. The list counts once it is complete.
    listing: HashMap<Key, Pause>,
    /// Claims in their grace period.
    waiting: HashMap<Uid, Key>,
    ends: VecDeque<(Duration, Uid)>,
}

impl Clusters {
    /// Whether claims that name a Cluster can be judged.
    #[must_use]
    pub fn are_known(&self) -> bool {
        self.kind != Kind::Unknown
    }

    /// A list has failed: claims that name no Cluster wait no longer.
    pub const fn list_failed(&mut self) {
        self.failed = true;
    }

    /// Whether claims need not wait for Clusters any more: either Clusters are known, or they cannot be listed now. Claims that name a
    /// Cluster are left alone until Clusters are known.
    #[must_use]
    pub fn let_claims_begin(&self) -> bool {
        self.are_known() || self.failed
    }

    /// A list begins: its first page is read next.
    pub fn list_begins(&mut self) {
        self.listing.clear();
    }

    /// A page of a list has shown a Cluster.
    pub fn listed(&mut self, cluster: Key, pause: Pause) {
        self.listing.insert(cluster, pause);
    }

    /// A Cluster was shown. Returns whether claims must be judged again.
    pub fn shown(&mut self, cluster: Key, pause: Pause) -> bool {
        self.paused.insert(cluster, pause) != Some(pause)
    }

    /// A Cluster is gone. Returns whether claims must be judged again.
    pub fn gone(&mut self, cluster: &Key) -> bool {
        self.paused.remove(cluster).is_some()
    }

    /// The last page of a list was read: the list replaces the known state, and all claims must be judged again.
    pub fn list_ends(&mut self) {
        self.paused = std::mem::take(&mut self.listing);
        self.kind = Kind::Listed;
    }

    /// The API server does not serve Clusters. Returns whether claims must be judged again. An API server that has just
    /// started denies every kind for a moment; a server that has served claims is past this moment. Once Clusters were
    /// listed, this answer means nothing.
    pub fn not_served(&mut self, claims_were_listed: bool) -> bool {
        let before = self.kind;
        if matches!(before, Kind::Unknown | Kind::Missing) {
            let is_past = claims_were_listed && before == Kind::Missing;
            self.kind = if is_past { Kind::Absent } else { Kind::Missing };
        }
        self.kind == Kind::Absent && before != Kind::Absent
    }

    /// A claim was shown for the first time: if its Cluster was not shown, the claim has its grace period.
    pub fn claim_shown_first(&mut self, now: Duration, claim: &Claim) {
        if self.lacks(claim) && !self.waiting.contains_key(&claim.uid) {
            self.waiting.insert(claim.uid.clone(), claim.key.clone());
            self.ends.push_back((now + GRACE, claim.uid.clone()));
        }
        debug_assert!(self.waiting.len() <= self.ends.len(), "each grace ends");
    }

    /// A claim is gone.
    pub fn claim_gone(&mut self, claim: &Uid) {
        self.waiting.remove(claim);
    }

    /// Whether the Cluster that a claim names was not seen.
    fn lacks(&self, claim: &Claim) -> bool {
        depends_on(claim).is_some_and(|cluster| self.kind != Kind::Absent && !self.paused.contains_key(&cluster))
    }

    /// The claims whose grace period is over: they must be judged again.
    pub fn end_of_grace(&mut self, now: Duration) -> Vec<Key> {
        let mut over = Vec::new();
        while self.ends.front().is_some_and(|(at, _)| *at <= now) {
            over.extend(self.ends.pop_front().and_then(|(_, uid)| self.waiting.remove(&uid)));
        }
        over
    }

    /// When [`Clusters::end_of_grace`] will have a claim for sure.
    #[must_use]
    pub fn next(&self) -> Option<Duration> {
        self.ends.front().map(|(at, _)| *at)
    }

    /// Whether a Cluster is paused, or may be.
    #[must_use]
    pub fn is_paused(&self, cluster: &Key) -> bool {
        match self.paused.get(cluster) {
            _ if self.kind == Kind::Absent => false,
            Some(pause) => *pause != Pause::None,
            None => !self.are_known(),
        }
    }

    /// Whether the Cluster that a claim was for, which is gone, is paused, or may be.
    #[must_use]
    pub fn pauses_the_next_of(&self, claim: &Claim) -> bool {
        let for_cluster = || claim.retained.endpoint.as_ref().and_then(|mark| mark.cluster().cloned());
        let key = |name| Key { namespace: claim.key.namespace.clone(), name };
        claim.retained.cluster.clone().or_else(for_cluster).is_some_and(|name| self.is_paused(&key(name)))
    }

    /// Whether a claim must be left alone.
    #[must_use]
    pub fn hold(&self, claim: &Claim) -> Hold {
        if claim.retained.paused || claim.retained.elsewhere {
            return Hold::Paused;
        }
        let Some(cluster) = cluster(claim) else { return self.hold_for_endpoint(claim) };
        match self.paused.get(&cluster) {
            _ if self.kind == Kind::Absent => Hold::None,
            Some(Pause::BeforeEndpoint | Pause::WithEndpoint) => Hold::Paused,
            Some(Pause::None) => Hold::None,
            // The Cluster may exist, and be paused.
            None if !self.are_known() => Hold::Paused,
            None if self.waiting.contains_key(&claim.uid) && !claim.deleting => Hold::Paused,
            None => Hold::NoCluster(Box::from(&*cluster.name)),
        }
    }

    /// The same, of a claim that is for the endpoint or the Services of a Cluster. Such a claim gets its address although the
    /// Cluster is paused, since the Cluster waits for it; but not while the Cluster has its endpoint already: then the claim's
    /// own `IPAddress` is still to come, from the management cluster where both were, or from a backup.
    fn hold_for_endpoint(&self, claim: &Claim) -> Hold {
        let Some(cluster) = endpoints_cluster(claim) else { return Hold::None };
        match self.paused.get(&cluster) {
            _ if self.kind == Kind::Absent => Hold::None,
            Some(Pause::WithEndpoint) => Hold::Paused,
            Some(Pause::None | Pause::BeforeEndpoint) => Hold::None,
            None if !self.are_known() || self.waiting.contains_key(&claim.uid) => Hold::Paused,
            None => Hold::NoCluster(Box::from(&*cluster.name)),
        }
    }
}

/// The Cluster on which the hold of a claim depends.
#[must_use]
pub fn depends_on(claim: &Claim) -> Option<Key> {
    cluster(claim).or_else(|| endpoints_cluster(claim))
}

/// The Cluster that a claim names.
fn cluster(claim: &Claim) -> Option<Key> {
    let name = claim.retained.cluster.clone()?;
    Some(Key { namespace: claim.key.namespace.clone(), name })
}

/// The Cluster whose endpoint, or whose Services, a claim without address is for.
fn endpoints_cluster(claim: &Claim) -> Option<Key> {
    let mark = claim.retained.endpoint.as_ref().filter(|_| claim.bound.is_none() && !claim.deleting)?;
    Some(Key { namespace: claim.key.namespace.clone(), name: mark.cluster()?.clone() })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::names::{PoolKind, PoolRef, Version};
    use crate::retained_meta::{ClusterOwner, ForCluster, RetainedMeta};

    const NOW: Duration = Duration::from_secs(9);

    fn claim(cluster: Option<&str>) -> Claim {
        Claim {
            key: Key::new("n", "c"),
            uid: Uid::from("u"),
            version: Version::from("1"),
            created: 0,
            pool: Arc::new(PoolRef::new(PoolKind::InClusterIPPool, "n", "p")),
            deleting: false,
            finalizer: false,
            others: false,
            bound: None,
            voided: 0,
            had: None,
            requested: None,
            hold: Hold::None,
            condition: None,
            retained: RetainedMeta { cluster: cluster.map(Arc::from), ..RetainedMeta::default() },
        }
    }

    #[test]
    fn a_claim_waits_for_its_cluster_while_clusters_cannot_be_listed() {
        let mut clusters = Clusters::default();
        assert!(!clusters.let_claims_begin());
        clusters.list_failed();
        assert!(clusters.let_claims_begin());
        let (named, alone) = (claim(Some("k")), claim(None));
        for claim in [&named, &alone] {
            clusters.claim_shown_first(NOW, claim);
        }
        clusters.end_of_grace(NOW + GRACE);
        assert_eq!((clusters.hold(&named), clusters.hold(&alone)), (Hold::Paused, Hold::None));
        clusters.list_begins();
        clusters.list_ends();
        assert_eq!(clusters.hold(&named), Hold::NoCluster("k".into()));
    }

    #[test]
    fn a_claim_waits_a_moment_for_its_cluster() {
        let mut clusters = Clusters::default();
        clusters.list_ends();
        let claim = claim(Some("k"));
        clusters.claim_shown_first(NOW, &claim);
        assert_eq!(clusters.hold(&claim), Hold::Paused);
        assert_eq!(clusters.hold(&Claim { deleting: true, ..claim.clone() }), Hold::NoCluster("k".into()));
        assert_eq!(clusters.next(), Some(NOW + GRACE));
        assert!(clusters.end_of_grace(NOW).is_empty());
        assert_eq!(clusters.end_of_grace(NOW + GRACE), [Key::new("n", "c")]);
        assert_eq!(clusters.hold(&claim), Hold::NoCluster("k".into()));
        for (pause, hold) in
            [(Pause::WithEndpoint, Hold::Paused), (Pause::BeforeEndpoint, Hold::Paused), (Pause::None, Hold::None)]
        {
            assert!(clusters.shown(Key::new("n", "k"), pause));
            assert!(!clusters.shown(Key::new("n", "k"), pause), "nothing new");
            assert_eq!(clusters.hold(&claim), hold);
        }
        assert!(clusters.gone(&Key::new("n", "k")) && !clusters.gone(&Key::new("n", "k")));
    }

    #[test]
    fn a_claim_that_is_gone_has_no_grace_left() {
        let mut clusters = Clusters::default();
        clusters.claim_shown_first(NOW, &claim(Some("k")));
        clusters.claim_gone(&Uid::from("u"));
        assert!(clusters.end_of_grace(NOW + GRACE).is_empty());
    }

    #[test]
    fn without_the_kind_no_claim_waits_once_claims_were_listed() {
        let (mut clusters, claim) = (Clusters::default(), claim(Some("k")));
        assert!(!clusters.are_known());
        assert!(!clusters.not_served(false), "the API server may have begun only now");
        assert!(clusters.are_known());
        assert_eq!(clusters.hold(&claim), Hold::NoCluster("k".into()));
        assert!(clusters.not_served(true) && !clusters.not_served(true));
        assert_eq!(clusters.hold(&claim), Hold::None);
        clusters.list_ends();
        assert!(!clusters.not_served(true), "they were listed");
        assert_eq!(clusters.hold(&claim), Hold::NoCluster("k".into()));
    }

    #[test]
    fn a_claim_that_names_none_is_held_by_itself_only() {
        let clusters = Clusters::default();
        let mut claim = claim(None);
        assert_eq!(clusters.hold(&claim), Hold::None);
        claim.retained.paused = true;
        assert_eq!(clusters.hold(&claim), Hold::Paused);
        (claim.retained.paused, claim.retained.elsewhere) = (false, true);
        assert_eq!(clusters.hold(&claim), Hold::Paused);
    }

    #[test]
    fn the_next_claim_waits_while_the_cluster_is_paused() {
        let owner = Some(ClusterOwner { name: "k".into(), uid: Uid::from("before") });
        let mark = ForCluster { label: None, owner, given: false, owners: Vec::new(), condition: None, stood: None };
        let mut of_endpoint = Claim { deleting: true, ..claim(None) };
        of_endpoint.retained.endpoint = Some(Box::new(mark));
        for claim in [of_endpoint, claim(Some("k"))] {
            let mut clusters = Clusters::default();
            assert!(clusters.pauses_the_next_of(&claim), "nobody knows yet");
            clusters.list_ends();
            assert!(!clusters.pauses_the_next_of(&claim));
            for (pause, waits) in [(Pause::WithEndpoint, true), (Pause::BeforeEndpoint, true), (Pause::None, false)] {
                clusters.shown(Key::new("n", "k"), pause);
                assert_eq!(clusters.pauses_the_next_of(&claim), waits);
            }
        }
    }

    #[test]
    fn a_claim_for_an_endpoint_waits_for_its_cluster_and_for_the_address_that_comes_with_it() {
        let mut clusters = Clusters::default();
        clusters.list_ends();
        let mut claim = claim(None);
        let owner = Some(ClusterOwner { name: "k".into(), uid: Uid::from("u-k") });
        let mark = ForCluster {
            label: Some("other".into()),
            owner,
            given: false,
            owners: Vec::new(),
            condition: None,
            stood: None,
        };
        claim.retained.endpoint = Some(Box::new(mark));
        clusters.claim_shown_first(NOW, &claim);
        assert_eq!(clusters.hold(&claim), Hold::Paused, "its Cluster may be on its way");
        assert_eq!(clusters.end_of_grace(NOW + GRACE), [Key::new("n", "c")]);
        assert_eq!(clusters.hold(&claim), Hold::NoCluster("k".into()), "a backup may bring the Cluster later");
        assert_eq!(clusters.hold(&Claim { deleting: true, ..claim.clone() }), Hold::None);
        for (pause, hold) in
            [(Pause::WithEndpoint, Hold::Paused), (Pause::BeforeEndpoint, Hold::None), (Pause::None, Hold::None)]
        {
            assert!(clusters.shown(Key::new("n", "k"), pause));
            assert_eq!(clusters.hold(&claim), hold, "{pause:?}");
            assert_eq!(depends_on(&claim), Some(Key::new("n", "k")));
            let bound = Claim { bound: Some("c".into()), ..claim.clone() };
            assert_eq!(clusters.hold(&bound), Hold::None, "{pause:?}");
            let deleting = Claim { deleting: true, ..claim.clone() };
            assert_eq!(clusters.hold(&deleting), Hold::None, "{pause:?}");
        }
    }
}
