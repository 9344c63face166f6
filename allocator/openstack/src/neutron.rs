//! Neutron's floating IPs and networks: requests and answers.

use std::net::IpAddr;

use mooring_api::pool::NetworkParam;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::mark::Mark;
use crate::query::Query;
use crate::spec;

/// How many addresses one request asks for: more make the URL too long for some proxies.
const AT_A_TIME: usize = 50;
/// How many floating IPs one page of a list has.
const PAGE: &str = "500";

/// A request to Neutron, behind its URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// `GET`, `POST`, `PUT` or `DELETE`.
    pub method: &'static str,
    /// The path with its query.
    pub path: String,
    /// The body.
    pub body: Option<Value>,
    /// The revision that the object must have.
    pub revision: Option<u64>,
}

/// A floating IP, as far as it counts.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct FloatingIp {
    /// Its id.
    pub id: String,
    /// The address.
    #[serde(rename = "floating_ip_address")]
    pub address: IpAddr,
    /// Its network.
    #[serde(rename = "floating_network_id")]
    pub network: String,
    /// The port that has it; None: it is with no port.
    #[serde(default, rename = "port_id")]
    pub port: Option<String>,
    /// Its description.
    #[serde(default)]
    pub description: String,
    /// Its tags.
    #[serde(default)]
    pub tags: Vec<String>,
    /// Grows with each change.
    #[serde(default, rename = "revision_number")]
    pub revision: Option<u64>,
}

impl FloatingIp {
    /// The mark in its description.
    #[must_use]
    pub fn mark(&self) -> Option<Mark> {
        Mark::read(&self.description)
    }
}

/// A network.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Network {
    /// Its id.
    pub id: String,
    /// Its name.
    #[serde(default)]
    pub name: String,
    /// Its tags.
    #[serde(default)]
    pub tags: Vec<String>,
    /// It is the default external network.
    #[serde(default)]
    pub is_default: bool,
}

/// A page of a list, and the path of the next page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// The floating IPs.
    pub items: Vec<FloatingIp>,
    /// Where the list goes on; None: this is its end.
    pub marker: Option<String>,
}

/// An answer that cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("Neutron's answer cannot be read")]
pub struct Unreadable;

/// Which network is meant.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NetworkError {
    /// None.
    #[error("no external network fits floatingIPNetwork, or this project may not see it")]
    None,
    /// More than one.
    #[error("{0} external networks fit: {1}; choose one with floatingIPNetwork")]
    Several(usize, String),
}

fn get(path: String) -> Request {
    Request { method: "GET", path, body: None, revision: None }
}

/// Asks for networks. `wanted`: the pool's.
#[must_use]
pub fn find_networks(wanted: Option<&NetworkParam>) -> Request {
    let query = wanted.map_or_else(|| Query::default().with("router:external", "true"), spec::query);
    get(format!("/v2.0/networks{}", query.text()))
}

/// The network that is meant: the only one that fits, or without a wish the default external network.
///
/// # Errors
/// The answer cannot be read (outer), or it is not one network (inner).
pub fn network(body: &[u8], chosen: bool) -> Result<Result<Network, NetworkError>, Unreadable> {
    #[derive(Deserialize)]
    struct Answer {
        networks: Vec<Network>,
    }
    let Answer { mut networks } = serde_json::from_slice(body).map_err(|_| Unreadable)?;
    if !chosen && networks.iter().filter(|one| one.is_default).count() == 1 {
        networks.retain(|one| one.is_default);
    }
    if networks.len() > 1 {
        let names: Vec<String> = networks.iter().map(|one| format!("{} ({})", one.name, one.id)).collect();
        return Ok(Err(NetworkError::Several(networks.len(), crate::one_line(&names.join(", ")))));
    }
    Ok(networks.pop().ok_or(NetworkError::None))
}

fn in_network(network: &str, project: &str) -> Query {
    // An administrator sees the floating IPs of all projects.
    Query::default().with("floating_network_id", network).with("project_id", project)
}

/// Asks for the floating IPs with exactly this description.
#[must_use]
pub fn find_description(network: &str, project: &str, description: &str) -> Request {
    get(format!("/v2.0/floatingips{}", in_network(network, project).with("description", description).text()))
}

/// Asks for the floating IPs with these addresses.
#[must_use]
pub fn find_addresses(network: &str, project: &str, addresses: &[IpAddr]) -> Vec<Request> {
    let ask = |some: &[IpAddr]| {
        let query = in_network(network, project);
        let query = some.iter().fold(query, |query, one| query.with("floating_ip_address", &one.to_string()));
        get(format!("/v2.0/floatingips{}", query.text()))
    };
    addresses.chunks(AT_A_TIME).map(ask).collect()
}

/// Asks for all floating IPs of the project in this network, from `marker` on.
#[must_use]
pub fn list(network: &str, project: &str, marker: Option<&str>) -> Request {
    let query = in_network(network, project).with("limit", PAGE).with("sort_key", "id").with("sort_dir", "asc");
    get(format!("/v2.0/floatingips{}", query.with_some("marker", marker).text()))
}

/// Asks for one floating IP.
#[must_use]
pub fn read(id: &str) -> Request {
    get(format!("/v2.0/floatingips/{id}"))
}

/// Creates a floating IP that says whose it is. `address`: which; by default only administrators may ask for one.
#[must_use]
pub fn create(network: &str, description: &str, address: Option<IpAddr>) -> Request {
    let mut floatingip = json!({"floating_network_id": network, "description": description});
    if let Some(address) = address {
        floatingip["floating_ip_address"] = address.to_string().into();
    }
    let body = Some(json!({"floatingip": floatingip}));
    Request { method: "POST", path: "/v2.0/floatingips".into(), body, revision: None }
}

/// Changes the description of a floating IP that is as it was read.
#[must_use]
pub fn describe(one: &FloatingIp, description: &str) -> Request {
    let body = Some(json!({"floatingip": {"description": description}}));
    Request { method: "PUT", path: format!("/v2.0/floatingips/{}", one.id), body, revision: one.revision }
}

/// Adds a tag. It is there already: nothing changes.
#[must_use]
pub fn tag(id: &str, tag: &str) -> Request {
    let path = format!("/v2.0/floatingips/{id}/tags");
    Request { method: "POST", path, body: Some(json!({"tags": [tag]})), revision: None }
}

/// Deletes a floating IP that is as it was read.
#[must_use]
pub fn delete(one: &FloatingIp) -> Request {
    Request { method: "DELETE", path: format!("/v2.0/floatingips/{}", one.id), body: None, revision: one.revision }
}

/// Reads one floating IP.
///
/// # Errors
/// The answer cannot be read.
pub fn one(body: &[u8]) -> Result<FloatingIp, Unreadable> {
    #[derive(Deserialize)]
    struct Answer {
        floatingip: FloatingIp,
    }
    serde_json::from_slice::<Answer>(body).map(|answer| answer.floatingip).map_err(|_| Unreadable)
}

/// Reads a page of a list.
///
/// # Errors
/// The answer cannot be read.
pub fn page(body: &[u8]) -> Result<Page, Unreadable> {
    #[derive(Deserialize)]
    struct Answer {
        floatingips: Vec<FloatingIp>,
        #[serde(default)]
        floatingips_links: Vec<Link>,
    }
    #[derive(Deserialize)]
    struct Link {
        rel: String,
    }
    let Answer { floatingips: items, floatingips_links } = serde_json::from_slice(body).map_err(|_| Unreadable)?;
    // The link's URL is Neutron's own view of itself, which a proxy may hide: its last item leads on as well.
    let more = floatingips_links.iter().any(|link| link.rel == "next");
    let marker = items.last().filter(|_| more).map(|last| last.id.clone());
    Ok(Page { items, marker })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(links: &Value) -> Vec<u8> {
        json!({"floatingips": [{
            "id": "f-1", "project_id": "p", "floating_ip_address": "203.0.113.5", "floating_network_id": "n",
            "router_id": null, "port_id": null, "fixed_ip_address": null, "status": "DOWN",
            "description": "mooring made pool=p", "tags": [], "revision_number": 3,
        }], "floatingips_links": links})
        .to_string()
        .into_bytes()
    }

    #[test]
    fn a_list_is_read_page_by_page() {
        let first = page(&listed(&json!([{"rel": "next", "href": "http://inside/"}]))).unwrap();
        assert_eq!(first.marker.as_deref(), Some("f-1"));
        assert_eq!((first.items[0].revision, first.items[0].mark().unwrap().made), (Some(3), true));
        assert_eq!(page(&listed(&json!([{"rel": "previous"}]))).unwrap().marker, None);
        assert_eq!(page(b"<html>"), Err(Unreadable));
    }

    #[test]
    fn a_change_names_the_revision() {
        let known = page(&listed(&json!([]))).unwrap().items.remove(0);
        assert_eq!(describe(&known, "x").revision, Some(3));
        assert_eq!(delete(&known).revision, Some(3));
        let many: Vec<IpAddr> = (0..120_u8).map(|last| IpAddr::from([10, 0, 0, last])).collect();
        assert_eq!(find_addresses("n", "p", &many).len(), 3);
    }

    #[test]
    fn one_network_is_chosen() {
        let body = |all: &[(&str, bool)]| {
            let all: Vec<Value> = all.iter().map(|(id, default)| json!({"id": id, "is_default": default})).collect();
            json!({"networks": all}).to_string().into_bytes()
        };
        let two = body(&[("a", false), ("b", true)]);
        assert_eq!(network(&two, false).unwrap().unwrap().id, "b");
        assert!(matches!(network(&two, true).unwrap(), Err(NetworkError::Several(2, _))));
        assert_eq!(network(&body(&[]), false).unwrap(), Err(NetworkError::None));
    }
}
