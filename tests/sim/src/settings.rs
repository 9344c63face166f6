//! What a run is made of: nodes, timers, the shape of the cluster. Drawn from the seed; most runs have default timers.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use mooring_core::mac::Mac;
use mooring_core::rules::Rules;

use crate::clock::{MS, Nanos};
use crate::rng::Rng;

/// Where the API servers are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// One on every node, each with its etcd member: writes need a majority of nodes that reach each other.
    Stacked,
    /// One on every node; etcd is elsewhere, on a network of its own.
    External,
    /// Three, elsewhere, on a network of their own; the nodes' own health is always good.
    Remote,
}

/// The health probe of the local API server.
#[derive(Clone, Copy, Debug)]
pub struct HealthSettings {
    /// Between two questions.
    pub interval: Nanos,
    /// For one answer.
    pub timeout: Nanos,
    /// Good answers in a row.
    pub rise: u32,
    /// Bad ones.
    pub fall: u32,
}

/// See the module's text.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The core's rules, but for the node's name.
    pub rules: Rules,
    /// How many nodes.
    pub nodes: usize,
    /// One of them runs kube-vip.
    pub rival: Option<usize>,
    /// The VIPs.
    pub vips: Vec<IpAddr>,
    /// IPv4 VIPs have the prefix length of the subnet: they go with the node's own address.
    pub short_prefix: bool,
    /// Where the API servers are.
    pub shape: Shape,
    /// The health probe.
    pub health: HealthSettings,
    /// How fast each node's clock runs, in parts per million.
    pub ppm: Vec<i64>,
    /// The client forgets who has the VIP at once: it asks before each of its probes.
    pub forgetful_client: bool,
    /// The nodes start within this time of each other.
    pub spread: Nanos,
    /// One way over the segment, at least and at most.
    pub wire: (Nanos, Nanos),
    /// One way to an API server and through it, at least and at most.
    pub api: (Nanos, Nanos),
    /// Whether these are the defaults of the agent.
    pub defaults: bool,
}

/// The first VIP.
pub const VIP4: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 100));
/// The other one, if there is one.
pub const VIP6: IpAddr = IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 1, 0));

/// The name of a node.
#[must_use]
pub fn name(node: usize) -> String {
    format!("cp{}", node + 1)
}

/// The Ethernet address of a station: the nodes first, then the gateway, the client, the foreign host.
#[must_use]
pub fn mac(station: usize) -> Mac {
    let [high, low] = u16::try_from(station + 1).unwrap_or(u16::MAX).to_be_bytes();
    Mac([2, 0, 0, 0, high, low])
}

/// The station that has this Ethernet address.
#[must_use]
pub fn station(mac: Mac) -> usize {
    usize::from(u16::from_be_bytes([mac.0[4], mac.0[5]])).saturating_sub(1)
}

/// A station's own address.
#[must_use]
pub fn own(station: usize) -> IpAddr {
    let [high, low] = u16::try_from(station + 1).unwrap_or(u16::MAX).to_be_bytes();
    IpAddr::V4(Ipv4Addr::new(10, 0, high, low))
}

/// The station that has this as its own address.
#[must_use]
pub fn owner(address: IpAddr) -> Option<usize> {
    match address {
        IpAddr::V4(ip) if ip.octets()[0] == 10 => {
            Some(usize::from(u16::from_be_bytes([ip.octets()[2], ip.octets()[3]])).saturating_sub(1))
        }
        _ => None,
    }
}

impl Settings {
    /// Draws them. `nodes`: so many, whatever is drawn.
    #[must_use]
    pub fn draw(rng: &mut Rng, nodes: Option<usize>) -> Self {
        let drawn = match rng.below(100) {
            0..4 => 2,
            4..70 => 3,
            70..95 => 5,
            95..98 => 4,
            98 => 6,
            _ => 7,
        };
        let nodes = nodes.unwrap_or(drawn);
        let defaults = rng.chance(600);
        let rules = if defaults { Rules::default() } else { rules(rng) };
        let vips = if rng.chance(120) { vec![VIP4, VIP6] } else { vec![VIP4] };
        let shape = rng.pick(&[Shape::Stacked, Shape::Stacked, Shape::External, Shape::Remote]);
        let health = if defaults || rng.chance(500) {
            HealthSettings { interval: 1_000 * MS, timeout: 2_000 * MS, rise: 2, fall: 2 }
        } else {
            HealthSettings {
                interval: rng.pick(&[200, 500, 1_000, 3_000]) * MS,
                timeout: rng.pick(&[100, 500, 2_000]) * MS,
                rise: rng.pick(&[1, 2, 3]),
                fall: rng.pick(&[1, 2, 3, 5]),
            }
        };
        let drifts = rng.chance(500);
        let ppm =
            (0..nodes).map(|_| if drifts { i64::try_from(rng.below(801)).unwrap_or(0) - 400 } else { 0 }).collect();
        let slow_api = rng.chance(150);
        Self {
            rules,
            nodes,
            rival: (nodes > 2 && rng.chance(40)).then(|| rng.index(nodes)),
            vips,
            short_prefix: rng.chance(200),
            shape,
            health,
            ppm,
            forgetful_client: rng.chance(250),
            spread: rng.pick(&[0, 50, 500, 3_000]) * MS,
            wire: (30_000, rng.pick(&[120_000, 200_000, 600_000])),
            api: if slow_api { (5 * MS, 60 * MS) } else { (MS / 2, 4 * MS) },
            defaults,
        }
    }
}

/// Rules that the agent's settings allow (see `agent/src/settings/validate.rs`), but seldom the default ones.
#[must_use]
pub fn rules(rng: &mut Rng) -> Rules {
    let lease = rng.pick(&[3, 4, 5, 6, 8, 10, 15, 20, 30]);
    let renew_ms = rng.pick(&[50, 60, 67, 80, 90]) * lease * 10;
    // The kernel's lifetime must outlast 1.2 retry periods.
    let fence_ms = (lease * 1_000 - 1_500) / 1_000 * 1_000;
    let most = renew_ms.min(fence_ms) * 10 / 12 - 1;
    let retry_ms = rng.between(50, 500) * most / 1_000;
    let ms = Duration::from_millis;
    Rules {
        node: String::new(),
        lease_duration: Duration::from_secs(lease),
        renew_deadline: ms(renew_ms),
        retry_period: ms(retry_ms.max(100)),
        witness_interval: ms(rng.pick(&[0, 20, 50, 100, 100, 100, 200, 500, 1_000])),
        witness_misses: rng.pick(&[2, 3, 3, 4, 6]),
        hold_without_api: rng.chance(750),
        provisional: rng.chance(800),
        provisional_spread: ms(rng.pick(&[10, 100, 200, 1_000])),
        handover_grace: ms(rng.pick(&[500, 2_000, 5_000])),
        link_down_delay: ms(rng.pick(&[0, 0, 500, 3_000])),
        announce_refresh: ms(rng.pick(&[0, 2_000, 30_000])),
        conflict_probe: rng.chance(800),
        // Of some, without another draw: what a seed stands for stays.
        refresh: ms(if retry_ms.is_multiple_of(4) { (lease * 1_000 - 2_500) / 3 } else { 0 }),
    }
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
            assert_eq!((station(mac(n)), owner(own(n))), (n, Some(n)));
        }
        assert_eq!(owner(VIP4), None);
    }
}
