//! The segment: announces addresses (ARP, neighbour discovery), probes for their owners, and hears claims of other
//! hosts.

mod announcer;
pub mod error;
pub mod frame;
pub mod hear;
mod listener;
mod pace;
mod socket;

use std::io::Write;
use std::net::IpAddr;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, PoisonError};

use ipnet::IpNet;
use tokio::sync::mpsc;

pub use self::announcer::{Counts, To};
pub use self::error::{Error, Kind};
pub use self::hear::Heard;
pub use crate::core::evidence::{Form, Sender};

use self::announcer::Announcer;
use self::listener::{Listener, Wanted};
use crate::core::time::Time;
use crate::datapath::Interface;

/// How many frames may wait for the event loop before more are dropped (and counted).
const HEARD: usize = 256;

/// The listener's stack, in bytes. It needs a frame and a few calls.
const STACK: usize = 128 * 1024;

/// Options for opening a segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// At most so many frames in any one second; `None` is no limit. An IPv4 announcement is two frames. Announcements wait;
    /// probes must not wait, but they count: announcements wait for them too. The cores probe less often under a limit.
    pub frames_per_second: Option<u32>,
}

/// One interface's sockets. Nothing here blocks. Dropping it ends the thread that listens.
pub struct Segment {
    announcer: Arc<Announcer>,
    wanted: Wanted,
    /// Bytes wake the listener; closing the stream ends the listener.
    wake: UnixStream,
}

impl Segment {
    /// Opens the segment: a socket for ARP and, on an interface with an IPv6 link-local address, one for neighbour
    /// discovery.
    ///
    /// Index, MAC address and link-local address are those of `interface`: when they change, open another. An
    /// interface that goes down and up keeps its segment. The receiver ends when the interface is gone for good (at
    /// the latest half a second after), or its sockets broke.
    pub fn open(interface: &Interface, options: Options) -> Result<(Self, mpsc::Receiver<(Time, Heard)>), Error> {
        let arp = socket::arp(interface)?;
        let ndp = interface.link_local.map(|_| socket::ndp(interface)).transpose()?;
        let mut sockets = vec![arp.reader];
        let ndp = ndp.map(|open| {
            sockets.push(open.reader);
            open.sender
        });
        let pair = || -> std::io::Result<_> {
            let (wake, woken) = UnixStream::pair()?;
            wake.set_nonblocking(true)?;
            woken.set_nonblocking(true)?;
            Ok((wake, woken))
        };
        let (wake, woken) = pair().map_err(socket::failed("a pipe to the listener", interface))?;
        let announcer = Arc::new(Announcer::new(interface, options.frames_per_second, arp.sender, ndp));
        let wanted = Wanted::default();
        let (events, receiver) = mpsc::channel(HEARD);
        let listener = Listener {
            name: interface.name.clone(),
            index: interface.index,
            sockets,
            wake: woken,
            wanted: Arc::clone(&wanted),
            announcer: Arc::clone(&announcer),
            events,
        };
        std::thread::Builder::new()
            .name("segment".into())
            .stack_size(STACK)
            .spawn(|| listener.run())
            .map_err(socket::failed("the listener's thread", interface))?;
        Ok((Self { announcer, wanted, wake }, receiver))
    }

    /// From now on, frames about these addresses are delivered, and no others. Frames from the interface itself are
    /// never heard; frames from another interface of the node on the same segment are.
    pub fn listen_for(&self, addresses: impl IntoIterator<Item = IpAddr>) {
        let addresses = addresses.into_iter().collect();
        *self.wanted.lock().unwrap_or_else(PoisonError::into_inner) = addresses;
    }

    /// Tells everybody that `address` is here: ARP request and reply form, or an unsolicited advertisement; at once,
    /// or when the limit allows. An error is about a frame that was tried now, of this address or one queued before.
    pub fn announce(&self, address: IpAddr) -> Result<(), Error> {
        self.announcer.queue(address)?;
        let sent = self.announcer.send_queued();
        if !matches!(sent, Ok(None)) {
            self.wake();
        }
        sent.map(drop)
    }

    fn wake(&self) {
        match (&self.wake).write(&[1]) {
            // Full: the listener is being woken already. Closed: the listener has ended, and the receiver reports this.
            Ok(_) | Err(_) => {}
        }
    }

    /// Withdraws the announcements of `address` that wait for the limit. After this call none leaves.
    pub fn withdraw(&self, address: IpAddr) {
        self.announcer.forget(address);
    }

    /// Withdraws all announcements that wait for the limit.
    pub fn withdraw_all(&self) {
        self.announcer.forget_all();
    }

    /// Asks which host has `address`, at once and without regard to the limit. On an interface without an IPv4 address, ARP asks as
    /// 0.0.0.0 whatever `sender` says. The answer arrives as [`Form::Answer`],
    /// if the agent listens for the address.
    pub fn probe(&self, address: IpAddr, to: To, sender: Sender) -> Result<(), Error> {
        self.announcer.probe(address, to, sender).inspect_err(|_| self.wake())
    }

    /// The interface has these addresses of its own now: [`Sender::Own`] asks as one of them.
    pub fn ask_as(&self, addresses: &[IpNet]) {
        self.announcer.ask_as(addresses);
    }

    /// What was sent and heard since the segment was opened.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.announcer.counts()
    }
}
