//! What a run is made of: nodes, timers, segments. Drawn from the seed; most runs have default timers.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use mooring_agent_core::Interface;
use mooring_agent_core::mac::Mac;
use mooring_agent_core::peers::Quorum;
use mooring_agent_core::rules::Rules;
use mooring_agent_core::session::{Link, Subnet};

use crate::clock::Nanos;
use crate::fault::OwnFault;
use crate::network::Network;
use crate::rng::Rng;
use crate::subject::Subject;

/// What every core's runs have, and what only this core's have.
#[derive(Clone, Debug)]
pub struct Settings<S: Subject> {
    /// The core's rules, but for the node's name.
    pub rules: Rules,
    /// Whether these are the defaults of the agent.
    pub defaults: bool,
    /// How many nodes.
    pub nodes: usize,
    /// How many segments.
    pub segments: usize,
    /// Nodes that have no interface on a segment: the node and the segment.
    pub absent: BTreeSet<(usize, usize)>,
    /// A node's port to a segment that is down during the whole run. The node knows.
    pub down: Option<(usize, usize)>,
    /// How many gateways a node knows on each segment. Only the first one answers.
    pub gateways: usize,
    /// A node's other port is a network card that nobody knew before: somebody replaces the card. Otherwise both are ports of a bond.
    pub replaced: bool,
    /// What the network does with frames, all the time.
    pub network: Network,
    /// How fast each node's clock runs, in parts per million.
    pub ppm: Vec<i64>,
    /// The nodes start within this time of each other.
    pub spread: Nanos,
    /// One way over the segment, at least and at most.
    pub frame: (Nanos, Nanos),
    /// One way to an API server and through it, at least and at most.
    pub api: (Nanos, Nanos),
    /// What only this core's runs have.
    pub own: S::Settings,
}

/// The name of a node.
#[must_use]
pub fn name<F: OwnFault>(node: usize) -> String {
    format!("{}{}", F::NODE, node + 1)
}

/// The node of a name.
#[must_use]
pub fn number<F: OwnFault>(name: &str) -> Option<usize> {
    name.strip_prefix(F::NODE).and_then(|n| n.parse::<usize>().ok()).and_then(|n| n.checked_sub(1))
}

/// The index of the interface on a segment.
#[must_use]
pub fn index(segment: usize) -> u32 {
    u32::try_from(segment).unwrap_or(0) + 2
}

/// The segment of an interface.
#[must_use]
pub fn segment(index: u32) -> usize {
    index.saturating_sub(2) as usize
}

fn two_bytes(station: usize) -> [u8; 2] {
    u16::try_from(station + 1).unwrap_or(u16::MAX).to_be_bytes()
}

/// The Ethernet address of a station: the nodes first, then the gateway, the client, the foreign host. `port`: which of its
/// network cards is in use.
#[must_use]
pub fn mac(station: usize, port: u8) -> Mac {
    let [high, low] = two_bytes(station);
    Mac([2, 0, 0, port, high, low])
}

/// The station that has this Ethernet address, whichever of its ports.
#[must_use]
pub fn station(mac: Mac) -> usize {
    usize::from(u16::from_be_bytes([mac.0[4], mac.0[5]])).saturating_sub(1)
}

/// A station's own address on a segment.
#[must_use]
pub fn own(station: usize, segment: usize) -> IpAddr {
    let [high, low] = two_bytes(station);
    IpAddr::V4(Ipv4Addr::new(10, u8::try_from(segment).unwrap_or(0), high, low))
}

/// The station that has this as its own address.
#[must_use]
pub fn owner(address: IpAddr) -> Option<usize> {
    let IpAddr::V4(ip) = address else { return None };
    let [ten, _, high, low] = ip.octets();
    if ten == 10 { usize::from(u16::from_be_bytes([high, low])).checked_sub(1) } else { None }
}

impl<S: Subject> Settings<S> {
    /// Whether a station is on a segment.
    #[must_use]
    pub fn is_on(&self, station: usize, segment: usize) -> bool {
        segment < self.segments && !self.absent.contains(&(station, segment))
    }

    /// Whether a node's port to a segment works, if nothing goes wrong.
    #[must_use]
    pub fn is_wired(&self, node: usize, segment: usize) -> bool {
        self.down != Some((node, segment))
    }

    /// A node's interfaces.
    #[must_use]
    pub fn interfaces(&self, node: usize, port: u8, up: &[bool]) -> Vec<Interface> {
        let on = (0..self.segments).filter(|s| self.is_on(node, *s));
        let owned = (0..S::vips(self)).filter(|vip| S::owns(self, node, *vip)).collect::<Vec<_>>();
        let more = |segment| {
            let here = owned.iter().filter(move |vip| S::segment_of(self, **vip) == segment);
            here.map(|vip| S::vip(self, *vip)).collect::<Vec<_>>()
        };
        on.map(|segment| {
            let address = own(node, segment);
            let link = Link {
                name: format!("eth{segment}"),
                // The agent declares all ports of a bond, the one in use first.
                altnames: vec![],
                macs: [port, port ^ 1]
                    .into_iter()
                    .take(if self.replaced { 1 } else { 2 })
                    .map(|p| mac(node, p))
                    .collect(),
                addresses: std::iter::once(address).chain(more(segment)).collect(),
                subnets: vec![Subnet::of(address, 16)],
                up: up[segment],
                unheard: false,
            };
            // The addresses of the others are behind those of the client and the foreign host: no station has them.
            let silent = (1..self.gateways).map(|n| own(self.nodes + 2 + n, segment));
            let gateways = std::iter::once(own(self.nodes, segment)).chain(silent).collect();
            Interface { index: index(segment), link, gateways }
        })
        .collect()
    }
}

/// How fast clocks run: all right in half of the runs.
#[must_use]
pub fn drifts(rng: &mut Rng, nodes: usize) -> Vec<i64> {
    let drifts = rng.chance(500);
    (0..nodes).map(|_| if drifts { i64::try_from(rng.below(801)).unwrap_or(0) - 400 } else { 0 }).collect()
}

/// Rules that the agent's settings allow (see `agent/src/settings/validate`), but seldom the default ones.
#[must_use]
pub fn rules(rng: &mut Rng) -> Rules {
    let lease = rng.pick(&[3, 4, 5, 6, 8, 10, 15, 20, 30]);
    let renew_ms = rng.pick(&[50, 60, 67, 80, 90]) * lease * 10;
    // The kernel's lifetime must outlast 1.2 retry periods.
    let fence_ms = (lease * 1_000 - 1_500) / 1_000 * 1_000;
    let most = renew_ms.min(fence_ms) * 10 / 12 - 1;
    let retry_ms = rng.between(50, 500) * most / 1_000;
    let ms = Duration::from_millis;
    let mut rules = Rules {
        node: String::new(),
        lease_duration: Duration::from_secs(lease),
        renew_deadline: ms(renew_ms),
        retry_period: ms(retry_ms.max(100)),
        witness_interval: ms(rng.pick(&[0, 20, 50, 100, 100, 100, 200, 500, 1_000])),
        witness_misses: rng.pick(&[2, 3, 3, 4, 6]),
        hold_without_api: rng.chance(750),
        // Of some, without another draw: what a seed stands for stays.
        quorum: if retry_ms.is_multiple_of(7) { Quorum::Nobody } else { Quorum::Most },
        provisional: rng.chance(800),
        provisional_spread: ms(rng.pick(&[10, 100, 200, 1_000])),
        handover_grace: ms(rng.pick(&[500, 2_000, 5_000])),
        link_down_delay: ms(rng.pick(&[0, 0, 500, 3_000])),
        announce_refresh: ms(rng.pick(&[0, 2_000, 30_000])),
        conflict_probe: rng.chance(800),
        // Of some, without another draw: what a seed stands for stays.
        frames_per_second: None,
        refresh: ms(if retry_ms.is_multiple_of(4) { (lease * 1_000 - 2_500) / 3 } else { 0 }),
    };
    // With api-loss release, nobody holds provisionally.
    rules.provisional &= rules.hold_without_api;
    rules
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drawn_rules_are_such_as_the_agent_takes() {
        for seed in 0..5_000 {
            let rules = rules(&mut Rng::new(seed, 0));
            let fence =
                Duration::from_secs(rules.lease_duration.saturating_sub(Duration::from_millis(1_500)).as_secs());
            let spread = rules.retry_period * 6 / 5;
            assert!(spread < rules.renew_deadline && rules.renew_deadline < rules.lease_duration, "{rules:?}");
            assert!(spread < fence, "{rules:?}");
        }
    }

    #[test]
    fn stations_are_known_by_their_addresses() {
        for n in [0, 1, 6, 99, 300] {
            assert_eq!((station(mac(n, 3)), owner(own(n, 0))), (n, Some(n)));
        }
        assert_eq!(owner(IpAddr::V4(Ipv4Addr::new(192, 0, 2, 100))), None);
    }
}
