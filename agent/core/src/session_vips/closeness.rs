//! How close one node is to another, for the choice of its watchers and of its judges. All nodes compute it alike.

use crate::placement::mix;
use crate::planted::planted;
use crate::session::{Link, Peer};

/// The greater, the closer: a node that shares more of the other's segments sees more of it. A hash decides among equals.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Closeness {
    /// How many of the other node's segments it shares.
    pub(super) segments: usize,
    hash: u64,
}

impl Closeness {
    /// How close `peer` is to `other`, which has these links.
    pub(super) fn new(peer: &Peer, other: &Peer, links: &[Link]) -> Self {
        let segments = links.iter().filter(|link| shares(peer, link)).count();
        Self { segments, hash: mix(other.seed, peer.seed) }
    }
}

/// Whether the node is on the segment of this link, and both are up there.
pub(super) fn shares(peer: &Peer, link: &Link) -> bool {
    peer.view.links().iter().any(|own| is_watched(own, link))
}

/// Whether a node with the interface `own` can watch `other`: both are on one segment, and up as far as their nodes know.
pub(super) fn is_watched(own: &Link, other: &Link) -> bool {
    own.shares(other) && (own.up && other.up || planted!(WatchesDownLinks))
}
