//! Placement as the design describes it.

use proptest::prelude::{any, prop, proptest};

use super::{Candidate, Demand, Interface, Labels, Selector, Standing, order, place, seed};
use crate::session::{Link, Subnet};

static NONE: Labels = Labels::new();

fn link(name: &str, subnet: &str, up: bool) -> Link {
    let network: std::net::IpAddr = subnet.parse().unwrap();
    Link { name: name.into(), up, subnets: vec![Subnet::of(network, 24)], ..Link::default() }
}

fn candidate<'a>(node: &'a str, links: &'a [Link]) -> Candidate<'a> {
    Candidate {
        node,
        seed: seed(node),
        links,
        standing: Standing::default(),
        labels: &NONE,
        leaving: false,
        late: false,
    }
}

fn vip(text: &str) -> Demand {
    Demand::of(text.parse().unwrap())
}

fn best<'a>(demand: &Demand, all: &[Candidate<'a>]) -> Option<&'a str> {
    order(demand, seed(&demand.address), all.iter().copied()).first().copied()
}

#[test]
fn hard_conditions_exclude_and_soft_ones_only_rank() {
    let links = [link("eth0", "192.0.2.0", true), link("eth1", "198.51.100.0", true)];
    let down = [link("eth0", "192.0.2.0", false)];
    let (a, b) = (candidate("a", &links), candidate("b", &down));
    let mut demand = vip("192.0.2.7");
    assert_eq!(best(&demand, &[b]), None, "its link is down");
    assert_eq!(best(&demand, &[a, b]), Some("a"));
    demand.interface = Interface::Named("eth9".into());
    assert_eq!(best(&demand, &[a]), None);
    demand.interface = Interface::Subnet;
    assert_eq!(best(&demand, &[a]), Some("a"));
    demand.local = Some(std::sync::Arc::new(["b".to_owned()].into()));
    assert_eq!(best(&demand, &[a]), None, "no endpoint there");
    demand.local = None;
    let (edge, labels) = (Selector::of("edge"), [("edge".to_owned(), String::new())].into());
    demand.selector = Some(std::sync::Arc::new(edge));
    assert_eq!(best(&demand, &[a]), None, "it has no such label");
    assert_eq!(best(&demand, &[a, Candidate { labels: &labels, ..b }, Candidate { labels: &labels, ..a }]), Some("a"));
    demand.selector = None;
    let bad = Standing { ready: false, schedulable: false, excluded: true };
    assert_eq!(best(&demand, &[Candidate { standing: bad, ..a }]), Some("a"), "rather than nobody");
    let other = Candidate { node: "c", seed: seed("c"), ..a };
    assert_eq!(best(&demand, &[Candidate { standing: bad, ..a }, other]), Some("c"));
    assert_eq!(best(&demand, &[Candidate { late: true, ..a }, Candidate { leaving: true, ..other }]), Some("c"));
}

#[test]
fn places_agree_with_the_order() {
    let links = [link("eth0", "192.0.2.0", true)];
    let names: Vec<String> = (0..40).map(|n| format!("node-{n}")).collect();
    let all: Vec<_> = names.iter().map(|n| candidate(n, &links)).collect();
    for n in 0..50 {
        let demand = vip(&format!("192.0.2.{n}"));
        let vip = seed(&demand.address);
        let sorted = order(&demand, vip, all.iter().copied());
        for (position, node) in sorted.iter().enumerate() {
            let place = place(&demand, vip, node, all.iter().copied());
            assert_eq!(place.position, Some(position));
            assert_eq!(place.other, Some(sorted[usize::from(position == 0)]));
        }
    }
}

#[test]
fn vips_are_spread_evenly_enough() {
    let links = [link("eth0", "10.0.0.0", true)];
    let names: Vec<String> = (0..20).map(|n| format!("worker-{n}")).collect();
    let all: Vec<_> = names.iter().map(|n| candidate(n, &links)).collect();
    let mut count = std::collections::BTreeMap::new();
    for n in 0..1_000_u32 {
        let demand = Demand::of(std::net::IpAddr::V4((0x0a00_0000 + n).into()));
        *count.entry(best(&demand, &all)).or_insert(0_u32) += 1;
    }
    assert_eq!(count.len(), 20);
    assert!(count.values().all(|n| (25..=85).contains(n)), "{count:?}");
}

proptest! {
    /// When a node goes, only its VIPs are placed anew.
    #[test]
    fn one_node_less_moves_only_its_own(names in prop::collection::btree_set("[a-z]{1,6}", 2..12), n: u32, gone in any::<prop::sample::Index>()) {
        let links = [link("eth0", "10.0.0.0", true)];
        let names: Vec<String> = names.into_iter().collect();
        let all: Vec<_> = names.iter().map(|n| candidate(n, &links)).collect();
        let demand = Demand::of(std::net::IpAddr::V4(n.into()));
        let before = best(&demand, &all);
        let gone = gone.index(all.len());
        let mut rest = all.clone();
        rest.remove(gone);
        if before != Some(all[gone].node) {
            assert_eq!(best(&demand, &rest), before);
        }
    }
}
