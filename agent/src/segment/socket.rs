//! Packet sockets that receive only the frames needed.
//!
//! Each is bound to one protocol and one interface before the first frame reaches it, never promiscuous (pnet's
//! default is), and filtered in the kernel: only frames of this interface that are for this host or for everybody, none
//! that this host sent, and of IPv6 only neighbour solicitations and advertisements. It joins no group: an interface with IPv6
//! hears `ff02::1` anyway.

use std::io;
use std::os::fd::IntoRawFd;
use std::time::Duration;

use pnet::datalink::{Channel, ChannelType, Config, DataLinkSender, NetworkInterface, channel};
use socket2::{Domain, Protocol, SockFilter, Socket, Type};

use super::error::Error;
use super::frame::pnet_mac;
use crate::datapath::Interface;

const ETH_P_ARP: u16 = 0x0806;
const ETH_P_IPV6: u16 = 0x86dd;

/// How much of a frame is read. Solicitations and advertisements are shorter, unless they carry strange options.
pub(super) const SNAP: usize = 512;

/// A packet socket: one end to read, one to write.
pub(super) struct Open {
    pub reader: Socket,
    pub sender: Box<dyn DataLinkSender>,
}

pub(super) fn arp(interface: &Interface) -> Result<Open, Error> {
    open(interface, ETH_P_ARP, &arp_filter(interface.index)).map_err(failed("an ARP socket", interface))
}

pub(super) fn ndp(interface: &Interface) -> Result<Open, Error> {
    open(interface, ETH_P_IPV6, &ndp_filter(interface.index)).map_err(failed("an NDP socket", interface))
}

pub(super) fn failed(what: &'static str, interface: &Interface) -> impl FnOnce(io::Error) -> Error {
    let interface = interface.name.clone();
    move |source| Error::Open { what, interface, source }
}

fn open(interface: &Interface, protocol: u16, filter: &[SockFilter]) -> io::Result<Open> {
    // Protocol 0: the socket receives no frames until pnet binds it, and by then the filter is in place.
    let socket = Socket::new(Domain::PACKET, Type::RAW, Some(Protocol::from(0)))?;
    socket.attach_filter(filter)?;
    let reader = socket.try_clone()?;
    let config = Config {
        channel_type: ChannelType::Layer3(protocol),
        promiscuous: false,
        // Neither end blocks: a frame that cannot be sent now fails with an error.
        write_timeout: Some(Duration::ZERO),
        read_timeout: Some(Duration::ZERO),
        // We read from the other descriptor, which tells the kernel's error numbers; pnet's buffers stay small.
        read_buffer_size: 0,
        write_buffer_size: 0,
        // From here on pnet owns and closes the socket, also when pnet fails.
        socket_fd: Some(socket.into_raw_fd()),
        ..Config::default()
    };
    let nic = NetworkInterface {
        name: interface.name.clone(),
        description: String::new(),
        index: interface.index,
        mac: Some(pnet_mac(interface.mac)),
        ips: Vec::new(),
        flags: 0,
    };
    match channel(&nic, config)? {
        Channel::Ethernet(sender, _) => Ok(Open { reader, sender }),
        _ => Err(io::Error::other("pnet opened another kind of channel")),
    }
}

// Classic BPF (Documentation/networking/filter.rst).
const LOAD_BYTE: u16 = 0x30;
const LOAD_WORD: u16 = 0x20;
const JUMP_EQUAL: u16 = 0x15;
const JUMP_GREATER: u16 = 0x25;
const RETURN: u16 = 0x06;
/// `SKF_AD_OFF + SKF_AD_PKTTYPE`: 0 to 2 are to us, broadcast, multicast; 3 to another host, 4 sent by us.
const PACKET_TYPE: u32 = 0xffff_f004;
const ACCEPT: u32 = 512;

/// `SKF_AD_OFF + SKF_AD_IFINDEX`: the interface that the frame belongs to.
const INTERFACE: u32 = 0xffff_f008;

/// Frames of VLANs above the interface are left out. The kernel gives them to a socket that is bound to the interface
/// below as well, without their tag (net/core/dev.c, `orig_dev`): another VLAN is another segment, and may use the same
/// addresses.
const fn of(interface: u32, skip: u8) -> [SockFilter; 2] {
    [SockFilter::new(LOAD_WORD, 0, 0, INTERFACE), SockFilter::new(JUMP_EQUAL, 0, skip, interface)]
}

const fn arp_filter(interface: u32) -> [SockFilter; 6] {
    let [load, compare] = of(interface, 3);
    [
        load,
        compare,
        SockFilter::new(LOAD_WORD, 0, 0, PACKET_TYPE),
        SockFilter::new(JUMP_GREATER, 1, 0, 2),
        SockFilter::new(RETURN, 0, 0, ACCEPT),
        SockFilter::new(RETURN, 0, 0, 0),
    ]
}

const fn ndp_filter(interface: u32) -> [SockFilter; 11] {
    let [load, compare] = of(interface, 8);
    [
        load,
        compare,
        SockFilter::new(LOAD_WORD, 0, 0, PACKET_TYPE),
        SockFilter::new(JUMP_GREATER, 6, 0, 2),
        // The IPv6 header's next header: ICMPv6. Extension headers before it are not used by neighbour discovery.
        SockFilter::new(LOAD_BYTE, 0, 0, 20),
        SockFilter::new(JUMP_EQUAL, 0, 4, 58),
        // The ICMPv6 type: neighbour solicitation, advertisement.
        SockFilter::new(LOAD_BYTE, 0, 0, 54),
        SockFilter::new(JUMP_EQUAL, 1, 0, 135),
        SockFilter::new(JUMP_EQUAL, 0, 1, 136),
        SockFilter::new(RETURN, 0, 0, ACCEPT),
        SockFilter::new(RETURN, 0, 0, 0),
    ]
}
