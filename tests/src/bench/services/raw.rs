//! The least that putting and announcing many addresses takes: one datagram of netlink, one call that sends all frames.

use std::io::IoSlice;
use std::net::IpAddr;
use std::os::fd::AsRawFd as _;

use mooring_agent::core::mac::Mac;
use nix::errno::Errno;
use nix::ifaddrs::getifaddrs;
use nix::sys::socket::{ControlMessage, MsgFlags, MultiHeaders, SockaddrStorage, bind, sendmmsg};
use socket2::{Domain, Protocol, Socket, Type};

use crate::observe::Error;
use crate::observe::frames::announcement;
use crate::observe::netlink::{add_addresses, mac_of, remove_addresses};

/// Frames that one call sends: the kernel's most (`UIO_MAXIOV`).
const MOST: usize = 1_024;

/// Puts IPv4 addresses on an interface of this thread's namespace, and announces each by a request and a reply.
pub fn put_and_announce(interface: &str, addresses: &[IpAddr]) -> Result<(), Error> {
    let mac = mac_of(interface)?;
    let frames: Vec<Vec<u8>> = addresses.iter().flat_map(|ip| [announcement(mac, *ip), reply(mac, *ip)]).collect();
    let socket = open(interface)?;
    add_addresses(interface, addresses)?;
    for some in frames.chunks(MOST) {
        send(&socket, some)?;
    }
    Ok(())
}

/// Takes them off again.
pub fn remove(interface: &str, addresses: &[IpAddr]) -> Result<(), Error> {
    remove_addresses(interface, addresses)
}

/// The other form of a gratuitous ARP: operation 2.
fn reply(mac: Mac, ip: IpAddr) -> Vec<u8> {
    let mut frame = announcement(mac, ip);
    frame[21] = 2;
    frame
}

fn open(interface: &str) -> Result<Socket, Error> {
    let what = || format!("open a packet socket on {interface}");
    let socket = Socket::new(Domain::PACKET, Type::RAW, Some(Protocol::from(0))).map_err(Error::io(what()))?;
    // The kernel lists each interface with the address that a packet socket is bound by (packet(7)).
    let all = getifaddrs().map_err(Error::system(what()))?;
    let link = all.filter(|one| one.interface_name == interface).find_map(|one| one.address?.as_link_addr().copied());
    let link = link.ok_or_else(|| Error::NoInterface { name: interface.into(), errno: Errno::ENODEV })?;
    bind(socket.as_raw_fd(), &link).map_err(Error::system(what()))?;
    Ok(socket)
}

/// Sends frames, in as few calls as the kernel takes.
fn send(socket: &Socket, frames: &[Vec<u8>]) -> Result<(), Error> {
    let mut rest = frames;
    while !rest.is_empty() {
        let mut headers = MultiHeaders::<SockaddrStorage>::preallocate(rest.len(), None);
        let parts: Vec<[IoSlice<'_>; 1]> = rest.iter().map(|frame| [IoSlice::new(frame)]).collect();
        let nobody = vec![None; rest.len()];
        let control: [ControlMessage<'_>; 0] = [];
        let sent = sendmmsg(socket.as_raw_fd(), &mut headers, &parts, nobody, control, MsgFlags::empty());
        let sent = sent.map_err(Error::system("send many frames"))?.count();
        rest = &rest[sent.max(1)..];
    }
    Ok(())
}
