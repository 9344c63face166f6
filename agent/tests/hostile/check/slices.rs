//! `EndpointSlices`: the addresses of API servers.

use std::net::IpAddr;

use k8s_openapi::api::discovery::v1::EndpointSlice;
use mooring_agent::api::slices::addresses;

pub fn check(data: &[u8]) {
    let Ok(slice) = serde_json::from_slice::<EndpointSlice>(data) else { return };
    let all = addresses(&slice);
    let said: Vec<&String> = slice.endpoints.iter().flatten().flat_map(|endpoint| &endpoint.addresses).collect();
    assert!(all.len() <= said.len());
    for server in all {
        let ip = server.ip();
        assert!(said.iter().any(|text| text.parse::<IpAddr>() == Ok(ip)), "{ip} is not in the slice");
        let ports = slice.ports.iter().flatten();
        assert!(ports.into_iter().any(|port| port.port == Some(server.port().into())) && server.port() != 0);
        // Credentials go there: never to this host by another name, nor to everybody.
        let bare = ip.to_canonical();
        let everybody = matches!(bare, IpAddr::V4(ip) if ip.is_broadcast() || ip.octets()[0] == 0);
        assert!(!bare.is_loopback() && !bare.is_unspecified() && !bare.is_multicast() && !everybody, "{ip}");
    }
}
