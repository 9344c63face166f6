//! Which VIPs this node may carry by which Lease.

use std::collections::BTreeMap;
use std::net::IpAddr;

use crate::catalog::Catalog;
use crate::core::fleet::Interface;
use crate::core::leased::{Leased, Lot};
use crate::core::placement::Demand;
use crate::core::session::Link;
use crate::settings::Leases;

/// What [`lots`] works out.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Lots {
    /// By Lease.
    pub(super) lots: BTreeMap<String, Lot>,
    /// On which interface each VIP is.
    pub(super) at: BTreeMap<IpAddr, u32>,
}

/// The Lease that all share, as [`Leased`] names it.
pub(super) fn shared(leases: &Leases) -> String {
    format!("{}/{}", leases.namespace, leases.name)
}

/// The Lease that places a VIP.
pub(super) fn lease_of(leases: &Leases, catalog: &Catalog, address: IpAddr) -> String {
    let own = if leases.per_service { catalog.lease_of(address) } else { None };
    own.map_or_else(|| shared(leases), |(namespace, name)| format!("{namespace}/{name}"))
}

/// `interfaces`: those of this node. Nothing is campaigned for by a node that is `drained`.
///
/// The shared Lease is anybody's, as kube-vip has it, and what its holder cannot have is nobody's. A Service's own is for nodes
/// that can have all its VIPs: with a ready endpoint of theirs, where `externalTrafficPolicy` is `Local`.
pub(super) fn lots(
    leases: &Leases,
    catalog: &Catalog,
    core: &Leased,
    node: &str,
    interfaces: &[Interface],
    drained: bool,
) -> Lots {
    let links: Vec<Link> = interfaces.iter().map(|one| one.link.clone()).collect();
    let (mut lots, mut at) = (BTreeMap::<String, Lot>::new(), BTreeMap::new());
    let shared = shared(leases);
    for demand in catalog.demands() {
        let name = lease_of(leases, catalog, demand.address);
        let own = name != shared;
        let lot = lots.entry(name).or_insert_with(|| Lot { campaigns: !drained, ..Lot::default() });
        let link = demand.link_of(&links);
        let index = link.and_then(|link| interfaces.iter().find(|one| one.link.name == link.name)).map(|one| one.index);
        let allowed = demand.allowed.as_ref().is_none_or(|all| all.contains(node));
        if let Some(index) = index.filter(|_| allowed || own) {
            lot.vips.insert(demand.address);
            lot.up |= link.is_some_and(|link| link.up);
            at.insert(demand.address, index);
        }
        if own {
            lot.campaigns &= index.is_some() && allowed && has_endpoint(demand, node, core);
        }
    }
    Lots { lots, at }
}

/// Whether this node has a ready endpoint, if it needs one. A VIP never moves from a holder to nobody.
fn has_endpoint(demand: &Demand, node: &str, core: &Leased) -> bool {
    let Some(local) = &demand.local else { return true };
    local.contains(node) || local.is_empty() && core.is_carried(demand.address)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::api::objects::{Node, Service};
    use crate::catalog::{Change, Classes, Seen};
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
        catalog.take(Seen::Nodes(Change::All(vec![Node::default()])));
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

    fn names(lots: &Lots) -> Vec<(&str, usize, bool)> {
        lots.lots.iter().map(|(name, lot)| (name.as_str(), lot.vips.len(), lot.campaigns)).collect()
    }

    #[test]
    fn one_lease_has_all_or_each_service_its_own() {
        let shared_by = json!({"kube-vip.io/leaseName": "vips/both"});
        let all = vec![
            service("a", "10.0.0.1,fd00::1", &json!({})),
            service("b", "10.0.0.2", &shared_by),
            service("c", "10.0.0.3", &shared_by),
        ];
        let (catalog, leased) = (catalog(all), Leased::new(Rules::default()));
        let eth0 = [interface(2, "eth0", true)];
        let of = |per_service, drained| lots(&leases(per_service), &catalog, &leased, "w1", &eth0, drained);
        assert_eq!(names(&of(false, false)), [("kube-system/plndr-svcs-lock", 4, true)]);
        assert_eq!(names(&of(true, false)), [("shop/kubevip-a", 2, true), ("vips/both", 2, true)]);
        assert!(of(true, true).lots.values().all(|lot| !lot.campaigns && !lot.vips.is_empty()), "it serves until then");
        assert_eq!(of(false, false).at.values().collect::<Vec<_>>(), [&2; 4]);
    }

    #[test]
    fn what_this_node_has_no_interface_for_is_left_out_or_left_to_others() {
        let elsewhere = json!({"kube-vip.io/serviceInterface": "eth1"});
        let all = vec![service("a", "10.0.0.1", &json!({})), service("b", "10.0.0.2", &elsewhere)];
        let (catalog, leased) = (catalog(all), Leased::new(Rules::default()));
        let eth0 = [interface(2, "eth0", false)];
        let found = lots(&leases(false), &catalog, &leased, "w1", &eth0, false);
        assert_eq!(names(&found), [("kube-system/plndr-svcs-lock", 1, true)]);
        assert!(!found.lots["kube-system/plndr-svcs-lock"].up);
        let found = lots(&leases(true), &catalog, &leased, "w1", &eth0, false);
        assert_eq!(names(&found), [("shop/kubevip-a", 1, true), ("shop/kubevip-b", 0, false)]);
        let both = [interface(2, "eth0", true), interface(3, "eth1", true)];
        let found = lots(&leases(true), &catalog, &leased, "w1", &both, false);
        assert_eq!(names(&found), [("shop/kubevip-a", 1, true), ("shop/kubevip-b", 1, true)]);
    }
}
