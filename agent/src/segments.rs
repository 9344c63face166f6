//! The segments that VIPs are on: one for each interface.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::core::mac::Mac;
use crate::core::{Probe, Vip};
use crate::datapath::Interface;
use crate::ops::Ops;
use crate::ops::metrics::Form;
use crate::segment::{Counts, Kind, Options, Segment, To};

/// How many frames may wait for the loop.
const FRAMES: usize = 256;

/// What was heard.
pub enum Frame {
    /// A frame, on the interface with that index.
    Heard {
        /// The interface.
        index: u32,
        /// About which address.
        address: IpAddr,
        /// Of whom.
        mac: Mac,
    },
    /// The listener has ended.
    Ended(u32),
}

/// The open segments.
pub struct Segments {
    options: Options,
    ops: Arc<Ops>,
    open: BTreeMap<u32, Open>,
    wanted: BTreeSet<IpAddr>,
    frames: mpsc::Sender<Frame>,
}

/// An open segment.
struct Open {
    interface: Interface,
    segment: Segment,
    /// The frames that the metrics have.
    counted: Counts,
    /// Hands frames on.
    listener: JoinHandle<()>,
}

impl Drop for Open {
    /// Frames from the listener of a closed segment must not count for the next segment on that interface.
    fn drop(&mut self) {
        self.listener.abort();
    }
}

impl Segments {
    /// No segment is open yet; `rate_limit`: announced frames a second on each segment.
    pub fn new(rate_limit: Option<u32>, ops: Arc<Ops>) -> (Self, mpsc::Receiver<Frame>) {
        let options = Options { frames_per_second: rate_limit };
        let (frames, receiver) = mpsc::channel(FRAMES);
        (Self { options, ops, open: BTreeMap::new(), wanted: BTreeSet::new(), frames }, receiver)
    }

    /// Sets the interfaces. Unchanged interfaces keep their segment.
    pub fn set(&mut self, interfaces: &[Interface]) {
        self.open.retain(|index, Open { interface: known, .. }| {
            let now = interfaces.iter().find(|one| one.index == *index);
            now.is_some_and(|now| (now.mac, now.link_local, &now.name) == (known.mac, known.link_local, &known.name))
        });
        for interface in interfaces.iter().filter(|one| !self.open.contains_key(&one.index)).collect::<Vec<_>>() {
            match Segment::open(interface, self.options) {
                Ok((segment, mut heard)) => {
                    segment.listen_for(self.wanted.iter().copied());
                    let (index, frames) = (interface.index, self.frames.clone());
                    let listener = tokio::spawn(async move {
                        while let Some((_, heard)) = heard.recv().await {
                            let frame = Frame::Heard { index, address: heard.address, mac: heard.mac };
                            if frames.send(frame).await.is_err() {
                                return;
                            }
                        }
                        let _ = frames.send(Frame::Ended(index)).await;
                    });
                    let interface = interface.clone();
                    let open = Open { interface, segment, counted: Counts::default(), listener };
                    self.open.insert(index, open);
                }
                Err(error) => {
                    tracing::error!(interface = %interface.name, %error, "sockets of the segment cannot be opened: VIPs are not announced on it");
                }
            }
        }
    }

    /// Closes a segment whose listener has ended.
    pub fn close(&mut self, index: u32) {
        self.open.remove(&index);
    }

    /// Whether a segment is open.
    pub fn is_open(&self, index: u32) -> bool {
        self.open.contains_key(&index)
    }

    /// From now on frames about these addresses are heard.
    pub fn listen_for(&mut self, wanted: BTreeSet<IpAddr>) {
        if wanted != self.wanted {
            for Open { segment, .. } in self.open.values() {
                segment.listen_for(wanted.iter().copied());
            }
            self.wanted = wanted;
        }
    }

    /// Withdraws waiting announcements: none may leave after the VIP is gone.
    pub fn withdraw(&self, address: IpAddr) {
        for Open { segment, .. } in self.open.values() {
            segment.withdraw(address);
        }
    }

    /// Announces VIPs, each on its interface.
    pub fn announce(&mut self, these: &[Vip]) {
        for Vip { address, interface } in these {
            let Some(Open { segment, .. }) = self.open.get(interface) else { continue };
            if let Err(error) = segment.announce(*address) {
                tracing::debug!(%error, "a frame was not sent");
            }
        }
        self.count();
    }

    /// Asks for addresses, each on its interface.
    pub fn probe(&mut self, these: &[Probe]) {
        for ask in these {
            let Some(Open { segment, .. }) = self.open.get(&ask.interface) else { continue };
            if let Err(error) = segment.probe(ask.address, ask.to.map_or(To::Broadcast, To::Unicast)) {
                tracing::debug!(%error, "a frame was not sent");
            }
        }
        self.count();
    }

    /// Frames that waited for the limit are counted with the next ones.
    fn count(&mut self) {
        let forms = [
            (Kind::ArpRequest, Form::ArpRequest),
            (Kind::ArpReply, Form::ArpReply),
            (Kind::Advertisement, Form::NeighborAdvertisement),
        ];
        for Open { segment, counted, .. } in self.open.values_mut() {
            let counts = segment.counts();
            for (kind, form) in forms {
                let new = counts.sent(kind).saturating_sub(counted.sent(kind));
                if new > 0 {
                    self.ops.metrics.announced(form, new);
                }
            }
            *counted = counts;
        }
    }
}
