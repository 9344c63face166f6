//! The place of the VIPs: addresses on interfaces, in batches. It has a thread of its own: the kernel's lock may be held, and a
//! thousand addresses take it some ten milliseconds, in which the loop must hear and answer.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::Instant;

use super::Told;
use crate::core::fleet::Event;
use crate::core::mac::Mac;
use crate::core::placement::{Demand, Interface as Where};
use crate::core::time::Time;
use crate::datapath::{Datapath, Error, Interface, KernelEvent, Options, Placed, Whose};
use crate::ops::Ops;
use crate::ops::health::Heart;
use crate::ops::metrics::Netlink;

/// How often the kernel is asked something when nothing happens.
const HEARTBEAT: Duration = Duration::from_secs(5);
/// How often the interfaces are looked at when nothing tells that they have changed.
const REFRESH: Duration = Duration::from_secs(30);
/// How often they are looked for while there is none.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// How soon after an address or a link has changed: a DHCP client sets the route after the address.
const SETTLE: Duration = Duration::from_millis(200);
/// The thread's stack, in bytes.
const STACK: usize = 512 * 1024;

/// What the place is asked to do.
#[derive(Debug)]
pub(super) enum Job {
    /// Have the VIPs there, fenced.
    Put {
        /// Which, and on which interface.
        these: Vec<Placed>,
        /// The end of their fence.
        until: Time,
    },
    /// Have them away.
    Remove(Vec<IpAddr>),
    /// VIPs need these interfaces.
    Needs(Needs),
    /// Look for the interfaces again, and tell what they are.
    Look,
    /// All jobs before this one are done when it is dropped.
    Flush(tokio::sync::oneshot::Sender<()>),
}

/// The interfaces that VIPs need.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Needs {
    /// The first one; None: that of the default route.
    pub(super) first: Option<String>,
    /// Those that are named.
    pub(super) named: BTreeSet<String>,
    /// VIPs that belong on the interface whose subnet has them.
    pub(super) by_subnet: BTreeSet<IpAddr>,
}

impl Needs {
    /// Of these VIPs; `first`: the first interface.
    pub(super) fn of<'a>(first: Option<String>, demands: impl Iterator<Item = &'a Demand>) -> Self {
        let mut needs = Self { first, ..Self::default() };
        for demand in demands {
            match &demand.interface {
                Where::First => {}
                Where::Named(name) => {
                    needs.named.insert(name.clone());
                }
                Where::Subnet => {
                    needs.by_subnet.insert(demand.address);
                }
            }
        }
        needs
    }
}

/// VIPs that were let go after a job to put them there was sent.
#[derive(Clone, Debug, Default)]
pub(super) struct Dropped(Arc<Mutex<BTreeSet<IpAddr>>>);

impl Dropped {
    pub(super) fn set(&self, addresses: impl IntoIterator<Item = IpAddr>, dropped: bool) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for address in addresses {
            if dropped {
                all.insert(address);
            } else {
                all.remove(&address);
            }
        }
    }

    fn of(&self, addresses: impl IntoIterator<Item = IpAddr>) -> Vec<IpAddr> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        addresses.into_iter().filter(|address| all.contains(address)).collect()
    }
}

/// The thread's state.
struct Place {
    datapath: Datapath,
    dropped: Dropped,
    put: BTreeMap<IpAddr, u32>,
    told: mpsc::Sender<Told>,
    ops: Arc<Ops>,
    heart: Heart,
    needs: Needs,
    known: Option<(Vec<Interface>, Vec<Mac>)>,
    refresh: Instant,
    complaint: String,
    left_overs: bool,
}

/// Starts the thread. It ends when the sender of jobs is gone.
pub(super) fn start(
    run_dir: &std::path::Path,
    needs: Needs,
    dropped: Dropped,
    told: mpsc::Sender<Told>,
    ops: &Arc<Ops>,
    heart: Heart,
) -> std::io::Result<mpsc::UnboundedSender<Job>> {
    // The loop never waits for this thread, which may be waiting for the loop. There are as many jobs as the core has batches.
    let (jobs, work) = mpsc::unbounded_channel();
    let options = Options { run_dir: run_dir.to_owned(), whose: Whose::Services, ..Options::default() };
    let ops = ops.clone();
    std::thread::Builder::new().name("place".into()).stack_size(STACK).spawn(move || {
        let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
            Ok(runtime) => runtime,
            Err(error) => return tracing::error!(%error, "no runtime for the datapath: no VIP of a Service is carried"),
        };
        runtime.block_on(async move {
            let (datapath, kernel) = match Datapath::open_with(&options) {
                Ok(open) => open,
                Err(error) => return tracing::error!(%error, "no datapath: no VIP of a Service is carried"),
            };
            let place = Place {
                datapath,
                dropped,
                put: BTreeMap::new(),
                told,
                ops,
                heart,
                needs,
                known: None,
                refresh: Instant::now(),
                complaint: String::new(),
                left_overs: false,
            };
            place.run(work, kernel).await;
        });
    })?;
    Ok(jobs)
}

impl Place {
    async fn run(mut self, mut jobs: mpsc::UnboundedReceiver<Job>, mut kernel: mpsc::Receiver<KernelEvent>) {
        self.look().await;
        let mut beat = Instant::now() + HEARTBEAT;
        loop {
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
                () = tokio::time::sleep_until(self.refresh) => self.look().await,
                () = tokio::time::sleep_until(beat) => {
                    beat = Instant::now() + HEARTBEAT;
                    match self.datapath.own_macs().await {
                        Ok(_) => self.heart.beat(),
                        Err(_) => self.ops.metrics.netlink_error(Netlink::Dump),
                    }
                }
            }
        }
    }

    async fn tell(&self, event: Event) {
        // The driver's end: nothing is left to be told.
        let _ = self.told.send(Told::Event(event)).await;
    }

    async fn work(&mut self, job: Job) {
        match job {
            Job::Put { these, until } => self.put(these, until).await,
            Job::Remove(addresses) => {
                for address in &addresses {
                    self.put.remove(address);
                }
                self.remove(&addresses).await;
            }
            Job::Needs(needs) => {
                self.needs = needs;
                self.look().await;
            }
            Job::Look => {
                self.known = None;
                self.look().await;
            }
            Job::Flush(done) => drop(done),
        }
        self.heart.beat();
    }

    async fn put(&mut self, mut these: Vec<Placed>, until: Time) {
        // What was let go while this waited; the job that removes it comes next.
        let dropped = self.dropped.of(these.iter().map(|(address, _)| *address));
        these.retain(|(address, _)| !dropped.contains(address));
        if these.is_empty() {
            return;
        }
        self.watch(these.iter().map(|(address, _)| *address));
        let outcome = self.datapath.put_all(&these, until).await;
        // A kernel that took its time: not for the removal's turn does a VIP that was let go stay.
        let dropped = self.dropped.of(outcome.there.iter().map(|(address, _)| *address));
        self.remove(&dropped).await;
        let carried: Vec<Placed> =
            outcome.there.into_iter().filter(|(address, _)| !dropped.contains(address)).collect();
        self.put.extend(carried.iter().copied());
        if !carried.is_empty() {
            self.tell(Event::Put(carried.into_iter().map(|(address, _)| address).collect())).await;
        }
        for (address, error) in outcome.failed {
            let again = self.put.remove(&address).is_some();
            self.ops.metrics.netlink_error(if again { Netlink::Refresh } else { Netlink::Add });
            self.tell(Event::PutFailed { address, reason: error.to_string() }).await;
        }
    }

    /// Their coming and going is told.
    fn watch(&self, more: impl IntoIterator<Item = IpAddr>) {
        self.datapath.watch_addresses(self.put.keys().copied().chain(more));
    }

    async fn remove(&mut self, addresses: &[IpAddr]) {
        if addresses.is_empty() {
            return;
        }
        for (address, error) in self.datapath.remove_many(addresses).await {
            self.ops.metrics.netlink_error(Netlink::Remove);
            tracing::error!(%address, %error, "the VIP could not be removed; its fence will");
        }
    }

    async fn happened(&mut self, event: KernelEvent) {
        match event {
            KernelEvent::AddressGone { address, index } => {
                // Our own removal is such an event too.
                if self.put.get(&address) == Some(&index) {
                    self.put.remove(&address);
                    self.tell(Event::Gone(address)).await;
                }
            }
            KernelEvent::AddressAdded { .. } => {}
            KernelEvent::NodeAddress { .. } => self.soon(),
            KernelEvent::Link { index, up, mac, .. } => {
                let known = self.known.as_mut().and_then(|(all, _)| all.iter_mut().find(|one| one.index == index));
                if let Some(known) = known.filter(|known| Some(known.mac) == mac && known.up != up) {
                    known.up = up;
                    tracing::info!(interface = %known.name, up, "link");
                    self.tell(Event::Link { index, up }).await;
                }
                // Its addresses come after it.
                self.soon();
            }
            KernelEvent::LinkGone { index, .. } => {
                self.tell(Event::Link { index, up: false }).await;
                self.look().await;
            }
            KernelEvent::Resync => {
                self.ops.metrics.netlink_error(Netlink::Subscribe);
                self.look().await;
                self.resync().await;
            }
        }
    }

    /// Events were lost: what should be there is looked for.
    async fn resync(&mut self) {
        let there: BTreeSet<IpAddr> = match self.datapath.ours().await {
            Ok(ours) => ours.iter().map(|(vip, ..)| vip.address).collect(),
            Err(error) => return tracing::warn!(%error, "cannot look which VIPs are there"),
        };
        let gone: Vec<IpAddr> = self.put.keys().filter(|address| !there.contains(address)).copied().collect();
        for address in gone {
            self.put.remove(&address);
            self.tell(Event::Gone(address)).await;
        }
    }

    fn soon(&mut self) {
        self.refresh = self.refresh.min(Instant::now() + SETTLE);
    }

    /// Finds the interfaces that VIPs need, and tells the driver when they are others than it knows.
    async fn look(&mut self) {
        // First: the interfaces that they are on are among those that are needed.
        let left_overs = if self.left_overs { None } else { self.find_left_overs().await };
        match self.see().await {
            Ok((found, macs)) => {
                let none = found.is_empty();
                self.refresh = Instant::now() + if none { LOOK_AGAIN } else { REFRESH };
                let waits = none.then(|| self.missing());
                if let Some(text) = &waits
                    && self.complaint != *text
                {
                    tracing::warn!("{text}");
                }
                self.complaint = waits.clone().unwrap_or_default();
                self.ops.readiness.set("services-interface", waits);
                if self.known.as_ref() != Some(&(found.clone(), macs.clone())) {
                    let names: Vec<&str> = found.iter().map(|one| one.name.as_str()).collect();
                    tracing::info!(interfaces = ?names, "interfaces for VIPs of Services");
                    self.known = Some((found.clone(), macs.clone()));
                    let _ = self.told.send(Told::Interfaces(found, macs)).await;
                }
                if let Some(found) = left_overs.filter(|_| !none) {
                    self.left_overs = true;
                    if !found.is_empty() {
                        tracing::info!(count = found.len(), "found VIPs of an earlier run");
                        self.tell(Event::LeftOver(found)).await;
                    }
                }
                self.heart.beat();
            }
            Err(error) => {
                self.refresh = Instant::now() + LOOK_AGAIN;
                self.ops.metrics.netlink_error(Netlink::Dump);
                tracing::warn!(%error, "the interfaces cannot be looked at; trying again");
            }
        }
    }

    fn missing(&self) -> String {
        match &self.needs.first {
            Some(name) => format!("there is no Ethernet interface {name} for VIPs of Services: waiting for it"),
            None => {
                "no default route names an interface for VIPs of Services: waiting for it, or set services-interface"
                    .into()
            }
        }
    }

    async fn see(&self) -> Result<(Vec<Interface>, Vec<Mac>), Error> {
        let all = self.datapath.interfaces().await?;
        let macs: BTreeSet<Mac> = all.iter().map(|one| one.mac).collect();
        let first = match &self.needs.first {
            Some(name) => all.iter().find(|one| one.name == *name).map(|one| one.index),
            None => match self.datapath.default_interface().await {
                Ok(index) => Some(index),
                Err(Error::NoDefaultRoute) => None,
                Err(error) => return Err(error),
            },
        };
        // What carries VIPs already is known from the start: nothing is let go because nobody has asked for it there yet.
        let carries: BTreeSet<u32> = self.put.values().copied().collect();
        let is_needed = |one: &Interface| {
            let has = |vip: &IpAddr| one.addresses.iter().any(|net| net.contains(vip));
            carries.contains(&one.index) || self.needs.named.contains(&one.name) || self.needs.by_subnet.iter().any(has)
        };
        let (mut these, others): (Vec<Interface>, Vec<Interface>) =
            all.into_iter().partition(|one| Some(one.index) == first);
        these.extend(others.into_iter().filter(is_needed));
        Ok((these, macs.into_iter().collect()))
    }

    /// An earlier run of this agent left these.
    async fn find_left_overs(&mut self) -> Option<Vec<Placed>> {
        let ours = match self.datapath.ours().await {
            Ok(ours) => ours,
            Err(error) => {
                tracing::warn!(%error, "cannot look for left-over VIPs");
                return None;
            }
        };
        let found: Vec<Placed> = ours.iter().map(|(vip, index, _)| (vip.address, *index)).collect();
        self.watch(found.iter().map(|(address, _)| *address));
        self.put.extend(found.iter().copied());
        Some(found)
    }
}
