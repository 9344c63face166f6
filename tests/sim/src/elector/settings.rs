//! The settings of the Elector's runs, in addition to the common settings.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use mooring_agent_core::rules::Rules;

use super::Elector;
use crate::clock::{MS, Nanos};
use crate::network::Network;
use crate::rng::Rng;
use crate::settings::{Settings, drifts, own, rules};

/// Where the API servers are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// One on every node, each with its etcd member: writes need a majority of nodes that reach each other.
    Stacked,
    /// One on every node; etcd is elsewhere, on a network of its own.
    External,
    /// Three, elsewhere, on a network of their own: no node has one.
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

/// What only the Elector's runs have.
#[derive(Clone, Debug)]
pub struct Own {
    /// One of the nodes runs kube-vip.
    pub rival: Option<usize>,
    /// That node runs the agent at first, until [`super::fault::Fault::KubeVip`].
    pub takes_over: bool,
    /// The VIPs.
    pub vips: Vec<IpAddr>,
    /// IPv4 VIPs have the prefix length of the subnet: they go with the node's own address.
    pub short_prefix: bool,
    /// Where the API servers are.
    pub shape: Shape,
    /// The health probe.
    pub health: HealthSettings,
    /// The client forgets who has the VIP at once: it asks before each of its probes.
    pub forgetful_client: bool,
    /// The API servers of nodes listen on another interface than that of the VIPs.
    pub apart: bool,
    /// Own health probes may fail though the API server answers all others.
    pub own_probes_fail: bool,
    /// When each node learns of the second VIP, if that is later than its start. A foreign host has that VIP at first.
    pub learns: Vec<Nanos>,
}

/// The first VIP.
pub const VIP4: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 100));
/// The other one, if there is one.
pub const VIP6: IpAddr = IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 1, 0));

/// How many API servers there are.
#[must_use]
pub fn servers(settings: &Settings<Elector>) -> usize {
    if settings.own.shape == Shape::Remote { 3 } else { settings.nodes }
}

/// Where `default/kubernetes` lists an API server.
#[must_use]
pub fn api_address(server: usize, settings: &Settings<Elector>) -> IpAddr {
    let number = u8::try_from(server + 1).unwrap_or(u8::MAX);
    match settings.own.shape {
        Shape::Remote => IpAddr::V4(Ipv4Addr::new(198, 51, 100, number)),
        Shape::Stacked | Shape::External if settings.own.apart => IpAddr::V4(Ipv4Addr::new(172, 16, 0, number)),
        Shape::Stacked | Shape::External => own(server, 0),
    }
}

/// Draws them. `nodes`: so many, whatever is drawn.
#[must_use]
pub fn draw(rng: &mut Rng, nodes: Option<usize>) -> Settings<Elector> {
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
    let ppm = drifts(rng, nodes);
    let slow_api = rng.chance(150);
    let rival = (nodes > 2 && rng.chance(40)).then(|| rng.index(nodes));
    let short_prefix = rng.chance(200);
    let forgetful_client = rng.chance(250);
    Settings {
        rules,
        defaults,
        nodes,
        segments: 1,
        absent: BTreeSet::new(),
        down: None,
        gateways: 1,
        replaced: false,
        network: Network::default(),
        ppm,
        spread: rng.pick(&[0, 50, 500, 3_000]) * MS,
        frame: (30_000, rng.pick(&[120_000, 200_000, 600_000])),
        api: if slow_api { (5 * MS, 60 * MS) } else { (MS / 2, 4 * MS) },
        own: Own {
            rival,
            takes_over: false,
            vips,
            short_prefix,
            shape,
            health,
            forgetful_client,
            apart: false,
            own_probes_fail: false,
            learns: vec![],
        },
    }
}
