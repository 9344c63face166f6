//! The thread's loop: jobs, kernel events, and the scheduled looks at the node.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::Instant;

use super::by_route::ByRoute;
use super::kernel::Kernel;
use super::left_overs::LeftOvers;
use super::removal::Removals;
use super::{Job, LetGo, Needs, Notice, Policy};
use crate::core::mac::Mac;
use crate::datapath::{Datapath, Error, Interface, KernelEvent, Options};
use crate::ops::Ops;
use crate::ops::health::Heart;
use crate::ops::metrics::Netlink;

/// How often the task sends the kernel a request when nothing happens, to check that the kernel answers.
const HEARTBEAT: Duration = Duration::from_secs(5);
/// How often the task looks for interfaces while there is none.
pub(super) const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// The thread's state.
pub(super) struct Task<K = Datapath> {
    pub(super) datapath: K,
    pub(super) policy: Policy,
    pub(super) let_go: LetGo,
    /// The VIPs that are on an interface, with its index.
    pub(super) put: BTreeMap<IpAddr, u32>,
    /// VIPs of Services that another program has put on this node: they were refused, and the end of that is reported.
    pub(super) strangers: BTreeSet<IpAddr>,
    pub(super) notices: mpsc::Sender<Notice>,
    pub(super) ops: Arc<Ops>,
    pub(super) heart: Heart,
    pub(super) needs: Needs,
    /// The interfaces and MAC addresses last reported to the event loop; None: they must be reported.
    pub(super) known: Option<(Vec<Interface>, Vec<Mac>)>,
    /// When the task next looks at the node.
    pub(super) refresh: Instant,
    pub(super) complaint: String,
    /// The names of the interfaces for VIPs of Services that the log last named.
    pub(super) named: Option<Vec<String>>,
    /// What people were told about interfaces that are ports.
    pub(super) ports: String,
    /// The first interface where the settings name none.
    pub(super) by_route: ByRoute,
    /// The last look for the control plane's interface failed: the next look is a whole one again.
    pub(super) look_failed: bool,
    /// The addresses are to be looked at: kernel events were lost, or one that should not be there could not be removed.
    pub(super) look_for_strays: bool,
    pub(super) left_overs: LeftOvers,
    pub(super) removals: Removals,
    /// VIPs that were put behind the interface's own addresses: the kernel is about to tell that they are gone.
    pub(super) moved: BTreeSet<(IpAddr, u32)>,
}

impl Task {
    pub(super) fn open(
        options: &Options,
        policy: Policy,
        needs: Needs,
        let_go: LetGo,
        notices: mpsc::Sender<Notice>,
        ops: Arc<Ops>,
        heart: Heart,
    ) -> Result<(Self, mpsc::Receiver<KernelEvent>), Error> {
        let (datapath, kernel) = Datapath::open_with(options)?;
        Ok((Self::new(datapath, policy, needs, let_go, notices, ops, heart), kernel))
    }
}

impl<K: Kernel> Task<K> {
    pub(super) fn new(
        datapath: K,
        policy: Policy,
        needs: Needs,
        let_go: LetGo,
        notices: mpsc::Sender<Notice>,
        ops: Arc<Ops>,
        heart: Heart,
    ) -> Self {
        Self {
            datapath,
            policy,
            let_go,
            put: BTreeMap::new(),
            strangers: BTreeSet::new(),
            notices,
            ops,
            heart,
            needs,
            known: None,
            refresh: Instant::now(),
            complaint: String::new(),
            named: None,
            ports: String::new(),
            by_route: ByRoute::default(),
            look_failed: false,
            look_for_strays: false,
            left_overs: LeftOvers::default(),
            removals: Removals::default(),
            moved: BTreeSet::new(),
        }
    }

    /// Works until the event loop is gone.
    pub(super) async fn run(mut self, mut jobs: mpsc::UnboundedReceiver<Job>, mut kernel: mpsc::Receiver<KernelEvent>) {
        self.look().await;
        let mut beat = Instant::now() + HEARTBEAT;
        loop {
            let again = self.removals.next();
            // Jobs may come without end.
            if beat <= Instant::now() {
                beat = Instant::now() + HEARTBEAT;
                self.check_kernel().await;
            }
            tokio::select! {
                // The timers come before the kernel's events, of which there may always be another.
                biased;
                job = jobs.recv() => match job {
                    Some(job) => self.work(job).await,
                    None => return,
                },
                () = tokio::time::sleep_until(again.unwrap_or(beat)), if again.is_some() => self.remove_again().await,
                () = tokio::time::sleep_until(self.refresh) => self.look_again().await,
                () = tokio::time::sleep_until(beat) => {}
                event = kernel.recv() => match event {
                    Some(event) => self.happened(event).await,
                    None => return,
                },
            }
        }
    }

    pub(super) async fn tell(&self, notice: Notice) {
        // An error means that the event loop has ended: no receiver is left.
        let _ = self.notices.send(notice).await;
    }

    async fn work(&mut self, job: Job) {
        match job {
            Job::Ensure { vips, deadline } => self.ensure(vips, deadline).await,
            Job::Remove(addresses) => {
                for address in &addresses {
                    self.put.remove(address);
                }
                self.remove(&addresses).await;
            }
            Job::Needs(needs) => {
                self.needs = needs;
                self.needs_changed().await;
            }
            Job::Look => self.look_anew().await,
            Job::Flush(done) => drop(done),
        }
    }

    /// The task is alive as long as the kernel answers it.
    async fn check_kernel(&mut self) {
        match self.datapath.own_macs().await {
            Ok(_) => self.heart.beat(),
            Err(_) => self.ops.metrics.netlink_error(Netlink::Dump),
        }
    }

    async fn happened(&mut self, event: KernelEvent) {
        let one = self.policy.has_one_interface();
        match event {
            KernelEvent::AddressGone { address, index } if self.was_moved(address, index) => {}
            KernelEvent::AddressGone { address, index } => {
                self.removals.hurry(address);
                // Our own removal also causes this event.
                if self.put.get(&address) == Some(&index) {
                    self.put.remove(&address);
                    self.tell(Notice::Gone(address)).await;
                } else if self.strangers.remove(&address) {
                    self.soon();
                    self.tell(Notice::Gone(address)).await;
                } else if self.left_overs.own.contains(&address) {
                    // The node's own address, which was in a VIP's way, is gone.
                    self.soon();
                }
            }
            // Another program gave this node a VIP for good, or took the VIP back.
            KernelEvent::AddressAdded { ours: false, .. } if one => {
                self.left_overs.given = true;
                self.soon();
            }
            KernelEvent::AddressAdded { .. } => {}
            KernelEvent::NodeAddress { index } => {
                if !one || self.needs.first.is_none() || self.current() == Some(index) {
                    self.soon();
                }
            }
            KernelEvent::Link { index, name, up, mac } => self.link(index, &name, up, mac).await,
            KernelEvent::LinkGone { index, name } => {
                if !one {
                    self.tell(Notice::Link { interface: index, up: false }).await;
                    self.look().await;
                } else if self.current() == Some(index) {
                    self.only_interface_gone(&name).await;
                }
            }
            KernelEvent::Resync => {
                self.moved.clear();
                self.ops.metrics.netlink_error(Netlink::Subscribe);
                self.look_for_strays = true;
                self.look().await;
                self.resync().await;
            }
        }
    }

    async fn link(&mut self, index: u32, name: &str, up: bool, mac: Option<Mac>) {
        // The addresses of a new link come after the link; and the Ethernet address of a new link is the node's own.
        self.soon();
        let known = self.known.as_mut().and_then(|(all, _)| all.iter_mut().find(|one| one.index == index));
        if let Some(known) = known.filter(|known| Some(known.mac) == mac) {
            if known.up != up {
                known.up = up;
                let state = if up { "link up" } else { "link down" };
                tracing::info!(interface = %known.name, up, "{state}");
                self.tell(Notice::Link { interface: index, up }).await;
            }
        } else if self.policy.has_one_interface() {
            let current = self.current();
            let wanted = self.needs.first.as_ref().is_none_or(|wanted| wanted == name);
            if current == Some(index) || (current.is_none() && wanted) {
                self.look().await;
            }
        }
    }

    /// Events were lost: check which addresses are still there, and which should not be.
    pub(super) async fn resync(&mut self) {
        let ours = match self.datapath.ours().await {
            Ok(ours) => ours,
            Err(error) => {
                self.refresh = self.refresh.min(Instant::now() + LOOK_AGAIN);
                return tracing::warn!(%error, "kernel events were lost, and addresses of the interfaces cannot be read: a VIP that is gone may be noticed late");
            }
        };
        self.look_for_strays = false;
        let there: BTreeSet<IpAddr> = ours.iter().map(|(vip, _)| vip.address).collect();
        let gone: Vec<IpAddr> = self.put.keys().filter(|address| !there.contains(address)).copied().collect();
        for address in gone {
            self.put.remove(&address);
            self.tell(Notice::Gone(address)).await;
        }
        self.remove_strays(&ours).await;
    }

    pub(super) fn soon(&mut self) {
        self.refresh = self.refresh.min(Instant::now() + self.policy.settle());
    }

    /// The first interface.
    pub(super) fn current(&self) -> Option<u32> {
        self.known.as_ref().and_then(|(all, _)| all.first()).map(|one| one.index)
    }
}

/// What people are to be told, unless they were told the same last. None: nothing is wrong any more.
pub(super) fn news<'a>(told: &mut String, text: Option<&'a str>) -> Option<&'a str> {
    let new = text.filter(|text| told != text);
    text.unwrap_or_default().clone_into(told);
    new
}
