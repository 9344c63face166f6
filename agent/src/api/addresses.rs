//! `IPAddress` objects: their holders and conflicts.

use std::time::Duration;

use kube::core::Request;
use kube::core::params::{GetParams, Patch, PatchParams};
use mooring_names::annotations::{CONFLICT, HOLDER};
use mooring_names::labels::ADVERTISE;
use mooring_names::services::SERVICE_FAMILY;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::ask::{Collection, NamedCall};
use super::header::decoded;
use super::objects::{Claim, IpAddress, Key};
use super::race::Limits;
use super::servers::Servers;
use super::{ApiError, Verb};
use crate::core::session::{AddressView, Holder};
use mooring_common::text::cut;

/// The resource's name in RBAC rules.
pub(crate) const RESOURCE: &str = "ipaddresses.ipam.cluster.x-k8s.io";
const CLAIMS: &str = "ipaddressclaims.ipam.cluster.x-k8s.io";
const GROUP: &str = "/apis/ipam.cluster.x-k8s.io";
/// The supported versions, the preferred one first.
const VERSIONS: [&str; 2] = ["v1beta2", "v1beta1"];
/// Objects in one part of a list.
const PART: u32 = 500;
/// Longest record that the agent reads, in bytes.
const LONGEST: usize = 4 << 10;

/// The two selectors of advertised addresses.
pub const SELECTORS: [&str; 2] = [SERVICE_FAMILY, "mooring.dev/advertise=true"];

/// The record of a VIP that a Lease gives to a node. Sessions ignore this record; the allocator reads the holder from
/// it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Placed {
    /// The node.
    pub node: String,
    /// The Lease, NAMESPACE/NAME.
    pub lease: String,
}

/// Reads and writes `IPAddress` objects. Clones share one client.
#[derive(Clone)]
pub struct Addresses {
    servers: Servers,
    version: &'static str,
}

impl std::fmt::Debug for Addresses {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Addresses").field(&self.version).finish()
    }
}

#[derive(Deserialize)]
struct Group {
    #[serde(default)]
    kind: String,
    #[serde(default)]
    versions: Vec<GroupVersion>,
}

#[derive(Deserialize)]
struct GroupVersion {
    version: String,
}

impl Addresses {
    /// Asks which version the cluster serves; None: the cluster does not have the kind.
    pub async fn discover(servers: &Servers, within: Duration) -> Result<Option<Self>, ApiError> {
        let request = http::Request::get(GROUP).body(Vec::new());
        let call = NamedCall::new(Verb::Get, "apis", GROUP.into(), request)?;
        // A group has no metadata, but a kind.
        let decode = |body: &[u8]| {
            let group: Group = decoded(body)?;
            if group.kind == "APIGroup" { Ok(group) } else { Err("no APIGroup".to_owned()) }
        };
        match servers.ask_as(&call, Limits::within(within), decode).await.result {
            Ok(group) => {
                let served = |version: &&&str| group.versions.iter().any(|v| v.version == **version);
                Ok(VERSIONS.iter().find(served).map(|version| Self { servers: servers.clone(), version }))
            }
            Err(ApiError::NotFound { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The collection in all namespaces.
    #[must_use]
    pub fn path(&self) -> String {
        format!("{GROUP}/{}/ipaddresses", self.version)
    }

    /// The version in use.
    #[must_use]
    pub const fn version(&self) -> &'static str {
        self.version
    }

    fn in_namespace(&self, key: &Key) -> Request {
        Request::new(format!("{GROUP}/{}/namespaces/{}/ipaddresses", self.version, key.namespace))
    }

    /// Reads one object, consistently. None: the object does not exist.
    pub async fn get(&self, key: &Key, within: Duration) -> Result<Option<IpAddress>, ApiError> {
        let request = self.in_namespace(key).get(&key.name, &GetParams::default());
        let call = NamedCall::new(Verb::Get, RESOURCE, format!("IPAddress {key}"), request)?;
        match self.servers.ask_for(&call, Limits::within(within)).await.0 {
            Ok(found) => Ok(Some(found)),
            Err(ApiError::NotFound { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Whether the claim that an `IPAddress` was made for is bound to the object. None: there is no claim; the object
    /// was made by hand.
    pub async fn is_bound(&self, key: &Key, object: &IpAddress, within: Duration) -> Result<Option<bool>, ApiError> {
        let claim = object.claim();
        if claim.is_empty() {
            return Ok(None);
        }
        let path = format!("{GROUP}/{}/namespaces/{}/ipaddressclaims", self.version, key.namespace);
        let request = Request::new(path).get(claim, &GetParams::default());
        let what = format!("IPAddressClaim {}/{claim}", key.namespace);
        let call = NamedCall::new(Verb::Get, CLAIMS, what, request)?;
        match self.servers.ask_for::<Claim>(&call, Limits::within(within)).await.0 {
            Ok(claim) => Ok(Some(claim.is_bound_to(&key.name))),
            Err(ApiError::NotFound { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// All advertised objects, read consistently.
    pub async fn list(&self, within: Duration) -> Result<Vec<IpAddress>, ApiError> {
        let (path, mut page) = (self.path(), Some(PART));
        let mut all = Vec::new();
        for selector in SELECTORS {
            let what = "the IPAddress objects";
            let collection = Collection { path: &path, resource: RESOURCE, what, fields: None, labels: Some(selector) };
            let (these, _) = self.servers.ask_for_all(collection, &mut page, Limits::within(within)).await?;
            all.extend(these);
        }
        Ok(all)
    }

    /// Writes the holder (None: no holder) by compare-and-swap, and returns the object as it is now.
    pub async fn hold(
        &self,
        key: &Key,
        base: &str,
        holder: Option<&Holder>,
        within: Duration,
    ) -> Result<AddressView, ApiError> {
        let text = holder.map(serde_json::to_string).transpose().map_err(|error| super::unsayable(&error))?;
        let patch = json!({"metadata": {"resourceVersion": base, "annotations": {HOLDER: text}}});
        let request = self.in_namespace(key).patch(&key.name, &PatchParams::default(), &Patch::Merge(patch));
        let call = NamedCall::new(Verb::Patch, RESOURCE, format!("IPAddress {key}"), request)?;
        let (result, doubt) = self.servers.ask_for::<IpAddress>(&call, Limits::within(within)).await;
        match result {
            Ok(found) => Ok(view(&found)),
            Err(error @ ApiError::Conflict { .. }) if doubt => match self.get(key, within).await?.as_ref().map(view) {
                Some(found) if found.holder.as_ref() == holder => Ok(found),
                _ => Err(error),
            },
            Err(error) => Err(error),
        }
    }

    /// Writes the node to which a Lease gives the address, by compare-and-swap; None: no node any more.
    pub async fn place(
        &self,
        key: &Key,
        base: &str,
        placed: Option<&Placed>,
        within: Duration,
    ) -> Result<(), ApiError> {
        let text = placed.map(serde_json::to_string).transpose().map_err(|error| super::unsayable(&error))?;
        let patch = json!({"metadata": {"resourceVersion": base, "annotations": {HOLDER: text}}});
        let request = self.in_namespace(key).patch(&key.name, &PatchParams::default(), &Patch::Merge(patch));
        let call = NamedCall::new(Verb::Patch, RESOURCE, format!("IPAddress {key}"), request)?;
        self.servers.ask_for::<IpAddress>(&call, Limits::within(within)).await.0.map(drop)
    }

    /// Records on the object that another host has the address on the wire, for the allocator and people. An existing
    /// record stays. `uid`: the object's uid, if known; a later object of the same name has another address.
    pub async fn tell_conflict(
        &self,
        key: &Key,
        uid: Option<&str>,
        text: &str,
        within: Duration,
    ) -> Result<(), ApiError> {
        let mut patch = json!({"metadata": {"annotations": {CONFLICT: text}}});
        if let Some(uid) = uid {
            patch["metadata"]["uid"] = uid.into();
        }
        let request = self.in_namespace(key).patch(&key.name, &PatchParams::default(), &Patch::Merge(patch));
        let call = NamedCall::new(Verb::Patch, RESOURCE, format!("IPAddress {key}"), request)?;
        self.servers.ask_for::<IpAddress>(&call, Limits::within(within)).await.0.map(drop)
    }
}

/// The record as the core knows it. An unreadable record counts as none: a node then takes the address and writes a new
/// record.
#[must_use]
pub fn view(object: &IpAddress) -> AddressView {
    let meta = &object.metadata;
    let text = meta.annotations.holder.as_deref().filter(|text| text.len() <= LONGEST);
    let by_lease = placed(object).is_some();
    let holder = text.and_then(|text| match serde_json::from_str::<Holder>(text) {
        Ok(holder) => Some(holder),
        Err(_) if by_lease => None,
        Err(error) => {
            let error = cut(&error.to_string(), 120);
            tracing::warn!(object = %meta.key(), error, "IPAddress: holder record cannot be read and counts as absent");
            None
        }
    });
    AddressView { uid: meta.uid.clone(), version: meta.resource_version.clone(), holder, by_lease }
}

/// The node to which a Lease gives the address, by its record.
#[must_use]
pub fn placed(object: &IpAddress) -> Option<Placed> {
    let text = object.metadata.annotations.holder.as_deref().filter(|text| text.len() <= LONGEST)?;
    serde_json::from_str(text).ok()
}

/// Whether the object has the label to be advertised without a Service.
#[must_use]
pub fn is_advertised(object: &IpAddress) -> bool {
    debug_assert!(SELECTORS[1].starts_with(ADVERTISE));
    object.metadata.labels.advertise.as_deref() == Some("true")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::session::Incarnation;

    #[test]
    fn a_record_is_read_as_written_and_nonsense_is_none() {
        let holder = Holder { node: "n1".into(), session: Incarnation { uid: "u".into(), transitions: 2 }, to: None };
        let object = |text: &str| {
            let json = json!({"metadata": {"name": "a", "namespace": "b", "uid": "u1", "resourceVersion": "5",
                "annotations": {HOLDER: text}, "labels": {ADVERTISE: "true"}}, "spec": {"address": "10.0.0.5"}});
            serde_json::from_value::<IpAddress>(json).unwrap()
        };
        let good = object(&serde_json::to_string(&holder).unwrap());
        assert_eq!(
            view(&good),
            AddressView { uid: "u1".into(), version: "5".into(), holder: Some(holder), by_lease: false }
        );
        assert!(is_advertised(&good));
        assert_eq!(placed(&good), None);
        let by_lease = Placed { node: "n1".into(), lease: "kube-system/plndr-svcs-lock".into() };
        let other = object(&serde_json::to_string(&by_lease).unwrap());
        assert_eq!((view(&other).holder, view(&other).by_lease, placed(&other)), (None, true, Some(by_lease)));
        for bad in ["", "n1", "{}", "[]", &"x".repeat(5_000)] {
            assert_eq!(view(&object(bad)).holder, None, "{bad}");
        }
    }
}
