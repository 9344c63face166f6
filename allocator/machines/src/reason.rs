//! Where the addresses of a machine stand.

/// Where they stand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    /// Why.
    pub reason: Reason,
    /// For people: what is missing, and what to do.
    pub message: String,
}

/// The reasons.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// The machine has its addresses.
    Written,
    /// A claim waits for the allocator.
    Allocating,
    /// A claim's own reason: the pool has no address left.
    PoolExhausted,
    /// A claim's own reason: the pool cannot hand out addresses.
    PoolNotReady,
    /// A claim's own reason, any other.
    AllocationFailed,
    /// The machine's Cluster is not there.
    WaitingForCluster,
    /// The machine or its Cluster is paused.
    Paused,
    /// A write is under way.
    Writing,
    /// No label names a pool.
    NoSelector,
    /// The labels name no pool that there is.
    NoPool,
    /// An annotation cannot be read.
    InvalidRequest,
    /// A claim of that name belongs to somebody else.
    NameTaken,
    /// A claim has an address of a pool that the labels do not name.
    OtherPool,
    /// A claim has an address that stands in no device.
    NotInUse,
    /// The API server refuses a read or a write.
    WriteRefused,
}

impl Reason {
    /// All reasons.
    pub const ALL: [Self; 15] = [
        Self::Written,
        Self::Allocating,
        Self::PoolExhausted,
        Self::PoolNotReady,
        Self::AllocationFailed,
        Self::WaitingForCluster,
        Self::Paused,
        Self::Writing,
        Self::NoSelector,
        Self::NoPool,
        Self::InvalidRequest,
        Self::NameTaken,
        Self::OtherPool,
        Self::NotInUse,
        Self::WriteRefused,
    ];

    /// The reason as metrics and Events have it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Written => "Written",
            Self::Allocating => "Allocating",
            Self::PoolExhausted => "PoolExhausted",
            Self::PoolNotReady => "PoolNotReady",
            Self::AllocationFailed => "AllocationFailed",
            Self::WaitingForCluster => "WaitingForCluster",
            Self::Paused => "Paused",
            Self::Writing => "Writing",
            Self::NoSelector => "NoSelector",
            Self::NoPool => "NoPool",
            Self::InvalidRequest => "InvalidRequest",
            Self::NameTaken => "NameTaken",
            Self::OtherPool => "OtherPool",
            Self::NotInUse => "NotInUse",
            Self::WriteRefused => "WriteRefused",
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

    /// Whether the reason ends by itself, mostly within moments: such a reason is reported only when it lasts. So do labels that a
    /// template, or a pool, which is made just now, still lacks.
    #[must_use]
    pub const fn passes(self) -> bool {
        matches!(self, Self::Allocating | Self::WaitingForCluster | Self::Writing | Self::NoSelector | Self::NoPool)
    }

    /// Whether people are told. That the addresses are written, the write itself has said.
    #[must_use]
    pub const fn is_told(self) -> bool {
        !matches!(self, Self::Written | Self::WaitingForCluster)
    }

    /// Whether somebody should look.
    #[must_use]
    pub const fn warns(self) -> bool {
        !matches!(self, Self::Written | Self::Paused | Self::WaitingForCluster)
    }
}

impl Condition {
    /// A condition.
    #[must_use]
    pub fn new(reason: Reason, message: impl Into<String>) -> Self {
        Self { reason, message: message.into() }
    }
}
