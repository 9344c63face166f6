//! The segments that VIPs are on: one for each interface.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use tokio::sync::mpsc;

use crate::core::fleet::Ask;
use crate::core::mac::Mac;
use crate::datapath::Interface;
use crate::ops::Ops;
use crate::ops::metrics::Form;
use crate::segment::{self, Counts, Kind, Segment, To};

/// Frames that may wait for the loop.
const FRAMES: usize = 256;

/// What was heard.
pub(super) enum Frame {
    /// A frame, on the interface with that index.
    Heard {
        /// The interface.
        index: u32,
        /// About which address.
        address: IpAddr,
        /// Of whom.
        mac: Mac,
    },
    /// Nobody listens on it any more.
    Ended(u32),
}

/// See the module's text.
pub(super) struct Segments {
    options: segment::Options,
    ops: Arc<Ops>,
    open: BTreeMap<u32, (Interface, Segment, Counts)>,
    wanted: BTreeSet<IpAddr>,
    frames: mpsc::Sender<Frame>,
}

impl Segments {
    pub(super) fn new(options: segment::Options, ops: Arc<Ops>) -> (Self, mpsc::Receiver<Frame>) {
        let (frames, receiver) = mpsc::channel(FRAMES);
        (Self { options, ops, open: BTreeMap::new(), wanted: BTreeSet::new(), frames }, receiver)
    }

    /// The interfaces are these now. Those that are as they were keep their segment. False: not all could be opened.
    pub(super) fn set(&mut self, interfaces: &[Interface]) -> bool {
        self.open.retain(|index, (known, ..)| {
            let now = interfaces.iter().find(|one| one.index == *index);
            now.is_some_and(|now| (now.mac, now.link_local, &now.name) == (known.mac, known.link_local, &known.name))
        });
        let mut all = true;
        for interface in interfaces.iter().filter(|one| !self.open.contains_key(&one.index)).collect::<Vec<_>>() {
            match Segment::open(interface, self.options) {
                Ok((segment, mut heard)) => {
                    segment.listen_for(self.wanted.iter().copied());
                    let (index, frames) = (interface.index, self.frames.clone());
                    tokio::spawn(async move {
                        while let Some((_, heard)) = heard.recv().await {
                            let frame = Frame::Heard { index, address: heard.address, mac: heard.mac };
                            if frames.send(frame).await.is_err() {
                                return;
                            }
                        }
                        let _ = frames.send(Frame::Ended(index)).await;
                    });
                    self.open.insert(interface.index, (interface.clone(), segment, Counts::default()));
                }
                Err(error) => {
                    all = false;
                    tracing::error!(interface = %interface.name, %error, "cannot speak on the segment: VIPs are not announced");
                }
            }
        }
        all
    }

    /// Whether one is open.
    pub(super) fn is_open(&self, index: u32) -> bool {
        self.open.contains_key(&index)
    }

    /// From now on frames about these are heard.
    pub(super) fn listen_for(&mut self, wanted: BTreeSet<IpAddr>) {
        if wanted != self.wanted {
            for (_, segment, _) in self.open.values() {
                segment.listen_for(wanted.iter().copied());
            }
            self.wanted = wanted;
        }
    }

    /// An announcement that waits for the limit must not leave after the VIP has gone.
    pub(super) fn withdraw(&self, address: IpAddr) {
        for (_, segment, _) in self.open.values() {
            segment.withdraw(address);
        }
    }

    pub(super) fn announce(&mut self, these: &[(IpAddr, u32)]) {
        for (address, index) in these {
            let Some((_, segment, _)) = self.open.get(index) else { continue };
            if let Err(error) = segment.announce(*address) {
                tracing::debug!(%error, "a frame was not sent");
            }
        }
        self.count();
    }

    pub(super) fn probe(&self, these: &[Ask]) {
        for ask in these {
            let Some((_, segment, _)) = self.open.get(&ask.index) else { continue };
            if let Err(error) = segment.probe(ask.address, ask.to.map_or(To::Broadcast, To::Unicast)) {
                tracing::debug!(%error, "a frame was not sent");
            }
        }
    }

    fn count(&mut self) {
        let forms = [
            (Kind::ArpRequest, Form::ArpRequest),
            (Kind::ArpReply, Form::ArpReply),
            (Kind::Advertisement, Form::NeighborAdvertisement),
        ];
        for (_, segment, counted) in self.open.values_mut() {
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
