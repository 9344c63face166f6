//! Objects that say which VIPs there are, and the sessions of nodes.

use mooring_agent::api::addresses::view;
use mooring_agent::api::objects::{IpAddress, Node, Service, Slice};
use mooring_agent::api::raw::Raw;
use mooring_agent::api::sessions;
use mooring_agent::catalog::{Catalog, Change, Dealt, Seen};
use mooring_agent::core::placement::Interface;
use mooring_agent::core::session_vips::Input;

pub fn check(data: &[u8]) {
    let mut catalog = Catalog::new("n1", Interface::First);
    for watch in [0, 1] {
        catalog.take(Seen::Addresses(watch, Change::All(vec![])));
    }
    catalog.take(Seen::Services(Change::All(vec![])));
    let address = serde_json::from_slice::<IpAddress>(data).ok();
    let mut told = vec![];
    if let Ok(node) = serde_json::from_slice::<Node>(data) {
        told.extend(catalog.take(Seen::Node(Change::One(node))));
    }
    if let Some(address) = address.clone() {
        if let Some(holder) = view(&address).holder {
            let text = serde_json::to_string(&holder).unwrap();
            assert_eq!(serde_json::from_str(&text).ok(), Some(holder), "what is read can be written");
        }
        told.extend(catalog.take(Seen::Addresses(1, Change::One(address))));
    }
    if let Ok(service) = serde_json::from_slice::<Service>(data) {
        told.extend(catalog.take(Seen::Services(Change::One(service))));
        let of = Dealt::to_one(catalog.local_services());
        if let Ok(slice) = serde_json::from_slice::<Slice>(data) {
            told.extend(catalog.take(Seen::Slices(of, Change::All(vec![slice]))));
        }
    }
    for event in told {
        if let Input::Wanted(demands) = event {
            let said = address.as_ref().and_then(IpAddress::address);
            assert!(demands.iter().all(|demand| Some(demand.address) == said), "nobody said that there is such a VIP");
        }
    }
    if let Ok(raw) = serde_json::from_slice::<Raw>(data)
        && let Some(session) = sessions::view(&raw)
    {
        assert!(!session.node.is_empty());
        for link in session.links() {
            assert!(link.macs.iter().all(|mac| mac.is_host()));
            assert!(link.addresses.iter().all(|ip| !ip.is_unspecified() && !ip.is_multicast() && !ip.is_loopback()));
        }
    }
}
