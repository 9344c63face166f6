//! The default routes of the main table, out of tables of any size.
//!
//! A node may have a full table of the Internet: a million routes. The kernel cannot look for one prefix alone, so the
//! agent asks for all routes of the main table on a socket of its own, and decodes only those of length 0. The kernel
//! lists IPv4 routes by ascending address (`net/ipv4/fib_trie.c`), so the default routes come first, and the agent
//! closes the socket after them. IPv6 routes have no such order: all of them arrive, and are passed over.

use std::io;
use std::net::IpAddr;
use std::time::Duration;

use netlink_packet_core::{NLM_F_DUMP, NLM_F_DUMP_INTR, NLM_F_REQUEST, NetlinkMessage, NetlinkPayload};
use netlink_packet_route::route::{RouteAddress, RouteAttribute, RouteHeader, RouteMessage, RouteType, RouteVia};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use nix::errno::Errno;
use rtnetlink::sys::protocols::NETLINK_ROUTE;
use rtnetlink::sys::{AsyncSocket as _, AsyncSocketExt as _, SocketAddr, TokioSocket};

use super::Datapath;
use super::error::Error;
use super::request::{DUMPS, Failure};

/// How long the kernel may take to list all routes of a family.
const DEADLINE: Duration = Duration::from_secs(5);
/// The kernel sends at most 32 KiB of a dump at once.
const BUFFER: usize = 64 << 10;

/// `struct nlmsghdr`, in bytes.
const HEADER: usize = 16;
/// Message types of linux/netlink.h and linux/rtnetlink.h.
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const RTM_NEWROUTE: u16 = 24;

/// A default route through an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DefaultRoute {
    pub(super) index: u32,
    pub(super) metric: u32,
    pub(super) gateway: Option<IpAddr>,
}

impl Datapath {
    pub(super) async fn default_routes(&self, family: AddressFamily) -> Result<Vec<DefaultRoute>, Error> {
        let all = async {
            for _ in 0..DUMPS {
                if let Some(routes) = dump(family).await? {
                    return Ok(routes);
                }
            }
            Err(Failure::Errno(Errno::EINTR))
        };
        match tokio::time::timeout(DEADLINE, all).await.unwrap_or(Err(Failure::Deadline(DEADLINE))) {
            // A kernel without this family, or without a main table yet, has no routes for it.
            Err(Failure::Errno(Errno::EOPNOTSUPP | Errno::EAFNOSUPPORT | Errno::ENOENT)) => Ok(Vec::new()),
            Err(failure) => Err(failure.about("list routes".into(), family == AddressFamily::Inet6)),
            Ok(routes) => Ok(routes),
        }
    }
}

/// None: the table changed meanwhile, and the answers do not show one moment.
async fn dump(family: AddressFamily) -> Result<Option<Vec<DefaultRoute>>, Failure> {
    let socket = ask(family).await.map_err(|error| failed(&error))?;
    let (mut found, mut whole) = (Vec::new(), true);
    let mut buffer: Vec<u8> = Vec::with_capacity(BUFFER);
    loop {
        buffer.clear();
        socket.recv(&mut buffer).await.map_err(|error| failed(&error))?;
        for message in Messages(&buffer) {
            let message = message?;
            whole &= message.flags & NLM_F_DUMP_INTR == 0;
            match message.kind {
                NLMSG_DONE | NLMSG_ERROR => {
                    let code = message.body().first_chunk::<4>().map_or(0, |code| i32::from_ne_bytes(*code));
                    if code < 0 {
                        return Err(Failure::Errno(Errno::from_raw(code.saturating_neg())));
                    }
                    return Ok(whole.then_some(found));
                }
                RTM_NEWROUTE => match message.route(family) {
                    Route::Default(hops) => found.extend(hops),
                    Route::Beyond => return Ok(whole.then_some(found)),
                    Route::Other => {}
                },
                _ => {}
            }
        }
    }
}

/// A socket on which the kernel lists the routes.
async fn ask(family: AddressFamily) -> io::Result<TokioSocket> {
    let mut socket = TokioSocket::new(NETLINK_ROUTE)?;
    // Linux 4.20 and later then list the main table alone; earlier kernels list all tables.
    if let Err(error) = socket.socket_ref().set_netlink_get_strict_chk(true) {
        tracing::debug!(%error, "the kernel lists the routes of all tables");
    }
    socket.socket_mut().bind_auto()?;
    socket.socket_ref().connect(&SocketAddr::new(0, 0))?;
    let mut message = RouteMessage::default();
    message.header.address_family = family;
    message.header.table = RouteHeader::RT_TABLE_MAIN;
    let mut request = NetlinkMessage::from(RouteNetlinkMessage::GetRoute(message));
    request.header.flags = NLM_F_REQUEST | NLM_F_DUMP;
    request.finalize();
    let mut bytes = vec![0; request.buffer_len()];
    request.serialize(&mut bytes);
    socket.send(&bytes).await?;
    Ok(socket)
}

fn failed(error: &io::Error) -> Failure {
    match error.raw_os_error() {
        Some(errno) => Failure::Errno(Errno::from_raw(errno)),
        None => Failure::Closed(error.to_string()),
    }
}

/// The messages of a datagram.
struct Messages<'a>(&'a [u8]);

struct Message<'a> {
    kind: u16,
    flags: u16,
    bytes: &'a [u8],
}

impl<'a> Iterator for Messages<'a> {
    type Item = Result<Message<'a>, Failure>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let message = (|| {
            let length = u32::from_ne_bytes(*self.0.first_chunk()?) as usize;
            let (kind, flags) = (self.0.get(4..6)?.try_into().ok()?, self.0.get(6..8)?.try_into().ok()?);
            let bytes = self.0.get(..length).filter(|bytes| bytes.len() >= HEADER)?;
            Some(Message { kind: u16::from_ne_bytes(kind), flags: u16::from_ne_bytes(flags), bytes })
        })();
        let Some(message) = message else {
            self.0 = &[];
            return Some(Err(Failure::Closed("it sent what is no message".into())));
        };
        // Messages begin at multiples of four.
        self.0 = self.0.get(message.bytes.len().next_multiple_of(4)..).unwrap_or_default();
        Some(Ok(message))
    }
}

/// A route, as far as it counts.
enum Route {
    /// The next hops of a default route.
    Default(Vec<DefaultRoute>),
    /// No default route comes after it.
    Beyond,
    Other,
}

impl Message<'_> {
    fn body(&self) -> &[u8] {
        self.bytes.get(HEADER..).unwrap_or_default()
    }

    fn route(&self, family: AddressFamily) -> Route {
        // `struct rtmsg`: family, length of the destination, length of the source, type of service, table.
        let Some([_, length, _, _, table]) = self.body().first_chunk::<5>() else { return Route::Other };
        let main = *table == RouteHeader::RT_TABLE_MAIN;
        if !main || (*length != 0 && family != AddressFamily::Inet) {
            return Route::Other;
        }
        let decoded = NetlinkMessage::<RouteNetlinkMessage>::deserialize(self.bytes).map(|message| message.payload);
        let Ok(NetlinkPayload::InnerMessage(RouteNetlinkMessage::NewRoute(route))) = decoded else {
            return Route::Other;
        };
        if *length == 0 {
            return Route::Default(next_hops(&route));
        }
        let destination = route.attributes.iter().find_map(|attribute| match attribute {
            RouteAttribute::Destination(RouteAddress::Inet(address)) => Some(*address),
            _ => None,
        });
        // 0.0.0.0/8 and the like stand before 0.0.0.0/0.
        if destination.is_none_or(|address| address.is_unspecified()) { Route::Other } else { Route::Beyond }
    }
}

/// The next hops of a default route. A route that leads nowhere has none.
fn next_hops(route: &RouteMessage) -> Vec<DefaultRoute> {
    if route.header.kind != RouteType::Unicast {
        return Vec::new();
    }
    let metric = route.attributes.iter().find_map(|attribute| match attribute {
        RouteAttribute::Priority(metric) => Some(*metric),
        _ => None,
    });
    let metric = metric.unwrap_or(0);
    let mut hops = Vec::new();
    for attribute in &route.attributes {
        match attribute {
            RouteAttribute::Oif(index) => {
                hops.push(DefaultRoute { index: *index, metric, gateway: gateway(&route.attributes) });
            }
            RouteAttribute::MultiPath(all) => hops.extend(all.iter().map(|hop| DefaultRoute {
                index: hop.interface_index,
                metric,
                gateway: gateway(&hop.attributes),
            })),
            _ => {}
        }
    }
    hops
}

fn gateway(attributes: &[RouteAttribute]) -> Option<IpAddr> {
    attributes.iter().find_map(|attribute| match attribute {
        RouteAttribute::Gateway(RouteAddress::Inet(ip)) | RouteAttribute::Via(RouteVia::Inet(ip)) => Some((*ip).into()),
        RouteAttribute::Gateway(RouteAddress::Inet6(ip)) | RouteAttribute::Via(RouteVia::Inet6(ip)) => {
            Some((*ip).into())
        }
        _ => None,
    })
}
