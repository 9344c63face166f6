//! `IPAddress`: an address that was given to a claim.

use k8s_openapi::NamespaceResourceScope;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::claim::PoolRef;
use crate::kind::kind;
use crate::versions::IpamVersion;

/// What an `IPAddress` says. It is never changed: the API server refuses it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct IpAddressSpec {
    /// The claim to which it was given, in the same namespace. By custom it has the same name.
    #[serde(default)]
    pub claim_ref: NameRef,
    /// The pool it came from.
    #[serde(default)]
    pub pool_ref: PoolRef,
    /// The address, without a prefix length.
    #[serde(default)]
    #[schemars(length(min = 1, max = 39))]
    pub address: String,
    /// The length of the network's prefix.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 128))]
    pub prefix: Option<i32>,
    /// The network's gateway.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 39))]
    pub gateway: Option<String>,
}

/// The name of an object in the same namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NameRef {
    /// Its name.
    #[serde(default)]
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
}

kind! {
    /// An address that was given to a claim. Source: Cluster API's IPAM contract.
    IpAddress = "IPAddress", "ipaddresses", crate::GROUP, IpamVersion, NamespaceResourceScope, spec: IpAddressSpec
}
