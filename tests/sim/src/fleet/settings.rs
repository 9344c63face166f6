//! What a run is made of.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use mooring_core::fleet::Interface;
use mooring_core::mac::Mac;
use mooring_core::placement::{self, Demand};
use mooring_core::rules::Rules;
use mooring_core::session::{Link, Subnet};

use crate::clock::{MS, Nanos};
use crate::rng::Rng;

/// See the module's text.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The core's rules, but for the node's name.
    pub rules: Rules,
    /// How many nodes.
    pub nodes: usize,
    /// How many segments: one or two.
    pub segments: usize,
    /// A node that is on the first segment only.
    pub single_homed: Option<usize>,
    /// How many VIPs there are at the beginning.
    pub vips: usize,
    /// Those of them that follow endpoints.
    pub local: BTreeSet<usize>,
    /// Parts per million that each clock runs fast.
    pub ppm: Vec<i64>,
    /// The nodes start within this time of each other.
    pub spread: Nanos,
    /// One way over the segment, at least and at most.
    pub wire: (Nanos, Nanos),
    /// One way to the API and through it.
    pub api: (Nanos, Nanos),
    /// Sessions are watched apart from all else.
    pub apart: bool,
    /// Whether the rules are the agent's defaults.
    pub defaults: bool,
}

impl Settings {
    /// Draws them.
    #[must_use]
    pub fn draw(rng: &mut Rng, nodes: Option<usize>) -> Self {
        let drawn = rng.pick(&[2, 3, 3, 4, 4, 5, 5, 6, 7]);
        let nodes = nodes.unwrap_or(drawn);
        let defaults = rng.chance(650);
        let rules = if defaults { Rules::default() } else { crate::settings::rules(rng) };
        let segments = if rng.chance(350) { 2 } else { 1 };
        let vips = rng.pick(&[3, 6, 6, 12, 12, 30]);
        let local = if rng.chance(400) { (0..vips).filter(|_| rng.chance(300)).collect() } else { BTreeSet::new() };
        let drifts = rng.chance(500);
        let ppm =
            (0..nodes).map(|_| if drifts { i64::try_from(rng.below(801)).unwrap_or(0) - 400 } else { 0 }).collect();
        Self {
            rules,
            nodes,
            segments,
            single_homed: (segments == 2 && nodes > 2 && rng.chance(300)).then(|| rng.index(nodes)),
            vips,
            local,
            ppm,
            spread: rng.pick(&[0, 50, 500, 3_000]) * MS,
            wire: (30_000, rng.pick(&[120_000, 200_000, 600_000])),
            api: if rng.chance(150) { (5 * MS, 60 * MS) } else { (MS / 2, 4 * MS) },
            apart: false,
            defaults,
        }
    }

    /// Whether a station is on a segment.
    #[must_use]
    pub fn is_on(&self, station: usize, segment: usize) -> bool {
        segment < self.segments && !(segment == 1 && self.single_homed == Some(station))
    }

    /// The segment of a VIP.
    #[must_use]
    pub fn segment_of(&self, vip: usize) -> usize {
        vip % self.segments
    }

    /// The address of a VIP.
    #[must_use]
    pub fn vip(&self, vip: usize) -> IpAddr {
        let [high, low] = u16::try_from(vip).unwrap_or(0).to_be_bytes();
        let segment = u8::try_from(self.segment_of(vip)).unwrap_or(0);
        IpAddr::V4(Ipv4Addr::new(10, segment, 128 + high, low))
    }

    /// What a VIP demands. `nodes`: those with an endpoint.
    #[must_use]
    pub fn demand(&self, vip: usize, nodes: &BTreeSet<usize>) -> Demand {
        let local = self.local.contains(&vip).then(|| Arc::new(nodes.iter().map(|n| name(*n)).collect()));
        Demand { interface: placement::Interface::Subnet, local, ..Demand::of(self.vip(vip)) }
    }

    /// A node's interfaces.
    #[must_use]
    pub fn interfaces(&self, node: usize, up: &[bool]) -> Vec<Interface> {
        let on = (0..self.segments).filter(|s| self.is_on(node, *s));
        on.map(|segment| {
            let address = own(node, segment);
            let link = Link {
                name: format!("eth{segment}"),
                macs: vec![mac(node)],
                addresses: vec![address],
                subnets: vec![Subnet::of(address, 16)],
                up: up[segment],
            };
            Interface { index: index(segment), link, gateways: vec![own(self.nodes + 1, segment)] }
        })
        .collect()
    }
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

/// The name of a node.
#[must_use]
pub fn name(node: usize) -> String {
    format!("node{}", node + 1)
}

/// The node of a name.
#[must_use]
pub fn number(name: &str) -> Option<usize> {
    name.strip_prefix("node").and_then(|n| n.parse::<usize>().ok()).and_then(|n| n.checked_sub(1))
}

/// The Ethernet address of a station: the nodes, the foreign host, the gateway, the client.
#[must_use]
pub fn mac(station: usize) -> Mac {
    let [high, low] = u16::try_from(station + 1).unwrap_or(u16::MAX).to_be_bytes();
    Mac([2, 0, 0, 0, high, low])
}

/// The station of an Ethernet address.
#[must_use]
pub fn station(mac: Mac) -> usize {
    usize::from(u16::from_be_bytes([mac.0[4], mac.0[5]])).saturating_sub(1)
}

/// A station's own address on a segment.
#[must_use]
pub fn own(station: usize, segment: usize) -> IpAddr {
    let [high, low] = u16::try_from(station + 1).unwrap_or(u16::MAX).to_be_bytes();
    IpAddr::V4(Ipv4Addr::new(10, u8::try_from(segment).unwrap_or(0), high, low))
}
