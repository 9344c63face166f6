//! The settings of the runs of session VIPs, in addition to the common settings.

use std::collections::BTreeSet;
use std::sync::Arc;

use mooring_agent_core::placement::{self, Demand, Labels, Selector};
use mooring_agent_core::rules::Rules;

use super::SessionVips;
use super::fault::Fault;
use crate::clock::MS;
use crate::network::Network;
use crate::rng::Rng;
use crate::settings::{Settings, drifts, name, rules};
use crate::subject::Subject as _;

/// What only the runs of session VIPs have.
#[derive(Clone, Debug)]
pub struct Own {
    /// How many VIPs there are at the beginning.
    pub vips: usize,
    /// Those of them that follow endpoints; or labels of Nodes.
    pub local: BTreeSet<usize>,
    /// They follow labels: a node has the label where it would have an endpoint.
    pub labelled: bool,
    /// A node, and a VIP whose address is one of that node's own.
    pub owned: Option<(usize, usize)>,
    /// Sessions are watched apart from all else.
    pub apart: bool,
    /// By node: its first so many processes are agents of before, which publish no member object.
    pub of_before: Vec<u32>,
}

/// Draws them. `nodes`: so many, whatever is drawn.
#[must_use]
pub fn draw(rng: &mut Rng, nodes: Option<usize>) -> Settings<SessionVips> {
    let drawn = rng.pick(&[2, 3, 3, 4, 4, 5, 5, 6, 7]);
    let nodes = nodes.unwrap_or(drawn);
    let defaults = rng.chance(650);
    let rules = if defaults { Rules::default() } else { rules(rng) };
    let segments = if rng.chance(350) { 2 } else { 1 };
    let vips = rng.pick(&[3, 6, 6, 12, 12, 30]);
    let local = if rng.chance(400) { (0..vips).filter(|_| rng.chance(300)).collect() } else { BTreeSet::new() };
    let ppm = drifts(rng, nodes);
    Settings {
        rules,
        defaults,
        nodes,
        segments,
        absent: (segments == 2 && nodes > 2 && rng.chance(300)).then(|| (rng.index(nodes), 1)).into_iter().collect(),
        down: None,
        gateways: 1,
        replaced: false,
        network: Network::default(),
        ppm,
        spread: rng.pick(&[0, 50, 500, 3_000]) * MS,
        frame: (30_000, rng.pick(&[120_000, 200_000, 600_000])),
        api: if rng.chance(150) { (5 * MS, 60 * MS) } else { (MS / 2, 4 * MS) },
        own: Own { vips, local, labelled: false, owned: None, apart: false, of_before: vec![] },
    }
}

/// The label that VIPs ask for.
const LABEL: &str = "edge";

/// The labels of a host's Node. `nodes`: those with an endpoint, or with the label in its place.
#[must_use]
pub fn labels(settings: &Settings<SessionVips>, host: usize, nodes: &BTreeSet<usize>) -> Labels {
    let has = settings.own.labelled && nodes.contains(&host);
    let edge = has.then(|| (LABEL.to_owned(), String::new()));
    edge.into_iter().chain([("kubernetes.io/hostname".to_owned(), name::<Fault>(host))]).collect()
}

/// What a VIP demands. `nodes`: those with an endpoint.
#[must_use]
pub fn demand(settings: &Settings<SessionVips>, vip: usize, nodes: &BTreeSet<usize>) -> Demand {
    let (local, labelled) = (settings.own.local.contains(&vip), settings.own.labelled);
    let selector = (local && labelled).then(|| Arc::new(Selector::of(LABEL)));
    let local = (local && !labelled).then(|| Arc::new(nodes.iter().map(|n| name::<Fault>(*n)).collect()));
    Demand { interface: placement::Interface::Subnet, selector, local, ..Demand::of(SessionVips::vip(settings, vip)) }
}
