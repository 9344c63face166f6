//! What a probe asks, and what a frame shows.
//!
//! An answer is a reply to a probe of this node. Only answers entitle: they make a holder known in its tenure, show that a third
//! party hears this node, and make a peer known. What other hosts say unasked may show that they live; it lets nobody take a VIP.
//!
//! Networks treat probes differently by their sender (OpenStack's port security and Dynamic ARP Inspection drop 0.0.0.0) and by
//! their recipient (ARP suppression answers broadcasts for hosts that are gone). So the silence of one host counts only if another
//! one has answered a probe of the same form.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::planted::planted;
use super::time::Time;

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
    /// The same, and this node has asked everybody for the address by broadcast just before: a network may have answered for a host
    /// that is gone.
    AnswerToAll(Sender),
    /// Anything else: an announcement, or the address in use as the sender of a request.
    Claim,
}

impl Form {
    /// Whether the frame answers a request for that address with that sender. In IPv6 all requests have one sender.
    #[must_use]
    pub fn answers(self, address: IpAddr, sender: Sender) -> bool {
        matches!(self, Self::Answer(by) | Self::AnswerToAll(by) if by == sender || address.is_ipv6())
    }

    /// Whether the frame answers any request.
    #[must_use]
    pub const fn is_answer(self) -> bool {
        matches!(self, Self::Answer(_) | Self::AnswerToAll(_))
    }

    /// Whether the frame answers a request that went to the host alone.
    #[must_use]
    pub const fn is_alone(self) -> bool {
        matches!(self, Self::Answer(_))
    }
}

/// For so long after a broadcast an answer may be to that, and not to a probe that went to one host.
const ON_ITS_WAY: Duration = Duration::from_millis(20);

/// What this node has asked by broadcast lately, by interface: an answer does not say to which probe.
#[derive(Clone, Debug, Default)]
pub struct Broadcasts(BTreeMap<(u32, IpAddr, Sender), Time>);

impl Broadcasts {
    /// Everybody is asked for an address.
    pub fn sent(&mut self, now: Time, interface: u32, address: IpAddr, sender: Sender) {
        self.0.retain(|_, at| now.since(*at) <= ON_ITS_WAY);
        self.0.insert((interface, address, sender), now);
    }

    /// How a host spoke, by what was asked lately.
    #[must_use]
    pub fn judge(&self, now: Time, interface: u32, address: IpAddr, form: Form) -> Form {
        let lately = |sender| self.0.get(&(interface, address, sender)).is_some_and(|at| now.since(*at) <= ON_ITS_WAY);
        let mut senders = [Sender::Unspecified, Sender::Own].into_iter().filter(|by| form.answers(address, *by));
        match form {
            Form::Answer(sender) if senders.any(lately) && !planted!(BelievesBroadcasts) => Form::AnswerToAll(sender),
            form => form,
        }
    }
}
