//! A device of a machine: whether it wants addresses, and how it gets them.

use std::net::IpAddr;

use mooring_allocator_core::block::Family;
use serde_json::{Value, json};

/// An entry of `spec.network.devices`.
#[derive(Clone, Debug, PartialEq)]
pub struct Device {
    /// `networkName`
    pub network: Box<str>,
    /// It has neither DHCP nor addresses, and nobody else is to give it any.
    pub wants: bool,
    /// It has neither DHCP nor addresses that another provider gives it.
    pub fixed: bool,
    /// The addresses in `ipAddrs`, as far as they can be read.
    pub addresses: Vec<IpAddr>,
    /// The entry as it is.
    pub whole: Value,
}

/// An address for a device, and what comes with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Given {
    /// The address.
    pub ip: IpAddr,
    /// The length of its subnet's prefix.
    pub prefix: u8,
    /// The subnet's gateway.
    pub gateway: Option<IpAddr>,
    /// Name servers.
    pub nameservers: Vec<IpAddr>,
}

impl Device {
    /// Reads an entry.
    #[must_use]
    pub fn read(whole: &Value) -> Self {
        let is = |name: &str| whole.get(name) == Some(&Value::Bool(true));
        let list = |name: &str| whole.get(name).and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        let texts = list("ipAddrs").iter().filter_map(Value::as_str);
        let addresses = texts.filter_map(|text| text.split('/').next().and_then(|ip| ip.trim().parse().ok()));
        let others =
            ["dhcp4", "dhcp6", "skipIPAllocation"].into_iter().any(is) || !list("addressesFromPools").is_empty();
        let fixed = whole.is_object() && !others;
        Self {
            network: whole.get("networkName").and_then(Value::as_str).unwrap_or_default().into(),
            fixed,
            wants: fixed && list("ipAddrs").is_empty(),
            addresses: addresses.collect(),
            whole: whole.clone(),
        }
    }

    /// The entry with these addresses. What somebody has written stays: a gateway, name servers, search domains.
    #[must_use]
    pub fn with(&self, given: &[Given], search: &[Box<str>]) -> Value {
        let mut whole = self.whole.clone();
        whole["ipAddrs"] = given.iter().map(|one| format!("{}/{}", one.ip, one.prefix)).collect();
        for (field, family) in [("gateway4", Family::V4), ("gateway6", Family::V6)] {
            let gateways = given.iter().filter_map(|one| one.gateway);
            if let Some(gateway) = gateways.into_iter().find(|ip| Family::of(*ip) == family) {
                put(&mut whole, field, json!(gateway.to_string()));
            }
        }
        let mut servers: Vec<String> = Vec::new();
        for ip in given.iter().flat_map(|one| &one.nameservers) {
            let text = ip.to_string();
            if !servers.contains(&text) {
                servers.push(text);
            }
        }
        put(&mut whole, "nameservers", json!(servers));
        put(&mut whole, "searchDomains", json!(search));
        whole
    }
}

/// Sets a field that is absent or empty, to what is not empty.
fn put(whole: &mut Value, field: &str, value: Value) {
    let is_empty = |value: &Value| match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(all) => all.is_empty(),
        _ => false,
    };
    if !is_empty(&value) && whole.get(field).is_none_or(is_empty) {
        whole[field] = value;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_device_that_nobody_serves_wants_addresses() {
        for (more, wants) in [
            (json!({}), true),
            (json!({"dhcp4": false, "ipAddrs": [], "addressesFromPools": []}), true),
            (json!({"dhcp4": true}), false),
            (json!({"dhcp6": true}), false),
            (json!({"skipIPAllocation": true}), false),
            (json!({"ipAddrs": ["10.0.0.1/24"]}), false),
            (json!({"ipAddrs": ["not one"]}), false),
            (json!({"addressesFromPools": [{"apiGroup": "g", "kind": "K", "name": "n"}]}), false),
        ] {
            let mut whole = json!({"networkName": "net"});
            whole.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            let device = Device::read(&whole);
            assert_eq!((device.wants, &*device.network), (wants, "net"), "{whole}");
        }
        assert!(!Device::read(&json!("text")).wants);
        let read = Device::read(&json!({"ipAddrs": ["10.0.0.1/24", "fd00::1/64", "x"]}));
        assert_eq!(read.addresses, ["10.0.0.1".parse::<IpAddr>().unwrap(), "fd00::1".parse().unwrap()]);
    }

    fn given(ip: &str, prefix: u8, gateway: Option<&str>, servers: &[&str]) -> Given {
        let ip_of = |text: &str| text.parse().unwrap();
        let nameservers = servers.iter().map(|one| ip_of(one)).collect();
        Given { ip: ip_of(ip), prefix, gateway: gateway.map(ip_of), nameservers }
    }

    #[test]
    fn both_families_are_written_and_the_rest_stays() {
        let device = Device::read(&json!({"networkName": "net", "mtu": 9_000, "routes": [{"to": "a"}]}));
        let both = [
            given("10.0.0.7", 24, Some("10.0.0.1"), &["10.0.0.2", "10.0.0.3"]),
            given("fd00::7", 64, Some("fd00::1"), &["fd00::2", "10.0.0.2"]),
        ];
        let new = device.with(&both, &["example.com".into()]);
        assert_eq!(
            new,
            json!({"networkName": "net", "mtu": 9_000, "routes": [{"to": "a"}],
                "ipAddrs": ["10.0.0.7/24", "fd00::7/64"], "gateway4": "10.0.0.1", "gateway6": "fd00::1",
                "nameservers": ["10.0.0.2", "10.0.0.3", "fd00::2"], "searchDomains": ["example.com"]})
        );
        assert!(!Device::read(&new).wants);
    }

    #[test]
    fn what_somebody_wrote_stays_and_nothing_empty_is_written() {
        let theirs =
            json!({"networkName": "net", "gateway4": "10.0.0.254", "nameservers": ["9.9.9.9"], "searchDomains": ["a"]});
        let new = Device::read(&theirs).with(&[given("10.0.0.7", 24, Some("10.0.0.1"), &["8.8.8.8"])], &["b".into()]);
        let mut expected = theirs.clone();
        expected["ipAddrs"] = json!(["10.0.0.7/24"]);
        assert_eq!(new, expected);
        let bare =
            Device::read(&json!({"networkName": "net", "gateway4": ""})).with(&[given("10.0.0.7", 24, None, &[])], &[]);
        assert_eq!(bare, json!({"networkName": "net", "gateway4": "", "ipAddrs": ["10.0.0.7/24"]}));
    }
}
