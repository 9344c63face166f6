//! The place of the VIPs: the interface. One task owns the datapath, so that what is put and removed keeps its order.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::Instant;

use super::Told;
use crate::core::event::{Event, Node};
use crate::core::lease::Participant;
use crate::core::time::Time;
use crate::datapath::link::current_name;
use crate::datapath::{Datapath, Error, Interface, KernelEvent, Kind, Vip};
use crate::ops::Ops;
use crate::ops::health::Heart;
use crate::ops::metrics::Netlink;
use crate::settings::Settings;

/// How often the kernel is asked something when nothing happens, to know that it answers.
const HEARTBEAT: Duration = Duration::from_secs(5);
/// How often an interface that is not there is looked for.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// How soon after an address or a link has changed the node is looked at: a DHCP client sets the route after the address.
const SETTLE: Duration = Duration::from_millis(500);
/// How often it is looked at anyway: routes change without a word.
const REFRESH: Duration = Duration::from_mins(1);

/// The VIPs that the core has let go: known to the place before its jobs' turn comes.
#[derive(Clone, Debug, Default)]
pub struct Dropped(Arc<Mutex<BTreeSet<IpAddr>>>);

impl Dropped {
    /// The core carries it, or has let it go.
    pub fn set(&self, address: IpAddr, dropped: bool) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if dropped {
            all.insert(address);
        } else {
            all.remove(&address);
        }
    }

    fn contains(&self, address: IpAddr) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).contains(&address)
    }
}

/// What the place is asked to do.
#[derive(Debug)]
pub enum Job {
    /// Have the VIP there, fenced.
    Put {
        /// The VIP.
        address: IpAddr,
        /// The end of its fence.
        until: Time,
    },
    /// Have it away.
    Remove {
        /// The VIP.
        address: IpAddr,
    },
    /// Look for the interface again, and tell what it is.
    Look,
    /// These are the VIPs now.
    Vips(Vec<IpAddr>),
    /// All jobs before this one are done when it is dropped.
    Flush(tokio::sync::oneshot::Sender<()>),
}

/// The task's state.
pub struct Place {
    settings: Arc<Settings>,
    datapath: Datapath,
    dropped: Dropped,
    interface: Option<Interface>,
    vips: BTreeSet<IpAddr>,
    put: BTreeSet<IpAddr>,
    told: mpsc::Sender<Told>,
    ops: Arc<Ops>,
    heart: Heart,
    complaint: String,
    /// What the driver was told of the node.
    known: Option<Node>,
    /// When the node is looked at again.
    refresh: Instant,
    /// VIPs that are an address of this node's own.
    own: BTreeSet<IpAddr>,
    /// Somebody else has put a VIP on an interface.
    given: bool,
}

impl Place {
    /// A place that has not been looked at yet.
    #[must_use]
    pub fn new(
        settings: Arc<Settings>,
        datapath: Datapath,
        dropped: Dropped,
        told: mpsc::Sender<Told>,
        ops: Arc<Ops>,
        heart: Heart,
    ) -> Self {
        let complaint = String::new();
        let (vips, put) = (BTreeSet::new(), BTreeSet::new());
        let own = BTreeSet::new();
        Self {
            settings,
            datapath,
            dropped,
            interface: None,
            vips,
            put,
            told,
            ops,
            heart,
            complaint,
            known: None,
            refresh: Instant::now(),
            own,
            given: false,
        }
    }

    /// Works until the driver is gone.
    pub async fn run(mut self, mut jobs: mpsc::Receiver<Job>, mut kernel: mpsc::Receiver<KernelEvent>) {
        self.look().await;
        loop {
            let pause = if self.interface.is_some() { HEARTBEAT } else { LOOK_AGAIN };
            tokio::select! {
                biased;
                job = jobs.recv() => match job {
                    Some(job) => self.work(job).await,
                    None => return,
                },
                event = kernel.recv() => match event {
                    Some(event) => self.happened(event).await,
                    None => return,
                },
                () = tokio::time::sleep_until(self.refresh) => self.refresh().await,
                () = tokio::time::sleep(pause) => match &self.interface {
                    None => self.look().await,
                    Some(_) => match self.datapath.own_macs().await {
                        Ok(_) => self.heart.beat(),
                        Err(_) => self.ops.metrics.netlink_error(Netlink::Dump),
                    },
                },
            }
        }
    }

    async fn tell(&self, event: Event) {
        // The driver's end: nothing is left to be told.
        let _ = self.told.send(Told::Event(event)).await;
    }

    async fn work(&mut self, job: Job) {
        match job {
            Job::Put { address, until } => self.put(address, until).await,
            Job::Remove { address } => {
                self.put.remove(&address);
                if let Err(error) = self.datapath.remove(address).await {
                    self.ops.metrics.netlink_error(Netlink::Remove);
                    tracing::error!(%address, %error, "the VIP could not be removed; its fence will");
                }
            }
            Job::Vips(vips) => {
                self.vips = vips.into_iter().collect();
                self.datapath.watch_addresses(self.vips.iter().copied());
                self.left_overs().await;
            }
            Job::Look => self.look().await,
            Job::Flush(done) => drop(done),
        }
        self.heart.beat();
    }

    async fn put(&mut self, address: IpAddr, until: Time) {
        // It was let go while this waited; the job that removes it comes next.
        if self.dropped.contains(address) {
            return;
        }
        let Some(index) = self.interface.as_ref().map(|i| i.index) else {
            let reason = "the interface is not there".to_owned();
            return self.tell(Event::PutFailed { address, reason }).await;
        };
        let vip = Vip { address, prefix: self.settings.prefix.of(address) };
        match self.datapath.put(vip, index, until).await {
            // A kernel that took its time: not for the removal's turn does a VIP that was let go stay.
            Ok(_) if self.dropped.contains(address) => self.remove_stray(address).await,
            Ok(_) => {
                self.put.insert(address);
                self.tell(Event::Put { address }).await;
            }
            Err(error) => {
                let again = self.put.remove(&address);
                self.ops.metrics.netlink_error(if again { Netlink::Refresh } else { Netlink::Add });
                self.tell(Event::PutFailed { address, reason: error.to_string() }).await;
            }
        }
    }

    async fn happened(&mut self, event: KernelEvent) {
        let current = self.interface.as_ref().map(|i| i.index);
        match event {
            KernelEvent::AddressGone { address, index }
                if Some(index) == current
                // Our own removal is such an event too.
                && self.put.remove(&address) =>
            {
                self.tell(Event::Gone { address }).await;
            }
            KernelEvent::NodeAddress { index } if Some(index) == current => self.soon(),
            // Somebody gave this node the VIP for good, or took it back.
            KernelEvent::AddressAdded { ours: false, .. } => {
                self.given = true;
                self.soon();
            }
            KernelEvent::AddressGone { address, .. } if self.own.contains(&address) => self.soon(),
            KernelEvent::Link { index, name, up, mac } => {
                // Its addresses come after it; and a new one's Ethernet address is the node's own.
                self.soon();
                let known = self.interface.as_ref().is_some_and(|i| i.index == index && Some(i.mac) == mac);
                let named = self.settings.interface.as_ref().is_none_or(|wanted| *wanted == name);
                if !known && (Some(index) == current || (current.is_none() && named)) {
                    self.look().await;
                } else if known {
                    self.link(up).await;
                }
            }
            // The node's own address, which stood in a VIP's way.
            KernelEvent::AddressGone { address, .. } if self.own.contains(&address) => self.soon(),
            KernelEvent::LinkGone { index, name } if Some(index) == current => {
                self.ops.readiness.set("interface", Some(format!("{name} is gone: waiting for it")));
                self.interface = None;
                self.known = None;
                self.put.clear();
                let _ = self.told.send(Told::Place(None)).await;
                self.tell(Event::Link { up: false }).await;
            }
            KernelEvent::Resync => {
                self.ops.metrics.netlink_error(Netlink::Subscribe);
                self.resync().await;
            }
            _ => {}
        }
    }

    async fn link(&mut self, up: bool) {
        let Some(interface) = self.interface.as_mut().filter(|i| i.up != up) else { return };
        interface.up = up;
        tracing::info!(interface = %interface.name, up, "link");
        self.tell(Event::Link { up }).await;
    }

    /// Events were lost: what should be there is looked for.
    async fn resync(&mut self) {
        self.look().await;
        for address in self.put.clone() {
            let there = self.datapath.find(address).await;
            let gone = there.is_ok_and(|found| !found.iter().any(|f| matches!(f.kind, Kind::Ours { .. })));
            if gone && self.put.remove(&address) {
                self.tell(Event::Gone { address }).await;
            }
        }
    }

    /// Finds the interface, and tells the driver what it and the node look like.
    async fn look(&mut self) {
        let (found, node) = match self.see(self.settings.interface.as_deref()).await {
            Ok(seen) => seen,
            Err(error) => {
                self.complain(&error);
                return;
            }
        };
        self.complaint.clear();
        self.ops.readiness.set("interface", None);
        let up = found.up;
        tracing::info!(interface = %found.name, index = found.index, mac = %found.mac, up, "interface found");
        self.interface = Some(found.clone());
        self.left_overs().await;
        let _ = self.told.send(Told::Place(Some(found))).await;
        self.known = Some(node.clone());
        self.tell(Event::Node(node)).await;
        self.tell(Event::Link { up }).await;
        self.heart.beat();
    }

    /// The interface, and what is to be told of the node.
    async fn see(&self, name: Option<&str>) -> Result<(Interface, Node), Error> {
        let found = self.datapath.interface(name).await?;
        let macs = self.datapath.own_macs().await?;
        let first = |v4: bool| found.addresses.iter().map(ipnet::IpNet::addr).find(|a| a.is_ipv4() == v4);
        let addresses = first(true).into_iter().chain(first(false)).collect();
        let participant = Participant { macs: vec![found.mac], addresses };
        let node = Node { participant, macs, gateways: found.gateways.clone() };
        Ok((found, node))
    }

    fn soon(&mut self) {
        self.refresh = self.refresh.min(Instant::now() + SETTLE);
    }

    /// What the node has beside the link may have changed: addresses, gateways, other interfaces. The driver is told if so.
    async fn refresh(&mut self) {
        self.refresh = Instant::now() + REFRESH;
        let Some(known) = self.interface.clone() else { return };
        // Its name may be another one by now. An interface that is gone, or is another, is told of by an event.
        let Some(name) = current_name(known.index) else { return };
        let (found, node) = match self.see(Some(&name)).await {
            Ok(seen) => seen,
            Err(error) => {
                self.ops.metrics.netlink_error(Netlink::Dump);
                tracing::debug!(%error, "the node cannot be looked at");
                return;
            }
        };
        if found.index != known.index || found.mac != known.mac {
            return;
        }
        if std::mem::take(&mut self.given) || !self.own.is_empty() {
            self.left_overs().await;
        }
        let found = Interface { up: known.up, ..found };
        if found != known {
            tracing::info!(interface = %found.name, addresses = ?found.addresses, gateways = ?found.gateways, "the node has changed");
            self.interface = Some(found.clone());
            let _ = self.told.send(Told::Place(Some(found))).await;
        }
        if self.known.as_ref() != Some(&node) {
            self.known = Some(node.clone());
            self.tell(Event::Node(node)).await;
        }
    }

    fn complain(&mut self, error: &Error) {
        self.ops.readiness.set("interface", Some(error.to_string()));
        if error.category() != "interface" {
            self.ops.metrics.netlink_error(Netlink::Dump);
        }
        let text = error.to_string();
        if self.complaint != text {
            tracing::warn!(reason = text, "no interface to carry VIPs on; waiting for it");
            self.complaint = text;
        }
    }

    /// VIPs that stand there from before: ours are adopted, kube-vip's removed as it would do itself, the node's own refused.
    async fn left_overs(&mut self) {
        let Some(index) = self.interface.as_ref().map(|i| i.index) else { return };
        let (mut ours, mut own, mut refused) = (vec![], BTreeSet::new(), vec![]);
        for address in self.vips.clone() {
            let found = match self.datapath.find(address).await {
                Ok(found) => found,
                Err(error) => {
                    self.ops.metrics.netlink_error(Netlink::Dump);
                    tracing::error!(%address, %error, "cannot look for a left-over VIP");
                    continue;
                }
            };
            for found in found {
                match found.kind {
                    Kind::Ours { .. } if found.index == index => ours.push(address),
                    Kind::Ours { .. } => {
                        tracing::warn!(%address, interface = %found.interface, "removing the VIP from another interface");
                        self.remove_stray(address).await;
                    }
                    Kind::KubeVip => {
                        tracing::warn!(%address, interface = %found.interface, "removing a VIP that kube-vip left behind");
                        if let Err(error) = self.datapath.remove_kube_vip(address).await {
                            tracing::error!(%address, %error, "cannot remove it");
                        }
                    }
                    Kind::NodesOwn => {
                        refused.push(format!(
                            "{address} is this node's own permanent address on {} and will not be carried here: choose another VIP, or remove the address",
                            found.interface
                        ));
                        own.insert(address);
                    }
                    Kind::KubeProxy => tracing::info!(%address, "kube-proxy has the VIP too; it needs strictARP"),
                    Kind::Dynamic => {
                        tracing::warn!(%address, interface = %found.interface, "another program has the VIP on this node");
                    }
                }
            }
        }
        if own != self.own {
            for text in &refused {
                tracing::error!("{text}");
            }
            self.own.clone_from(&own);
            let _ = self.told.send(Told::Own(own)).await;
        }
        self.ops.readiness.set("address", (!refused.is_empty()).then(|| refused.join("; ")));
        let fresh: Vec<IpAddr> = ours.into_iter().filter(|a| !self.put.contains(a)).collect();
        if !fresh.is_empty() {
            tracing::info!(addresses = ?fresh, "found VIPs of an earlier run");
            self.put.extend(&fresh);
            self.tell(Event::LeftOver(fresh)).await;
        }
    }

    async fn remove_stray(&mut self, address: IpAddr) {
        if let Err(error) = self.datapath.remove(address).await {
            tracing::error!(%address, %error, "cannot remove it");
        }
    }
}
