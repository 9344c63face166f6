//! Pools of OpenStack's floating IPs. Kind, fields and version are those of Cluster API's provider for OpenStack, so that its
//! objects are served as they are. Source: `api/v1alpha1` of cluster-api-provider-openstack.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::conditions::Condition;

/// `kind` of pools of floating IPs.
pub const FLOATING_IP_POOL: &str = "OpenStackFloatingIPPool";

/// What they are called in URLs.
pub const FLOATING_IP_POOLS: &str = "openstackfloatingippools";

/// The one version of the kind.
pub const FLOATING_IP_POOL_VERSION: &str = "v1alpha1";

/// Which floating IPs a pool gives, and who asks for them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FloatingIpPoolSpec {
    /// Floating IPs that exist already. Claims get these first, in this order, and they are never deleted.
    #[serde(default, rename = "preAllocatedFloatingIPs", skip_serializing_if = "Vec::is_empty")]
    pub given: Vec<String>,

    /// The most floating IPs that claims may have; without it, there is no limit. With the length of preAllocatedFloatingIPs no
    /// address outside that list is ever given.
    #[serde(default, rename = "maxIPs", skip_serializing_if = "Option::is_none")]
    pub most: Option<i64>,

    /// The Secret with clouds.yaml, in the pool's namespace.
    pub identity_ref: IdentityRef,

    /// The external network; without it, the default one, or the only one.
    #[serde(default, rename = "floatingIPNetwork", skip_serializing_if = "Option::is_none")]
    #[schemars(extend("minProperties" = 1, "maxProperties" = 1))]
    pub network: Option<NetworkParam>,

    /// What becomes of a floating IP that the pool made, once its claim is gone: Delete, or Retain for the next claim.
    #[schemars(with = "String", extend("enum" = ["Retain", "Delete"]))]
    pub reclaim_policy: ReclaimPolicy,
}

/// Who asks OpenStack.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct IdentityRef {
    /// Secret. `ClusterIdentity` is a kind of the provider for OpenStack that Mooring does not read.
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["Secret", "ClusterIdentity"], "default" = "Secret"))]
    pub kind: Option<String>,

    /// The Secret's name.
    #[schemars(length(min = 1))]
    pub name: String,

    /// The cloud in its clouds.yaml.
    #[schemars(length(min = 1))]
    pub cloud_name: String,

    /// The region; without it, that of the cloud.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub region: Option<String>,
}

/// What becomes of a free floating IP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum ReclaimPolicy {
    /// It is kept, for the next claim.
    #[default]
    Retain,
    /// It is deleted.
    Delete,
}

/// Which network.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NetworkParam {
    /// By its id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "uuid"))]
    pub id: Option<String>,

    /// By what it is like: one network must fit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("minProperties" = 1))]
    pub filter: Option<NetworkFilter>,
}

/// What a network is like.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NetworkFilter {
    /// Its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,

    /// Its description.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,

    /// Its project.
    #[serde(default, rename = "projectID", skip_serializing_if = "Option::is_none")]
    pub project_id: Option<String>,

    /// It has all these tags.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(inner(length(min = 1), regex(pattern = "^[^,]+$")))]
    pub tags: Vec<String>,

    /// It has one of these tags.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(inner(length(min = 1), regex(pattern = "^[^,]+$")))]
    pub tags_any: Vec<String>,

    /// It has not all these tags.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(inner(length(min = 1), regex(pattern = "^[^,]+$")))]
    pub not_tags: Vec<String>,

    /// It has none of these tags.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(inner(length(min = 1), regex(pattern = "^[^,]+$")))]
    pub not_tags_any: Vec<String>,
}

/// Which floating IPs there are. Written for people: what is used is always known from the `IPAddress` objects and from Neutron,
/// never from here.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FloatingIpPoolStatus {
    /// The addresses that claims have.
    #[serde(default, rename = "claimedIPs")]
    #[schemars(extend("default" = []))]
    pub claimed: Vec<String>,

    /// The addresses that the next claims get, as of the last look at Neutron.
    #[serde(default, rename = "availableIPs")]
    #[schemars(extend("default" = []))]
    pub available: Vec<String>,

    /// Addresses of preAllocatedFloatingIPs that the project does not have in this network, as of the last look at Neutron.
    #[serde(default, rename = "failedIPs", skip_serializing_if = "Vec::is_empty")]
    pub failed: Vec<String>,

    /// The network that is used.
    #[serde(default, rename = "floatingIPNetwork", skip_serializing_if = "Option::is_none")]
    pub network: Option<FloatingIpNetwork>,

    /// `Ready`, `OpenstackFloatingIPPoolReady`, and what else there is to say.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::conditions::schema")]
    pub conditions: Vec<Condition>,
}

/// A network.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FloatingIpNetwork {
    /// Its id.
    #[serde(default)]
    #[schemars(length(min = 1))]
    pub id: String,

    /// Its name.
    #[serde(default)]
    #[schemars(length(min = 1))]
    pub name: String,

    /// Its tags.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
}
