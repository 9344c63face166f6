//! Why a Service has an address or has none: its condition [`crate::words::CONDITION`].

use std::fmt;

/// The condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    /// `status`: True or False.
    pub ready: bool,
    /// `reason`, as it is written.
    pub reason: Box<str>,
    /// `message`.
    pub message: Box<str>,
}

/// The reasons.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// True: nodes advertise what it has.
    Advertised,
    /// Its claim waits for the allocator.
    Allocating,
    /// It has its address, and no node advertises it yet.
    WaitingForNode,
    /// What its annotations ask for makes no sense.
    InvalidRequest,
    /// No pool is for it.
    NoPool,
    /// The pool it names is not there, or not for it.
    PoolNotUsable,
    /// It asks for an address that no pool has.
    AddressNotInPool,
    /// It asks for an address that somebody else has.
    AddressTaken,
    /// It asks for an address that a node has.
    AddressOfNode,
    /// It asks for the address of the control plane.
    AddressOfControlPlane,
    /// It would share an address with a Service that has one of its ports.
    PortConflict,
    /// It would share an address with a Service that must be on another node.
    NoCommonNode,
    /// Its claim's own reason: the pool has none left.
    PoolExhausted,
    /// Its claim's own reason: its pool cannot hand out.
    PoolNotReady,
    /// Its claim's own reason, any other.
    AllocationFailed,
}

impl Reason {
    /// As it is written.
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
            Self::PoolExhausted => "PoolExhausted",
            Self::PoolNotReady => "PoolNotReady",
            Self::AllocationFailed => "AllocationFailed",
        }
    }

    /// A claim's reason.
    #[must_use]
    pub fn of_claim(reason: &str) -> Self {
        match reason {
            "PoolExhausted" => Self::PoolExhausted,
            "PoolNotReady" => Self::PoolNotReady,
            _ => Self::AllocationFailed,
        }
    }

    /// It ends by itself, mostly within moments: it is told only when it lasts.
    #[must_use]
    pub const fn passes(self) -> bool {
        matches!(self, Self::Allocating | Self::WaitingForNode)
    }

    /// There is none of that family to be had: a Service that only prefers two families does with the other.
    #[must_use]
    pub const fn lacks(self) -> bool {
        matches!(self, Self::NoPool | Self::PoolExhausted | Self::PoolNotReady | Self::PoolNotUsable)
    }
}

/// As [`Reason::passes`], of a reason as it is written.
#[must_use]
pub fn passes(reason: &str) -> bool {
    [Reason::Allocating, Reason::WaitingForNode].iter().any(|passing| passing.name() == reason)
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
