//! Why a Service has an address or has none: the Service's condition [`crate::words::CONDITION`].

use std::fmt;

/// The condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    /// `status`: True or False.
    pub ready: bool,
    /// `reason`, as written to the object.
    pub reason: Box<str>,
    /// `message`.
    pub message: Box<str>,
}

/// The reasons.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// True: nodes advertise the Service's addresses.
    Advertised,
    /// The Service's claim waits for the allocator.
    Allocating,
    /// The Service has its address, and no node advertises the address yet.
    WaitingForNode,
    /// The Service's annotations are invalid.
    InvalidRequest,
    /// No pool serves the Service.
    NoPool,
    /// The pool that the Service names does not exist, or does not serve the Service.
    PoolNotUsable,
    /// The Service asks for an address that no pool has.
    AddressNotInPool,
    /// The Service asks for an address that another claim or Service has.
    AddressTaken,
    /// The Service asks for an address that a node has.
    AddressOfNode,
    /// The Service asks for the address of the control plane.
    AddressOfControlPlane,
    /// The Service would share an address with a Service that has one of its ports.
    PortConflict,
    /// The Service would share an address with a Service that must be on another node.
    NoCommonNode,
    /// The Service has a sharing key of another namespace, which has not invited it.
    SharingNotAllowed,
    /// The claim's own reason: the pool has no address left.
    PoolExhausted,
    /// The claim's own reason: the claim's pool cannot hand out addresses.
    PoolNotReady,
    /// The claim's own reason, any other.
    AllocationFailed,
}

impl Reason {
    /// The reason as written to the object.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Advertised => "Advertised",
            Self::Allocating => "Allocating",
            Self::WaitingForNode => "WaitingForNode",
            Self::InvalidRequest => "InvalidRequest",
            Self::NoPool => "NoPool",
            Self::PoolNotUsable => "PoolNotUsable",
            Self::AddressNotInPool => "AddressNotInPool",
            Self::AddressTaken => "AddressTaken",
            Self::AddressOfNode => "AddressOfNode",
            Self::AddressOfControlPlane => "AddressOfControlPlane",
            Self::PortConflict => "PortConflict",
            Self::NoCommonNode => "NoCommonNode",
            Self::SharingNotAllowed => "SharingNotAllowed",
            Self::PoolExhausted => "PoolExhausted",
            Self::PoolNotReady => "PoolNotReady",
            Self::AllocationFailed => "AllocationFailed",
        }
    }

    /// Translates a claim's reason.
    #[must_use]
    pub fn of_claim(reason: &str) -> Self {
        match reason {
            "PoolExhausted" => Self::PoolExhausted,
            "PoolNotReady" => Self::PoolNotReady,
            _ => Self::AllocationFailed,
        }
    }

    /// Whether the reason ends by itself, mostly within moments: such a reason is reported only when it lasts.
    #[must_use]
    pub const fn passes(self) -> bool {
        matches!(self, Self::Allocating | Self::WaitingForNode)
    }

    /// Whether no address of the family is available: a Service that only prefers two families uses the other family
    /// alone.
    #[must_use]
    pub const fn lacks(self) -> bool {
        matches!(self, Self::NoPool | Self::PoolExhausted | Self::PoolNotReady | Self::PoolNotUsable)
    }
}

/// [`Reason::passes`] for a reason as written to the object.
#[must_use]
pub fn passes(reason: &str) -> bool {
    [Reason::Allocating, Reason::WaitingForNode].iter().any(|passing| passing.name() == reason)
}

/// Whether a reason, as written to the object, says that the address is in no pool of the Service, or is reserved. An address that a
/// Service had before it asked Mooring is never refused so, unless it is the control plane's.
#[must_use]
pub fn is_not_for_services(reason: &str) -> bool {
    [Reason::AddressNotInPool, Reason::AddressOfNode, Reason::AddressOfControlPlane]
        .iter()
        .any(|one| one.name() == reason)
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use mooring_names::services::{PASSING, REFUSING};

    use super::*;

    #[test]
    fn agents_know_the_reasons_by_which_an_address_is_refused() {
        let passing = [Reason::Allocating, Reason::WaitingForNode];
        assert_eq!(passing.map(Reason::name), PASSING);
        assert!(passing.into_iter().all(Reason::passes));
        let refusing = [
            Reason::AddressNotInPool,
            Reason::AddressTaken,
            Reason::AddressOfNode,
            Reason::AddressOfControlPlane,
            Reason::PortConflict,
            Reason::NoCommonNode,
            Reason::SharingNotAllowed,
        ];
        assert_eq!(refusing.map(Reason::name), REFUSING);
        let reserved = REFUSING.into_iter().filter(|reason| is_not_for_services(reason));
        assert_eq!(reserved.collect::<Vec<_>>(), ["AddressNotInPool", "AddressOfNode", "AddressOfControlPlane"]);
    }
}
