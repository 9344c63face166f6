//! `IPAddress` objects: who holds each, and conflicts.

use std::time::Duration;

use kube::core::Request;
use kube::core::params::{GetParams, ListParams, Patch, PatchParams};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::error::cut;
use super::objects::{ADVERTISE, CONFLICT, Claim, HOLDER, IpAddress, Key, SERVICE_FAMILY};
use super::race::{Call, Limits};
use super::servers::Servers;
use super::{ApiError, Verb};
use crate::core::session::{AddressView, Holder};

/// As RBAC has it.
pub(crate) const RESOURCE: &str = "ipaddresses.ipam.cluster.x-k8s.io";
const CLAIMS: &str = "ipaddressclaims.ipam.cluster.x-k8s.io";
const GROUP: &str = "/apis/ipam.cluster.x-k8s.io";
/// The versions that are understood, the preferred one first.
const VERSIONS: [&str; 2] = ["v1beta2", "v1beta1"];
/// Objects in one part of a list.
const PART: u32 = 500;
/// Longest record that is read, in bytes.
const LONGEST: usize = 4 << 10;

/// The two selectors of what is advertised.
pub const SELECTORS: [&str; 2] = [SERVICE_FAMILY, "mooring.dev/advertise=true"];

/// The record of a VIP that a Lease gives to a node: to sessions it is as if there were none, and to the allocator it names
/// the holder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Placed {
    /// The node.
    pub node: String,
    /// The Lease, NAMESPACE/NAME.
    pub lease: String,
}

/// Reads and writes them. Clones are the same.
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
    versions: Vec<GroupVersion>,
}

#[derive(Deserialize)]
struct GroupVersion {
    version: String,
}

impl Addresses {
    /// Asks which version the cluster serves; None: the kind is not there.
    pub async fn discover(servers: &Servers, within: Duration) -> Result<Option<Self>, ApiError> {
        let request = http::Request::get(GROUP).body(Vec::new());
        let call = Call::new(Verb::Get, "apis", GROUP.into(), request)?;
        match servers.ask_for::<Group>(&call, Limits::within(within)).await.0 {
            Ok(group) => {
                let served = |version: &&&str| group.versions.iter().any(|v| v.version == **version);
                Ok(VERSIONS.iter().find(served).map(|version| Self { servers: servers.clone(), version }))
            }
            Err(ApiError::NotFound { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// All of them, in all namespaces.
    #[must_use]
    pub fn path(&self) -> String {
        format!("{GROUP}/{}/ipaddresses", self.version)
    }

    /// The version that is spoken.
    #[must_use]
    pub const fn version(&self) -> &'static str {
        self.version
    }

    fn in_namespace(&self, key: &Key) -> Request {
        Request::new(format!("{GROUP}/{}/namespaces/{}/ipaddresses", self.version, key.namespace))
    }

    /// One, consistently. None: it is not there.
    pub async fn get(&self, key: &Key, within: Duration) -> Result<Option<IpAddress>, ApiError> {
        let request = self.in_namespace(key).get(&key.name, &GetParams::default());
        let call = Call::new(Verb::Get, RESOURCE, format!("IPAddress {key}"), request)?;
        match self.servers.ask_for(&call, Limits::within(within)).await.0 {
            Ok(found) => Ok(Some(found)),
            Err(ApiError::NotFound { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Whether the claim that an `IPAddress` was made for is bound to it; None: there is no such claim. It was made by hand then.
    pub async fn is_bound(&self, key: &Key, object: &IpAddress, within: Duration) -> Result<Option<bool>, ApiError> {
        let claim = object.claim();
        if claim.is_empty() {
            return Ok(None);
        }
        let path = format!("{GROUP}/{}/namespaces/{}/ipaddressclaims", self.version, key.namespace);
        let request = Request::new(path).get(claim, &GetParams::default());
        let what = format!("IPAddressClaim {}/{claim}", key.namespace);
        let call = Call::new(Verb::Get, CLAIMS, what, request)?;
        match self.servers.ask_for::<Claim>(&call, Limits::within(within)).await.0 {
            Ok(claim) => Ok(Some(claim.is_bound_to(&key.name))),
            Err(ApiError::NotFound { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// All that are advertised, consistently.
    pub async fn list(&self, within: Duration) -> Result<Vec<IpAddress>, ApiError> {
        let mut all = Vec::new();
        for selector in SELECTORS {
            let mut params =
                ListParams { label_selector: Some(selector.into()), limit: Some(PART), ..ListParams::default() };
            loop {
                let request = Request::new(self.path()).list(&params);
                let call = Call::new(Verb::List, RESOURCE, "the IPAddress objects".into(), request)?;
                let (part, more) = self.servers.ask_for_list::<IpAddress>(&call, Limits::within(within)).await?;
                all.extend(part);
                params.continue_token = more;
                if params.continue_token.is_none() {
                    break;
                }
            }
        }
        Ok(all)
    }

    /// Writes who holds it (None: nobody), by compare-and-swap, and answers with what it is now.
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
        let call = Call::new(Verb::Patch, RESOURCE, format!("IPAddress {key}"), request)?;
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

    /// Writes to which node a Lease gives it, by compare-and-swap; None: to none any more.
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
        let call = Call::new(Verb::Patch, RESOURCE, format!("IPAddress {key}"), request)?;
        self.servers.ask_for::<IpAddress>(&call, Limits::within(within)).await.0.map(drop)
    }

    /// Tells the allocator and people that another host has it on the wire. What is there already stays. `uid`: the object's, if
    /// it is known; the next one of that name has another address.
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
        let call = Call::new(Verb::Patch, RESOURCE, format!("IPAddress {key}"), request)?;
        self.servers.ask_for::<IpAddress>(&call, Limits::within(within)).await.0.map(drop)
    }
}

/// Its record, as the core knows it. One that cannot be read is none: then somebody takes the address and writes it anew.
#[must_use]
pub fn view(object: &IpAddress) -> AddressView {
    let meta = &object.metadata;
    let text = meta.annotations.holder.as_deref().filter(|text| text.len() <= LONGEST);
    let holder = text.and_then(|text| match serde_json::from_str::<Holder>(text) {
        Ok(holder) => Some(holder),
        Err(_) if placed(object).is_some() => None,
        Err(error) => {
            let error = cut(&error.to_string(), 120);
            tracing::warn!(object = %meta.key(), error, "its record of who holds it cannot be read, and counts as none");
            None
        }
    });
    AddressView { uid: meta.uid.clone(), version: meta.resource_version.clone(), holder }
}

/// The node to which a Lease gives it, by its record.
#[must_use]
pub fn placed(object: &IpAddress) -> Option<Placed> {
    let text = object.metadata.annotations.holder.as_deref().filter(|text| text.len() <= LONGEST)?;
    serde_json::from_str(text).ok()
}

/// Whether it is marked to be advertised though no Service has it.
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
        assert_eq!(view(&good), AddressView { uid: "u1".into(), version: "5".into(), holder: Some(holder) });
        assert!(is_advertised(&good));
        assert_eq!(placed(&good), None);
        let by_lease = Placed { node: "n1".into(), lease: "kube-system/plndr-svcs-lock".into() };
        let other = object(&serde_json::to_string(&by_lease).unwrap());
        assert_eq!((view(&other).holder, placed(&other)), (None, Some(by_lease)));
        for bad in ["", "n1", "{}", "[]", &"x".repeat(5_000)] {
            assert_eq!(view(&object(bad)).holder, None, "{bad}");
        }
    }
}
