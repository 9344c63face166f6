use std::sync::Arc;

use serde_json::{Value, json};

use super::*;
use crate::core::session::{Holder, Incarnation};

fn address(name: &str, ip: &str, labels: &Value) -> IpAddress {
    serde_json::from_value(json!({
        "metadata": {"namespace": "shop", "name": name, "uid": format!("u-{name}"), "resourceVersion": "1", "labels": labels},
        "spec": {"address": ip},
    }))
    .unwrap()
}

fn for_service(name: &str, ip: &str) -> IpAddress {
    address(name, ip, &json!({"mooring.dev/service-family": "ipv4"}))
}

fn service(name: &str, record: &str, policy: &str) -> Service {
    serde_json::from_value(json!({
        "metadata": {"namespace": "shop", "name": name, "annotations": {"mooring.dev/ip-addresses": record}},
        "spec": {"type": "LoadBalancer", "externalTrafficPolicy": policy},
    }))
    .unwrap()
}

fn slice(name: &str, of: &str, nodes: &[(&str, bool)]) -> Slice {
    let endpoints: Vec<Value> = nodes
        .iter()
        .map(|(node, ready)| json!({"nodeName": node, "conditions": {"ready": ready, "serving": true}}))
        .collect();
    serde_json::from_value(json!({
        "metadata": {"namespace": "shop", "name": name, "labels": {"kubernetes.io/service-name": of}},
        "endpoints": endpoints,
    }))
    .unwrap()
}

fn node(name: &str, labels: &Value) -> Node {
    serde_json::from_value(json!({"metadata": {"name": name, "labels": labels}})).unwrap()
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// A catalog whose watches have all listed nothing.
fn listed() -> Catalog {
    let mut catalog = Catalog::new("n1", Interface::First);
    catalog.take(Seen::Addresses(0, Change::All(vec![])));
    catalog.take(Seen::Addresses(1, Change::All(vec![])));
    catalog.take(Seen::Services(Change::All(vec![])));
    catalog.take(Seen::NodeAddresses(Change::All(vec![])));
    let out = catalog.take(Seen::Node(Change::All(vec![node("n1", &json!({}))])));
    assert!(out.contains(&Input::Synced) && catalog.is_synced());
    catalog
}

/// The texts of all remarks that wait.
fn remarks(catalog: &mut Catalog) -> Vec<(String, String)> {
    let next = |catalog: &mut Catalog| {
        let remark = catalog.remark().cloned()?;
        catalog.remark_was_told();
        Some((remark.object.name, remark.text))
    };
    std::iter::from_fn(|| next(catalog)).collect()
}

#[test]
fn a_service_with_annotations_that_are_not_honoured_is_remarked_on_once() {
    let with = |name: &str, annotations: &Value| -> Seen {
        let mut all = annotations.clone();
        all["example.com/owner"] = json!("web team");
        let service = json!({
            "metadata": {"namespace": "shop", "name": name, "uid": format!("u-{name}"), "annotations": all},
            "spec": {"type": "LoadBalancer"},
        });
        Seen::Services(Change::One(serde_json::from_value(service).unwrap()))
    };
    let record = "mooring.dev/ip-addresses";
    let vlan = json!({(record): "shop/a=10.0.0.5", "kube-vip.io/serviceVLAN": "eth0.200", "kube-vip.io/egress": "true",
        "kube-vip.io/egress-ipv6": "true", "kube-vip.io/forwardUPNP": "false"});
    let mut catalog = listed();
    catalog.take(with("web", &vlan));
    catalog.take(with("web", &vlan));
    let told = remarks(&mut catalog);
    let [(name, text)] = told.as_slice() else { panic!("{told:?}") };
    assert!(
        name == "web" && text.contains("kube-vip.io/serviceVLAN has no effect: ") && text.contains("serviceInterface"),
        "{text}"
    );
    assert!(text.contains("kube-vip.io/egress* has no effect: ") && !text.contains("UPNP"), "{text}");
    // A Service that nobody here serves, one that is to be ignored, and one without such annotations.
    catalog.take(with("elsewhere", &json!({"kube-vip.io/serviceVLAN": "eth0.200"})));
    catalog.take(with(
        "ignored",
        &json!({(record): "shop/b=10.0.0.6", "kube-vip.io/ddns": "true", "kube-vip.io/ignore": "true"}),
    ));
    catalog.take(with("plain", &json!({(record): "shop/c=10.0.0.7", "kube-vip.io/serviceInterface": "auto"})));
    // With an allocator, that says what is wrong with a request.
    catalog.take(with(
        "asks",
        &json!({(record): "shop/d=10.0.0.8", "kube-vip.io/loadbalancerIPs": "0.0.0.0,web.example"}),
    ));
    assert_eq!(remarks(&mut catalog), []);
    // Taken off, and put there again: this is new.
    catalog.take(with("web", &json!({(record): "shop/a=10.0.0.5"})));
    catalog.take(with("web", &vlan));
    assert_eq!(remarks(&mut catalog).len(), 1);
    // Without an allocator the agent says it.
    let mut alone = Catalog::new("n1", Interface::First).by_services(super::Classes::default());
    alone.take(with("asks", &json!({"kube-vip.io/loadbalancerIPs": "0.0.0.0,web.example,10.0.0.9"})));
    let told = remarks(&mut alone);
    let [(_, text)] = told.as_slice() else { panic!("{told:?}") };
    assert!(
        text.contains(r#""0.0.0.0" in kube-vip.io/loadbalancerIPs has no effect: Mooring does not speak DHCP"#),
        "{text}"
    );
    assert!(text.contains(r#""web.example" in"#) && !text.contains("10.0.0.9"), "{text}");
}

#[test]
fn who_asks_for_the_control_planes_vip_is_told_that_nobody_gets_it() {
    let asks = |name: &str, class: Option<&str>, annotation: &str, field: Option<&str>| {
        let service = json!({
            "metadata": {"namespace": "shop", "name": name, "uid": "u", "annotations": {"kube-vip.io/loadbalancerIPs": annotation}},
            "spec": {"type": "LoadBalancer", "loadBalancerClass": class, "loadBalancerIP": field},
        });
        Seen::Services(Change::One(serde_json::from_value(service).unwrap()))
    };
    let told = |catalog: &mut Catalog| {
        let all = std::iter::from_fn(|| {
            let remark = catalog.remark().cloned()?;
            catalog.remark_was_told();
            Some(format!("{} {}: {}", remark.reason, remark.object.name, remark.text))
        });
        all.collect::<Vec<_>>()
    };
    let expected = |name: &str, ip: &str| {
        format!(
            "AddressOfControlPlane {name}: {ip} is the control plane's VIP, and no Service gets it: ask for another address"
        )
    };
    let vip: BTreeSet<IpAddr> = [ip("10.0.0.1")].into();
    // With sessions, and as kube-vip places VIPs; the VIP may be known before the Services or after them.
    for (mut catalog, before) in [
        (listed(), true),
        (listed(), false),
        (Catalog::new("n1", Interface::First).by_services(super::Classes::default()), true),
        (Catalog::new("n1", Interface::First).by_services(super::Classes::default()), false),
    ] {
        if before {
            catalog.reserve(vip.clone());
        }
        catalog.take(asks("annotation", None, "10.0.0.1,fd00::1", None));
        catalog.take(asks("field", None, "", Some("10.0.0.1")));
        catalog.take(asks("another", None, "10.0.0.2", None));
        catalog.take(asks("elsewhere", Some("other/class"), "10.0.0.1", None));
        catalog.reserve(vip.clone());
        let mut all = told(&mut catalog);
        all.sort();
        assert_eq!(all, [expected("annotation", "10.0.0.1"), expected("field", "10.0.0.1")]);
        let refused: Vec<(IpAddr, usize)> = catalog.refused().map(|(ip, services)| (ip, services.len())).collect();
        assert_eq!(refused, [(ip("10.0.0.1"), 2)]);
        // It is told once, and of another address again.
        catalog.take(asks("field", None, "", Some("10.0.0.1")));
        assert_eq!(told(&mut catalog), [""; 0]);
        catalog.reserve([ip("10.0.0.1"), ip("10.0.0.2")].into());
        assert_eq!(told(&mut catalog), [expected("another", "10.0.0.2")]);
    }
}

#[test]
fn an_address_that_a_service_moves_to_is_advertised_beside_the_one_that_it_has() {
    let mut catalog = listed();
    for (name, address) in [("a", "10.0.0.5"), ("b", "10.0.0.6")] {
        catalog.take(Seen::Addresses(0, Change::One(for_service(name, address))));
    }
    catalog.take(Seen::Services(Change::One(service("web", "shop/a=10.0.0.5", "Cluster"))));
    let moving =
        json!({"mooring.dev/ip-addresses": "shop/a=10.0.0.5", "mooring.dev/moving-ip-addresses": "shop/b=10.0.0.6"});
    let moves = json!({
        "metadata": {"namespace": "shop", "name": "web", "annotations": moving}, "spec": {"type": "LoadBalancer"},
    });
    let out = catalog.take(Seen::Services(Change::One(serde_json::from_value(moves).unwrap())));
    assert_eq!(out, [Input::Wanted(vec![Demand::of(ip("10.0.0.6"))])]);
    let out = catalog.take(Seen::Services(Change::One(service("web", "shop/b=10.0.0.6", "Cluster"))));
    assert_eq!(out, [Input::Unwanted(ip("10.0.0.5"))]);
}

#[test]
fn an_address_is_advertised_once_a_service_says_that_it_has_it() {
    let mut catalog = listed();
    let out = catalog.take(Seen::Addresses(0, Change::One(for_service("a", "10.0.0.5"))));
    assert!(matches!(out.as_slice(), [Input::Address { view: Some(_), .. }]), "{out:?}");
    let out = catalog.take(Seen::Services(Change::One(service("web", "shop/a=10.0.0.5", "Cluster"))));
    assert_eq!(out, [Input::Wanted(vec![Demand::of(ip("10.0.0.5"))])]);
    assert_eq!(catalog.services_of(ip("10.0.0.5")).len(), 1);
    // A record of another object, or of another address, does not count.
    let out = catalog.take(Seen::Services(Change::One(service("web", "shop/b=10.0.0.5", "Cluster"))));
    assert_eq!(out, [Input::Unwanted(ip("10.0.0.5"))]);
    let out = catalog.take(Seen::Services(Change::One(service("web", "shop/a=10.0.0.6", "Cluster"))));
    assert_eq!(out, []);
}

/// `kubectl replace`, or a program that writes its own annotations, takes the allocator's away, and the allocator is not there to write
/// them again.
#[test]
fn a_service_that_lost_its_record_keeps_the_address_that_its_status_shows() {
    let web = |annotations: &Value, shown: &[&str], more: &Value| -> Seen {
        let ingress: Vec<Value> = shown.iter().map(|ip| json!({"ip": ip})).collect();
        let mut service = json!({
            "metadata": {"namespace": "shop", "name": "web", "annotations": annotations},
            "spec": {"type": "LoadBalancer", "externalTrafficPolicy": "Cluster"},
            "status": {"loadBalancer": {"ingress": ingress}},
        });
        for (key, value) in more.as_object().into_iter().flatten() {
            service[key] = value.clone();
        }
        Seen::Services(Change::One(serde_json::from_value(service).unwrap()))
    };
    let (five, none) = (&["10.0.0.5"], json!({}));
    let recorded = json!({"mooring.dev/ip-addresses": "pools/a=10.0.0.5"});
    let mut object = for_service("a", "10.0.0.5");
    object.metadata.namespace = "pools".into();
    // Who begins now knows no more than the objects say, in whatever order they come.
    let fresh = |object_first: bool, service: &Seen| {
        let mut catalog = listed();
        let object = Seen::Addresses(0, Change::One(object.clone()));
        for seen in if object_first { [object, service.clone()] } else { [service.clone(), object] } {
            catalog.take(seen);
        }
        catalog
    };
    let is_wanted = |catalog: &Catalog| catalog.demand_of(ip("10.0.0.5")).is_some();
    let mut catalog = fresh(true, &web(&recorded, five, &none));
    assert_eq!(catalog.take(web(&Value::Null, five, &none)), [], "nothing has changed");
    assert!(is_wanted(&catalog) && catalog.services_of(ip("10.0.0.5")).len() == 1);
    assert_eq!(catalog.take(web(&json!({"kube-vip.io/loadbalancerIPs": "10.0.0.5"}), five, &none)), []);
    assert_eq!(catalog.take(web(&recorded, five, &none)), [], "the allocator is back");
    for first in [true, false] {
        assert!(is_wanted(&fresh(first, &web(&none, five, &none))), "object first: {first}");
    }
    // The allocator takes the address away: first from the status.
    for after in [
        web(&none, &[], &none),
        web(&none, &["10.0.0.6"], &none),
        web(&json!({"mooring.dev/ip-addresses": "pools/b=10.0.0.6"}), five, &none),
        web(&json!({"mooring.dev/ip-addresses": ""}), five, &none),
        web(&json!({"mooring.dev/moving-ip-addresses": "pools/b=10.0.0.6"}), five, &none),
        web(&json!({"kube-vip.io/ignore": "true"}), five, &none),
        web(&none, five, &json!({"spec": {"type": "ClusterIP"}})),
        web(
            &none,
            five,
            &json!({"status": {"loadBalancer": {"ingress": [{"ip": "10.0.0.5"}]},
            "conditions": [{"type": "mooring.dev/AddressReady", "status": "False", "reason": "AddressTaken"}]}}),
        ),
        web(&none, &[], &json!({"status": {"loadBalancer": {"ingress": [{"ip": "10.0.0.5", "ipMode": "Proxy"}]}}})),
    ] {
        let mut catalog = fresh(true, &web(&none, five, &none));
        assert_eq!(catalog.take(after.clone()), [Input::Unwanted(ip("10.0.0.5"))], "{after:?}");
    }
    let mut catalog = fresh(true, &web(&none, five, &none));
    let gone: Service = serde_json::from_value(json!({"metadata": {"namespace": "shop", "name": "web"}})).unwrap();
    assert_eq!(catalog.take(Seen::Services(Change::Gone(gone))), [Input::Unwanted(ip("10.0.0.5"))]);
    assert!(catalog.stripped.is_empty());
    // An object that was not made for Services.
    let mut other = listed();
    other.take(Seen::Addresses(0, Change::One(address("a", "10.0.0.5", &json!({})))));
    other.take(web(&none, five, &none));
    assert!(!is_wanted(&other));
}

/// Its endpoints count as before.
#[test]
fn a_local_service_that_lost_its_record_keeps_its_demand() {
    let web = |annotations: Value| -> Seen {
        let service = json!({
            "metadata": {"namespace": "shop", "name": "web", "annotations": annotations},
            "spec": {"type": "LoadBalancer", "externalTrafficPolicy": "Local"},
            "status": {"loadBalancer": {"ingress": [{"ip": "10.0.0.5"}]}},
        });
        Seen::Services(Change::One(serde_json::from_value(service).unwrap()))
    };
    let mut catalog = listed();
    catalog.take(Seen::Addresses(0, Change::One(for_service("a", "10.0.0.5"))));
    catalog.take(web(json!({"mooring.dev/ip-addresses": "shop/a=10.0.0.5"})));
    let of = catalog.local_services().clone();
    catalog.take(Seen::Slices(Dealt::to_one(&of), Change::All(vec![slice("s1", "web", &[("n1", true)])])));
    assert_eq!(nodes(&catalog, "10.0.0.5"), ["n1"]);
    assert_eq!(catalog.take(web(Value::Null)), []);
    assert_eq!((catalog.local_services(), nodes(&catalog, "10.0.0.5")), (&of, vec!["n1".to_owned()]));
    catalog.take(Seen::Slices(Dealt::to_one(&of), Change::One(slice("s1", "web", &[("n2", true)]))));
    assert_eq!(nodes(&catalog, "10.0.0.5"), ["n2"]);
}

#[test]
fn a_label_is_enough_and_each_watch_counts_for_itself() {
    let mut catalog = listed();
    let both =
        address("a", "10.0.0.5", &json!({"mooring.dev/service-family": "ipv4", "mooring.dev/advertise": "true"}));
    catalog.take(Seen::Addresses(0, Change::One(both.clone())));
    catalog.take(Seen::Addresses(1, Change::One(both.clone())));
    assert!(catalog.demand_of(ip("10.0.0.5")).is_some());
    assert_eq!(catalog.take(Seen::Addresses(0, Change::Gone(both.clone()))), []);
    let out = catalog.take(Seen::Addresses(1, Change::Gone(both)));
    assert!(out.contains(&Input::Unwanted(ip("10.0.0.5"))) && catalog.told.is_empty(), "{out:?}");
}

#[test]
fn nothing_is_said_of_a_local_service_before_its_endpoints_are_known() {
    let mut catalog = listed();
    catalog.take(Seen::Addresses(0, Change::One(for_service("a", "10.0.0.5"))));
    let out = catalog.take(Seen::Services(Change::One(service("web", "shop/a=10.0.0.5", "Local"))));
    assert_eq!(out, []);
    let of = catalog.local_services().clone();
    assert_eq!(of.len(), 1);
    catalog.take(Seen::Slices(
        Dealt::to_one(&of),
        Change::All(vec![slice("s1", "web", &[("n1", true)]), slice("x", "other", &[("n9", true)])]),
    ));
    let local = |catalog: &Catalog| catalog.demand_of(ip("10.0.0.5")).unwrap().local.as_deref().cloned().unwrap();
    assert_eq!(local(&catalog), ["n1".to_owned()].into());
    // All slices count.
    catalog.take(Seen::Slices(Dealt::to_one(&of), Change::One(slice("s2", "web", &[("n2", true)]))));
    assert_eq!(local(&catalog), ["n1".to_owned(), "n2".to_owned()].into());
    // A terminating endpoint that still serves counts only while no endpoint is ready.
    catalog.take(Seen::Slices(Dealt::to_one(&of), Change::One(slice("s1", "web", &[("n1", false)]))));
    assert_eq!(local(&catalog), ["n2".to_owned()].into());
    catalog.take(Seen::Slices(Dealt::to_one(&of), Change::Gone(slice("s2", "web", &[]))));
    assert_eq!(local(&catalog), ["n1".to_owned()].into());
}

#[test]
fn services_that_share_an_address_need_a_node_in_common() {
    let mut catalog = listed();
    catalog.take(Seen::Addresses(0, Change::One(for_service("a", "10.0.0.5"))));
    for name in ["tcp", "udp"] {
        catalog.take(Seen::Services(Change::One(service(name, "shop/a=10.0.0.5", "Local"))));
    }
    let of = catalog.local_services().clone();
    let all =
        vec![slice("s1", "tcp", &[("n1", true), ("n2", true)]), slice("s2", "udp", &[("n2", true), ("n3", true)])];
    catalog.take(Seen::Slices(Dealt::to_one(&of), Change::All(all)));
    let demand = catalog.demand_of(ip("10.0.0.5")).unwrap();
    assert_eq!(demand.local.as_deref(), Some(&["n2".to_owned()].into()));
}

/// A Service whose status shows 10.0.0.5, or none.
fn shown(name: &str, policy: &str, shows: bool, interface: &str) -> Service {
    let ingress = if shows { json!([{"ip": "10.0.0.5"}]) } else { json!([]) };
    let annotations = json!({"mooring.dev/ip-addresses": "shop/a=10.0.0.5", "kube-vip.io/serviceInterface": interface});
    serde_json::from_value(json!({
        "metadata": {"namespace": "shop", "name": name, "annotations": annotations},
        "spec": {"type": "LoadBalancer", "externalTrafficPolicy": policy},
        "status": {"loadBalancer": {"ingress": ingress}},
    }))
    .unwrap()
}

/// Whoever may write Services can write the record of another one's address on theirs. The status is the allocator's.
#[test]
fn who_only_says_that_it_has_an_address_keeps_it_from_no_node() {
    for policy in ["Local", "Cluster"] {
        let mut catalog = listed();
        catalog.take(Seen::Addresses(0, Change::One(for_service("a", "10.0.0.5"))));
        catalog.take(Seen::Services(Change::One(shown("home", "Cluster", false, ""))));
        catalog.take(Seen::Services(Change::One(shown("forged", policy, false, "nosuch0"))));
        let of = catalog.local_services().clone();
        catalog.take(Seen::Slices(Dealt::to_one(&of), Change::All(vec![slice("s", "forged", &[("n9", true)])])));
        catalog.take(Seen::Services(Change::One(shown("home", "Cluster", true, ""))));
        let demand = catalog.demand_of(ip("10.0.0.5")).unwrap();
        assert_eq!((demand.local.as_deref(), &demand.interface), (None, &catalog.interface), "{policy}");
        catalog.take(Seen::Services(Change::One(shown("forged", policy, true, ""))));
        let demand = catalog.demand_of(ip("10.0.0.5")).unwrap();
        assert_eq!(demand.local.is_some(), policy == "Local", "it has the address, too");
    }
}

#[test]
fn a_local_service_without_endpoints_keeps_a_shared_address_from_no_node() {
    let mut catalog = listed();
    catalog.take(Seen::Addresses(0, Change::One(for_service("a", "10.0.0.5"))));
    for (name, policy) in [("home", "Cluster"), ("guest", "Local")] {
        catalog.take(Seen::Services(Change::One(shown(name, policy, true, ""))));
    }
    let of = catalog.local_services().clone();
    catalog.take(Seen::Slices(Dealt::to_one(&of), Change::All(vec![])));
    let local = |catalog: &Catalog| catalog.demand_of(ip("10.0.0.5")).unwrap().local.as_deref().cloned();
    assert_eq!(local(&catalog), None);
    catalog.take(Seen::Slices(Dealt::to_one(&of), Change::One(slice("s", "guest", &[("n2", true)]))));
    assert_eq!(local(&catalog), Some(["n2".to_owned()].into()));
    catalog.take(Seen::Slices(Dealt::to_one(&of), Change::Gone(slice("s", "guest", &[]))));
    catalog.take(Seen::Services(Change::Gone(shown("home", "Cluster", true, ""))));
    assert_eq!(local(&catalog), Some([].into()), "alone, it is served nowhere");
}

/// `shop/a` has 10.0.0.5, `shop/b` has 10.0.0.6.
fn with_two_local_services() -> Catalog {
    let mut catalog = listed();
    for (name, address) in [("a", "10.0.0.5"), ("b", "10.0.0.6")] {
        catalog.take(Seen::Addresses(0, Change::One(for_service(name, address))));
        let given = format!("shop/{name}={address}");
        catalog.take(Seen::Services(Change::One(service(name, &given, "Local"))));
    }
    catalog
}

/// Services for a watch.
fn of(watch: usize, deal: u64, names: &[&str]) -> Dealt {
    let key = |name: &&str| Key { namespace: "shop".into(), name: (*name).into() };
    Dealt { watch, deal, services: Arc::new(names.iter().map(key).collect()) }
}

/// The slice of a Service with an endpoint on that node.
fn on(name: &str, node: &str) -> Slice {
    slice(&format!("s-{name}"), name, &[(node, true)])
}

/// The nodes that may hold a VIP.
fn nodes(catalog: &Catalog, address: &str) -> Vec<String> {
    let demand = catalog.demand_of(ip(address)).expect("nothing is known of it");
    demand.local.as_deref().cloned().unwrap().into_iter().collect()
}

#[test]
fn what_a_watch_of_slices_shows_concerns_its_own_services() {
    let mut catalog = with_two_local_services();
    catalog.take(Seen::Slices(of(0, 1, &["a"]), Change::All(vec![on("a", "n1")])));
    assert!(catalog.demand_of(ip("10.0.0.6")).is_none());
    catalog.take(Seen::Slices(of(1, 1, &["b"]), Change::All(vec![on("b", "n2")])));
    assert_eq!((nodes(&catalog, "10.0.0.5"), nodes(&catalog, "10.0.0.6")), (vec!["n1".into()], vec!["n2".into()]));
    // Another watch has listed the Service since: what the first one still shows is older.
    catalog.take(Seen::Slices(of(1, 1, &["a", "b"]), Change::All(vec![on("a", "n3"), on("b", "n2")])));
    catalog.take(Seen::Slices(of(0, 1, &["a"]), Change::One(on("a", "n1"))));
    catalog.take(Seen::Slices(of(0, 1, &["a"]), Change::Gone(on("a", "n1"))));
    catalog.take(Seen::Slices(of(0, 1, &[]), Change::All(vec![])));
    assert_eq!((nodes(&catalog, "10.0.0.5"), nodes(&catalog, "10.0.0.6")), (vec!["n3".into()], vec!["n2".into()]));
    assert!(catalog.is_all_covered());
    // The watch of nothing knows nothing any more, and the VIPs stay as they were.
    catalog.take(Seen::Slices(of(1, 1, &[]), Change::All(vec![])));
    assert!(!catalog.is_all_covered() && catalog.slices.is_empty());
    assert_eq!(nodes(&catalog, "10.0.0.5"), ["n3"]);
}

#[test]
fn a_list_that_comes_late_does_not_take_a_service_from_the_watch_that_has_it_since() {
    // More watches, and fewer: `b` goes from one watch to the other, which lists first.
    for (old, new) in [(0, 1), (1, 0)] {
        let mut catalog = with_two_local_services();
        catalog.take(Seen::Slices(of(new, 2, &["b"]), Change::All(vec![on("b", "n2")])));
        catalog.take(Seen::Slices(of(old, 1, &["a", "b"]), Change::All(vec![on("a", "n1"), on("b", "n1")])));
        assert_eq!((nodes(&catalog, "10.0.0.5"), nodes(&catalog, "10.0.0.6")), (vec!["n1".into()], vec!["n2".into()]));
        catalog.take(Seen::Slices(of(old, 2, &["a"]), Change::All(vec![on("a", "n1")])));
        assert!(catalog.is_all_covered(), "nobody follows what watch {new} listed");
        catalog.take(Seen::Slices(of(new, 2, &["b"]), Change::One(on("b", "n3"))));
        assert_eq!(nodes(&catalog, "10.0.0.6"), ["n3"]);
        // A later deal takes it back.
        catalog.take(Seen::Slices(of(old, 3, &["a", "b"]), Change::All(vec![on("a", "n1"), on("b", "n4")])));
        catalog.take(Seen::Slices(of(new, 2, &["b"]), Change::All(vec![on("b", "n3")])));
        catalog.take(Seen::Slices(of(new, 3, &[]), Change::All(vec![])));
        assert!(catalog.is_all_covered() && nodes(&catalog, "10.0.0.6") == ["n4"]);
    }
}

#[test]
fn a_selector_follows_the_node() {
    let mut catalog = listed();
    let mut one = address("a", "10.0.0.5", &json!({"mooring.dev/advertise": "true"}));
    one.metadata.annotations.node_selector = Some("edge".into());
    one.metadata.annotations.interface = Some("eth1".into());
    catalog.take(Seen::Addresses(1, Change::One(one)));
    let demand = catalog.demand_of(ip("10.0.0.5")).unwrap();
    assert_eq!(demand.interface, Interface::Named("eth1".into()));
    assert!(!demand.admits("n1", catalog.labels()));
    let labelled = node("n1", &json!({"edge": ""}));
    let (standing, labels) = (standing(&labelled), labelled.metadata.labels.clone());
    assert_eq!(catalog.take(Seen::Node(Change::One(labelled.clone()))), [Input::Node { standing, labels }]);
    assert!(catalog.demand_of(ip("10.0.0.5")).unwrap().admits("n1", catalog.labels()));
    // Others' Nodes are not asked for, and the own one goes on to count when it is gone.
    assert_eq!(catalog.take(Seen::Node(Change::One(node("n2", &json!({}))))), []);
    assert_eq!(catalog.take(Seen::Node(Change::Gone(labelled))), []);
    assert_eq!(catalog.labels().len(), 1);
}

#[test]
fn of_two_objects_with_one_address_the_advertised_and_older_counts() {
    let mut catalog = listed();
    catalog.take(Seen::Addresses(0, Change::One(for_service("a", "10.0.0.5"))));
    catalog.take(Seen::Addresses(0, Change::One(for_service("b", "10.0.0.5"))));
    assert_eq!(catalog.key_of(ip("10.0.0.5")).unwrap().name, "a");
    catalog.take(Seen::Services(Change::One(service("web", "shop/b=10.0.0.5", "Cluster"))));
    assert_eq!(catalog.key_of(ip("10.0.0.5")).unwrap().name, "b");
}

#[test]
fn a_list_shows_again_what_is_there_and_takes_away_what_is_not() {
    let mut catalog = listed();
    let mut one = address("a", "10.0.0.5", &json!({"mooring.dev/advertise": "true"}));
    let holder = Holder { node: "n2".into(), session: Incarnation { uid: "u".into(), transitions: 0 }, to: None };
    one.metadata.annotations.holder = Some(serde_json::to_string(&holder).unwrap());
    catalog.take(Seen::Addresses(1, Change::One(one.clone())));
    assert_eq!(catalog.take(Seen::Addresses(1, Change::One(one.clone()))), []);
    let out = catalog.take(Seen::Addresses(1, Change::All(vec![one])));
    assert!(
        matches!(out.as_slice(), [Input::Address { listed: true, view: Some(v), .. }] if v.holder == Some(holder)),
        "{out:?}"
    );
    let out = catalog.take(Seen::Addresses(1, Change::All(vec![])));
    assert!(out.contains(&Input::Address { listed: true, address: ip("10.0.0.5"), view: None }), "{out:?}");
}

#[test]
fn people_ask_this_node_by_its_annotations() {
    let mut catalog = listed();
    let asked = |drain: Option<&str>, rebalance: Option<&str>| {
        let mut node = node("n1", &json!({}));
        node.metadata.annotations.drain = drain.map(str::to_owned);
        node.metadata.annotations.rebalance = rebalance.map(str::to_owned);
        Seen::Node(Change::One(node))
    };
    assert_eq!(catalog.take(asked(Some("true"), None)), [Input::Drain(true)]);
    assert_eq!(catalog.take(asked(None, Some("1"))), [Input::Drain(false), Input::Rebalance]);
    assert_eq!(catalog.take(asked(None, Some("1"))), []);
}

#[test]
fn what_services_state_counts_only_where_that_was_asked_for_and_no_object_says_more() {
    let stating = |name: &str, ips: &str, policy: &str| -> Service {
        serde_json::from_value(json!({
            "metadata": {"namespace": "shop", "name": name, "annotations": {"kube-vip.io/loadbalancerIPs": ips}},
            "spec": {"type": "LoadBalancer", "externalTrafficPolicy": policy},
        }))
        .unwrap()
    };
    let web = || Seen::Services(Change::One(stating("web", "10.0.0.5,fd00::5", "Cluster")));
    assert_eq!(listed().take(web()), []);
    let mut catalog = Catalog::new("n1", Interface::First).by_services(super::Classes::default());
    assert!(!catalog.is_known(false));
    catalog.take(Seen::Services(Change::All(vec![])));
    catalog.take(Seen::NodeAddresses(Change::All(vec![])));
    catalog.take(Seen::Node(Change::All(vec![node("n1", &json!({}))])));
    assert!(catalog.is_known(false) && !catalog.is_known(true));
    let both = vec![Demand::of(ip("10.0.0.5")), Demand::of(ip("fd00::5"))];
    assert_eq!(catalog.take(web()), [Input::Wanted(both)]);
    let lease = |catalog: &Catalog, address: &str| catalog.lease_of(ip(address)).map(|(_, name)| name);
    assert_eq!(lease(&catalog, "10.0.0.5").as_deref(), Some("kubevip-web"));
    // Another Service shares the address: both use one Lease, always the same one.
    catalog.take(Seen::Services(Change::One(stating("api", "10.0.0.5", "Cluster"))));
    assert_eq!(lease(&catalog, "10.0.0.5").as_deref(), Some("kubevip-api"));
    // The Lease of the older one, whatever their names are.
    for (web, api, has) in [("24", "25", "kubevip-web"), ("25", "24", "kubevip-api"), ("24", "24", "kubevip-api")] {
        for (name, addresses, second) in [("web", "10.0.0.5,fd00::5", web), ("api", "10.0.0.5", api)] {
            let mut one = stating(name, addresses, "Cluster");
            one.metadata.creation_timestamp = Some(format!("2026-11-28T18:37:{second}Z"));
            catalog.take(Seen::Services(Change::One(one)));
        }
        assert_eq!(lease(&catalog, "10.0.0.5").as_deref(), Some(has), "{web} {api}");
    }
    // The demand of the object takes precedence.
    let labels = json!({"mooring.dev/advertise": "true"});
    let mut object = address("a", "10.0.0.5", &labels);
    object.metadata.annotations.interface = Some("eth1".into());
    let out = catalog.take(Seen::Addresses(1, Change::One(object.clone())));
    let named = Demand { interface: Interface::Named("eth1".into()), ..Demand::of(ip("10.0.0.5")) };
    assert!(out.contains(&Input::Wanted(vec![named])), "{out:?}");
    catalog.take(Seen::Addresses(1, Change::Gone(object)));
    assert_eq!(catalog.demand_of(ip("10.0.0.5")), Some(&Demand::of(ip("10.0.0.5"))));
    // Policy Local: as far as endpoints are known.
    catalog.take(Seen::Services(Change::Gone(stating("api", "10.0.0.5", "Cluster"))));
    assert_eq!(
        catalog.take(Seen::Services(Change::One(stating("web", "10.0.0.5", "Local")))),
        [Input::Unwanted(ip("fd00::5"))]
    );
    let of = catalog.local_services().clone();
    assert_eq!(of.len(), 1);
    let out = catalog.take(Seen::Slices(Dealt::to_one(&of), Change::All(vec![slice("s", "web", &[("n2", true)])])));
    assert!(
        matches!(out.as_slice(), [Input::Wanted(w)] if !w[0].admits("n1", catalog.labels()) && w[0].admits("n2", catalog.labels())),
        "{out:?}"
    );
    catalog.take(Seen::Services(Change::Gone(stating("web", "10.0.0.5", "Local"))));
    assert!(catalog.told.is_empty() && catalog.demands().next().is_none());
}

#[test]
fn who_merely_states_an_address_that_another_service_was_given_does_not_have_it() {
    let mut catalog = Catalog::new("n1", Interface::First).by_services(super::Classes::default());
    catalog.take(Seen::Node(Change::All(vec![node("n1", &json!({}))])));
    catalog.take(Seen::Addresses(0, Change::All(vec![for_service("a", "10.0.0.5")])));
    let stating: Service = serde_json::from_value(json!({
        "metadata": {"namespace": "shop", "name": "any", "annotations": {
            "kube-vip.io/loadbalancerIPs": "10.0.0.5", "kube-vip.io/leaseName": "nowhere/x",
        }},
        "spec": {"type": "LoadBalancer"},
    }))
    .unwrap();
    catalog.take(Seen::Services(Change::All(vec![stating, service("web", "shop/a=10.0.0.5", "Cluster")])));
    let services = catalog.services_of(ip("10.0.0.5"));
    assert_eq!(services.iter().map(|key| key.name.as_str()).collect::<Vec<_>>(), ["web"]);
    assert_eq!(catalog.lease_of(ip("10.0.0.5")), Some(("shop".into(), "kubevip-web".into())));
}
