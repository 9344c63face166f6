//! The segments that VIPs are on: one for each interface.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::core::evidence;
use crate::core::mac::Mac;
use crate::core::{NO_INTERFACE, Probe, Vip};
use crate::datapath::Interface;
use crate::ops::Ops;
use crate::ops::metrics::Form;
use crate::segment::{Counts, Error, Kind, Options, Segment, To};

/// The part of readiness that says that VIPs are carried and cannot be announced.
const NOT_ANNOUNCED: &str = "announcements";

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
        /// Whether it answers a probe.
        form: evidence::Form,
    },
    /// The listener of a segment has ended.
    Ended(Ended),
}

/// Which segment has ended: the interface may have another segment by the time that this is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    /// The interface's index.
    pub index: u32,
    /// The number of the segment.
    number: u64,
}

/// The open segments.
pub struct Segments {
    options: Options,
    ops: Arc<Ops>,
    open: BTreeMap<u32, Open>,
    wanted: BTreeSet<IpAddr>,
    frames: mpsc::Sender<Frame>,
    /// How many segments were opened.
    opened: u64,
    /// People were told that VIPs are not announced.
    told: bool,
}

/// An open segment.
struct Open {
    number: u64,
    interface: Interface,
    segment: Segment,
    /// The frames that the metrics have.
    counted: Counts,
    /// Its VIPs of IPv6 are carried and cannot be announced: it has no link-local address.
    is_silent: bool,
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
    /// No segment is open yet; `rate_limit`: frames a second on each segment.
    pub fn new(rate_limit: Option<u32>, ops: Arc<Ops>) -> (Self, mpsc::Receiver<Frame>) {
        let options = Options { frames_per_second: rate_limit };
        let (frames, receiver) = mpsc::channel(FRAMES);
        (
            Self { options, ops, open: BTreeMap::new(), wanted: BTreeSet::new(), frames, opened: 0, told: false },
            receiver,
        )
    }

    /// Sets the interfaces. Unchanged interfaces keep their segment.
    pub fn set(&mut self, interfaces: &[Interface]) {
        self.open.retain(|index, Open { interface: known, .. }| {
            let now = interfaces.iter().find(|one| one.index == *index);
            now.is_some_and(|now| (now.mac, now.link_local, &now.name) == (known.mac, known.link_local, &known.name))
        });
        for Open { interface: known, segment, .. } in self.open.values_mut() {
            let now = interfaces.iter().find(|one| one.index == known.index);
            if let Some(now) = now.filter(|now| now.addresses != known.addresses) {
                segment.ask_as(&now.addresses);
                known.addresses.clone_from(&now.addresses);
            }
        }
        let there = interfaces.iter().filter(|one| one.exists() && !self.open.contains_key(&one.index));
        for interface in there.collect::<Vec<_>>() {
            match Segment::open(interface, self.options) {
                Ok((segment, mut heard)) => {
                    segment.listen_for(self.wanted.iter().copied());
                    self.opened += 1;
                    let (index, number, frames) = (interface.index, self.opened, self.frames.clone());
                    let listener = tokio::spawn(async move {
                        while let Some((_, heard)) = heard.recv().await {
                            let frame =
                                Frame::Heard { index, address: heard.address, mac: heard.mac, form: heard.form };
                            if frames.send(frame).await.is_err() {
                                return;
                            }
                        }
                        let _ = frames.send(Frame::Ended(Ended { index, number })).await;
                    });
                    let interface = interface.clone();
                    let open =
                        Open { number, interface, segment, counted: Counts::default(), is_silent: false, listener };
                    self.open.insert(index, open);
                }
                Err(error) => {
                    tracing::error!(interface = %interface.name, %error, "sockets of the segment cannot be opened: VIPs are not announced on it");
                }
            }
        }
        if self.told && !self.open.values().any(|open| open.is_silent) {
            self.told = false;
            self.ops.readiness.set(NOT_ANNOUNCED, None);
        }
    }

    /// Closes a segment whose listener has ended. False: the interface has another segment by now, or none.
    pub fn close(&mut self, ended: Ended) -> bool {
        let is_open = self.open.get(&ended.index).is_some_and(|open| open.number == ended.number);
        is_open && self.open.remove(&ended.index).is_some()
    }

    /// Whether the interface needs no other segment: it has one, or there is no such interface.
    pub fn is_open(&self, index: u32) -> bool {
        index == NO_INTERFACE || self.open.contains_key(&index)
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

    /// Withdraws all waiting announcements: the agent stood still, and other nodes may have the VIPs by now.
    pub fn withdraw_all(&self) {
        for Open { segment, .. } in self.open.values() {
            segment.withdraw_all();
        }
    }

    /// Announces VIPs, each on its interface.
    pub fn announce(&mut self, these: &[Vip]) {
        for Vip { address, interface } in these {
            let Some(open) = self.open.get_mut(interface) else { continue };
            match open.segment.announce(*address) {
                Err(error @ Error::NoIpv6 { .. }) if !open.is_silent => {
                    (open.is_silent, self.told) = (true, true);
                    tracing::warn!(%error, "the VIP is carried here, and cannot be announced: other hosts may not find it");
                    self.ops.readiness.set(NOT_ANNOUNCED, Some(format!("cannot be announced: {error}")));
                }
                Err(error) => tracing::debug!(%error, "a frame was not sent"),
                Ok(()) => {}
            }
        }
        self.count();
    }

    /// Asks for addresses, each on its interface.
    pub fn probe(&mut self, these: &[Probe]) {
        for ask in these {
            let Some(Open { segment, .. }) = self.open.get(&ask.interface) else { continue };
            if let Err(error) = segment.probe(ask.address, ask.to.map_or(To::Broadcast, To::Unicast), ask.sender) {
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use nix::sched::{CloneFlags, unshare};
    use rtnetlink::{Handle, LinkVeth};

    use super::*;
    use crate::ops;

    /// A virtual cable, of which one end has this index.
    async fn plug(handle: &Handle, index: u32) {
        let mut link = LinkVeth::new("va", "vb").build();
        link.header.index = index;
        handle.link().add(link).execute().await.unwrap();
    }

    fn va() -> Interface {
        Interface {
            index: 77,
            name: "va".into(),
            altnames: vec![],
            mac: Mac([2, 0, 0, 0, 0, 1]),
            ports: vec![],
            port_of: None,
            up: true,
            addresses: vec![],
            before_own: vec![],
            link_local: None,
            gateways: vec![],
        }
    }

    /// An interface without a link-local address (`addr_gen_mode none`, say) gets one later.
    async fn a_vip_that_cannot_be_announced() {
        let (connection, handle, _) = rtnetlink::new_connection().unwrap();
        tokio::spawn(connection);
        let ops = Ops::new(ops::boottime, "node");
        let (mut segments, _frames) = Segments::new(None, ops.clone());
        plug(&handle, 77).await;
        segments.set(&[va()]);
        let waits = || ops.readiness.waits().into_iter().filter(|text| text.contains("link-local")).count();
        segments.announce(&[Vip { address: "192.0.2.7".parse().unwrap(), interface: 77 }]);
        assert_eq!(waits(), 0);
        let vip = Vip { address: "2001:db8::7".parse().unwrap(), interface: 77 };
        segments.announce(&[vip]);
        assert_eq!(waits(), 1);
        segments.set(&[Interface { link_local: "fe80::1".parse().ok(), ..va() }]);
        segments.announce(&[vip]);
        assert_eq!(waits(), 0);
    }

    /// An interface goes, and another one with its index comes, before the event loop has heard of the end of the first segment.
    async fn a_stale_end() {
        let (connection, handle, _) = rtnetlink::new_connection().unwrap();
        tokio::spawn(connection);
        let (mut segments, mut frames) = Segments::new(None, Ops::new(ops::boottime, "node"));
        let mut interface = va();
        plug(&handle, 77).await;
        segments.set(std::slice::from_ref(&interface));
        handle.link().del(77).execute().await.unwrap();
        let end = tokio::time::timeout(Duration::from_secs(20), frames.recv()).await.unwrap();
        let Some(Frame::Ended(ended)) = end else { panic!("no end of the segment") };
        plug(&handle, 77).await;
        interface.mac = Mac([2, 0, 0, 0, 0, 2]);
        segments.set(&[interface]);
        segments.close(ended);
        assert!(segments.is_open(77));
    }

    /// Runs a test in a network namespace of its own.
    fn alone(test: impl Future<Output = ()> + Send + 'static) {
        let test = std::thread::spawn(|| {
            if let Err(error) = unshare(CloneFlags::CLONE_NEWNET) {
                return eprintln!("SKIPPED: no network namespace ({error}); run as root, or under `unshare -rn`");
            }
            tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(test);
        });
        test.join().unwrap();
    }

    #[test]
    fn the_end_of_a_segment_does_not_close_the_next_one() {
        alone(a_stale_end());
    }

    #[test]
    fn a_vip_that_is_carried_and_cannot_be_announced_is_told() {
        alone(a_vip_that_cannot_be_announced());
    }
}
