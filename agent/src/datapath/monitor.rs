//! Kernel events: addresses that come and go, links that change.

use std::collections::HashMap;
use std::net::IpAddr;
use std::pin::pin;
use std::time::Duration;

use futures::StreamExt;
use futures::channel::mpsc::UnboundedReceiver;
use netlink_packet_core::{DecodeError, NetlinkMessage, NetlinkPayload};
use netlink_packet_route::RouteNetlinkMessage;
use nix::sys::socket::setsockopt;
use nix::sys::socket::sockopt::RcvBufForce;
use rtnetlink::sys::AsyncSocket;
use rtnetlink::{MulticastGroup, new_multicast_connection};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::Shared;
use super::address::{OUR_PROTO, Seen, Vip};
use super::error::Error;
use super::link::LinkSeen;
use crate::core::mac::Mac;

/// The size of the kernel's buffer for us, in bytes: a refresh of a thousand VIPs is a thousand events at once.
const BUFFER: usize = 2 << 20;

/// How long after a broken socket the agent opens the next.
const AGAIN: Duration = Duration::from_millis(200);

/// Something happened in the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KernelEvent {
    /// A watched address is gone: it expired, was removed, or its interface is gone.
    AddressGone {
        /// The address.
        address: IpAddr,
        /// The interface that had it.
        index: u32,
    },
    /// A watched address was added or changed; each refresh of ours is such an event.
    AddressAdded {
        /// The address.
        address: IpAddr,
        /// The interface that has it.
        index: u32,
        /// Whether it is ours.
        ours: bool,
    },
    /// An address that is not watched has come or gone, or has just proved to be a duplicate.
    NodeAddress {
        /// The interface.
        index: u32,
    },
    /// A link is new, or its name, state or Ethernet address has changed.
    Link {
        /// Its index.
        index: u32,
        /// Its name.
        name: String,
        /// Whether frames can pass.
        up: bool,
        /// Its Ethernet address, if it has one.
        mac: Option<Mac>,
    },
    /// A link is gone for good. A new link of the same name is a different link.
    LinkGone {
        /// Its index.
        index: u32,
        /// Its name.
        name: String,
    },
    /// Events were lost: the current state must be read again.
    Resync,
}

type Messages = UnboundedReceiver<(NetlinkMessage<RouteNetlinkMessage>, rtnetlink::sys::SocketAddr)>;
type Connection = rtnetlink::proto::Connection<RouteNetlinkMessage>;

/// Starts the monitor. The first socket is open when this returns, so no later event is missed.
pub(super) fn spawn(known: Shared, events: mpsc::Sender<KernelEvent>) -> Result<JoinHandle<()>, Error> {
    let first = connect().map_err(|error| Error::Netlink { what: "watch".into(), reason: error.to_string() })?;
    Ok(tokio::spawn(async move {
        let mut socket = Some(first);
        loop {
            let (connection, messages) = match socket.take().map_or_else(connect, Ok) {
                Ok(open) => open,
                Err(error) => {
                    tracing::warn!(%error, "kernel events cannot be watched; retrying");
                    tokio::time::sleep(AGAIN).await;
                    continue;
                }
            };
            if follow(connection, messages, &known, &events).await.is_none() {
                return;
            }
            tracing::warn!("socket of kernel events broke; opening another");
            tokio::time::sleep(AGAIN).await;
            socket = connect().ok();
            if events.send(KernelEvent::Resync).await.is_err() {
                return;
            }
        }
    }))
}

fn connect() -> std::io::Result<(Connection, Messages)> {
    let groups = [MulticastGroup::Link, MulticastGroup::Ipv4Ifaddr, MulticastGroup::Ipv6Ifaddr];
    let (mut connection, _, messages) = new_multicast_connection(&groups)?;
    // Past the system's limit. This needs a capability that the agent has anyway. Without it, events are lost sooner.
    if let Err(errno) = setsockopt(connection.socket_mut().socket_ref(), RcvBufForce, &BUFFER) {
        tracing::debug!(%errno, "the socket of kernel events keeps its small buffer");
    }
    Ok((connection, messages))
}

/// Passes events on until the socket breaks; `None` when the receiver is gone. While the event loop does not take
/// events, the socket is not read either: the kernel's buffer is the only one that grows, and it tells of an overrun.
async fn follow(
    connection: Connection,
    mut messages: Messages,
    known: &Shared,
    events: &mpsc::Sender<KernelEvent>,
) -> Option<()> {
    let mut connection = pin!(connection);
    let (mut links, mut others) = (HashMap::new(), HashMap::new());
    loop {
        let message = tokio::select! {
            biased;
            message = messages.next() => message.map(|(message, _)| message.payload),
            () = &mut connection => None,
            () = events.closed() => return None,
        };
        let event = match message {
            None => return Some(()),
            Some(NetlinkPayload::InnerMessage(message)) => translate(&message, known, &mut links, &mut others),
            Some(NetlinkPayload::Overrun(_)) => {
                links.clear();
                others.clear();
                Some(KernelEvent::Resync)
            }
            Some(_) => None,
        };
        if let Some(event) = event {
            events.send(event).await.ok()?;
        }
    }
}

/// Addresses that are not watched: whether each counts (not deprecated, not a duplicate).
type Others = HashMap<(Vip, u32), bool>;

fn translate(
    message: &RouteNetlinkMessage,
    known: &Shared,
    links: &mut HashMap<u32, LinkSeen>,
    others: &mut Others,
) -> Option<KernelEvent> {
    let change = Change::read(message)?;
    let ours = match &change {
        Change::Came(seen) => {
            let mut known = known.lock();
            let ours = known.saw(seen);
            if !known.watched.contains(&seen.vip.address) {
                // Router advertisements renew lifetimes all the time: only a changed answer is an event.
                let counts = !seen.deprecated && !seen.duplicate;
                let new = others.insert((seen.vip, seen.index), counts) != Some(counts);
                return new.then_some(KernelEvent::NodeAddress { index: seen.index });
            }
            ours
        }
        Change::Went(seen) => {
            let mut known = known.lock();
            known.gone(seen.vip, seen.index);
            if !known.watched.contains(&seen.vip.address) {
                others.remove(&(seen.vip, seen.index));
                return Some(KernelEvent::NodeAddress { index: seen.index });
            }
            false
        }
        Change::Link(link) if links.get(&link.index) == Some(link) => return None,
        Change::Link(link) => {
            links.insert(link.index, link.clone());
            false
        }
        Change::LinkWent(link) => {
            links.remove(&link.index);
            false
        }
    };
    Some(change.tell(ours))
}

/// The content of a message, without regard to what is known.
enum Change {
    Came(Seen),
    Went(Seen),
    Link(LinkSeen),
    LinkWent(LinkSeen),
}

impl Change {
    fn read(message: &RouteNetlinkMessage) -> Option<Self> {
        match message {
            RouteNetlinkMessage::NewAddress(message) => Seen::read(message).map(Self::Came),
            RouteNetlinkMessage::DelAddress(message) => Seen::read(message).map(Self::Went),
            // A bridge also reports its ports leaving and joining, in messages without a state.
            RouteNetlinkMessage::NewLink(message) | RouteNetlinkMessage::DelLink(message)
                if u8::from(message.header.interface_family) != 0 =>
            {
                None
            }
            RouteNetlinkMessage::NewLink(message) => Some(Self::Link(LinkSeen::read(message))),
            RouteNetlinkMessage::DelLink(message) => Some(Self::LinkWent(LinkSeen::read(message))),
            _ => None,
        }
    }

    fn tell(self, ours: bool) -> KernelEvent {
        match self {
            Self::Came(seen) => KernelEvent::AddressAdded { address: seen.vip.address, index: seen.index, ours },
            Self::Went(seen) => KernelEvent::AddressGone { address: seen.vip.address, index: seen.index },
            Self::Link(link) => KernelEvent::Link { index: link.index, name: link.name, up: link.up, mac: link.mac },
            Self::LinkWent(link) => KernelEvent::LinkGone { index: link.index, name: link.name },
        }
    }
}

/// Decodes the first netlink message in `bytes`, for any address. The mark alone decides whether an address is ours.
///
/// # Errors
/// When the message is not one of rtnetlink.
pub fn decode(bytes: &[u8]) -> Result<Option<KernelEvent>, DecodeError> {
    let NetlinkPayload::InnerMessage(message) = NetlinkMessage::deserialize(bytes)?.payload else {
        return Ok(None);
    };
    Ok(Change::read(&message).map(|change| {
        let ours = matches!(&change, Change::Came(seen) if seen.proto == Some(OUR_PROTO));
        change.tell(ours)
    }))
}
