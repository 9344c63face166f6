//! The objects that say which VIPs there are. Only the fields that count are read; the rest is never kept.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use mooring_names::annotations::{CONFLICT, HOLDER, INTERFACE, NODE_SELECTOR, PREFERRED_NODES};
use mooring_names::kube_vip::NotHonoured;
use mooring_names::labels::{ADVERTISE, SERVICE_NAME};
use mooring_names::{read_by_name, services, sessions};
use serde::{Deserialize, Deserializer};

/// A namespace and a name.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// The namespace.
    pub namespace: String,
    /// The name.
    pub name: String,
}

impl std::fmt::Display for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// Metadata, as far as it counts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Meta {
    /// `name`.
    pub name: String,
    /// `namespace`.
    pub namespace: String,
    /// `uid`.
    pub uid: String,
    /// `resourceVersion`.
    pub resource_version: String,
    /// `creationTimestamp`: RFC 3339 in UTC, which sorts as text.
    pub creation_timestamp: Option<String>,
    /// `deletionTimestamp`.
    pub deletion_timestamp: Option<String>,
    /// Those that mean something here.
    #[serde(deserialize_with = "or_default")]
    pub annotations: Annotations,
    /// Those that mean something here.
    #[serde(deserialize_with = "or_default")]
    pub labels: Labels,
}

impl Meta {
    /// Which object.
    #[must_use]
    pub fn key(&self) -> Key {
        Key { namespace: self.namespace.clone(), name: self.name.clone() }
    }
}

read_by_name! {
    /// The annotations that mean something.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct Annotations {
        /// On an `IPAddress`: who holds it.
        HOLDER => holder: String,
        /// On an `IPAddress`: another host has it on the wire; who, and when it was heard, for people.
        CONFLICT => conflict: String,
        /// On an `IPAddress`: the interface it belongs on, or `auto`.
        INTERFACE => interface: String,
        /// On an `IPAddress`: labels that a node must have to hold it, `key=value,key`.
        NODE_SELECTOR => node_selector: String,
        /// On an `IPAddress`: nodes that should rather hold it, with weights: `node1=100,node2=10`.
        PREFERRED_NODES => preferred_nodes: String,
        /// On a Service: its `IPAddress` objects, `NAMESPACE/NAME=ADDRESS`; the allocator's.
        services::RECORD => ip_addresses: String,
        /// On a Service: which addresses of its status agents put there; agents with kube-vip's placements.
        services::TOLD => status_addresses: String,
        /// On a Service: the `IPAddress` objects that it moves to or from; the allocator's.
        services::MOVING => moving_addresses: String,
        /// On a Service: the interface, or `auto`; kube-vip's.
        services::INTERFACE => service_interface: String,
        /// On a Service: its addresses, with commas; kube-vip's.
        services::ADDRESSES => load_balancer_ips: String,
        /// On a Service: the Lease that places it, with one for each Service; kube-vip's.
        services::LEASE_NAME => lease_name: String,
        /// On a Service: the node that has its addresses; kube-vip's.
        services::VIP_HOST => vip_host: String,
        /// On a Service, `true`: another controller serves it; the allocator's.
        services::LEFT => left: String,
        /// On a Service, `true`: kube-vip leaves it alone.
        services::IGNORE => ignore: String,
        /// On a Node, `true`: it hands over its VIPs and takes no more.
        sessions::DRAIN => drain: String,
        /// On a Node: another value than before asks it to hand over what belongs elsewhere.
        sessions::REBALANCE => rebalance: String,
        .. => not_honoured: NotHonoured,
    }
}

read_by_name! {
    /// The labels that mean something.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct Labels {
        /// On an `IPAddress` that was made for a Service; the allocator's.
        services::SERVICE_FAMILY => service_family: String,
        /// On an `IPAddress`, `true`: it is advertised though no Service has it.
        ADVERTISE => advertise: String,
        /// On an `EndpointSlice`: its Service.
        SERVICE_NAME => service: String,
    }
}

impl Labels {
    /// The label for which agents advertise an `IPAddress` that has it.
    #[must_use]
    pub fn advertised(&self) -> Option<&'static str> {
        let by_label = (self.advertise.as_deref() == Some("true")).then_some(ADVERTISE);
        by_label.or_else(|| self.service_family.is_some().then_some(services::SERVICE_FAMILY))
    }
}

/// An `IPAddress`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct IpAddress {
    /// Its metadata.
    pub metadata: Meta,
    spec: IpAddressSpec,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct IpAddressSpec {
    address: String,
    claim_ref: NameRef,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
struct NameRef {
    name: String,
}

/// An `IPAddressClaim`, as far as it counts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Claim {
    status: ClaimStatus,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ClaimStatus {
    #[serde(deserialize_with = "or_default")]
    address_ref: NameRef,
}

impl Claim {
    /// Whether it is bound to the `IPAddress` of that name.
    #[must_use]
    pub fn is_bound_to(&self, name: &str) -> bool {
        self.status.address_ref.name == name
    }
}

impl IpAddress {
    /// The address; None when it makes no sense.
    #[must_use]
    pub fn address(&self) -> Option<IpAddr> {
        let ip: IpAddr = self.spec.address.parse().ok()?;
        Some(ip.to_canonical())
    }

    /// The claim it was made for.
    #[must_use]
    pub fn claim(&self) -> &str {
        &self.spec.claim_ref.name
    }
}

/// A Service.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Service {
    /// Its metadata.
    pub metadata: Meta,
    spec: ServiceSpec,
    #[serde(deserialize_with = "or_default")]
    status: ServiceStatus,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ServiceSpec {
    r#type: String,
    external_traffic_policy: String,
    load_balancer_class: Option<String>,
    #[serde(rename = "loadBalancerIP")]
    load_balancer_ip: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ServiceStatus {
    #[serde(deserialize_with = "or_default")]
    load_balancer: LoadBalancer,
    #[serde(rename = "conditions", deserialize_with = "answer")]
    answer: Answer,
}

/// What an allocator says, in the condition [`services::CONDITION`], of the address that the Service asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Answer {
    /// Nothing, nothing yet, or that the Service has its addresses.
    #[default]
    None,
    /// The Service does not get it as things are.
    NotGiven,
    /// The address is none for this Service.
    Refused,
}

/// A condition of a Service.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Condition {
    r#type: String,
    status: String,
    reason: String,
}

/// Reads the allocator's answer among the conditions.
fn answer<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Answer, D::Error> {
    let all: Vec<Condition> = or_default(deserializer)?;
    let condition = all.into_iter().find(|one| one.r#type == services::CONDITION && one.status == "False");
    Ok(match condition.as_ref().map(|condition| condition.reason.as_str()) {
        None => Answer::None,
        Some(reason) if services::PASSING.contains(&reason) => Answer::None,
        Some(reason) if services::REFUSING.contains(&reason) => Answer::Refused,
        Some(_) => Answer::NotGiven,
    })
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
struct LoadBalancer {
    #[serde(deserialize_with = "or_default")]
    ingress: Vec<Ingress>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
#[serde(rename_all = "camelCase")]
struct Ingress {
    ip: Option<String>,
    ip_mode: Option<String>,
}

impl Ingress {
    /// The address, if the Service has it as a VIP. With `ipMode: Proxy` it is a host's own, which passes packets on.
    fn vip(&self) -> Option<&str> {
        self.ip.as_deref().filter(|_| self.ip_mode.as_deref() != Some("Proxy"))
    }
}

impl Service {
    /// Whether it is of type `LoadBalancer`, and not about to go.
    #[must_use]
    pub fn is_served(&self) -> bool {
        self.spec.r#type == "LoadBalancer" && self.metadata.deletion_timestamp.is_none()
    }

    /// Whether kube-vip, and so the agent, is to leave it alone.
    #[must_use]
    pub fn is_ignored(&self) -> bool {
        self.metadata.annotations.ignore.as_deref() == Some("true")
    }

    /// Whether the allocator has left it to another controller.
    #[must_use]
    pub fn is_left(&self) -> bool {
        self.metadata.annotations.left.as_deref() == Some("true")
    }

    /// Whether its `externalTrafficPolicy` is `Local`.
    #[must_use]
    pub fn is_local(&self) -> bool {
        self.spec.external_traffic_policy == "Local"
    }

    /// The `IPAddress` objects that are advertised for it: those that the allocator says it has, or moves to.
    pub fn addresses(&self) -> impl Iterator<Item = (Key, IpAddr)> + '_ {
        let notes = &self.metadata.annotations;
        let lines = mooring_names::record::named(notes.ip_addresses.as_deref(), notes.moving_addresses.as_deref());
        lines.map(|line| (Key { namespace: line.namespace.into(), name: line.name.into() }, line.address))
    }
}

impl Service {
    /// The addresses that the Service itself states, as kube-vip reads them: its annotation, else its status, where
    /// `spec.loadBalancerIP` wins in its family. A Service that kube-vip is to ignore has none, nor has one that another controller
    /// serves. Invalid addresses are left out.
    ///
    /// Where an allocator answers for the Service, the answer counts, and not the request: the addresses that the allocator has given, or
    /// moves the Service to. What it refuses does not count. What it does not give counts only if the status shows it: it carries
    /// traffic, as that of a Service which had its address before the allocator came.
    #[must_use]
    pub fn stated(&self) -> BTreeSet<IpAddr> {
        if !self.is_served() || self.is_ignored() || self.is_left() {
            return BTreeSet::new();
        }
        let given: BTreeSet<IpAddr> = self.addresses().map(|(_, address)| address).collect();
        let mut all = if given.is_empty() { self.wanted() } else { self.asked() };
        let shown: BTreeSet<IpAddr> = self.shown().collect();
        match self.status.answer {
            Answer::None if given.is_empty() => {}
            Answer::NotGiven => all.retain(|address| shown.contains(address)),
            Answer::None | Answer::Refused => all.clear(),
        }
        all.extend(given);
        all
    }

    /// The addresses that it wants, as kube-vip reads them, whatever an allocator says.
    fn wanted(&self) -> BTreeSet<IpAddr> {
        let mut all = self.asked();
        if !self.has_annotation() {
            let asked: Vec<IpAddr> = all.iter().copied().collect();
            let told = self.told();
            // Beside the field, what agents have put into the status is from an earlier request.
            let counts = |ip: &IpAddr| {
                asked.iter().all(|asked| asked.is_ipv4() != ip.is_ipv4()) && (asked.is_empty() || !told.contains(ip))
            };
            all.extend(self.shown().filter(is_usable).filter(counts));
        }
        all
    }

    /// The addresses that people, or a cloud provider, ask for: in kube-vip's annotation, else in `spec.loadBalancerIP`.
    #[must_use]
    pub fn asked(&self) -> BTreeSet<IpAddr> {
        let annotation = self.metadata.annotations.load_balancer_ips.as_deref();
        let text = annotation.filter(|_| self.has_annotation()).or(self.spec.load_balancer_ip.as_deref());
        text.into_iter().flat_map(|text| text.split(',')).filter_map(read).filter(is_usable).collect()
    }

    /// Whether kube-vip's annotation says anything: then nothing else counts.
    fn has_annotation(&self) -> bool {
        self.metadata.annotations.load_balancer_ips.as_deref().is_some_and(|text| !text.is_empty())
    }

    /// The addresses in its status that it asked for, and that agents had: they leave the status with the request.
    #[must_use]
    pub fn told(&self) -> BTreeSet<IpAddr> {
        let text = self.metadata.annotations.status_addresses.as_deref();
        text.into_iter().flat_map(|text| text.split(',')).filter_map(read).collect()
    }

    /// The addresses in its status.
    pub fn shown(&self) -> impl Iterator<Item = IpAddr> + '_ {
        self.status.load_balancer.ingress.iter().filter_map(|one| one.vip().and_then(read))
    }

    /// The addresses that it had, if somebody has taken away the annotations by which the allocator says so: its status shows them still.
    /// When the allocator takes an address away, it leaves the status before it leaves the annotation.
    pub fn had(&self) -> impl Iterator<Item = IpAddr> + '_ {
        let notes = &self.metadata.annotations;
        let stripped = notes.ip_addresses.is_none() && notes.moving_addresses.is_none();
        let counts = stripped && !self.is_ignored() && !self.is_left() && self.status.answer != Answer::Refused;
        self.shown().filter(move |ip| counts && is_usable(ip))
    }

    /// Whether the address is stated by nothing but the status, which another load balancer may have written.
    #[must_use]
    pub fn states_by_status(&self, address: IpAddr) -> bool {
        let annotated = self.metadata.annotations.load_balancer_ips.as_deref().is_some_and(|text| !text.is_empty());
        let asked = self.spec.load_balancer_ip.as_deref().and_then(|text| text.trim().parse::<IpAddr>().ok());
        let recorded = self.addresses().any(|(_, ip)| ip == address);
        !annotated && !recorded && asked.map(|ip| ip.to_canonical()) != Some(address)
    }

    /// The parts of kube-vip's annotation that [`Service::stated`] leaves out.
    pub fn left_out(&self) -> impl Iterator<Item = LeftOut<'_>> {
        let parts =
            self.metadata.annotations.load_balancer_ips.as_deref().unwrap_or_default().split(',').map(str::trim);
        parts.filter(|part| !part.is_empty()).filter_map(|part| match part.parse::<IpAddr>() {
            Ok(ip) if ip.is_unspecified() => Some(LeftOut::Dhcp(part)),
            Ok(_) => None,
            Err(_) => Some(LeftOut::Name(part)),
        })
    }

    /// `spec.loadBalancerClass`.
    #[must_use]
    pub fn class(&self) -> Option<&str> {
        self.spec.load_balancer_class.as_deref()
    }

    /// The Lease that places it where each Service has one: namespace and name.
    #[must_use]
    pub fn lease(&self) -> (String, String) {
        let meta = &self.metadata;
        let name = meta.annotations.lease_name.clone().filter(|name| !name.is_empty());
        let name = name.unwrap_or_else(|| format!("kubevip-{}", meta.name));
        match name.split_once('/') {
            // kube-vip ignores the text after a second slash.
            Some((namespace, name)) => (namespace.to_owned(), name.split('/').next().unwrap_or_default().to_owned()),
            None => (meta.namespace.clone(), name),
        }
    }
}

fn read(text: &str) -> Option<IpAddr> {
    text.trim().parse::<IpAddr>().ok().map(|ip| ip.to_canonical())
}

/// All zeroes: kube-vip asks DHCP for an address.
fn is_usable(ip: &IpAddr) -> bool {
    !ip.is_unspecified() && !ip.is_loopback() && !ip.is_multicast()
}

/// What stands in the place of an address, and is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeftOut<'a> {
    /// All zeroes: kube-vip asks DHCP for an address.
    Dhcp(&'a str),
    /// A host name, whose addresses kube-vip looks up; or anything else.
    Name(&'a str),
}

/// An `EndpointSlice`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Slice {
    /// Its metadata.
    pub metadata: Meta,
    #[serde(deserialize_with = "or_default")]
    endpoints: Vec<Endpoint>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Endpoint {
    node_name: Option<String>,
    conditions: EndpointConditions,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
struct EndpointConditions {
    ready: Option<bool>,
    serving: Option<bool>,
}

impl Slice {
    /// The nodes with an endpoint: ready endpoints (unknown counts as ready), and terminating endpoints that still
    /// serve.
    pub fn nodes(&self) -> impl Iterator<Item = (&str, bool)> {
        self.endpoints.iter().filter_map(|endpoint| {
            let ready = endpoint.conditions.ready.unwrap_or(true);
            let serving = endpoint.conditions.serving.unwrap_or(ready);
            let node = endpoint.node_name.as_deref()?;
            (ready || serving).then_some((node, ready))
        })
    }
}

/// A Node, with all its labels: pools select by them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Node {
    /// Its metadata.
    pub metadata: NodeMeta,
    spec: NodeSpec,
    status: NodeStatus,
}

/// A Node's metadata.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct NodeMeta {
    /// `name`.
    pub name: String,
    /// All of them.
    #[serde(deserialize_with = "or_default")]
    pub labels: BTreeMap<String, String>,
    /// Those that mean something.
    #[serde(deserialize_with = "or_default")]
    pub annotations: Annotations,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
struct NodeSpec {
    unschedulable: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
struct NodeStatus {
    #[serde(deserialize_with = "or_default")]
    conditions: Vec<NodeCondition>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
struct NodeCondition {
    r#type: String,
    status: String,
}

impl Node {
    /// Whether its `Ready` condition is true, or it has none (yet).
    #[must_use]
    pub fn is_ready(&self) -> bool {
        let ready = self.status.conditions.iter().find(|condition| condition.r#type == "Ready");
        ready.is_none_or(|condition| condition.status == "True")
    }

    /// Whether it is cordoned.
    #[must_use]
    pub fn is_cordoned(&self) -> bool {
        self.spec.unschedulable
    }
}

/// A Node, as far as it says which addresses are its own.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct NodeAddresses {
    /// Its name.
    pub metadata: Named,
    #[serde(deserialize_with = "or_default")]
    status: AddressesStatus,
}

/// A name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Named {
    /// `name`.
    pub name: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
struct AddressesStatus {
    #[serde(deserialize_with = "or_default")]
    addresses: Vec<NodeAddress>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
struct NodeAddress {
    address: String,
}

impl NodeAddresses {
    /// The addresses that its status names, of whatever type; host names are left out.
    #[must_use]
    pub fn addresses(&self) -> BTreeSet<IpAddr> {
        let all = self.status.addresses.iter().filter_map(|one| one.address.parse::<IpAddr>().ok());
        all.map(|ip| ip.to_canonical()).collect()
    }
}

/// The API writes null for empty values in some places.
fn or_default<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(deserializer: D) -> Result<T, D::Error> {
    Option::<T>::deserialize(deserializer).map(Option::unwrap_or_default)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_the_allocator_writes() {
        let service: Service = serde_json::from_str(
            r#"{"metadata":{"name":"web","namespace":"shop","annotations":{"other":"1",
            "mooring.dev/ip-addresses":"shop/web-1-ipv4=10.0.0.5,shop/web-1-ipv6=fd00::5,nonsense,a/b=c"}},
            "spec":{"type":"LoadBalancer","externalTrafficPolicy":"Local","ports":[{"port":80}]}}"#,
        )
        .unwrap();
        let all: Vec<String> = service.addresses().map(|(key, ip)| format!("{key}={ip}")).collect();
        assert_eq!(all, ["shop/web-1-ipv4=10.0.0.5", "shop/web-1-ipv6=fd00::5"]);
        assert!(service.is_served() && service.is_local());
    }

    #[test]
    fn a_service_states_its_addresses_as_kube_vip_reads_them() {
        let stated = |annotations: &str, spec: &str, ips: &str| -> Vec<String> {
            let text = format!(
                r#"{{"metadata":{{"name":"web","namespace":"shop","annotations":{{{annotations}}}}},
                "spec":{{"type":"LoadBalancer"{spec}}},"status":{{"loadBalancer":{{"ingress":[{ips}]}}}}}}"#
            );
            let service: Service = serde_json::from_str(&text).unwrap();
            service.stated().iter().map(ToString::to_string).collect()
        };
        let annotation = r#""kube-vip.io/loadbalancerIPs":"10.0.0.5, fd00::5,host.example,0.0.0.0""#;
        assert_eq!(stated(annotation, r#","loadBalancerIP":"10.0.0.9""#, ""), ["10.0.0.5", "fd00::5"]);
        let shown = r#"{"ip":"10.0.0.6"},{"ip":"fd00::6"},{"hostname":"x"}"#;
        assert_eq!(stated("", "", shown), ["10.0.0.6", "fd00::6"]);
        assert_eq!(stated("", r#","loadBalancerIP":"10.0.0.9""#, shown), ["10.0.0.9", "fd00::6"]);
        assert!(stated(&format!(r#"{annotation},"kube-vip.io/ignore":"true""#), "", "").is_empty());
        let left = r#""mooring.dev/served-by-another":"true""#;
        assert!(stated(&format!("{annotation},{left}"), "", shown).is_empty(), "another controller serves it");
        let modes =
            r#"{"ip":"10.0.0.7","ipMode":"Proxy"},{"ip":"10.0.0.8","ipMode":"VIP"},{"ip":"fd00::8","ipMode":null}"#;
        assert_eq!(stated("", "", modes), ["10.0.0.8", "fd00::8"], "the address of a proxy is its host's");
    }

    #[test]
    fn where_an_allocator_answers_its_answer_counts() {
        let stated = |record: &str, condition: &str, ips: &str| -> Vec<String> {
            let text = format!(
                r#"{{"metadata":{{"name":"web","namespace":"shop","annotations":{{{record}"kube-vip.io/loadbalancerIPs":"10.0.0.7"}}}},
                "spec":{{"type":"LoadBalancer"}},"status":{{"loadBalancer":{{"ingress":[{ips}]}},"conditions":{condition}}}}}"#
            );
            let service: Service = serde_json::from_str(&text).unwrap();
            service.stated().iter().map(ToString::to_string).collect()
        };
        let says = |status: &str, reason: &str| {
            format!(
                r#"[{{"type":"x/y","status":"False","reason":"AddressTaken"}},
                {{"type":"mooring.dev/AddressReady","status":"{status}","reason":"{reason}","message":"m"}}]"#
            )
        };
        let (before, record) = (r#"{"ip":"10.0.0.7"}"#, r#""mooring.dev/ip-addresses":"shop/a=10.0.0.5","#);
        let moving = format!(r#"{record}"mooring.dev/moving-ip-addresses":"shop/b=10.0.0.7","#);
        // Nobody answers, or not yet.
        for condition in ["null", "[]", &says("True", "Advertised"), &says("False", "Allocating")] {
            assert_eq!(stated("", condition, ""), ["10.0.0.7"], "{condition}");
            assert_eq!(stated(record, condition, ""), ["10.0.0.5"], "{condition}");
            assert_eq!(stated(&moving, condition, ""), ["10.0.0.5", "10.0.0.7"], "{condition}");
        }
        for reason in services::REFUSING {
            let refused = says("False", reason);
            for ips in ["", before] {
                assert!(stated("", &refused, ips).is_empty(), "{reason}");
                assert_eq!(stated(record, &refused, ips), ["10.0.0.5"], "{reason}");
            }
        }
        // What carries traffic stays, although there is no pool for it, or the request is wrong.
        for reason in ["NoPool", "InvalidRequest", "PoolNotUsable", "Unheard"] {
            let not_given = says("False", reason);
            assert!(stated("", &not_given, "").is_empty(), "{reason}");
            assert_eq!(stated("", &not_given, before), ["10.0.0.7"], "{reason}");
            assert_eq!(stated(record, &not_given, ""), ["10.0.0.5"], "{reason}");
            assert_eq!(stated(record, &not_given, before), ["10.0.0.5", "10.0.0.7"], "{reason}");
        }
    }

    #[test]
    fn the_lease_of_a_service_is_kube_vips() {
        let lease = |name: &str| {
            let text = format!(
                r#"{{"metadata":{{"name":"web","namespace":"shop","annotations":{{"kube-vip.io/leaseName":"{name}"}}}}}}"#
            );
            let (namespace, name) = serde_json::from_str::<Service>(&text).unwrap().lease();
            format!("{namespace}/{name}")
        };
        let expected = [("", "shop/kubevip-web"), ("both", "shop/both"), ("vips/both", "vips/both")];
        for (given, wanted) in expected {
            assert_eq!(lease(given), wanted);
        }
    }

    #[test]
    fn an_endpoint_of_unknown_state_is_ready() {
        let slice: Slice = serde_json::from_str(
            r#"{"metadata":{"name":"s"},"endpoints":[{"nodeName":"a","conditions":{}},
            {"nodeName":"b","conditions":{"ready":false,"serving":true,"terminating":true}},
            {"nodeName":"c","conditions":{"ready":false,"serving":false}},{"conditions":{"ready":true}}]}"#,
        )
        .unwrap();
        assert_eq!(slice.nodes().collect::<Vec<_>>(), [("a", true), ("b", false)]);
        assert_eq!(serde_json::from_str::<Slice>(r#"{"endpoints":null}"#).unwrap().nodes().count(), 0);
    }

    #[test]
    fn a_node_has_the_addresses_that_its_status_names() {
        let node: NodeAddresses = serde_json::from_str(
            r#"{"metadata":{"name":"n","labels":{"a":"b"}},"spec":{},"status":{"images":[],"addresses":[
            {"type":"InternalIP","address":"10.0.0.12"},{"type":"InternalIP","address":"fd00::12"},
            {"type":"ExternalIP","address":"192.0.2.12"},{"type":"Hostname","address":"n"}]}}"#,
        )
        .unwrap();
        let all: Vec<String> = node.addresses().iter().map(ToString::to_string).collect();
        assert_eq!((node.metadata.name.as_str(), all.len()), ("n", 3), "{all:?}");
        let bare = r#"{"metadata":{"name":"n"},"status":{"addresses":null}}"#;
        assert!(serde_json::from_str::<NodeAddresses>(bare).unwrap().addresses().is_empty());
    }

    #[test]
    fn a_node_is_ready_unless_it_says_otherwise() {
        let node = |status: &str| {
            let text = format!(
                r#"{{"metadata":{{"name":"n"}},"status":{{"conditions":[{{"type":"Ready","status":"{status}"}}]}}}}"#
            );
            serde_json::from_str::<Node>(&text).unwrap()
        };
        assert!(node("True").is_ready() && !node("Unknown").is_ready() && Node::default().is_ready());
    }
}
