//! The loop of VIPs that are placed as kube-vip places them: by one Lease, or by one for each Service.
//!
//! ```text
//!  watches: IPAddress, Services, slices, Nodes ─▶ Catalog ─▶ lots ─┐            ┌─▶ hands: reads and writes of Leases
//!  watches of Leases; answers of calls ────────────────────────────┼─▶ Leased ──┼─▶ place (thread): addresses, in batches
//!  kernel; segments; signals ──────────────────────────────────────┘            └─▶ segments: announce, probe; people
//! ```

mod hands;
mod lots;
mod marks;
mod records;
mod show;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::signal::unix::SignalKind;
use tokio::sync::{mpsc, oneshot};

use super::Told;
use super::place::{self, Dropped, Job, Needs};
use super::run::{FLUSH, IDLE, INBOX, STUCK, declare, interfaces};
use super::segments::{Frame, Segments};
use super::watches::Watches;
use crate::api::{EventNote, Regarding, Severity};
use crate::catalog::{Catalog, Seen};
use crate::core::action::Report;
use crate::core::event::{Event as ForKeeper, Moment, Node};
use crate::core::fleet::{Ask, Event as Heard, Interface as Declared};
use crate::core::lease::Participant;
use crate::core::leased::{Action, Event, Leased, Lot};
use crate::core::mac::Mac;
use crate::core::rules::{FENCE_ENDS, Rules};
use crate::core::time::Time;
use crate::datapath::{self, Interface};
use crate::driver::clocks::Clocks;
use crate::driver::reach::Reach;
use crate::driver::reports;
use crate::driver::run::{RunError, catch};
use crate::ops::Ops;
use crate::ops::services::ServicesStatus;
use crate::segment;
use crate::settings::{Leases, Services, Settings};
use hands::Hands;
use lots::{Lots, lots};
use marks::Marks;
use records::Records;
use show::Shown;

#[expect(clippy::struct_excessive_bools, reason = "they are independent facts, not one state")]
struct Driver {
    node: String,
    leases: Leases,
    leased: Leased,
    catalog: Catalog,
    clocks: Clocks,
    hands: Hands,
    watches: Watches,
    segments: Segments,
    jobs: mpsc::UnboundedSender<Job>,
    dropped: Dropped,
    needs: Needs,
    interfaces: Vec<Interface>,
    macs: Vec<Mac>,
    lots: Lots,
    records: Records,
    marks: Marks,
    objects: Objects,
    /// All that says which VIPs there are was listed.
    known: bool,
    /// The core was told of lots.
    began: bool,
    drained: bool,
    wrong: BTreeMap<&'static str, String>,
    reach: Reach,
    ops: Arc<Ops>,
    look_again: Time,
    /// When it is looked again who must be listened to, and the gauges are set.
    tidy: Time,
    exit: bool,
}

/// Whether `IPAddress` objects are part of what says which VIPs there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Objects {
    Unknown,
    There,
    /// The cluster has no such kind, or does not show them: what Services state themselves is enough.
    No,
}

/// Holds VIPs of Services by kube-vip's Leases until the process is asked to end.
///
/// # Errors
/// What keeps it from starting. Once it runs, nothing ends it but a signal.
pub async fn run(
    settings: Arc<Settings>,
    services: Services,
    leases: Leases,
    reach: Reach,
    ops: Arc<Ops>,
) -> Result<(), RunError> {
    let (mut terminate, mut interrupt) = (catch(SignalKind::terminate())?, catch(SignalKind::interrupt())?);
    let heart = ops.liveness.watch("services", STUCK);
    let place_heart = ops.liveness.watch("services-datapath", STUCK);
    let (told, mut inbox) = mpsc::channel(INBOX);
    let (of_leases, mut lease_inbox) = mpsc::channel(INBOX);
    let (ask, mut asked) = mpsc::channel(4);
    ops.ask_services(ask);
    let (first, elsewhere) = interfaces(&settings, &services);
    let needs = Needs { first, ..Needs::default() };
    let dropped = Dropped::default();
    let jobs = place::start(&settings.run_dir, needs.clone(), dropped.clone(), told.clone(), &ops, place_heart);
    let jobs = jobs.map_err(|source| RunError::Io { what: "cannot start the datapath's thread".into(), source })?;
    let options = segment::Options { frames_per_second: settings.announce.rate_limit };
    let (segments, mut frames) = Segments::new(options, ops.clone());
    ops.readiness.set("services", Some("what there is was not listed yet".into()));
    tracing::info!(
        placement = show::placement(&leases),
        lease = lots::shared(&leases),
        "VIPs of Services are placed as kube-vip places them"
    );
    let classes = leases.classes.clone();
    let mut driver = Driver {
        node: settings.node_name.clone(),
        leased: Leased::new(rules(&settings, &leases)),
        marks: Marks::new(settings.node_name.clone(), reach.servers.clone(), leases.updates),
        leases,
        catalog: Catalog::new(&settings.node_name, elsewhere).by_services(classes),
        clocks: Clocks::new(),
        hands: Hands::new(reach.servers.clone(), of_leases),
        watches: Watches::start(reach.servers.clone(), None, told),
        segments,
        jobs,
        dropped,
        needs,
        interfaces: vec![],
        macs: vec![],
        lots: Lots::default(),
        records: Records::new(settings.node_name.clone()),
        objects: Objects::Unknown,
        known: false,
        began: false,
        drained: false,
        wrong: BTreeMap::new(),
        reach,
        ops,
        look_again: Time::default(),
        tidy: Time::default(),
        exit: false,
    };
    let mut asked_to_end = false;
    while !driver.exit {
        let wake = driver.sleep();
        tokio::select! {
            biased;
            _ = terminate.recv() => if driver.end(&mut asked_to_end) { break },
            _ = interrupt.recv() => if driver.end(&mut asked_to_end) { break },
            Some(frame) = frames.recv() => driver.frame(&frame),
            Some((name, event)) = lease_inbox.recv() => driver.of_lease(name, event),
            told = inbox.recv() => match told {
                Some(told) => driver.told(told),
                None => break,
            },
            Some(answer) = asked.recv() => driver.answer(answer),
            () = tokio::time::sleep(wake) => driver.tick(),
        }
        heart.beat();
    }
    driver.flush().await;
    Ok(())
}

/// Between two probes of the one that has all VIPs, in intervals of the settings: many nodes ask.
const SLOWER: u32 = 3;

/// Those of the control plane's VIP; but the addresses of many are refreshed at a third of the fence, and where each Service
/// has a Lease, nobody is watched on the segment: it would be asked for all of them all the time.
fn rules(settings: &Settings, leases: &Leases) -> Rules {
    let rules = crate::driver::rules(settings);
    let refresh = rules.lease_duration.saturating_sub(FENCE_ENDS) / 3;
    let witness_interval = if leases.per_service { Duration::ZERO } else { rules.witness_interval * SLOWER };
    Rules { refresh, witness_interval, ..rules }
}

impl Driver {
    fn sleep(&self) -> Duration {
        let now = datapath::clock::boottime();
        self.leased.wake().map_or(IDLE, |wake| wake.since(now).min(IDLE))
    }

    /// Without a segment nothing is announced: it is opened again as soon as it can be.
    fn tick(&mut self) {
        let now = datapath::clock::boottime();
        if now >= self.look_again && self.interfaces.iter().any(|one| !self.segments.is_open(one.index)) {
            self.look_again = now + IDLE;
            self.job(Job::Look);
        }
        self.step(Event::Tick);
    }

    fn told(&mut self, told: Told) {
        match told {
            Told::Event(Heard::Put(addresses)) => self.step(Event::Put(addresses)),
            Told::Event(Heard::PutFailed { address, reason }) => self.step(Event::PutFailed { address, reason }),
            Told::Event(Heard::Gone(address)) => self.step(Event::Gone(address)),
            Told::Event(Heard::LeftOver(found)) => {
                self.step(Event::LeftOver(found.into_iter().map(|(address, _)| address).collect()));
            }
            Told::Event(Heard::Link { index, up }) => {
                for one in self.interfaces.iter_mut().filter(|one| one.index == index) {
                    one.up = up;
                }
                self.work_out();
            }
            // Of sessions, which there are none of here; what is asked of the API is told elsewhere.
            Told::Event(_) | Told::Blind => {}
            Told::Seen(seen) => self.seen(*seen),
            Told::Watch { what, wrong } => self.watch(what, wrong),
            Told::Kind(api) => {
                if api.is_none() && self.objects != Objects::No {
                    tracing::info!("the cluster has no kind IPAddress: Services themselves state which VIPs there are");
                }
                self.objects = if api.is_some() { Objects::There } else { Objects::No };
                self.records.set_api(api);
                self.work_out();
            }
            Told::Interfaces(interfaces, macs) => {
                self.segments.set(&interfaces);
                (self.interfaces, self.macs) = (interfaces, macs);
                self.step(Event::Node(self.node()));
                self.work_out();
            }
        }
    }

    fn watch(&mut self, what: &'static str, wrong: Option<String>) {
        let Some(text) = wrong else {
            if self.wrong.remove(what).is_some() {
                tracing::info!("{what} are watched again");
            }
            return;
        };
        // The words change with every try; that it is lost is told once.
        if self.wrong.insert(what, text.clone()).is_none() {
            tracing::warn!(error = text, "{what} cannot be watched; all stays as it is until they can");
        }
        // The rights of kube-vip's role do not cover them.
        if what == "IPAddress objects" && !self.known && self.objects != Objects::No {
            tracing::info!("IPAddress objects are not shown: Services themselves state which VIPs there are");
            self.objects = Objects::No;
            self.work_out();
        }
    }

    fn seen(&mut self, seen: Seen) {
        let of_services = matches!(seen, Seen::Services(_));
        for event in self.catalog.take(seen) {
            if let Heard::Drain(drained) = event {
                self.drained = drained;
            }
        }
        if of_services {
            self.watches.slices_of(self.catalog.local_services());
        }
        let needs = Needs::of(self.needs.first.clone(), self.catalog.demands());
        if needs != self.needs {
            self.needs = needs.clone();
            self.job(Job::Needs(needs));
        }
        self.work_out();
        self.write(datapath::clock::boottime());
    }

    /// What this node may carry by which Lease has perhaps changed.
    fn work_out(&mut self) {
        self.known |= self.objects != Objects::Unknown && self.catalog.is_known(self.objects == Objects::There);
        if !self.known || !self.began && self.interfaces.is_empty() {
            return;
        }
        self.ops.readiness.set("services", None);
        let found = if self.interfaces.is_empty() {
            // They may come back.
            let down = |(name, lot): (&String, &Lot)| (name.clone(), Lot { up: false, ..lot.clone() });
            Lots { lots: self.lots.lots.iter().map(down).collect(), at: self.lots.at.clone() }
        } else {
            let declared: Vec<Declared> = self.interfaces.iter().map(declare).collect();
            lots(&self.leases, &self.catalog, &self.leased, &self.node, &declared, self.drained)
        };
        if found == self.lots && self.began {
            return;
        }
        self.began |= !self.interfaces.is_empty();
        let before = std::mem::replace(&mut self.lots, found);
        let moved = before.at.iter().filter(|(address, index)| {
            let now = self.lots.at.get(*address);
            now.is_some_and(|now| now != *index) && self.leased.is_carried(**address)
        });
        let moved: Vec<IpAddr> = moved.map(|(address, _)| *address).collect();
        self.step(Event::Lots(self.lots.lots.clone()));
        // They are put on the other interface as if somebody had taken them off the first.
        if !moved.is_empty() {
            self.job(Job::Remove(moved.clone()));
            for address in moved {
                self.step(Event::Gone(address));
            }
        }
    }

    fn node(&self) -> Node {
        let addresses = || self.interfaces.iter().flat_map(|one| one.addresses.iter().map(ipnet::IpNet::addr));
        let first = |v4: bool| addresses().find(|address| address.is_ipv4() == v4);
        let participant = Participant {
            macs: self.interfaces.iter().map(|one| one.mac).collect(),
            addresses: first(true).into_iter().chain(first(false)).collect(),
        };
        let gateways = self.interfaces.iter().flat_map(|one| one.gateways.clone()).collect();
        Node { participant, macs: self.macs.clone(), gateways }
    }

    fn frame(&mut self, frame: &Frame) {
        match *frame {
            Frame::Heard { address, mac, .. } => self.step(Event::Heard { address, mac }),
            Frame::Ended(index) => {
                tracing::warn!(index, "no longer listening on a segment; looking for the interface");
                let others: Vec<Interface> = self.interfaces.iter().filter(|one| one.index != index).cloned().collect();
                self.segments.set(&others);
            }
        }
    }

    fn of_lease(&mut self, name: String, event: ForKeeper) {
        if let ForKeeper::Read { result: Ok(Some(read)), .. } = &event
            && self.leased.version(&name).is_some_and(|known| known != read.version)
        {
            self.hands.distrust_watch(&name);
        }
        self.step(Event::Lease { name, event });
    }

    fn step(&mut self, event: Event) {
        let (at, jump) = self.clocks.read();
        if let Some(by) = jump {
            self.step_at(at, Event::ClockJump(by));
        }
        self.step_at(at, event);
    }

    fn step_at(&mut self, at: Moment, event: Event) {
        let others = matches!(event, Event::Lots(_) | Event::Node(_)) || at.now >= self.tidy;
        let actions = self.leased.step(at, event);
        // Before anything is asked.
        if others {
            self.tidy = at.now + IDLE;
            self.hands.set(self.leased.leases().collect::<Vec<_>>().into_iter());
            self.segments.listen_for(self.leased.listens_for());
            let (wanted, carried) = self.leased.counts();
            self.ops.metrics.services(wanted, carried);
        }
        for action in actions {
            self.act(action);
        }
        self.write(at.now);
    }

    /// Who has what, for others to read.
    fn write(&mut self, now: Time) {
        self.records.sync(now, &self.leased, &self.catalog);
        self.marks.sync(now, &self.leased, &self.catalog, self.objects == Objects::There);
    }

    fn act(&mut self, action: Action) {
        match action {
            Action::Lease { name, action } => self.hands.act(name, action),
            Action::Carry { addresses, until } => {
                let placed = |address: IpAddr| self.lots.at.get(&address).map(|index| (address, *index));
                let these: Vec<_> = addresses.into_iter().filter_map(placed).collect();
                self.dropped.set(these.iter().map(|(address, _)| *address), false);
                self.job(Job::Put { these, until });
            }
            Action::Drop(addresses) => {
                self.dropped.set(addresses.iter().copied(), true);
                for address in &addresses {
                    self.segments.withdraw(*address);
                }
                self.job(Job::Remove(addresses));
            }
            Action::Announce(addresses) => {
                let placed = |address: IpAddr| self.lots.at.get(&address).map(|index| (address, *index));
                let these: Vec<_> = addresses.into_iter().filter_map(placed).collect();
                self.segments.announce(&these);
            }
            Action::Probe(asks) => {
                let ask = |(address, to)| Some(Ask { index: self.index_of(address)?, address, to });
                let asks: Vec<Ask> = asks.into_iter().filter_map(ask).collect();
                self.segments.probe(&asks);
            }
            Action::Report { name, vips, report } => self.report(&name, &vips, &report),
            Action::Exit => self.exit = true,
        }
    }

    /// The interface on which an address is asked for: a VIP's own, or the one whose subnet has it.
    fn index_of(&self, address: IpAddr) -> Option<u32> {
        let near = |one: &&Interface| one.addresses.iter().any(|net| net.contains(&address));
        let by_subnet = || self.interfaces.iter().find(near).or_else(|| self.interfaces.first()).map(|one| one.index);
        self.lots.at.get(&address).copied().or_else(by_subnet)
    }

    fn report(&self, name: &str, vips: &[IpAddr], report: &Report) {
        reports::count(report, &self.ops);
        let text = reports::text(report, vips);
        let Some((severity, reason, action)) = reports::event(report) else {
            return tracing::debug!(lease = name, "{text}");
        };
        match severity {
            Severity::Normal => tracing::info!(reason, lease = name, "{text}"),
            Severity::Warning => tracing::warn!(reason, lease = name, "{text}"),
        }
        let (namespace, lease) = name.split_once('/').unwrap_or_default();
        let regarding = Regarding::Lease { namespace: namespace.to_owned(), name: lease.to_owned(), uid: None };
        let note = format!("{}: {text}", self.node);
        self.reach.events.send(EventNote { regarding, severity, reason, action, note });
    }

    fn job(&self, job: Job) {
        if self.jobs.send(job).is_err() {
            tracing::error!("the datapath's thread has ended");
        }
    }

    fn answer(&self, answer: oneshot::Sender<ServicesStatus>) {
        let shown = Shown {
            leases: &self.leases,
            leased: &self.leased,
            catalog: &self.catalog,
            interfaces: &self.interfaces,
            server: self.reach.servers.status().current,
            now: datapath::clock::boottime(),
        };
        // Who asked has gone.
        let _ = answer.send(shown.status());
    }

    /// The first signal asks for a hand-over, the second ends the process at once. True: end now.
    fn end(&mut self, asked: &mut bool) -> bool {
        if std::mem::replace(asked, true) {
            return true;
        }
        self.step(Event::Shutdown);
        false
    }

    async fn flush(&self) {
        let (done, all_done) = oneshot::channel();
        self.job(Job::Flush(done));
        // Dropped with its sender: that is the sign.
        if tokio::time::timeout(FLUSH, all_done).await.is_err() {
            tracing::error!("the kernel did not answer; the VIPs' fences end by themselves");
        }
    }
}
