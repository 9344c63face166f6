//! The loop of many VIPs.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::signal::unix::SignalKind;
use tokio::sync::{mpsc, oneshot};

use super::Told;
use super::calls::Calls;
use super::place::{self, Dropped, Job, Needs};
use super::reports::Reports;
use super::segments::{Frame, Segments};
use super::show::Show;
use super::watches::Watches;
use crate::api::sessions::{PREFIX, SessionWrite};
use crate::catalog::{Catalog, Seen};
use crate::core::event::Moment;
use crate::core::fleet::{Action, Event, Fleet, Interface as Declared};
use crate::core::placement::Interface as Where;
use crate::core::session::{Link, Subnet};
use crate::core::time::Time;
use crate::datapath::{self, Interface};
use crate::driver::clocks::Clocks;
use crate::driver::reach::Reach;
use crate::driver::run::{RunError, catch};
use crate::ops::Ops;
use crate::segment;
use crate::settings::{Services, ServicesInterface, Settings};

/// The loop steps at least this often, so that clocks that jump are seen.
pub(super) const IDLE: Duration = Duration::from_secs(1);
/// How old the loop's last beat may be before `/livez` fails.
pub(super) const STUCK: Duration = Duration::from_secs(15);
/// How long the addresses that are to go may take to go when the process ends.
pub(super) const FLUSH: Duration = Duration::from_secs(2);
/// For messages to the loop that wait.
pub(super) const INBOX: usize = 1024;

struct Driver {
    fleet: Fleet,
    catalog: Catalog,
    clocks: Clocks,
    calls: Calls,
    watches: Watches,
    segments: Segments,
    jobs: mpsc::UnboundedSender<Job>,
    dropped: Dropped,
    needs: Needs,
    interfaces: Vec<Interface>,
    reports: Reports,
    /// The addresses that each session last declared.
    peers: BTreeMap<String, Vec<IpAddr>>,
    show: Show,
    ops: Arc<Ops>,
    /// When the watch of sessions last showed something.
    watched: Time,
    blind_after: Duration,
    look_again: Time,
    exit: bool,
}

/// Holds VIPs of Services and the like until the process is asked to end.
///
/// # Errors
/// What keeps it from starting. Once it runs, nothing ends it but a signal.
pub async fn run(settings: Arc<Settings>, services: Services, reach: Reach, ops: Arc<Ops>) -> Result<(), RunError> {
    let (mut terminate, mut interrupt) = (catch(SignalKind::terminate())?, catch(SignalKind::interrupt())?);
    let heart = ops.liveness.watch("services", STUCK);
    let place_heart = ops.liveness.watch("services-datapath", STUCK);
    let (told, mut inbox) = mpsc::channel(INBOX);
    let lease = format!("{PREFIX}{}", settings.node_name);
    let (show, mut asked) = Show::new(&settings.node_name, format!("{}/{lease}", services.sessions), &ops);
    let rules = crate::driver::rules(&settings);
    let (first, elsewhere) = interfaces(&settings, &services);
    let needs = Needs { first, ..Needs::default() };
    let dropped = Dropped::default();
    let jobs = place::start(&settings.run_dir, needs.clone(), dropped.clone(), told.clone(), &ops, place_heart);
    let jobs = jobs.map_err(|source| RunError::Io { what: "cannot start the datapath's thread".into(), source })?;
    let options = segment::Options { frames_per_second: settings.announce.rate_limit };
    let (segments, mut frames) = Segments::new(options, ops.clone());
    let servers = reach.servers.clone();
    let namespace = services.sessions;
    ops.readiness.set("services", Some("what there is was not listed yet".into()));
    let mut driver = Driver {
        blind_after: rules.blind_after(),
        fleet: Fleet::new(rules),
        catalog: Catalog::new(&settings.node_name, elsewhere),
        clocks: Clocks::new(),
        calls: Calls::new(servers.clone(), namespace.clone(), told.clone()),
        watches: Watches::start(servers, Some(&namespace), told),
        segments,
        jobs,
        dropped,
        needs,
        interfaces: vec![],
        reports: Reports::new(settings.node_name.clone(), (namespace, lease), reach, ops.clone()),
        peers: BTreeMap::new(),
        show,
        ops,
        watched: datapath::clock::boottime(),
        look_again: Time::default(),
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

/// The first interface, and where VIPs belong that name none.
pub(super) fn interfaces(settings: &Settings, services: &Services) -> (Option<String>, Where) {
    match &services.interface {
        ServicesInterface::Same => (settings.interface.clone(), Where::First),
        ServicesInterface::Named(name) => (Some(name.clone()), Where::First),
        ServicesInterface::Auto => (settings.interface.clone(), Where::Subnet),
    }
}

impl Driver {
    fn sleep(&self) -> Duration {
        let now = datapath::clock::boottime();
        self.fleet.wake().map_or(IDLE, |wake| wake.since(now).min(IDLE))
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
            Told::Event(event) => self.step(event),
            Told::Seen(seen) => self.seen(*seen),
            Told::Watch { what, wrong } => self.reports.watch(what, wrong),
            Told::Blind => self.step(Event::WatchLost),
            Told::Kind(api) => {
                self.reports.kind(api.as_ref().map(crate::api::addresses::Addresses::version));
                self.calls.set_addresses(api);
            }
            Told::Interfaces(interfaces, macs) => {
                self.segments.set(&interfaces);
                let declared = interfaces.iter().map(declare).collect();
                self.interfaces = interfaces;
                self.step(Event::Node { interfaces: declared, macs });
            }
        }
    }

    fn seen(&mut self, seen: Seen) {
        let of_services = matches!(seen, Seen::Services(_));
        let events = self.catalog.take(seen);
        let demands = events.iter().any(|event| matches!(event, Event::Wanted(_) | Event::Unwanted(_)));
        for event in events {
            if event == Event::Synced {
                self.ops.readiness.set("services", None);
            }
            self.step(event);
        }
        if of_services {
            self.watches.slices_of(self.catalog.local_services());
        }
        if demands {
            self.look_at_needs();
        }
    }

    /// The interfaces that VIPs are to be on.
    fn look_at_needs(&mut self) {
        let needs = Needs::of(self.needs.first.clone(), self.catalog.demands());
        if needs != self.needs {
            self.needs = needs.clone();
            self.job(Job::Needs(needs));
        }
    }

    fn frame(&mut self, frame: &Frame) {
        match *frame {
            Frame::Heard { index, address, mac } => self.step(Event::Heard { index, address, mac }),
            Frame::Ended(index) => {
                tracing::warn!(index, "no longer listening on a segment; looking for the interface");
                let others: Vec<Interface> = self.interfaces.iter().filter(|one| one.index != index).cloned().collect();
                self.segments.set(&others);
            }
        }
    }

    fn step(&mut self, event: Event) {
        let (at, jump) = self.clocks.read();
        if let Some(by) = jump {
            self.step_at(at, Event::ClockJump(by));
        }
        self.step_at(at, event);
    }

    fn step_at(&mut self, at: Moment, event: Event) {
        match &event {
            Event::Session(_) | Event::Sessions { id: None, .. } => self.watched = at.now,
            // A list shows what the watch should have: it may hang on an API server that does.
            Event::Sessions { id: Some(_), result: Ok(_) } if at.now.since(self.watched) > self.blind_after => {
                self.watched = at.now;
                self.watches.kick();
            }
            _ => {}
        }
        let listens = self.may_change_listening(&event);
        let actions = self.fleet.step(at, event);
        // Before anything is asked on the segment.
        if listens {
            self.segments.listen_for(self.fleet.listens_for());
        }
        let mut reports = vec![];
        for action in actions {
            match action {
                Action::Report(report) => reports.push(report),
                action => self.act(action),
            }
        }
        if !reports.is_empty() {
            self.reports.tell(at, &reports, &self.catalog, &self.calls);
        }
        self.show.state(at.now, &self.fleet);
    }

    /// Whether other addresses may mean something after it. Renewals of sessions come many times a second.
    fn may_change_listening(&mut self, event: &Event) -> bool {
        match event {
            Event::Session(view) => {
                let addresses: Vec<IpAddr> = view.links().iter().flat_map(|link| link.addresses.clone()).collect();
                if self.peers.get(&view.node) == Some(&addresses) {
                    return false;
                }
                self.peers.insert(view.node.clone(), addresses);
                true
            }
            // Of one that is known, another holder or another demand changes nothing.
            Event::Wanted(demands) => demands.iter().any(|demand| !self.fleet.knows(demand.address)),
            Event::Address { address, view: Some(_), .. } => !self.fleet.knows(*address),
            Event::Node { .. }
            | Event::Unwanted(_)
            | Event::SessionDeleted(_)
            | Event::Sessions { .. }
            | Event::Address { .. }
            | Event::LeftOver(_) => true,
            _ => false,
        }
    }

    fn act(&mut self, action: Action) {
        match action {
            Action::ReadSessions { id, within } => self.calls.read_sessions(id, within),
            Action::WriteSession { id, node, base, record, declared, end, within } => {
                self.calls.write_session(id, SessionWrite { node, base, record, declared, end }, within);
            }
            Action::ReadAddresses { id, addresses, within } => {
                let these = addresses.into_iter().map(|ip| (ip, self.catalog.key_of(ip).cloned()));
                self.calls.read_addresses(id, these.collect(), within);
            }
            Action::WriteHolder { id, address, base, holder, within } => {
                self.calls.write_holder(id, self.catalog.key_of(address).cloned(), base, holder, within);
            }
            Action::Carry { addresses, until } => {
                self.dropped.set(addresses.iter().map(|(address, _)| *address), false);
                self.job(Job::Put { these: addresses, until });
            }
            Action::Drop(addresses) => {
                self.dropped.set(addresses.iter().copied(), true);
                for address in &addresses {
                    self.segments.withdraw(*address);
                }
                self.job(Job::Remove(addresses));
            }
            Action::Announce(addresses) => self.segments.announce(&addresses),
            Action::Probe(asks) => self.segments.probe(&asks),
            Action::Report(_) => {}
            Action::Exit => self.exit = true,
        }
    }

    fn job(&self, job: Job) {
        if self.jobs.send(job).is_err() {
            tracing::error!("the datapath's thread has ended");
        }
    }

    fn answer(&self, answer: oneshot::Sender<crate::ops::services::ServicesStatus>) {
        let status = self.show.status(&self.fleet, &self.catalog, &self.interfaces, &self.reports);
        // Who asked has gone.
        let _ = answer.send(status);
    }

    /// The first signal asks for a hand-over, the second ends the process at once. True: end now.
    fn end(&mut self, asked: &mut bool) -> bool {
        if std::mem::replace(asked, true) {
            return true;
        }
        self.reports.leave();
        self.step(Event::Shutdown);
        false
    }

    async fn flush(&mut self) {
        let (done, all_done) = oneshot::channel();
        self.job(Job::Flush(done));
        // Dropped with its sender: that is the sign.
        if tokio::time::timeout(FLUSH, all_done).await.is_err() {
            tracing::error!("the kernel did not answer; the VIPs' fences end by themselves");
        }
    }
}

/// What the session says of an interface.
pub(super) fn declare(interface: &Interface) -> Declared {
    let addresses: Vec<IpAddr> = interface.addresses.iter().map(ipnet::IpNet::addr).collect();
    let subnets: BTreeSet<Subnet> =
        interface.addresses.iter().map(|net| Subnet::of(net.addr(), net.prefix_len())).collect();
    let link = Link {
        name: interface.name.clone(),
        macs: vec![interface.mac],
        addresses,
        subnets: subnets.into_iter().collect(),
        up: interface.up,
    };
    Declared { index: interface.index, link, gateways: interface.gateways.clone() }
}
