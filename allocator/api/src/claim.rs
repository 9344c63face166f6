//! `IPAddressClaim`: somebody wants an address.

use std::collections::BTreeMap;

use k8s_openapi::NamespaceResourceScope;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::address::NameRef;
use crate::conditions::{self, Condition};
use crate::kind::kind;
use crate::versions::IpamVersion;
use crate::{annotations, labels};

/// What a claim asks for. It is never changed: the API server refuses it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct IpAddressClaimSpec {
    /// The Cluster it belongs to, in the same namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub cluster_name: Option<String>,
    /// The pool from which the address is to come.
    #[serde(default)]
    pub pool_ref: PoolRef,
}

/// Which pool. A namespaced one is in the claim's namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PoolRef {
    /// The pool's group: `ipam.cluster.x-k8s.io` for Mooring's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub api_group: Option<String>,
    /// The pool's kind.
    #[serde(default)]
    #[schemars(length(min = 1, max = 63))]
    pub kind: String,
    /// The pool's name.
    #[serde(default)]
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
}

/// What became of a claim.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct IpAddressClaimStatus {
    /// The `IPAddress` that was given, in the same namespace. The claim is bound once this is set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address_ref: Option<NameRef>,
    /// `Ready`, and what others have to say. Old style (with severity) in `v1alpha1` and `v1beta1`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::conditions::schema")]
    pub conditions: Vec<Condition>,
    /// `v1beta1` only: the conditions in the new style.
    #[serde(default, rename = "v1beta2", skip_serializing_if = "Option::is_none")]
    #[schemars(skip)]
    pub new_style: Option<NewStyle>,
    /// `v1beta2` only: the conditions in the old style, for who reads the claim in `v1beta1`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(skip)]
    pub deprecated: Option<Deprecated>,
}

/// `status.deprecated` of `v1beta2`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Deprecated {
    /// What `v1beta1` shows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub v1beta1: Option<NewStyle>,
}

/// `status.v1beta2` of `v1beta1`, and `status.deprecated.v1beta1` of `v1beta2`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NewStyle {
    /// The conditions in the other style.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

kind! {
    /// Somebody wants an address. Source: Cluster API's IPAM contract.
    IpAddressClaim = "IPAddressClaim", "ipaddressclaims", crate::GROUP, IpamVersion, NamespaceResourceScope,
    spec: IpAddressClaimSpec, status: IpAddressClaimStatus
}

impl IpAddressClaim {
    /// The Cluster it belongs to: by its spec, else by the deprecated label.
    #[must_use]
    pub fn cluster_name(&self) -> Option<&str> {
        let label = || self.metadata.labels.as_ref()?.get(labels::CLUSTER_NAME).map(String::as_str);
        self.spec.cluster_name.as_deref().or_else(label).filter(|name| !name.is_empty())
    }

    /// Whether its owner asked to leave it alone. Its Cluster and its pool may be paused too.
    #[must_use]
    pub fn is_paused(&self) -> bool {
        self.annotation(annotations::PAUSED).is_some()
    }

    /// The address that it asks for, as it was written.
    #[must_use]
    pub fn requested_address(&self) -> Option<&str> {
        self.annotation(annotations::REQUESTED_ADDRESS)
    }

    /// The name of the `IPAddress` it is bound to.
    #[must_use]
    pub fn bound_to(&self) -> Option<&str> {
        self.status.as_ref()?.address_ref.as_ref().map(|to| to.name.as_str()).filter(|name| !name.is_empty())
    }

    /// Its conditions in the new style, wherever its version keeps them; the old ones where it has no others.
    #[must_use]
    pub fn conditions(&self) -> &[Condition] {
        let Some(status) = &self.status else { return &[] };
        match (&status.new_style, self.version) {
            (Some(new_style), IpamVersion::V1beta1) => &new_style.conditions,
            _ => &status.conditions,
        }
    }

    /// Its condition `Ready`.
    #[must_use]
    pub fn ready(&self) -> Option<&Condition> {
        conditions::find(self.conditions(), conditions::READY)
    }

    fn annotation(&self, key: &str) -> Option<&str> {
        let all: &BTreeMap<String, String> = self.metadata.annotations.as_ref()?;
        all.get(key).map(String::as_str)
    }
}
