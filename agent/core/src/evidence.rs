//! What a probe asks, and what a frame shows.
//!
//! An answer is a reply to a probe of this node. Only answers entitle: they make a holder known in its tenure, show that a third
//! party hears this node, and make a peer known. What other hosts say unasked may show that they live; it lets nobody take a VIP.
//!
//! Networks treat probes differently by their sender (OpenStack's port security and Dynamic ARP Inspection drop 0.0.0.0) and by
//! their recipient (ARP suppression answers broadcasts for hosts that are gone). So the silence of one host counts only if another
//! one has answered a probe of the same form.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

/// The sender's protocol address in an ARP request. In IPv6 the sender is always the link-local address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sender {
    /// 0.0.0.0, as RFC 5227 section 2.1 has it: owners answer, proxy ARP does not, and no cache learns.
    #[default]
    Unspecified,
    /// The interface's own address, as any host asks: networks that check senders let it pass.
    Own,
}

/// How a host spoke for an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Form {
    /// A reply to this node alone, to a request with that sender.
    Answer(Sender),
    /// Anything else: an announcement, or the address in use as the sender of a request.
    Claim,
}

impl Form {
    /// Whether the frame answers a request for that address with that sender. In IPv6 all requests have one sender.
    #[must_use]
    pub fn answers(self, address: IpAddr, sender: Sender) -> bool {
        matches!(self, Self::Answer(by) if by == sender || address.is_ipv6())
    }

    /// Whether the frame answers any request.
    #[must_use]
    pub const fn is_answer(self) -> bool {
        matches!(self, Self::Answer(_))
    }
}
