//! The values of labels. Each set is fixed.

use prometheus_client::encoding::{EncodeLabelValue, LabelValueEncoder};

use crate::core::action::{Cause, Why};

/// Makes an enum whose members are the values of a label.
macro_rules! label {
    ($(#[$doc:meta])* $name:ident { $($(#[$member_doc:meta])* $member:ident = $text:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $name { $($(#[$member_doc])* $member),+ }

        impl $name {
            /// The label's value.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$member => $text),+ }
            }
        }

        impl EncodeLabelValue for $name {
            fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> Result<(), std::fmt::Error> {
                EncodeLabelValue::encode(&self.as_str(), encoder)
            }
        }
    };
}

label!(
    /// Why this node took a VIP.
    Takeover {
        /// The last holder's Lease had expired.
        Expiry = "expiry",
        /// The last holder answered nobody on the segment.
        Witness = "witness",
        /// The last holder handed it over.
        Handover = "handover",
        /// Nobody held the Lease.
        Empty = "empty",
        /// Nobody carried it, and the API could not be asked.
        Provisional = "provisional",
        /// It was on the interface when the agent started.
        Adopted = "adopted",
    }
);

label!(
    /// Why this node began or ceased to carry the VIPs.
    Transition {
        /// It took them.
        Taken = "taken",
        /// It handed them over.
        HandedOver = "handed_over",
        /// Another node took the Lease.
        LeaseTaken = "lease_taken",
        /// The Lease could not be renewed.
        LeaseExpired = "lease_expired",
        /// Another host carries it with better right.
        Yielded = "yielded",
        /// The link is down, or the interface gone.
        LinkDown = "link_down",
        /// None of them could be put on the interface.
        CannotCarry = "cannot_carry",
        /// The API is silent, and too few other nodes are heard.
        CutOff = "cut_off",
    }
);

label!(
    /// The form of an announcement.
    Form {
        /// A gratuitous ARP request.
        ArpRequest = "arp_request",
        /// A gratuitous ARP reply.
        ArpReply = "arp_reply",
        /// An unsolicited neighbour advertisement.
        NeighborAdvertisement = "neighbor_advertisement",
    }
);

label!(
    /// A request to the kernel.
    Netlink {
        /// Add an address.
        Add = "add",
        /// Refresh an address's lifetime.
        Refresh = "refresh",
        /// Remove an address.
        Remove = "remove",
        /// List addresses, links or routes.
        Dump = "dump",
        /// Report changes; the kernel lost some of them.
        Subscribe = "subscribe",
    }
);

impl From<Cause> for Takeover {
    fn from(cause: Cause) -> Self {
        match cause {
            Cause::Free => Self::Empty,
            Cause::Handover => Self::Handover,
            Cause::Expiry => Self::Expiry,
            Cause::Witness => Self::Witness,
            Cause::Adopted => Self::Adopted,
            Cause::Provisional => Self::Provisional,
        }
    }
}

impl From<Why> for Transition {
    fn from(why: Why) -> Self {
        match why {
            Why::LeaseLost => Self::LeaseTaken,
            Why::Yielded => Self::Yielded,
            Why::HandedOver | Why::NotWanted => Self::HandedOver,
            Why::ApiLost | Why::Late => Self::LeaseExpired,
            Why::LinkDown => Self::LinkDown,
            Why::CannotCarry | Why::Owned => Self::CannotCarry,
            Why::CutOff => Self::CutOff,
        }
    }
}
