//! Third parties that are asked beside a host that may be gone: only who hears one of them is not deaf itself.

use std::net::IpAddr;

use super::mac::Mac;

/// A host that is asked beside another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Party {
    /// Its own address.
    pub address: IpAddr,
    /// Its MAC address; None: nobody has told it yet, and only a broadcast reaches the host.
    pub mac: Option<Mac>,
}

/// How many are asked at a time, if frames are not limited: a suspicion stays cheap on a segment of many nodes.
pub(crate) const PARTIES: usize = 4;

/// At most so many of these: the first ones, and one more, another each `turn`. Otherwise names of nodes that are long gone could make
/// this node deaf.
pub(crate) fn at_most<P: Copy>(mut all: Vec<P>, most: usize, turn: usize) -> Vec<P> {
    if all.len() > most {
        let rest = all.split_off(most.saturating_sub(1));
        let next = turn.checked_rem(rest.len()).and_then(|n| rest.get(n));
        all.extend(next.copied().filter(|_| most > 0));
    }
    all
}
