//! Annotations of kube-vip's on Services that Mooring does not honour, and what to do instead.
//!
//! Source: kube-vip's `pkg/kubevip/annotations.go`. Annotations that make no difference here are not in the table:
//! `allow-reconcile-without-endpoints` and `ignore-service-security`, for example.

const PREFIX: &str = "kube-vip.io/";

const VLAN: &str = "Mooring makes no VLAN interface, so the VIP is not on one: make the sub-interface on the nodes and name it in kube-vip.io/serviceInterface";
const DHCP: &str = "Mooring does not speak DHCP: let mooring-allocator give an address from a pool, or ask for one in kube-vip.io/loadbalancerIPs";
const ELECTION: &str = "one Service cannot have an election of its own: set svc_election=true for all, or MOORING_SERVICES_PLACEMENT=session";
const EGRESS: &str =
    "Mooring does not change what connections of pods come from: use the egress gateway of your network plugin";
const UPNP: &str = "Mooring does not speak UPnP: forward the port on the router";

/// Names without their prefix, and what to do instead. A name that ends in `*` stands for all that begin so.
const TABLE: &[(&str, &str)] = &[
    ("serviceVLAN", VLAN),
    ("hwaddr", DHCP),
    ("requestedIP", DHCP),
    ("loadbalancerHostname", DHCP),
    ("ddns", DHCP),
    ("macvlanName", DHCP),
    ("dhcp-broadcast", DHCP),
    ("rp_filter", DHCP),
    ("forcePerServiceElection", ELECTION),
    ("egress*", EGRESS),
    ("active-endpoint*", EGRESS),
    ("flush-conntrack", EGRESS),
    ("forwardUPNP", UPNP),
    ("upnp-lease-duration", UPNP),
];

/// The table: names, and what to do instead.
pub(crate) fn not_honoured() -> impl Iterator<Item = (String, &'static str)> {
    TABLE.iter().map(|(name, instead)| (format!("{PREFIX}{name}"), *instead))
}

/// Which annotations of the table an object has: a bit for each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NotHonoured(u16);

impl NotHonoured {
    /// The place of an annotation in the table. None: it is not there.
    #[must_use]
    pub fn index(annotation: &str) -> Option<usize> {
        let name = annotation.strip_prefix(PREFIX)?;
        TABLE.iter().position(|(known, _)| match known.strip_suffix('*') {
            Some(start) => name.starts_with(start),
            None => name == *known,
        })
    }

    /// Notes an annotation. An empty value and `false` ask for nothing.
    pub fn put(&mut self, index: usize, value: &str) {
        if !matches!(value.trim(), "" | "false") {
            self.0 |= 1 << index;
        }
    }

    /// The annotations that were noted, and for each what to do instead.
    pub fn each(self) -> impl Iterator<Item = (String, &'static str)> {
        let noted = not_honoured().enumerate().filter(move |(index, _)| self.0 & (1 << index) != 0);
        noted.map(|(_, row)| row)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn annotations_are_noted_by_name_and_by_family() {
        assert!(TABLE.len() <= 16, "a bit for each");
        let mut noted = NotHonoured::default();
        for (name, value) in [
            ("kube-vip.io/serviceVLAN", "eth0.200"),
            ("kube-vip.io/egress-ipv6", "true"),
            ("kube-vip.io/egress", "true"),
            ("kube-vip.io/forwardUPNP", "false"),
            ("kube-vip.io/hwaddr", ""),
        ] {
            noted.put(NotHonoured::index(name).unwrap(), value);
        }
        let names: Vec<String> = noted.each().map(|(name, _)| name).collect();
        assert_eq!(names, ["kube-vip.io/serviceVLAN", "kube-vip.io/egress*"]);
        for name in
            ["kube-vip.io/loadbalancerIPs", "kube-vip.io/ignore", "egress", "example.com/egress", "kube-vip.io/"]
        {
            assert_eq!(NotHonoured::index(name), None, "{name}");
        }
    }
}
