//! VIPs that are placed as kube-vip places them, by one shared Lease or by one Lease for each Service: the part that
//! their core adds to the event loop.

mod assignments;
mod calls_gate;
mod gate;
mod lease_clients;
mod namespace_watch;
mod records;
mod service_status;
mod status;

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use tokio::sync::{mpsc, oneshot, watch};

use crate::address_task::Needs;
use crate::api::addresses::Addresses;
use crate::api::{EventNote, Regarding, Severity};
use crate::catalog::{Catalog, Seen};
use crate::cluster::Cluster;
use crate::core::Interface as Declared;
use crate::core::action::Report;
use crate::core::echo;
use crate::core::event::{Event as ForElector, Moment};
use crate::core::lease::Participant;
use crate::core::lease_vips::{Assignment, Call, Event, Input, LeaseVips, Report as OfLease};
use crate::core::rules::{FENCE_ENDS, Rules};
use crate::core::session_vips::Input as Shown;
use crate::core::time::Time;
use crate::datapath::{Interface, clock};
use crate::event_loop::{Adapter, EventLoop, IDLE, INBOX, Inputs, STUCK, Signals, declare};
use crate::ops::Ops;
use crate::ops::services::ServicesStatus;
use crate::reports;
use crate::run_error::RunError;
use crate::segments::Segments;
use crate::services::{interfaces, start_address_task, tell_remarks, tell_reserved};
use crate::settings::{Leases, Services, Settings};
use crate::watches::{ADDRESSES, Lost, Message, Name, Watches};
use assignments::{ThisNode, assignments};
use lease_clients::{LeaseClients, OfLease as LeaseAnswer};
use records::Records;
use service_status::ServiceStatus;
use status::Status;

struct LeaseVipsAdapter {
    /// What was last told of the segment.
    echo: Cell<Option<echo::State>>,
    node: String,
    leases: Leases,
    catalog: Catalog,
    clients: LeaseClients,
    watches: Watches,
    needs: Needs,
    /// Interface needs that are not handed on yet.
    new_needs: Option<Needs>,
    /// The assignments last sent to the core; None: none yet.
    assignments: Option<BTreeMap<String, Assignment>>,
    records: Records,
    service_status: ServiceStatus,
    objects: Objects,
    /// Whether every source of VIPs was listed.
    known: bool,
    drained: bool,
    /// The first interface existed since this process began.
    had_first: bool,
    /// The control plane's VIPs of this node: no VIP of a Service is one of them.
    reserved: BTreeSet<IpAddr>,
    lost: Lost,
    /// This node's own addresses.
    own: BTreeSet<IpAddr>,
    /// The nodes that take part in each Lease, as the catalog was told.
    declared: BTreeMap<String, BTreeMap<String, Participant>>,
    /// The loop's own inbox.
    told: mpsc::Sender<Message>,
    cluster: Cluster,
    ops: Arc<Ops>,
    /// When the addresses to listen for and the gauges are next updated.
    tidy: Time,
}

/// Whether `IPAddress` objects are a source of VIPs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Objects {
    Unknown,
    There,
    /// The cluster has no such kind, or denies access: addresses stated by Services are enough.
    No,
}

/// Holds VIPs of Services by kube-vip's Leases until the process is asked to end. `reserved`: the control plane's VIPs.
///
/// # Errors
/// What prevents the start. Once the loop runs, only a signal ends it.
pub async fn run(
    settings: Arc<Settings>,
    services: Services,
    leases: Leases,
    cluster: Cluster,
    ops: Arc<Ops>,
    reserved: watch::Receiver<Vec<IpAddr>>,
) -> Result<(), RunError> {
    let signals = Signals::catch()?;
    let heart = ops.liveness.watch("services", STUCK);
    let (told, inbox) = mpsc::channel(INBOX);
    let (answer, answers) = mpsc::channel(INBOX);
    tokio::spawn(tell_reserved(reserved, told.clone()));
    let (ask, queries) = mpsc::channel(4);
    ops.ask_services(ask);
    let (first, elsewhere) = interfaces(&settings, &services);
    let needs = Needs { first, ..Needs::default() };
    let started = start_address_task(needs.clone(), &settings, &ops).await;
    let (segments, frames) = Segments::new(settings.rate_limit_each(), ops.clone());
    ops.readiness.set("services", Some("what there is was not listed yet".into()));
    tracing::info!(
        placement = status::placement(&leases),
        lease = assignments::shared(&leases),
        "VIPs of Services are placed as kube-vip places them"
    );
    let core = LeaseVips::new(rules(&settings));
    let core = match settings.witness {
        Some(witness) if leases.per_service => core.watching_nodes(witness.interval),
        _ => core,
    };
    let classes = leases.classes.clone();
    let adapter = LeaseVipsAdapter {
        echo: Cell::new(None),
        node: settings.node_name.clone(),
        service_status: ServiceStatus::new(settings.node_name.clone(), cluster.servers.clone(), leases.updates),
        leases,
        catalog: Catalog::new(&settings.node_name, elsewhere).by_services(classes),
        clients: LeaseClients::new(cluster.servers.clone(), answer),
        watches: Watches::start(cluster.servers.clone(), &settings.node_name, None, told.clone()),
        needs,
        new_needs: None,
        assignments: None,
        records: Records::new(settings.node_name.clone()),
        objects: Objects::Unknown,
        known: false,
        drained: false,
        had_first: false,
        reserved: BTreeSet::new(),
        lost: Lost::default(),
        own: BTreeSet::new(),
        declared: BTreeMap::new(),
        told: told.clone(),
        cluster,
        ops,
        tidy: Time::default(),
    };
    let event_loop = EventLoop::new(core, adapter, segments, started.task);
    event_loop.run(Inputs { signals, frames, notices: started.notices, answers, inbox, queries }, heart).await;
    Ok(())
}

/// The interval between two probes of the node that has all VIPs, as a multiple of the configured interval: many nodes
/// probe it.
const SLOWER: u32 = 3;

/// The control plane's rules, with two differences. Many addresses are refreshed at a third of the fence, and the node that has
/// all VIPs is probed less often.
fn rules(settings: &Settings) -> Rules {
    let rules = crate::rules::rules(settings);
    let refresh = rules.lease_duration.saturating_sub(FENCE_ENDS) / 3;
    Rules { refresh, witness_interval: rules.witness_interval * SLOWER, ..rules }
}

impl LeaseVipsAdapter {
    /// A watch is lost, or works again. True: the sources of VIPs have changed.
    fn watch(&mut self, name: Name, wrong: Option<&str>) -> bool {
        self.lost.take(name, wrong);
        // The rights of kube-vip's role do not cover `IPAddress` objects.
        if wrong.is_some() && name.0 == ADDRESSES && !self.known && self.objects != Objects::No {
            tracing::info!("IPAddress objects are not shown: Services themselves state which VIPs there are");
            self.objects = Objects::No;
            return true;
        }
        false
    }

    fn seen(&mut self, seen: Seen) {
        let of_services = matches!(seen, Seen::Services(_));
        for input in self.catalog.take(seen) {
            if let Shown::Drain(drained) = input {
                self.drained = drained;
            }
        }
        tell_remarks(&mut self.catalog, &self.cluster.events);
        if self.catalog.asks_for_nodes() {
            self.watches.nodes();
        }
        if of_services {
            self.watches.slices_of(self.catalog.local_services());
        }
    }

    /// Hands on which interfaces VIPs need, if that has changed.
    fn work_out_needs(&mut self) {
        let needs = Needs::of(self.needs.first.clone(), self.catalog.demands(), self.known);
        if needs != self.needs {
            self.needs = needs.clone();
            self.new_needs = Some(needs);
        }
    }

    fn kind(&mut self, api: Option<Addresses>) {
        if api.is_none() && self.objects != Objects::No {
            tracing::info!("the cluster has no kind IPAddress: Services themselves state which VIPs there are");
        }
        self.objects = if api.is_some() { Objects::There } else { Objects::No };
        self.records.set_api(api);
    }

    /// Which VIPs this node may carry by which Lease, if the answer has changed.
    fn work_out(&mut self, core: &LeaseVips, interfaces: &[Interface]) -> Option<Event> {
        self.look_at_own(interfaces);
        self.known |= self.objects != Objects::Unknown && self.catalog.is_known(self.objects == Objects::There);
        self.work_out_needs();
        self.had_first |= interfaces.first().is_some_and(Interface::exists);
        if !self.known || self.assignments.is_none() && interfaces.is_empty() {
            return None;
        }
        self.ops.readiness.set("services", None);
        let found = if interfaces.is_empty() {
            // The sources may come back.
            let mut found = self.assignments.clone().unwrap_or_default();
            for assignment in found.values_mut() {
                assignment.up = false;
                assignment.vips.retain(|address, _| !self.reserved.contains(address));
            }
            found
        } else {
            let declared: Vec<Declared> = interfaces.iter().map(declare).collect();
            let node = ThisNode {
                name: &self.node,
                interfaces: &declared,
                had_first: self.had_first,
                drained: self.drained,
                reserved: &self.reserved,
            };
            assignments(&self.leases, &self.catalog, core, node)
        };
        if self.assignments.as_ref() == Some(&found) {
            return None;
        }
        self.assignments = Some(found.clone());
        Some(Event::Input(Input::Assignments(found)))
    }

    /// This node's own addresses are no VIPs.
    fn look_at_own(&mut self, interfaces: &[Interface]) {
        let own: BTreeSet<IpAddr> =
            interfaces.iter().flat_map(|one| one.addresses.iter().map(ipnet::IpNet::addr)).collect();
        // Without any interface nothing is known anew.
        if !interfaces.is_empty() && own != self.own {
            self.own.clone_from(&own);
            self.seen(Seen::Own(own));
        }
    }

    /// What the nodes that take part in a Lease declare as their own addresses, if it has changed: no VIP is one of them.
    fn look_at_declared(&mut self, lease: &str, event: &ForElector) {
        let (ForElector::Seen(Some(view))
        | ForElector::Wrote { result: Ok(view), .. }
        | ForElector::Read { result: Ok(Some(view)), .. }) = event
        else {
            return;
        };
        let now = &view.notes.participants;
        if self.declared.get(lease) == Some(now) {
            return;
        }
        let nodes = now.iter().map(|(node, one)| (node.clone(), one.addresses.iter().copied().collect())).collect();
        let seen = Message::Seen(Box::new(Seen::Declared { lease: lease.to_owned(), nodes }));
        // If the loop is busy, the next renewal shows it again.
        if self.told.try_send(seen).is_ok() {
            self.declared.insert(lease.to_owned(), now.clone());
        }
    }

    /// Writes which node has which VIP, for others to read.
    fn write(&mut self, now: Time, core: &LeaseVips) {
        self.records.sync(now, core, &self.catalog);
        self.service_status.sync(now, core, &self.catalog, self.objects == Objects::There);
    }

    fn tell(&self, OfLease { name, vips, what: report }: &OfLease) {
        // The segment is the same for all Leases.
        if let Report::Echo(state) = report
            && self.echo.replace(Some(*state)) == Some(*state)
        {
            return;
        }
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
        self.cluster.events.send(EventNote { regarding, severity, reason, action, note });
    }
}

impl Adapter for LeaseVipsAdapter {
    type Core = LeaseVips;
    type Answer = LeaseAnswer;
    type Message = Message;
    type Query = oneshot::Sender<ServicesStatus>;

    fn take_answer(&mut self, (name, event): LeaseAnswer) -> Event {
        Event::Input(Input::Lease { name, event })
    }

    fn take(&mut self, core: &LeaseVips, interfaces: &[Interface], message: Message) -> Vec<Event> {
        let changed = match message {
            Message::Input(Shown::Reserved(reserved)) => {
                let news = self.reserved != reserved;
                self.catalog.reserve(reserved.clone());
                tell_remarks(&mut self.catalog, &self.cluster.events);
                self.reserved = reserved;
                news
            }
            // This placement has no sessions.
            Message::Input(_) | Message::WatchLost | Message::Namespace { .. } | Message::MemberRefused(_) => false,
            Message::Seen(seen) => {
                self.seen(*seen);
                true
            }
            Message::Watch { name, wrong } => self.watch(name, wrong.as_deref()),
            Message::Kind(api) => {
                self.kind(api);
                true
            }
        };
        if !changed {
            return vec![];
        }
        let event = self.work_out(core, interfaces);
        if event.is_none() {
            self.write(clock::boottime(), core);
        }
        event.into_iter().collect()
    }

    fn interfaces_changed(&mut self, core: &LeaseVips, interfaces: &[Interface]) -> Vec<Event> {
        self.work_out(core, interfaces).into_iter().collect()
    }

    fn new_needs(&mut self) -> Option<Needs> {
        self.new_needs.take()
    }

    fn before_step(&mut self, at: Moment, core: &LeaseVips, event: &Event) -> bool {
        // A read showed something the watch had not shown: the watch may hang on one API server while another answers.
        // Open a new watch.
        if let Event::Input(Input::Lease { name, event: ForElector::Read { result: Ok(Some(read)), .. } }) = event
            && core.version(name).is_some_and(|known| known != read.version)
        {
            self.clients.distrust_watch(name, &read.version);
        }
        match event {
            Event::Input(Input::Lease { name, event }) => self.look_at_declared(name, event),
            Event::LeftOver(vips) => self.seen(Seen::LeftOver(vips.iter().map(|vip| vip.address).collect())),
            _ => {}
        }
        let others = matches!(event, Event::Input(Input::Assignments(_)) | Event::Node { .. }) || at.now >= self.tidy;
        if others {
            self.tidy = at.now + IDLE;
        }
        others
    }

    fn after_step(&mut self, at: Moment, core: &LeaseVips, listens_anew: bool) {
        if listens_anew {
            self.declared.retain(|lease, _| core.version(lease).is_some());
            self.clients.set(core.leases().collect::<Vec<_>>().into_iter());
            let (wanted, carried) = core.counts();
            self.ops.metrics.services(wanted, carried);
            self.ops.metrics.services_of_other_program(core.of_other_program(at.now));
        }
    }

    fn call(&mut self, call: Call) {
        self.clients.call(call);
    }

    fn report(&mut self, at: Moment, core: &LeaseVips, _: &[Interface], reports: Vec<OfLease>) {
        for report in &reports {
            self.tell(report);
        }
        self.write(at.now, core);
    }

    fn answer(&self, core: &LeaseVips, interfaces: &[Interface], query: oneshot::Sender<ServicesStatus>) {
        let status = Status {
            leases: &self.leases,
            lease_vips: core,
            catalog: &self.catalog,
            reserved: &self.reserved,
            interfaces,
            server: self.cluster.servers.status().current,
            now: clock::boottime(),
        };
        // The client may be gone.
        let _ = query.send(status.status());
    }

    fn asked_to_end(&mut self, _: bool) {}
}
