//! Sending: announcements through the queue, probes past it. Shared by the runtime and the listener's thread; nothing
//! here blocks.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ipnet::{IpNet, Ipv4Net};
use pnet::datalink::DataLinkSender;

use super::error::{Error, Kind};
use super::frame::{ArpForm, arp_announce, arp_probe, na_announce, ns_probe};
use super::pace::Pace;
use crate::clocks::Clocks;
use crate::core::evidence;
use crate::core::mac::Mac;
use crate::datapath::{Interface, clock};

/// The recipient of a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum To {
    /// One host.
    Unicast(Mac),
    /// Everybody (IPv6: the target's solicited-node group).
    Broadcast,
}

/// How many frames were sent, by kind, and how many could not be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Frames sent, in the order of [`Kind::ALL`].
    pub sent: [u64; 5],
    /// Frames that the kernel did not take.
    pub failed: u64,
    /// Frames heard about addresses that the agent listens for.
    pub heard: u64,
    /// How many of the heard frames were dropped because the event loop did not take them.
    pub dropped: u64,
}

impl Counts {
    /// Frames sent of one kind.
    #[must_use]
    pub const fn sent(&self, kind: Kind) -> u64 {
        self.sent[kind as usize]
    }
}

type Sender = Mutex<Box<dyn DataLinkSender>>;

/// The sending half of a segment.
pub(super) struct Announcer {
    name: String,
    mac: Mac,
    /// The interface's own IPv4 addresses, in the kernel's order.
    own: Mutex<Vec<Ipv4Net>>,
    link_local: Option<Ipv6Addr>,
    arp: Sender,
    ndp: Option<Sender>,
    pace: Mutex<Pace>,
    /// Whether the machine has stood still, as far as its clocks show it.
    clocks: Mutex<Clocks>,
    sent: [AtomicU64; 5],
    failed: AtomicU64,
    /// A socket reports an error once, to either the sender or the reader. By this flag the sender informs the
    /// listener.
    failure: AtomicBool,
    pub heard: AtomicU64,
    pub dropped: AtomicU64,
}

impl Announcer {
    pub(super) fn new(
        interface: &Interface,
        limit: Option<u32>,
        arp: Box<dyn DataLinkSender>,
        ndp: Option<Box<dyn DataLinkSender>>,
    ) -> Self {
        Self {
            name: interface.name.clone(),
            mac: interface.mac,
            own: Mutex::new(ipv4(&interface.addresses)),
            link_local: interface.link_local,
            arp: Mutex::new(arp),
            ndp: ndp.map(Mutex::new),
            pace: Mutex::new(Pace::new(limit)),
            clocks: Mutex::new(Clocks::new()),
            sent: <[AtomicU64; 5]>::default(),
            failed: AtomicU64::new(0),
            failure: AtomicBool::new(false),
            heard: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
        }
    }

    /// Queues the frames that announce an address.
    pub(super) fn queue(&self, address: IpAddr) -> Result<(), Error> {
        let now = clock::boottime();
        let mut pace = self.pace();
        match address {
            IpAddr::V4(_) => {
                pace.push(now, (Kind::ArpRequest, address));
                pace.push(now, (Kind::ArpReply, address));
            }
            IpAddr::V6(_) if self.ndp.is_some() => pace.push(now, (Kind::Advertisement, address)),
            IpAddr::V6(_) => return Err(self.no_ipv6(address)),
        }
        Ok(())
    }

    /// Drops the queued frames of an address. When this returns, no announcement for the address leaves any more.
    pub(super) fn forget(&self, address: IpAddr) {
        self.pace().forget(clock::boottime(), address);
    }

    /// Drops all queued frames.
    pub(super) fn forget_all(&self) {
        self.pace().forget_all();
    }

    /// The queue. The listener may get here before the event loop sees that the machine stood still: what was queued before that
    /// is dropped here.
    fn pace(&self) -> MutexGuard<'_, Pace> {
        let jump = self.clocks.lock().unwrap_or_else(PoisonError::into_inner).read().1;
        let mut pace = self.pace.lock().unwrap_or_else(PoisonError::into_inner);
        if jump.is_some() {
            pace.forget_all();
        }
        pace
    }

    /// Sends what the limit allows. `Ok` says how long to wait for the next frame, if there is one. A frame that fails
    /// is not sent again: announcements are repeated anyway. The first failure is returned when all were tried.
    pub(super) fn send_queued(&self) -> Result<Option<Duration>, Error> {
        let mut pace = self.pace();
        let mut result = Ok(());
        while let Some((kind, address)) = pace.pop(clock::boottime()) {
            let sent = match (kind, address) {
                (Kind::ArpRequest, IpAddr::V4(ip)) => {
                    self.send_arp(kind, address, &arp_announce(ip, self.mac, ArpForm::Request))
                }
                (_, IpAddr::V4(ip)) => self.send_arp(kind, address, &arp_announce(ip, self.mac, ArpForm::Reply)),
                (_, IpAddr::V6(ip)) => self.send_ndp(kind, address, &na_announce(ip, self.mac)),
            };
            result = result.and(sent);
        }
        let wait = pace.wait(clock::boottime());
        result.map(|()| wait)
    }

    /// How long until the next queued frame may go.
    pub(super) fn wait(&self) -> Option<Duration> {
        self.pace().wait(clock::boottime())
    }

    pub(super) fn probe(&self, address: IpAddr, to: To, sender: evidence::Sender) -> Result<(), Error> {
        self.pace().note(clock::boottime());
        match (address, self.link_local) {
            (IpAddr::V4(target), _) => {
                let to = match to {
                    To::Unicast(mac) => mac,
                    To::Broadcast => Mac::BROADCAST,
                };
                self.send_arp(Kind::ArpProbe, address, &arp_probe((self.mac, self.asks_as(target, sender)), target, to))
            }
            (IpAddr::V6(target), Some(own)) => {
                let to = match to {
                    To::Unicast(mac) => Some(mac),
                    To::Broadcast => None,
                };
                self.send_ndp(Kind::Solicitation, address, &ns_probe(target, to, self.mac, own))
            }
            (IpAddr::V6(_), None) => Err(self.no_ipv6(address)),
        }
    }

    /// The interface's own addresses have changed.
    pub(super) fn ask_as(&self, addresses: &[IpNet]) {
        *self.own.lock().unwrap_or_else(PoisonError::into_inner) = ipv4(addresses);
    }

    /// The sender address of a request: as the kernel would choose it, an own address on the target's subnet, else the first.
    fn asks_as(&self, target: Ipv4Addr, sender: evidence::Sender) -> Ipv4Addr {
        let own = self.own.lock().unwrap_or_else(PoisonError::into_inner);
        let near = || own.iter().find(|own| own.contains(&target)).or_else(|| own.first());
        match sender {
            evidence::Sender::Unspecified => Ipv4Addr::UNSPECIFIED,
            evidence::Sender::Own => near().map_or(Ipv4Addr::UNSPECIFIED, Ipv4Net::addr),
        }
    }

    /// Whether sending failed since the last call.
    pub(super) fn take_failure(&self) -> bool {
        self.failure.swap(false, Ordering::Relaxed)
    }

    pub(super) fn counts(&self) -> Counts {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Counts {
            sent: self.sent.each_ref().map(read),
            failed: read(&self.failed),
            heard: read(&self.heard),
            dropped: read(&self.dropped),
        }
    }

    fn send_arp(&self, kind: Kind, address: IpAddr, frame: &[u8]) -> Result<(), Error> {
        self.send(&self.arp, kind, address, frame)
    }

    fn send_ndp(&self, kind: Kind, address: IpAddr, frame: &[u8]) -> Result<(), Error> {
        let ndp = self.ndp.as_ref().ok_or_else(|| self.no_ipv6(address))?;
        self.send(ndp, kind, address, frame)
    }

    fn send(&self, sender: &Sender, kind: Kind, address: IpAddr, frame: &[u8]) -> Result<(), Error> {
        let mut sender = sender.lock().unwrap_or_else(PoisonError::into_inner);
        let sent = sender.send_to(frame, None).unwrap_or_else(|| Err(io::Error::other("pnet did not send")));
        let count = if sent.is_ok() { &self.sent[kind as usize] } else { &self.failed };
        count.fetch_add(1, Ordering::Relaxed);
        self.failure.fetch_or(sent.is_err(), Ordering::Relaxed);
        sent.map_err(|source| Error::Send { kind, address, interface: self.name.clone(), source })
    }

    fn no_ipv6(&self, address: IpAddr) -> Error {
        Error::NoIpv6 { address, interface: self.name.clone() }
    }
}

fn ipv4(addresses: &[IpNet]) -> Vec<Ipv4Net> {
    let v4 = |address: &IpNet| if let IpNet::V4(v4) = address { Some(*v4) } else { None };
    addresses.iter().filter_map(v4).collect()
}
