//! Pools whose addresses phpIPAM gives: the kind of the provider `capi-phpipam`, whose objects are taken over as they are. What
//! Mooring adds is optional.

use std::fmt;

use k8s_openapi::ClusterResourceScope;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{AllowedNamespaces, PoolStatus};
use crate::kind::kind;
use crate::versions::OutsideVersion;

/// Which subnets of which phpIPAM, and how they are used.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PhpIpamIpPoolSpec {
    /// The URL of phpIPAM's API, up to and with /api: `https://ipam.example.com/api`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 2048))]
    pub endpoint: Option<String>,

    /// The app in phpIPAM (Administration, API), with read and write permissions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 32), regex(pattern = "^[A-Za-z0-9_-]+$"))]
    pub app_id: Option<String>,

    /// The Secret with username and password, or with token: the code of an app with security "SSL with App code token". A
    /// certificate authority's PEM may stand in it as ca.crt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credentials_ref: Option<SecretRef>,

    /// The numbers of the subnets in phpIPAM, all of one family. The first that has a free address gives it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32), inner(range(min = 1)))]
    pub subnets: Vec<i64>,

    /// Old form: the number of one subnet. Write subnets instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subnetid: Option<i64>,

    /// Old form, with the password in clear text: it is read, and the pool's condition warns. Write credentialsRef instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credentials: Option<InlineCredentials>,

    /// How many requests may be under way at a time; 4 if nothing is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 32))]
    pub concurrency: Option<i32>,

    /// What becomes of an address in phpIPAM that bears this pool's mark and belongs to no claim here: Report (the default) tells
    /// of it, Release deletes it too, once the API server has said that the claim is gone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>", extend("enum" = ["Report", "Release"]))]
    pub orphans: Option<OrphanPolicy>,

    /// What is done about the address of a claim that people deleted in phpIPAM, or took the mark from: `PutBack` (the default)
    /// enters it again, Report only tells of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>", extend("enum" = ["PutBack", "Report"]))]
    pub drift: Option<DriftPolicy>,

    /// The network that the addresses are in, a name of your choice: see the same field of the other pools.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63), regex(pattern = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"))]
    pub network: Option<String>,

    /// Which namespaces may claim from this pool; without it, all may.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowed_namespaces: Option<AllowedNamespaces>,
}

/// A Secret in the allocator's own namespace (`--secrets-namespace`).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SecretRef {
    /// Its name.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
}

/// Credentials in clear text.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct InlineCredentials {
    /// As endpoint of the spec.
    #[serde(default)]
    pub endpoint: String,
    /// As appId of the spec.
    #[serde(default)]
    pub app_id: String,
    /// The user; empty: password is the app's code.
    #[serde(default)]
    pub username: String,
    /// The password.
    #[serde(default)]
    pub password: String,
}

impl fmt::Debug for InlineCredentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "InlineCredentials({}, {}, ..)", self.endpoint, self.app_id)
    }
}

/// What becomes of an address that belongs to nobody.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum OrphanPolicy {
    /// It is told.
    #[default]
    Report,
    /// It is told and deleted.
    Release,
}

/// What is done about what people changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum DriftPolicy {
    /// It is entered again.
    #[default]
    PutBack,
    /// It is told.
    Report,
}

/// What people are told of an app that [`is_app_id`] refuses.
pub const NO_APP_ID: &str = "appId is no name of an app: write up to 32 letters, digits, - and _";

/// Whether an app of phpIPAM can have this name. The schema says so of appId, and nothing of the old form.
#[must_use]
pub fn is_app_id(name: &str) -> bool {
    let fits = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'-' | b'_');
    (1..=32).contains(&name.len()) && name.bytes().all(fits)
}

impl PhpIpamIpPoolSpec {
    /// The API's URL.
    #[must_use]
    pub fn url(&self) -> Option<&str> {
        let inline = self.credentials.as_ref().map(|inline| &*inline.endpoint);
        self.endpoint.as_deref().or(inline).filter(|url| !url.is_empty())
    }

    /// The app.
    #[must_use]
    pub fn app(&self) -> Option<&str> {
        let inline = self.credentials.as_ref().map(|inline| &*inline.app_id);
        self.app_id.as_deref().or(inline).filter(|app| !app.is_empty())
    }

    /// The numbers of the subnets, in order, each once.
    #[must_use]
    pub fn subnet_ids(&self) -> Vec<i64> {
        let mut all = Vec::new();
        for id in self.subnets.iter().chain(&self.subnetid) {
            if !all.contains(id) {
                all.push(*id);
            }
        }
        all
    }
}

kind! {
    /// Addresses that phpIPAM gives, for the claims of all namespaces.
    PhpIpamIpPool = "PHPIPAMIPPool", "phpipamippools", crate::GROUP, OutsideVersion, ClusterResourceScope,
    spec: PhpIpamIpPoolSpec, status: PoolStatus
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_old_form_is_read_and_its_password_is_not_shown() {
        let text = r#"{"subnetid":7,"credentials":{"username":"u","password":"hidden","app_id":"kube","endpoint":"http://i/api"}}"#;
        let spec: PhpIpamIpPoolSpec = serde_json::from_str(text).unwrap();
        assert_eq!((spec.url(), spec.app(), spec.subnet_ids()), (Some("http://i/api"), Some("kube"), vec![7]));
        assert!(!format!("{spec:?}").contains("hidden"));
        let both = PhpIpamIpPoolSpec { subnets: vec![9, 7, 9], ..spec };
        assert_eq!(both.subnet_ids(), [9, 7]);
    }

    #[test]
    fn what_leads_elsewhere_is_no_app() {
        assert!(is_app_id("kube") && is_app_id("Kube_2-x") && is_app_id(&"x".repeat(32)));
        for name in ["", ".", "..", "../admin", "a/b", "a?b", "a#b", "a%2fb", "a b", "\u{e4}", &*"x".repeat(33)] {
            assert!(!is_app_id(name), "{name}");
        }
    }
}
