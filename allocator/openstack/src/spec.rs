//! `OpenStackFloatingIPPool`: its spec, as Cluster API's provider for OpenStack has it.

use std::net::IpAddr;

use serde::Deserialize;

use crate::query::Query;

/// The spec.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Spec {
    /// Floating IPs that exist already. Claims get these first, and they are never deleted.
    #[serde(default, rename = "preAllocatedFloatingIPs")]
    pub given: Vec<String>,
    /// The most floating IPs that the pool hands out; None: no limit.
    #[serde(default, rename = "maxIPs")]
    pub most: Option<i64>,
    /// Who asks OpenStack.
    pub identity_ref: IdentityRef,
    /// The network; None: the only external network.
    #[serde(default, rename = "floatingIPNetwork")]
    pub network: Option<NetworkParam>,
    /// What becomes of a floating IP that the pool made, once it is free.
    pub reclaim_policy: Reclaim,
}

/// Who asks OpenStack.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct IdentityRef {
    /// `Secret`; the other kind is not supported.
    #[serde(default, rename = "type")]
    pub kind: Option<String>,
    /// The Secret's name.
    pub name: String,
    /// The cloud in its `clouds.yaml`.
    pub cloud_name: String,
    /// The region; None: that of the cloud.
    #[serde(default)]
    pub region: Option<String>,
}

/// What becomes of a free floating IP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum Reclaim {
    /// It is kept, for the next claim.
    Retain,
    /// It is deleted.
    Delete,
}

/// Which network.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct NetworkParam {
    /// By its id.
    #[serde(default)]
    pub id: Option<String>,
    /// By what it is like: one network must fit.
    #[serde(default)]
    pub filter: Option<NetworkFilter>,
}

/// What a network is like.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct NetworkFilter {
    /// Its name.
    pub name: Option<String>,
    /// Its description.
    pub description: Option<String>,
    /// Its project.
    #[serde(rename = "projectID")]
    pub project_id: Option<String>,
    /// It has all these tags.
    pub tags: Vec<String>,
    /// It has one of these tags.
    pub tags_any: Vec<String>,
    /// It has not all these tags.
    pub not_tags: Vec<String>,
    /// It has none of these tags.
    pub not_tags_any: Vec<String>,
}

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

impl Spec {
    /// What is wrong with it.
    #[must_use]
    pub fn errors(&self) -> Vec<SpecError> {
        let mut all = Vec::new();
        if let Some(kind) = self.identity_ref.kind.as_deref().filter(|kind| *kind != "Secret") {
            all.push(SpecError::Identity(kind.to_owned()));
        }
        let mut seen: Vec<IpAddr> = Vec::new();
        for text in &self.given {
            match text.parse() {
                Err(_) => all.push(SpecError::Address(text.clone())),
                Ok(address) if seen.contains(&address) => all.push(SpecError::Twice(address)),
                Ok(address) => seen.push(address),
            }
        }
        all.extend(self.most.filter(|most| *most < 0).map(SpecError::Most));
        all
    }

    /// The addresses of the list, in its order.
    #[must_use]
    pub fn given(&self) -> Vec<IpAddr> {
        self.given.iter().filter_map(|text| text.parse().ok()).collect()
    }
}

impl NetworkParam {
    /// The query for a network.
    #[must_use]
    pub fn query(&self) -> Query {
        let query = Query::default().with("router:external", "true").with_some("id", self.id.as_deref());
        let Some(filter) = &self.filter else { return query };
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
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn spec(given: &[&str], most: i64, kind: &str) -> Spec {
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
        assert_eq!(one.errors(), []);
        assert_eq!(one.given(), ["203.0.113.9", "203.0.113.7"].map(|text| text.parse::<IpAddr>().unwrap()));
        let query = one.network.unwrap().query();
        assert_eq!(query.text(), "?router:external=true&name=ext%20net&tags-any=a%2Cb");
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
        assert_eq!(one.errors(), wrong);
    }
}
