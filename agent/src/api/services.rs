//! Writes the holder of its addresses to a Service, as kube-vip's agent does, where no allocator of Mooring's does so.

use std::net::IpAddr;
use std::time::Duration;

use kube::core::Request;
use kube::core::params::{GetParams, PostParams};
use mooring_names::services::VIP_HOST;
use serde_json::{Value, json};

use super::ask::NamedCall;
use super::objects::Key;
use super::race::Limits;
use super::servers::Servers;
use super::{ApiError, Verb, unsayable};

/// The resource's name in RBAC rules.
const RESOURCE: &str = "services";

/// Writes the node and the addresses, by compare-and-swap; nothing where they stand there already. What else is on the Service
/// stays. PUT, not PATCH: the role made for kube-vip has no patch.
pub async fn tell(
    servers: &Servers,
    key: &Key,
    node: &str,
    addresses: &[IpAddr],
    within: Duration,
) -> Result<(), ApiError> {
    let limits = Limits::within(within);
    let all = Request::new(format!("/api/v1/namespaces/{}/services", key.namespace));
    let what = || format!("Service {key}");
    let call = NamedCall::new(Verb::Get, RESOURCE, what(), all.get(&key.name, &GetParams::default()))?;
    let mut service = servers.ask_for::<Value>(&call, limits).await.0?;
    if host(&mut service, node) {
        let body = serde_json::to_vec(&service).map_err(|error| unsayable(&error))?;
        let request = all.replace(&key.name, &PostParams::default(), body);
        let call = NamedCall::new(Verb::Update, RESOURCE, what(), request)?;
        service = servers.ask_for::<Value>(&call, limits).await.0?;
    }
    if !ingress(&mut service, addresses) {
        return Ok(());
    }
    let body = serde_json::to_vec(&service).map_err(|error| unsayable(&error))?;
    let request = all.replace_subresource("status", &key.name, &PostParams::default(), body);
    let call = NamedCall::new(Verb::Update, RESOURCE, what(), request)?;
    servers.ask_for::<Value>(&call, limits).await.0.map(drop)
}

/// True: the Service did not name this node yet.
fn host(service: &mut Value, node: &str) -> bool {
    let known = service["metadata"]["annotations"][VIP_HOST].as_str() == Some(node);
    if !known {
        service["metadata"]["annotations"][VIP_HOST] = node.into();
    }
    !known
}

/// True: the Service did not show all of them yet.
fn ingress(service: &mut Value, addresses: &[IpAddr]) -> bool {
    let shown = &mut service["status"]["loadBalancer"]["ingress"];
    let mut all = shown.as_array().cloned().unwrap_or_default();
    let has = |ip: &IpAddr| all.iter().any(|one| one["ip"].as_str().and_then(|ip| ip.parse().ok()) == Some(*ip));
    let new: Vec<Value> = addresses.iter().filter(|ip| !has(ip)).map(|ip| json!({"ip": ip.to_string()})).collect();
    if new.is_empty() {
        return false;
    }
    all.extend(new);
    *shown = Value::Array(all);
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_there_stays_and_is_not_written_again() {
        let mut service =
            json!({"metadata": {"name": "web", "annotations": {"a": "b"}}, "status": {"loadBalancer": {}}});
        let ips: Vec<IpAddr> = ["10.0.0.5", "fd00::5"].map(|ip| ip.parse().unwrap()).to_vec();
        assert!(host(&mut service, "w1") && ingress(&mut service, &ips[..1]));
        assert!(!host(&mut service, "w1") && !ingress(&mut service, &ips[..1]));
        assert!(host(&mut service, "w2") && ingress(&mut service, &ips));
        let expected = json!({
            "metadata": {"name": "web", "annotations": {"a": "b", "kube-vip.io/vipHost": "w2"}},
            "status": {"loadBalancer": {"ingress": [{"ip": "10.0.0.5"}, {"ip": "fd00::5"}]}},
        });
        assert_eq!(service, expected);
        let mut bare = json!({"metadata": {"name": "web"}});
        assert!(host(&mut bare, "w1") && ingress(&mut bare, &ips[..1]));
    }
}
