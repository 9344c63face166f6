//! Which VIPs this node may carry by which Lease.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use crate::catalog::Catalog;
use crate::core::lease_vips::{Assignment, LeaseVips};
use crate::core::placement::Demand;
use crate::core::session::Link;
use crate::core::{Interface, NO_INTERFACE};
use crate::settings::Leases;

/// The name of the Lease that all VIPs share, as in [`LeaseVips`].
pub(super) fn shared(leases: &Leases) -> String {
    format!("{}/{}", leases.namespace, leases.name)
}

/// The Lease that places a VIP.
pub(super) fn lease_of(leases: &Leases, catalog: &Catalog, address: IpAddr) -> String {
    let own = if leases.per_service { catalog.lease_of(address) } else { None };
    own.map_or_else(|| shared(leases), |(namespace, name)| format!("{namespace}/{name}"))
}

/// What this node is like.
#[derive(Clone, Copy)]
pub(super) struct ThisNode<'a> {
    pub(super) name: &'a str,
    pub(super) interfaces: &'a [Interface],
    /// The first of them existed since this process began.
    pub(super) had_first: bool,
    /// It campaigns for no Lease.
    pub(super) drained: bool,
    /// The control plane's VIPs, which are carried by no other Lease.
    pub(super) reserved: &'a BTreeSet<IpAddr>,
}

/// Any node may take the shared Lease, as with kube-vip; a VIP that the holder cannot have is then on no node. A
/// Service's own Lease is for nodes that can have all its VIPs: with a ready endpoint of the Services, where
/// `externalTrafficPolicy` is `Local`. A drained node is for a Lease that no other node is for.
///
/// Where the first interface does not exist, it matters whether it did: another node has it, if this one has lost it, and should get the
/// Lease. If it was never there, it may be on no node: only the VIPs that belong there are left out.
pub(super) fn assignments(
    leases: &Leases,
    catalog: &Catalog,
    core: &LeaseVips,
    node: ThisNode<'_>,
) -> BTreeMap<String, Assignment> {
    let ThisNode { name: node, interfaces, had_first, drained, reserved } = node;
    let links: Vec<Link> = interfaces.iter().map(|one| one.link.clone()).collect();
    let mut assignments = BTreeMap::<String, Assignment>::new();
    // The other nodes that can have all VIPs of a Lease; none: any.
    let mut others = BTreeMap::<String, BTreeSet<&str>>::new();
    let shared = shared(leases);
    for demand in catalog.demands().filter(|demand| !reserved.contains(&demand.address)) {
        let name = lease_of(leases, catalog, demand.address);
        let (own, is_carrying) = (name != shared, core.is_carrying(&name));
        if let Some(local) = demand.local.as_deref().filter(|_| own) {
            let has = |other: &&str| *other != node && local.contains(*other);
            let able = others.remove(&name).unwrap_or_else(|| local.iter().map(String::as_str).collect());
            others.insert(name.clone(), able.into_iter().filter(has).collect());
        }
        let assignment =
            assignments.entry(name).or_insert_with(|| Assignment { campaigns: true, ..Assignment::default() });
        let link = demand.link_of(&links);
        let index = link.and_then(|link| interfaces.iter().find(|one| one.link.name == link.name)).map(|one| one.index);
        let index = index.filter(|index| had_first || *index != NO_INTERFACE);
        let allowed = demand.selects(catalog.labels());
        if let Some(index) = index.filter(|_| allowed || own) {
            assignment.vips.insert(demand.address, index);
            if link.is_some_and(|link| link.up) {
                assignment.up = true;
            } else {
                assignment.unheard.insert(demand.address);
            }
        }
        if own {
            assignment.campaigns &= index.is_some() && allowed && has_endpoint(demand, node, is_carrying);
        }
    }
    for (name, assignment) in &mut assignments {
        assignment.campaigns &= !drained || others.get(name).is_some_and(BTreeSet::is_empty);
        // A link that is down may be down on all nodes: the other VIPs of the Lease go on. An interface that this node has lost is its
        // trouble alone.
        assignment.up &= assignment.vips.values().all(|index| *index != NO_INTERFACE);
    }
    assignments
}

/// Whether this node has a ready endpoint, if it needs one. A VIP never leaves a holder when no other node could take
/// it. `is_carrying`: this node carries the VIPs of the Lease.
fn has_endpoint(demand: &Demand, node: &str, is_carrying: bool) -> bool {
    let Some(local) = &demand.local else { return true };
    local.contains(node) || local.is_empty() && is_carrying
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::api::objects::{Node, Service, Slice};
    use crate::catalog::{Change, Classes, Dealt, Seen};
    use crate::core::placement::Interface as Where;
    use crate::core::rules::Rules;

    fn service(name: &str, ips: &str, more: &Value) -> Service {
        let mut annotations = json!({"kube-vip.io/loadbalancerIPs": ips});
        if let (Some(all), Some(more)) = (annotations.as_object_mut(), more.as_object()) {
            all.extend(more.clone());
        }
        serde_json::from_value(json!({
            "metadata": {"namespace": "shop", "name": name, "annotations": annotations},
            "spec": {"type": "LoadBalancer"},
        }))
        .unwrap()
    }

    fn catalog(services: Vec<Service>) -> Catalog {
        let mut catalog = Catalog::new("w1", Where::First).by_services(Classes::default());
        catalog.take(Seen::Node(Change::All(vec![Node::default()])));
        catalog.take(Seen::NodeAddresses(Change::All(vec![])));
        catalog.take(Seen::Services(Change::All(services)));
        catalog
    }

    fn interface(index: u32, name: &str, up: bool) -> Interface {
        Interface { index, link: Link { name: name.into(), up, ..Link::default() }, gateways: vec![] }
    }

    fn leases(per_service: bool) -> Leases {
        Leases {
            namespace: "kube-system".into(),
            name: "plndr-svcs-lock".into(),
            per_service,
            updates: true,
            classes: Classes::default(),
        }
    }

    fn names(assignments: &BTreeMap<String, Assignment>) -> Vec<(&str, usize, bool)> {
        assignments
            .iter()
            .map(|(name, assignment)| (name.as_str(), assignment.vips.len(), assignment.campaigns))
            .collect()
    }

    fn this<'a>(
        interfaces: &'a [Interface],
        had_first: bool,
        drained: bool,
        reserved: &'a BTreeSet<IpAddr>,
    ) -> ThisNode<'a> {
        ThisNode { name: "w1", interfaces, had_first, drained, reserved }
    }

    #[test]
    fn one_lease_has_all_or_each_service_its_own() {
        let shared_by = json!({"kube-vip.io/leaseName": "vips/both"});
        let all = vec![
            service("a", "10.0.0.1,fd00::1", &json!({})),
            service("b", "10.0.0.2", &shared_by),
            service("c", "10.0.0.3", &shared_by),
        ];
        let (catalog, lease_vips) = (catalog(all), LeaseVips::new(Rules::default()));
        let eth0 = [interface(2, "eth0", true)];
        let none = BTreeSet::new();
        let of = |per_service, drained| {
            assignments(&leases(per_service), &catalog, &lease_vips, this(&eth0, true, drained, &none))
        };
        assert_eq!(names(&of(false, false)), [("kube-system/plndr-svcs-lock", 4, true)]);
        assert_eq!(names(&of(true, false)), [("shop/kubevip-a", 2, true), ("vips/both", 2, true)]);
        assert!(
            of(true, true).values().all(|assignment| !assignment.campaigns && !assignment.vips.is_empty()),
            "it serves until then"
        );
        assert!(of(false, true).values().all(|assignment| !assignment.campaigns), "any node may have the shared Lease");
        let places = of(false, false)["kube-system/plndr-svcs-lock"].vips.values().copied().collect::<Vec<_>>();
        assert_eq!(places, [2; 4]);
    }

    #[test]
    fn a_drained_node_takes_part_where_no_other_node_could() {
        let local = |name: &str, ip: &str, more: &Value| {
            let mut one = serde_json::to_value(json!({
                "metadata": {"namespace": "shop", "name": name, "annotations": {"kube-vip.io/loadbalancerIPs": ip}},
                "spec": {"type": "LoadBalancer", "externalTrafficPolicy": "Local"},
            }))
            .unwrap();
            if let (Some(all), Some(more)) = (one["metadata"]["annotations"].as_object_mut(), more.as_object()) {
                all.extend(more.clone());
            }
            serde_json::from_value::<Service>(one).unwrap()
        };
        let shared_by = json!({"kube-vip.io/leaseName": "both"});
        let all = vec![
            local("alone", "10.0.0.1", &json!({})),
            local("two", "10.0.0.2", &json!({})),
            local("elsewhere", "10.0.0.3", &json!({})),
            local("x", "10.0.0.4", &shared_by),
            local("y", "10.0.0.5", &shared_by),
            service("anywhere", "10.0.0.6", &json!({})),
        ];
        let on = |name: &str, nodes: &[&str]| -> Slice {
            let endpoints: Vec<Value> = nodes.iter().map(|node| json!({"nodeName": node})).collect();
            serde_json::from_value(json!({
                "metadata": {"namespace": "shop", "name": name, "labels": {"kubernetes.io/service-name": name}},
                "endpoints": endpoints,
            }))
            .unwrap()
        };
        let mut catalog = catalog(all);
        let endpoints = [
            on("alone", &["w1"]),
            on("two", &["w1", "w2"]),
            on("elsewhere", &["w2"]),
            // Each has another second node: only this one can have the Lease of both.
            on("x", &["w1", "w2"]),
            on("y", &["w1", "w3"]),
        ];
        let of = Dealt::to_one(catalog.local_services());
        catalog.take(Seen::Slices(of, Change::All(endpoints.to_vec())));
        let (lease_vips, eth0, none) =
            (LeaseVips::new(Rules::default()), [interface(2, "eth0", true)], BTreeSet::new());
        let campaigns = |drained| {
            let all = assignments(&leases(true), &catalog, &lease_vips, this(&eth0, true, drained, &none));
            let all = all.into_iter().filter(|(_, assignment)| assignment.campaigns);
            all.map(|(name, _)| name).collect::<Vec<_>>()
        };
        let undrained = ["shop/both", "shop/kubevip-alone", "shop/kubevip-anywhere", "shop/kubevip-two"];
        assert_eq!(campaigns(false), undrained);
        assert_eq!(campaigns(true), ["shop/both", "shop/kubevip-alone"]);
    }

    #[test]
    fn what_this_node_has_no_interface_for_is_left_out_or_left_to_others() {
        let elsewhere = json!({"kube-vip.io/serviceInterface": "eth1"});
        let all = vec![service("a", "10.0.0.1", &json!({})), service("b", "10.0.0.2", &elsewhere)];
        let (catalog, lease_vips) = (catalog(all), LeaseVips::new(Rules::default()));
        let (eth0, none) = ([interface(2, "eth0", false)], BTreeSet::new());
        let found = assignments(&leases(false), &catalog, &lease_vips, this(&eth0, true, false, &none));
        assert_eq!(names(&found), [("kube-system/plndr-svcs-lock", 1, true)]);
        assert!(!found["kube-system/plndr-svcs-lock"].up);
        let found = assignments(&leases(true), &catalog, &lease_vips, this(&eth0, true, false, &none));
        assert_eq!(names(&found), [("shop/kubevip-a", 1, true), ("shop/kubevip-b", 0, false)]);
        let both = [interface(2, "eth0", true), interface(3, "eth1", true)];
        let found = assignments(&leases(true), &catalog, &lease_vips, this(&both, true, false, &none));
        assert_eq!(names(&found), [("shop/kubevip-a", 1, true), ("shop/kubevip-b", 1, true)]);
    }

    #[test]
    fn each_link_counts_for_its_own_vips_and_a_missing_interface_for_all() {
        let elsewhere = json!({"kube-vip.io/serviceInterface": "eth1"});
        let all = vec![service("a", "10.0.0.1", &json!({})), service("b", "10.0.0.2", &elsewhere)];
        let (catalog, lease_vips) = (catalog(all), LeaseVips::new(Rules::default()));
        let (shared, none) = ("kube-system/plndr-svcs-lock", BTreeSet::new());
        let of = |first: Interface, up, reserved| {
            let interfaces = [first, interface(3, "eth1", up)];
            let mut all = assignments(&leases(false), &catalog, &lease_vips, this(&interfaces, true, false, reserved));
            let found = all.remove(shared).unwrap();
            (found.up, found.unheard.iter().map(ToString::to_string).collect::<Vec<_>>())
        };
        let gone = || interface(NO_INTERFACE, "", false);
        assert_eq!(of(interface(2, "eth0", true), true, &none), (true, vec![]));
        assert_eq!(of(interface(2, "eth0", false), true, &none), (true, vec!["10.0.0.1".into()]));
        assert_eq!(of(interface(2, "eth0", true), false, &none), (true, vec!["10.0.0.2".into()]));
        assert_eq!(of(gone(), true, &none), (false, vec!["10.0.0.1".into()]));
        // No VIP of a Service is on the interface that is missing.
        let reserved = BTreeSet::from(["10.0.0.1".parse().unwrap()]);
        assert_eq!(of(gone(), true, &reserved), (true, vec![]));
        let own = |first| {
            let interfaces = [first, interface(3, "eth1", true)];
            assignments(&leases(true), &catalog, &lease_vips, this(&interfaces, true, false, &none))
        };
        assert!(!own(gone())["shop/kubevip-a"].up && own(gone())["shop/kubevip-b"].up);
    }

    #[test]
    fn an_interface_that_was_never_there_takes_only_its_own_vips_away() {
        let elsewhere = json!({"kube-vip.io/serviceInterface": "eth1"});
        let all = vec![service("a", "10.0.0.1", &json!({})), service("b", "10.0.0.2", &elsewhere)];
        let (catalog, lease_vips) = (catalog(all), LeaseVips::new(Rules::default()));
        let interfaces = [interface(NO_INTERFACE, "", false), interface(3, "eth1", true)];
        let of = |per_service, had_first| {
            let leases = leases(per_service);
            assignments(&leases, &catalog, &lease_vips, this(&interfaces, had_first, false, &BTreeSet::new()))
        };
        let shared = "kube-system/plndr-svcs-lock";
        assert_eq!((names(&of(false, true)), of(false, true)[shared].up), (vec![(shared, 2, true)], false));
        let never = of(false, false);
        assert_eq!((names(&never), never[shared].up), (vec![(shared, 1, true)], true));
        assert!(never[shared].unheard.is_empty());
        assert_eq!(names(&of(true, false)), [("shop/kubevip-a", 0, false), ("shop/kubevip-b", 1, true)]);
    }
}
