//! Names of objects. No Kubernetes type is needed: names, uids and resource versions are texts.

use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// `metadata.uid`: a new object of the same name has another uid.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Uid(pub Arc<str>);

/// `metadata.resourceVersion`: compared for equality only.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Version(pub Box<str>);

impl Borrow<str> for Uid {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl From<&str> for Uid {
    fn from(text: &str) -> Self {
        Self(text.into())
    }
}

impl From<&str> for Version {
    fn from(text: &str) -> Self {
        Self(text.into())
    }
}

impl fmt::Display for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The namespace and the name of an object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// Its namespace. Share it between keys: there are few.
    pub namespace: Arc<str>,
    /// Its name.
    pub name: Arc<str>,
}

impl Key {
    /// The object of this name in this namespace.
    #[must_use]
    pub fn new(namespace: &str, name: &str) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }

    /// The object, which is of this kind, as text for the people of a namespace. The objects of other namespaces are not theirs
    /// to know by name: conditions say only that there is one.
    #[must_use]
    pub fn told_in(&self, namespace: &str, kind: &str) -> String {
        if *self.namespace == *namespace {
            return format!("{kind} {self}");
        }
        let article = if kind.starts_with(['A', 'E', 'I', 'O', 'U']) { "an" } else { "a" };
        format!("{article} {kind} of another namespace")
    }
}

/// The kinds of claims, each with a kind of address objects of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ClaimKind {
    /// Cluster API's `IPAddressClaim`, whose `IPAddress` has the claim's name.
    ClusterApi,
    /// metal3's `IPClaim`, whose `IPAddress` (of metal3's group) is named after its address.
    Metal3,
}

impl ClaimKind {
    /// The other kind.
    #[must_use]
    pub const fn other(self) -> Self {
        match self {
            Self::ClusterApi => Self::Metal3,
            Self::Metal3 => Self::ClusterApi,
        }
    }
}

/// What the keys of metal3's claims, and of the objects of these, begin with. No object's name has a slash: so claims of two
/// kinds that have the same name are different claims wherever keys are compared, and the other keys are no larger for it.
const METAL3: &str = "IPClaim/";

impl Key {
    /// metal3's claim of this name, or an object of such a claim.
    #[must_use]
    pub fn of_metal3(namespace: &str, name: &str) -> Self {
        Self::new(namespace, &format!("{METAL3}{name}"))
    }

    /// The kind of the claim.
    #[must_use]
    pub fn claim_kind(&self) -> ClaimKind {
        if self.name.starts_with(METAL3) { ClaimKind::Metal3 } else { ClaimKind::ClusterApi }
    }

    /// The claim of the other kind that has the same name.
    pub(crate) fn of_other_kind(&self) -> Self {
        match self.claim_kind() {
            ClaimKind::ClusterApi => Self::of_metal3(&self.namespace, &self.name),
            ClaimKind::Metal3 => Self::new(&self.namespace, self.object()),
        }
    }

    /// The object's own name.
    #[must_use]
    pub fn object(&self) -> &str {
        self.name.strip_prefix(METAL3).unwrap_or(&self.name)
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.claim_kind() == ClaimKind::Metal3 { "IPClaim " } else { "" };
        write!(f, "{kind}{}/{}", self.namespace, self.object())
    }
}

/// The kinds of pools from which this allocator hands out addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum PoolKind {
    /// `InClusterIPPool`
    InClusterIPPool,
    /// `GlobalInClusterIPPool`
    GlobalInClusterIPPool,
    /// `InClusterPrefixPool`
    InClusterPrefixPool,
    /// `GlobalInClusterPrefixPool`
    GlobalInClusterPrefixPool,
    /// metal3's `IPPool`
    Metal3IPPool,
    /// `PHPIPAMIPPool`
    PHPIPAMIPPool,
    /// `OpenStackFloatingIPPool`
    OpenStackFloatingIPPool,
}

impl PoolKind {
    /// Whether the addresses come from a system outside the cluster: [`crate::remote`].
    #[must_use]
    pub const fn is_remote(self) -> bool {
        matches!(self, Self::PHPIPAMIPPool | Self::OpenStackFloatingIPPool)
    }

    /// Whether the kind hands out prefixes; otherwise single addresses.
    #[must_use]
    pub const fn of_prefixes(self) -> bool {
        matches!(self, Self::InClusterPrefixPool | Self::GlobalInClusterPrefixPool)
    }

    /// Whether the kind belongs to no namespace.
    #[must_use]
    pub const fn global(self) -> bool {
        matches!(self, Self::GlobalInClusterIPPool | Self::GlobalInClusterPrefixPool | Self::PHPIPAMIPPool)
    }

    /// Whether the status of such a pool lists the addresses that its claims have.
    #[must_use]
    pub const fn lists_holders(self) -> bool {
        matches!(self, Self::Metal3IPPool | Self::OpenStackFloatingIPPool)
    }

    /// The kind's name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::InClusterIPPool => "InClusterIPPool",
            Self::GlobalInClusterIPPool => "GlobalInClusterIPPool",
            Self::InClusterPrefixPool => "InClusterPrefixPool",
            Self::GlobalInClusterPrefixPool => "GlobalInClusterPrefixPool",
            Self::Metal3IPPool => "IPPool",
            Self::PHPIPAMIPPool => "PHPIPAMIPPool",
            Self::OpenStackFloatingIPPool => "OpenStackFloatingIPPool",
        }
    }
}

/// The identity of a pool: what a `poolRef` means in the namespace of its object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PoolRef {
    /// Its kind.
    pub kind: PoolKind,
    /// Its namespace; empty for the cluster-scoped kinds.
    pub namespace: Arc<str>,
    /// Its name.
    pub name: Arc<str>,
}

impl PoolRef {
    /// The pool to which a reference in `namespace` points.
    #[must_use]
    pub fn new(kind: PoolKind, namespace: &str, name: &str) -> Self {
        Self { kind, namespace: if kind.global() { "" } else { namespace }.into(), name: name.into() }
    }

    /// The pool as text for the people of a namespace; see [`Key::told_in`].
    #[must_use]
    pub fn told_in(&self, namespace: &str) -> String {
        if self.kind.global() || *self.namespace == *namespace {
            return self.to_string();
        }
        "a pool of another namespace".to_owned()
    }
}

impl fmt::Display for PoolRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind.name(), self.name)
    }
}

/// Whether an object can have this name: a DNS subdomain (RFC 1123), as most kinds want it. Anything else does not belong into the path of a
/// request: `..` leads elsewhere.
#[must_use]
pub fn is_object_name(text: &str) -> bool {
    let end = |c: Option<char>| c.is_some_and(|c| c.is_ascii_lowercase() || c.is_ascii_digit());
    let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let part = |part: &str| end(part.chars().next()) && end(part.chars().last()) && part.chars().all(inner);
    text.len() <= 253 && text.split('.').all(part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_leads_elsewhere_is_no_name() {
        for name in ["a", "kube-vip.v1", "0"] {
            assert!(is_object_name(name), "{name}");
        }
        for name in ["", ".", "..", "a/b", "../b", "a..b", "a?b", "a%2fb", "-a", "a-", "A", "a_b", &"a".repeat(254)] {
            assert!(!is_object_name(name), "{name}");
        }
    }
}
