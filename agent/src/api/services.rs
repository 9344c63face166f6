//! Writes the holder of its addresses to a Service, as kube-vip's agent does, where no allocator of Mooring's does so.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Duration;

use kube::core::Request;
use kube::core::params::{GetParams, PostParams};
use mooring_names::services::{TOLD, VIP_HOST};
use serde::Deserialize;
use serde_json::{Value, json};

use super::ask::NamedCall;
use super::objects::{Key, Service};
use super::race::Limits;
use super::servers::Servers;
use super::{ApiError, Verb, unsayable};

/// The resource's name in RBAC rules.
const RESOURCE: &str = "services";

/// What is to change on a Service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The node to name.
    host: bool,
    /// What the annotation [`TOLD`] is to be; None: as it is.
    told: Option<BTreeSet<IpAddr>>,
    /// Addresses that the status is to show.
    show: Vec<IpAddr>,
    /// Addresses that it is to show no more: the Service asked for them earlier, and an agent had them.
    hide: Vec<IpAddr>,
}

impl Change {
    /// What is to change on a Service whose addresses a node has; None: nothing.
    #[must_use]
    pub fn of(service: &Service, node: &str, held: &[IpAddr]) -> Option<Self> {
        if service.is_left() {
            return None;
        }
        let notes = &service.metadata.annotations;
        let (shown, stated, asked) = (service.shown().collect::<BTreeSet<_>>(), service.stated(), service.asked());
        // What only the status names may be another controller's. The annotation would be a sign that kube-vip has given it.
        let is_given = |ip: &IpAddr| !shown.contains(ip) || !service.states_by_status(*ip);
        let known = notes.vip_host.is_some() || held.iter().any(is_given);
        let host = !held.is_empty() && known && notes.vip_host.as_deref() != Some(node);
        let before = service.told();
        let hide = before.intersection(&shown).filter(|ip| !stated.contains(ip) && !held.contains(ip));
        let hide: Vec<IpAddr> = hide.copied().collect();
        let show: Vec<IpAddr> = held.iter().filter(|ip| !shown.contains(ip)).copied().collect();
        // It is written before the status is: no address is in the status without it, or leaves it later.
        let told = before.intersection(&shown).copied().chain(held.iter().copied().filter(|ip| asked.contains(ip)));
        let told = Some(told.collect::<BTreeSet<_>>()).filter(|told| *told != before);
        let change = Self { host, told, show, hide };
        (change != Self { host: false, told: None, show: vec![], hide: vec![] }).then_some(change)
    }

    /// Changes the annotations. True: one was to be changed.
    fn annotate(&self, service: &mut Value, node: &str) -> bool {
        if self.host {
            service["metadata"]["annotations"][VIP_HOST] = node.into();
        }
        if let Some(told) = &self.told {
            let text = told.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
            match service["metadata"]["annotations"].as_object_mut() {
                Some(all) if text.is_empty() => drop(all.remove(TOLD)),
                _ => service["metadata"]["annotations"][TOLD] = text.into(),
            }
        }
        self.host || self.told.is_some()
    }

    /// Changes the status. True: it was to be changed.
    fn show(&self, service: &mut Value) -> bool {
        if self.show.is_empty() && self.hide.is_empty() {
            return false;
        }
        let ingress = &mut service["status"]["loadBalancer"]["ingress"];
        let mut all = ingress.as_array().cloned().unwrap_or_default();
        let ip = |one: &Value| Some(one["ip"].as_str()?.parse::<IpAddr>().ok()?.to_canonical());
        all.retain(|one| ip(one).is_none_or(|ip| !self.hide.contains(&ip)));
        all.extend(self.show.iter().map(|ip| json!({"ip": ip.to_string()})));
        *ingress = Value::Array(all);
        true
    }
}

/// Writes the node and the addresses that it has, by compare-and-swap; nothing where they stand there already. What else is on
/// the Service stays. PUT, not PATCH: the role made for kube-vip has no patch.
pub async fn tell(servers: &Servers, key: &Key, node: &str, held: &[IpAddr], within: Duration) -> Result<(), ApiError> {
    let limits = Limits::within(within);
    let all = Request::new(format!("/api/v1/namespaces/{}/services", key.namespace));
    let what = || format!("Service {key}");
    let call = NamedCall::new(Verb::Get, RESOURCE, what(), all.get(&key.name, &GetParams::default()))?;
    let mut service = servers.ask_for::<Value>(&call, limits).await.0?;
    let now = Service::deserialize(&service).map_err(|error| unsayable(&error))?;
    let Some(change) = Change::of(&now, node, held) else { return Ok(()) };
    if change.annotate(&mut service, node) {
        let body = serde_json::to_vec(&service).map_err(|error| unsayable(&error))?;
        let request = all.replace(&key.name, &PostParams::default(), body);
        let call = NamedCall::new(Verb::Update, RESOURCE, what(), request)?;
        service = servers.ask_for::<Value>(&call, limits).await.0?;
    }
    if !change.show(&mut service) {
        return Ok(());
    }
    let body = serde_json::to_vec(&service).map_err(|error| unsayable(&error))?;
    let request = all.replace_subresource("status", &key.name, &PostParams::default(), body);
    let call = NamedCall::new(Verb::Update, RESOURCE, what(), request)?;
    servers.ask_for::<Value>(&call, limits).await.0.map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The Service after agents of a node with these addresses have written all that they want to.
    fn told(mut service: Value, node: &str, held: &[&str]) -> Value {
        let held: Vec<IpAddr> = held.iter().map(|ip| ip.parse().unwrap()).collect();
        for _ in 0..3 {
            let now = Service::deserialize(&service).unwrap();
            let Some(change) = Change::of(&now, node, &held) else { return service };
            assert!(change.annotate(&mut service, node) | change.show(&mut service));
        }
        panic!("it never ends: {service}")
    }

    fn asks(mut service: Value, address: Option<&str>) -> Value {
        service["metadata"]["annotations"]["kube-vip.io/loadbalancerIPs"] = address.into();
        service
    }

    fn shown(service: &Value) -> Vec<&str> {
        let all = service["status"]["loadBalancer"]["ingress"].as_array().unwrap();
        all.iter().filter_map(|one| one["ip"].as_str().or_else(|| one["hostname"].as_str())).collect()
    }

    fn service(ingress: &Value) -> Value {
        json!({
            "metadata": {"name": "web", "annotations": {"a": "b"}}, "spec": {"type": "LoadBalancer"},
            "status": {"loadBalancer": {"ingress": ingress}},
        })
    }

    #[test]
    fn what_is_there_stays_and_is_not_written_again() {
        let web = told(service(&Value::Null), "w1", &["10.0.0.5"]);
        let web = told(web, "w2", &["10.0.0.5", "fd00::5"]);
        let expected = json!({
            "metadata": {"name": "web", "annotations": {"a": "b", "kube-vip.io/vipHost": "w2"}},
            "spec": {"type": "LoadBalancer"},
            "status": {"loadBalancer": {"ingress": [{"ip": "10.0.0.5"}, {"ip": "fd00::5"}]}},
        });
        assert_eq!(web, expected);
        let bare = json!({"metadata": {"name": "web"}});
        assert_eq!(shown(&told(bare, "w1", &["10.0.0.5"])), ["10.0.0.5"]);
    }

    #[test]
    fn an_address_that_another_controller_may_have_given_gets_no_sign_of_kube_vip() {
        let theirs = service(&json!([{"ip": "10.0.0.5"}]));
        assert_eq!(told(theirs.clone(), "w1", &["10.0.0.5"]), theirs);
        // kube-vip's agent has carried it.
        let mut web = theirs;
        web["metadata"]["annotations"]["kube-vip.io/vipHost"] = "w0".into();
        assert_eq!(told(web, "w1", &["10.0.0.5"])["metadata"]["annotations"]["kube-vip.io/vipHost"], "w1");
    }

    #[test]
    fn an_address_leaves_the_status_with_the_request_for_it() {
        // Another controller's address and name stay, whatever the Service asks for.
        let web = service(&json!([{"ip": "10.9.9.9"}, {"hostname": "web.example"}]));
        let web = told(asks(web, Some("10.0.0.101")), "w1", &["10.0.0.101"]);
        assert_eq!(shown(&web), ["10.9.9.9", "web.example", "10.0.0.101"]);
        let web = told(asks(web, Some("10.0.0.102")), "w2", &["10.0.0.102"]);
        assert_eq!(shown(&web), ["10.9.9.9", "web.example", "10.0.0.102"]);
        // It cannot have the next: it does not show the last one for ever.
        let web = told(asks(web, Some("10.0.0.103")), "w2", &[]);
        assert_eq!(shown(&web), ["10.9.9.9", "web.example"]);
        assert_eq!(web["metadata"]["annotations"]["kube-vip.io/vipHost"], "w2");
        assert!(web["metadata"]["annotations"]["mooring.dev/status-addresses"].is_null());
    }

    #[test]
    fn what_kube_vip_wrote_for_an_earlier_request_leaves_too() {
        let web = service(&json!([{"ip": "10.0.0.101"}]));
        let web = told(asks(web, Some("10.0.0.101")), "w1", &["10.0.0.101"]);
        let web = told(asks(web, Some("10.0.0.102")), "w1", &["10.0.0.102"]);
        assert_eq!(shown(&web), ["10.0.0.102"]);
        // Without a request, it keeps what it has, and that alone: the status is the source.
        let web = asks(web, None);
        let stated = Service::deserialize(&web).unwrap().stated();
        assert_eq!(stated.iter().map(ToString::to_string).collect::<Vec<_>>(), ["10.0.0.102"]);
        let web = told(web, "w1", &["10.0.0.102"]);
        assert_eq!(shown(&told(asks(web, Some("10.0.0.103")), "w1", &["10.0.0.103"])), ["10.0.0.103"]);
    }

    #[test]
    fn the_field_of_another_family_replaces_what_the_field_said_before() {
        let field = |mut service: Value, ip: &str| {
            service["spec"]["loadBalancerIP"] = ip.into();
            service
        };
        let web = told(field(service(&json!([])), "10.0.0.105"), "w1", &["10.0.0.105"]);
        let web = field(web, "fd00::5");
        let stated = Service::deserialize(&web).unwrap().stated();
        assert_eq!(stated.iter().map(ToString::to_string).collect::<Vec<_>>(), ["fd00::5"]);
        assert_eq!(shown(&told(web, "w1", &["fd00::5"])), ["fd00::5"]);
    }
}
