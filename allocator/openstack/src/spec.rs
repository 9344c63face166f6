//! `OpenStackFloatingIPPool`: what its spec means.

use std::net::IpAddr;

use mooring_api::pool::{FloatingIpPoolSpec, NetworkParam};

use crate::query::Query;

/// What is wrong with a spec that the API server has let through.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SpecError {
    /// A kind of identity that is not supported.
    #[error("identityRef.type {0:?} is not supported: put clouds.yaml into a Secret of the pool's namespace")]
    Identity(String),
    /// Not an address.
    #[error("preAllocatedFloatingIPs: {0:?} is no address")]
    Address(String),
    /// It is there twice.
    #[error("preAllocatedFloatingIPs: {0} is there twice")]
    Twice(IpAddr),
    /// Below zero.
    #[error("maxIPs is {0}: it must be 0 or more")]
    Most(i64),
}

/// What is wrong with it.
#[must_use]
pub fn errors(spec: &FloatingIpPoolSpec) -> Vec<SpecError> {
    let mut all = Vec::new();
    if let Some(kind) = spec.identity_ref.kind.as_deref().filter(|kind| *kind != "Secret") {
        all.push(SpecError::Identity(kind.to_owned()));
    }
    let mut seen: Vec<IpAddr> = Vec::new();
    for text in &spec.given {
        match text.parse() {
            Err(_) => all.push(SpecError::Address(text.clone())),
            Ok(address) if seen.contains(&address) => all.push(SpecError::Twice(address)),
            Ok(address) => seen.push(address),
        }
    }
    all.extend(spec.most.filter(|most| *most < 0).map(SpecError::Most));
    all
}

/// The addresses of the list, in its order.
#[must_use]
pub fn given(spec: &FloatingIpPoolSpec) -> Vec<IpAddr> {
    spec.given.iter().filter_map(|text| text.parse().ok()).collect()
}

/// The query for a network.
#[must_use]
pub fn query(network: &NetworkParam) -> Query {
    let query = Query::default().with("router:external", "true").with_some("id", network.id.as_deref());
    let Some(filter) = &network.filter else { return query };
    let joined = |tags: &[String]| (!tags.is_empty()).then(|| tags.join(","));
    query
        .with_some("name", filter.name.as_deref())
        .with_some("description", filter.description.as_deref())
        .with_some("project_id", filter.project_id.as_deref())
        .with_some("tags", joined(&filter.tags).as_deref())
        .with_some("tags-any", joined(&filter.tags_any).as_deref())
        .with_some("not-tags", joined(&filter.not_tags).as_deref())
        .with_some("not-tags-any", joined(&filter.not_tags_any).as_deref())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn spec(given: &[&str], most: i64, kind: &str) -> FloatingIpPoolSpec {
        serde_json::from_value(json!({
            "preAllocatedFloatingIPs": given, "maxIPs": most, "reclaimPolicy": "Delete",
            "identityRef": {"type": kind, "name": "cloud", "cloudName": "openstack"},
            "floatingIPNetwork": {"filter": {"name": "ext net", "tagsAny": ["a", "b"]}},
        }))
        .unwrap()
    }

    #[test]
    fn a_spec_is_read() {
        let one = spec(&["203.0.113.9", "203.0.113.7"], 2, "Secret");
        assert_eq!(errors(&one), []);
        assert_eq!(given(&one), ["203.0.113.9", "203.0.113.7"].map(|text| text.parse::<IpAddr>().unwrap()));
        let asked = query(&one.network.unwrap());
        assert_eq!(asked.text(), "?router:external=true&name=ext%20net&tags-any=a%2Cb");
    }

    #[test]
    fn what_is_wrong_is_said() {
        let one = spec(&["203.0.113.9", "x", "203.0.113.9"], -1, "ClusterIdentity");
        let address = "203.0.113.9".parse().unwrap();
        let wrong = [
            SpecError::Identity("ClusterIdentity".into()),
            SpecError::Address("x".into()),
            SpecError::Twice(address),
            SpecError::Most(-1),
        ];
        assert_eq!(errors(&one), wrong);
    }
}
