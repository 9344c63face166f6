//! Where the endpoint of a Cluster stands: the condition [`crate::words::CONDITION`] on its claim.

/// The condition.
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
    /// True: the address stands everywhere.
    Written,
    /// The claim waits for the allocator.
    Allocating,
    /// The claim's own reason: the pool has no address left.
    PoolExhausted,
    /// The claim's own reason: the pool cannot hand out addresses.
    PoolNotReady,
    /// The claim's own reason, any other.
    AllocationFailed,
    /// The infrastructure cluster does not exist yet.
    WaitingForInfrastructure,
    /// The control plane's object does not exist yet.
    WaitingForControlPlane,
    /// A `Secret` or another object that is named does not exist yet.
    WaitingForSecret,
    /// The Cluster is paused for another reason.
    Paused,
    /// A write is under way.
    Writing,
    /// The Cluster has machines, and waits until nothing of it changes any more.
    Settling,
    /// The host is not the claim's address.
    EndpointDiffers,
    /// The host is a DNS name.
    EndpointIsAName,
    /// A place lacks the address, and is not repaired.
    Drifted,
    /// Another controller puts back what was written, faster than it is written again.
    PutBack,
    /// A file cannot be read, or has no place for the address.
    ManifestNotUsable,
    /// No variable of the topology is named, or it cannot be written.
    NeedsVariable,
    /// An annotation cannot be read.
    InvalidRequest,
    /// The infrastructure's kind is not followed.
    KindNotFollowed,
    /// A claim of the Cluster's name belongs to somebody else.
    NameTaken,
    /// The API server refuses a read or a write.
    WriteRefused,
}

impl Reason {
    /// All reasons.
    pub const ALL: [Self; 21] = [
        Self::Written,
        Self::Allocating,
        Self::PoolExhausted,
        Self::PoolNotReady,
        Self::AllocationFailed,
        Self::WaitingForInfrastructure,
        Self::WaitingForControlPlane,
        Self::WaitingForSecret,
        Self::Paused,
        Self::Writing,
        Self::Settling,
        Self::EndpointDiffers,
        Self::EndpointIsAName,
        Self::Drifted,
        Self::PutBack,
        Self::ManifestNotUsable,
        Self::NeedsVariable,
        Self::InvalidRequest,
        Self::KindNotFollowed,
        Self::NameTaken,
        Self::WriteRefused,
    ];

    /// The reason as written to the object.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Written => "Written",
            Self::Allocating => "Allocating",
            Self::PoolExhausted => "PoolExhausted",
            Self::PoolNotReady => "PoolNotReady",
            Self::AllocationFailed => "AllocationFailed",
            Self::WaitingForInfrastructure => "WaitingForInfrastructure",
            Self::WaitingForControlPlane => "WaitingForControlPlane",
            Self::WaitingForSecret => "WaitingForSecret",
            Self::Paused => "Paused",
            Self::Writing => "Writing",
            Self::Settling => "Settling",
            Self::EndpointDiffers => "EndpointDiffers",
            Self::EndpointIsAName => "EndpointIsAName",
            Self::Drifted => "Drifted",
            Self::PutBack => "PutBack",
            Self::ManifestNotUsable => "ManifestNotUsable",
            Self::NeedsVariable => "NeedsVariable",
            Self::InvalidRequest => "InvalidRequest",
            Self::KindNotFollowed => "KindNotFollowed",
            Self::NameTaken => "NameTaken",
            Self::WriteRefused => "WriteRefused",
        }
    }

    /// The reason of this name; None: there is none.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.name() == name)
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
        matches!(
            self,
            Self::Allocating
                | Self::WaitingForInfrastructure
                | Self::WaitingForControlPlane
                | Self::WaitingForSecret
                | Self::Writing
                | Self::Settling
        )
    }

    /// Whether somebody should look, whatever the Cluster waits for.
    #[must_use]
    pub const fn warns(self) -> bool {
        !matches!(self, Self::Written | Self::Paused | Self::Settling | Self::EndpointIsAName)
    }
}

impl Condition {
    /// A condition.
    #[must_use]
    pub fn new(reason: Reason, message: impl Into<String>) -> Self {
        Self { reason, message: message.into() }
    }

    /// `status`: True or False.
    #[must_use]
    pub fn ready(&self) -> bool {
        self.reason == Reason::Written
    }
}

#[cfg(test)]
mod tests {
    use super::Reason;

    #[test]
    fn names_are_read_as_written() {
        for reason in Reason::ALL {
            assert_eq!(Reason::named(reason.name()), Some(reason));
        }
        assert_eq!(Reason::named("Other"), None);
    }
}
