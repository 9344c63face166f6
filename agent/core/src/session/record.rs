//! The holder's record on a VIP's `IPAddress`: the point of decision.

use serde::{Deserialize, Serialize};

use super::Incarnation;

/// `mooring.dev/holder` on an `IPAddress`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    /// The node.
    pub node: String,
    /// The incarnation of its session by which it holds the VIP.
    pub session: Incarnation,
    /// The holder hands the VIP over: the node named here may take it at once, others a little later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
}

/// The part of an `IPAddress` that is about its holder, as one read or watch event showed it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AddressView {
    /// `metadata.uid`.
    pub uid: String,
    /// `metadata.resourceVersion`: what a compare-and-swap compares.
    pub version: String,
    /// Who holds it; None: nobody.
    pub holder: Option<Holder>,
    /// It names a Lease in place of a session: a node has the address by kube-vip's placements.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub by_lease: bool,
}
