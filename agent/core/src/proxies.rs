//! Hosts that answer for others: routers with proxy ARP, above all where ports are kept apart (private VLANs). They answer any request
//! that names a sender, for any address of the subnet, with their own MAC address. RFC 5227's probes, from 0.0.0.0, they leave to owners.
//!
//! So what such a host answers for a VIP counts only if it answers a probe from 0.0.0.0. That counts only where another node answers such
//! probes: filters by ARP sender drop them, some switches do not flood them, and where ports are kept apart they reach no node.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::mac::Mac;
use super::time::Time;

/// A host that was not heard to answer for others for so long is none of these.
const KNOWN: Duration = Duration::from_mins(10);
/// An answer to a probe from 0.0.0.0 shows for so long that these pass.
const PROVEN: Duration = Duration::from_mins(1);
/// After so long another one is asked for.
const PROVE_AGAIN: Duration = Duration::from_secs(20);
/// Between two tries, if there is no answer: the first time, and at most.
const APART: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(16));
/// So many hosts are remembered of each kind: nobody fills the memory.
const MOST: usize = 32;

/// Whose address a host answered for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Of {
    /// A gateway's.
    Gateway,
    /// That node's.
    Node(String),
}

/// The hosts that may answer for others, and those that answer probes from 0.0.0.0.
#[derive(Clone, Debug, Default)]
pub(crate) struct Proxies {
    hosts: BTreeMap<Mac, BTreeMap<Of, Time>>,
    passed: BTreeMap<Mac, Time>,
    tried: Option<Time>,
    apart: Duration,
}

impl Proxies {
    /// A host that is no node's answered for that address.
    pub(crate) fn answered(&mut self, now: Time, mac: Mac, of: Of) {
        self.hosts.retain(|_, all| all.values().any(|at| now.since(*at) <= KNOWN));
        if self.hosts.len() < MOST || self.hosts.contains_key(&mac) {
            let all = self.hosts.entry(mac).or_default();
            all.retain(|_, at| now.since(*at) <= KNOWN);
            all.insert(of, now);
        }
    }

    /// A node answered a probe from 0.0.0.0 that went to it alone, for an address of its own.
    pub(crate) fn passed(&mut self, now: Time, mac: Mac) {
        self.passed.retain(|_, at| now.since(*at) <= PROVEN);
        if self.passed.len() < MOST || self.passed.contains_key(&mac) {
            self.passed.insert(mac, now);
        }
    }

    /// Whether a host that answers for a VIP too answers for others. One address of a node's is not enough: the node itself may answer
    /// from a MAC address that it has not declared.
    pub(crate) fn is_one(&self, now: Time, mac: Mac) -> bool {
        let Some(all) = self.hosts.get(&mac) else { return false };
        let of: BTreeSet<&Of> = all.iter().filter(|(_, at)| now.since(**at) <= KNOWN).map(|(of, _)| of).collect();
        of.contains(&Of::Gateway) || of.len() > 1
    }

    /// All of them.
    pub(crate) fn all(&self, now: Time) -> impl Iterator<Item = Mac> {
        self.hosts.keys().copied().filter(move |mac| self.is_one(now, *mac))
    }

    /// When another host than that one last answered a probe from 0.0.0.0, if that was lately.
    fn proven(&self, now: Time, mac: Mac) -> Option<Time> {
        let others = self.passed.iter().filter(|(one, at)| **one != mac && now.since(**at) <= PROVEN);
        others.map(|(_, at)| *at).max()
    }

    /// Whether another host than that one has answered a probe from 0.0.0.0 lately.
    pub(crate) fn is_proven(&self, now: Time, mac: Mac) -> bool {
        self.proven(now, mac).is_some()
    }

    /// That host answered for a VIP: whether it is to be found out now what that means.
    pub(crate) fn tries(&mut self, now: Time, mac: Mac) -> bool {
        let fresh = self.is_one(now, mac) && self.proven(now, mac).is_some_and(|at| now.since(at) < PROVE_AGAIN);
        if fresh || self.tried.is_some_and(|at| now.since(at) < self.apart) {
            return false;
        }
        let (first, most) = APART;
        let goes_on = self.tried.is_some_and(|at| now.since(at) < PROVE_AGAIN);
        self.apart = if goes_on { (self.apart * 2).clamp(first, most) } else { first };
        self.tried = Some(now);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROUTER: Mac = Mac([2, 0, 0, 0, 0, 0xfe]);
    const NODE: Mac = Mac([2, 0, 0, 0, 0, 1]);

    fn at(s: u64) -> Time {
        Time::from_nanos(s * 1_000_000_000)
    }

    #[test]
    fn one_address_of_a_node_makes_no_proxy() {
        let mut proxies = Proxies::default();
        proxies.answered(at(0), ROUTER, Of::Node("a".into()));
        proxies.answered(at(1), ROUTER, Of::Node("a".into()));
        assert!(!proxies.is_one(at(1), ROUTER), "a bond may answer from a MAC address that nobody declared");
        proxies.answered(at(1), ROUTER, Of::Node("b".into()));
        assert!(proxies.is_one(at(1), ROUTER) && !proxies.is_one(at(1), NODE));
        assert!(!proxies.is_one(at(700), ROUTER));
        proxies.answered(at(700), ROUTER, Of::Gateway);
        assert_eq!(proxies.all(at(700)).collect::<Vec<_>>(), [ROUTER]);
    }

    #[test]
    fn what_a_proxy_answers_itself_proves_nothing() {
        let mut proxies = Proxies::default();
        proxies.passed(at(0), ROUTER);
        assert!(!proxies.is_proven(at(0), ROUTER));
        proxies.passed(at(1), NODE);
        assert!(proxies.is_proven(at(61), ROUTER) && !proxies.is_proven(at(62), ROUTER));
    }

    #[test]
    fn tries_become_rare_where_nobody_answers() {
        let mut proxies = Proxies::default();
        proxies.answered(at(0), ROUTER, Of::Gateway);
        let tried: Vec<u64> = (0..60).filter(|s| proxies.tries(at(*s), ROUTER)).collect();
        assert!(tried.len() < 9 && tried.iter().any(|s| *s > 30), "{tried:?}");
        proxies.passed(at(60), NODE);
        assert!(!proxies.tries(at(79), ROUTER));
        assert!(proxies.tries(at(80), ROUTER), "before the proof is too old");
    }
}
