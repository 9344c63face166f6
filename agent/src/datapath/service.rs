//! When an IPv6 address that was added can be reached.
//!
//! The kernel acknowledges an IPv6 address, also one without duplicate address detection, before it is in service: a
//! worker (`addrconf_dad_work`) joins the solicited-node group and adds the local route some hundred microseconds
//! later. Packets that arrive in between are answered "no route". So the agent must not announce the address earlier.
//! IPv4 is in service with the acknowledgement.

use std::net::IpAddr;
use std::time::Duration;

use netlink_packet_route::route::{RouteAddress, RouteAttribute, RouteMessage, RouteType};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};

use super::request::Requests;

/// How long it is waited for. On an interface that is down an address is not in service until it is up.
const PATIENCE: Duration = Duration::from_millis(50);

/// How often it is looked.
const EVERY: Duration = Duration::from_micros(500);

/// Waits until a newly added address is in service, or for [`PATIENCE`].
pub(super) async fn wait(requests: &Requests, address: IpAddr) {
    if address.is_ipv4() {
        return;
    }
    let served = async {
        while !is_local(requests, address).await {
            tokio::time::sleep(EVERY).await;
        }
    };
    if tokio::time::timeout(PATIENCE, served).await.is_err() {
        tracing::debug!(%address, "the address was added, but is not in service yet");
    }
}

/// Whether the kernel would take a packet for this address as its own.
async fn is_local(requests: &Requests, address: IpAddr) -> bool {
    let mut route = RouteMessage::default();
    route.header.address_family = AddressFamily::Inet6;
    route.header.destination_prefix_length = 128;
    route.attributes.push(RouteAttribute::Destination(RouteAddress::from(address)));
    match requests.ask(RouteNetlinkMessage::GetRoute(route), 0).await {
        Ok(answers) => answers.iter().any(
            |answer| matches!(answer, RouteNetlinkMessage::NewRoute(route) if route.header.kind == RouteType::Local),
        ),
        // No route to it at all (yet).
        Err(_) => false,
    }
}
