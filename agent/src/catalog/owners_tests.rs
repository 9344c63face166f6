//! Addresses that nodes have for themselves are no VIPs.

use serde_json::{Value, json};

use super::*;
use crate::catalog::Classes;

const NODE: &str = "10.0.0.12";

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn set(all: &[&str]) -> BTreeSet<IpAddr> {
    all.iter().map(|text| ip(text)).collect()
}

fn addresses_of(name: &str, all: &[&str]) -> NodeAddresses {
    let all: Vec<Value> = all.iter().map(|ip| json!({"type": "InternalIP", "address": ip})).collect();
    serde_json::from_value(json!({"metadata": {"name": name}, "status": {"addresses": all}})).unwrap()
}

fn nodes(all: &[(&str, &[&str])]) -> Seen {
    Seen::NodeAddresses(Change::All(all.iter().map(|(name, all)| addresses_of(name, all)).collect()))
}

fn one_node(name: &str, all: &[&str]) -> Seen {
    Seen::NodeAddresses(Change::One(addresses_of(name, all)))
}

fn service(name: &str, annotation: &str, field: Option<&str>, status: &[&str]) -> Service {
    let ingress: Vec<Value> = status.iter().map(|ip| json!({"ip": ip})).collect();
    serde_json::from_value(json!({
        "metadata": {"namespace": "shop", "name": name, "uid": format!("u-{name}"),
            "annotations": {"kube-vip.io/loadbalancerIPs": annotation}},
        "spec": {"type": "LoadBalancer", "loadBalancerIP": field},
        "status": {"loadBalancer": {"ingress": ingress}},
    }))
    .unwrap()
}

fn services(all: Vec<Service>) -> Seen {
    Seen::Services(Change::All(all))
}

/// A catalog of kube-vip's placements that knows no Nodes yet.
fn by_services() -> Catalog {
    let mut catalog = Catalog::new("n1", Interface::First).by_services(Classes::default());
    catalog.take(Seen::Node(Change::All(vec![])));
    catalog
}

fn wanted(catalog: &Catalog) -> Vec<String> {
    catalog.demands().map(|demand| demand.address.to_string()).collect()
}

/// The reasons and texts of all remarks that wait, each with its object.
fn remarks(catalog: &mut Catalog) -> Vec<(String, &'static str, String)> {
    let next = |catalog: &mut Catalog| {
        let remark = catalog.remark().cloned()?;
        catalog.remark_was_told();
        Some((remark.object.name, remark.reason, remark.text))
    };
    std::iter::from_fn(|| next(catalog)).collect()
}

#[test]
fn whoever_asks_for_an_address_of_a_node_does_not_get_it_and_is_told_once() {
    for (asks, by_status) in [
        (service("web", NODE, None, &[]), false),
        (service("web", "", Some(NODE), &[]), false),
        (service("web", "", None, &[NODE, "10.0.0.100"]), true),
    ] {
        let mut catalog = by_services();
        catalog.take(nodes(&[("n1", &["10.0.0.11"]), ("n2", &[NODE])]));
        catalog.take(services(vec![asks.clone()]));
        assert!(!wanted(&catalog).contains(&NODE.to_owned()), "{:?}", wanted(&catalog));
        assert_eq!(wanted(&catalog).len(), usize::from(by_status), "the other address is a VIP");
        assert_eq!(catalog.owned().collect::<Vec<_>>(), [(ip(NODE), "n2")]);
        let told = remarks(&mut catalog);
        let [(name, "AddressOfNode", text)] = told.as_slice() else { panic!("{told:?}") };
        assert!(
            name == "web" && text.starts_with("10.0.0.12 is not carried: it is an address of the node n2"),
            "{text}"
        );
        assert_eq!(text.contains("ServiceLB"), by_status, "{text}");
        catalog.take(services(vec![asks]));
        catalog.take(one_node("n1", &["10.0.0.11", "10.0.0.10"]));
        assert_eq!(remarks(&mut catalog), []);
        // The node gets another address.
        catalog.take(one_node("n2", &["10.0.0.22"]));
        assert!(wanted(&catalog).contains(&NODE.to_owned()) && catalog.owned().next().is_none());
        catalog.take(one_node("n2", &[NODE]));
        assert!(!wanted(&catalog).contains(&NODE.to_owned()));
        assert_eq!(remarks(&mut catalog).len(), 1, "this is new");
        catalog.take(Seen::NodeAddresses(Change::Gone(addresses_of("n2", &[NODE]))));
        assert!(wanted(&catalog).contains(&NODE.to_owned()), "the Node is gone");
    }
}

#[test]
fn nothing_is_a_vip_before_the_nodes_are_known() {
    let mut catalog = by_services();
    assert!(!catalog.asks_for_nodes());
    catalog.take(services(vec![]));
    assert!(catalog.is_known(false) && !catalog.asks_for_nodes(), "nobody asks for anything");
    catalog.take(services(vec![service("web", "10.0.0.100", None, &[])]));
    assert!(catalog.asks_for_nodes() && !catalog.is_known(false) && wanted(&catalog).is_empty());
    catalog.take(nodes(&[]));
    assert!(catalog.is_known(false));
    assert_eq!(wanted(&catalog), ["10.0.0.100"]);
    // Where Nodes may not be listed, what nodes declare is all there is.
    let mut denied = by_services();
    denied.take(services(vec![service("web", "10.0.0.100,10.0.0.12", None, &[])]));
    denied.take(Seen::Declared { lease: "a/b".into(), nodes: [("n2".to_owned(), set(&[NODE]))].into() });
    denied.take(Seen::NodesDenied);
    assert!(denied.is_known(false));
    assert_eq!(wanted(&denied), ["10.0.0.100"]);
}

#[test]
fn what_a_node_declares_and_what_this_one_has_counts_too() {
    let mut catalog = by_services();
    catalog.take(nodes(&[("n1", &[]), ("n2", &[])]));
    catalog.take(services(vec![service("web", "10.0.0.11,10.0.0.12,10.0.0.13", None, &[])]));
    assert_eq!(wanted(&catalog).len(), 3);
    catalog.take(Seen::Own(set(&["10.0.0.11"])));
    let declare = |nodes: &[(&str, &str)]| Seen::Declared {
        lease: "kube-system/plndr-svcs-lock".into(),
        nodes: nodes.iter().map(|(node, own)| ((*node).to_owned(), set(&[own]))).collect(),
    };
    // What is said of this node on a Lease may be old; and a node that left the cluster may still be named.
    catalog.take(declare(&[("n1", "10.0.0.13"), ("n2", NODE), ("gone", "10.0.0.13")]));
    assert_eq!(wanted(&catalog), ["10.0.0.13"]);
    assert_eq!(catalog.owned().collect::<Vec<_>>(), [(ip("10.0.0.11"), "n1"), (ip(NODE), "n2")]);
    catalog.take(declare(&[("n2", "10.0.0.22")]));
    catalog.take(Seen::Own(set(&[])));
    assert_eq!(wanted(&catalog).len(), 3);
    // A Lease names it before its Node is there.
    catalog.take(declare(&[("n3", "10.0.0.13")]));
    assert_eq!(wanted(&catalog).len(), 3);
    catalog.take(one_node("n3", &[]));
    assert_eq!(wanted(&catalog), ["10.0.0.11", NODE]);
}

#[test]
fn a_vip_that_a_cloud_provider_shows_on_its_node_is_no_address_of_the_node() {
    let vip = "10.0.0.100";
    let asks = || services(vec![service("web", vip, None, &[])]);
    let mut catalog = by_services();
    catalog.take(nodes(&[("n1", &["10.0.0.11"]), ("n2", &[NODE])]));
    catalog.take(asks());
    for seen in [one_node("n2", &[NODE, vip]), nodes(&[("n1", &["10.0.0.11", vip]), ("n2", &[NODE, vip])])] {
        catalog.take(seen);
        assert_eq!(wanted(&catalog), [vip], "it has come beside the node's own");
    }
    // A node whose address is replaced, or that comes with it, has it for itself.
    catalog.take(nodes(&[("n1", &["10.0.0.11"]), ("n2", &[NODE])]));
    catalog.take(one_node("n2", &[vip]));
    assert!(wanted(&catalog).is_empty());
    catalog.take(one_node("n2", &[NODE]));
    catalog.take(one_node("n3", &[vip]));
    assert!(wanted(&catalog).is_empty());
    // The agent was restarted.
    let mut again = by_services();
    again.take(nodes(&[("n1", &["10.0.0.11", vip])]));
    again.take(asks());
    assert!(wanted(&again).is_empty());
    again.take(Seen::LeftOver(vec![ip(vip)]));
    assert_eq!(wanted(&again), [vip], "an earlier run had it");
}

fn address(labels: &Value, holder: &str) -> IpAddress {
    serde_json::from_value(json!({
        "metadata": {"namespace": "shop", "name": "a", "uid": "u-a", "labels": labels, "annotations": {"mooring.dev/holder": holder}},
        "spec": {"address": NODE},
    }))
    .unwrap()
}

/// With sessions: the allocator sees to the addresses of Services, and nobody to those of other objects.
#[test]
fn an_ip_address_with_the_label_is_looked_at_in_every_placement() {
    let mut catalog = Catalog::new("n1", Interface::First);
    catalog.take(Seen::Addresses(0, Change::All(vec![])));
    catalog.take(Seen::Services(Change::All(vec![])));
    catalog.take(Seen::Node(Change::All(vec![])));
    let label = json!({"mooring.dev/advertise": "true"});
    assert_eq!(catalog.take(Seen::Addresses(1, Change::All(vec![address(&label, "")]))).len(), 1);
    assert!(!catalog.is_synced() && catalog.asks_for_nodes());
    let out = catalog.take(nodes(&[("n2", &[NODE])]));
    assert!(catalog.is_synced() && !out.iter().any(|input| matches!(input, Input::Wanted(_))), "{out:?}");
    let told = remarks(&mut catalog);
    assert!(matches!(told.as_slice(), [(name, "AddressOfNode", _)] if name == "a"), "{told:?}");
    // The record says that the node has it as a VIP.
    let held = r#"{"node":"n2","session":{"uid":"u","transitions":1}}"#;
    catalog.take(Seen::Addresses(1, Change::One(address(&label, held))));
    assert_eq!(wanted(&catalog), [NODE]);
    // One of the allocator's.
    let mut allocated = Catalog::new("n1", Interface::First);
    allocated.take(Seen::Addresses(0, Change::All(vec![address(&json!({"mooring.dev/service-family": "ipv4"}), "")])));
    assert!(!allocated.asks_for_nodes());
}
