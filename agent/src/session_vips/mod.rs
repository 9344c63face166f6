//! The many VIPs of a node, placed by the nodes' sessions: the part that their core adds to the event loop.

mod calls;
mod coalesce;
mod conflicts;
mod refusals;
mod reports;
mod status;

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot, watch};

use crate::address_task::Needs;
use crate::api::addresses::Addresses;
use crate::api::sessions::PREFIX;
use crate::catalog::{Catalog, Seen};
use crate::cluster::Cluster;
use crate::core::event::Moment;
use crate::core::session::Member;
use crate::core::session_vips::{Call, Event, Input, Report, SessionVips};
use crate::core::time::Time;
use crate::datapath::{Interface, clock};
use crate::event_loop::{Adapter, EventLoop, INBOX, Inputs, STUCK, Signals};
use crate::ops::Ops;
use crate::ops::services::ServicesStatus;
use crate::rules::rules;
use crate::run_error::RunError;
use crate::segments::Segments;
use crate::services::{interfaces, start_address_task, tell_remarks, tell_reserved};
use crate::settings::{Services, Settings};
use crate::watches::{Lost, Message, Watches};
use calls::Calls;
use reports::Reports;
use status::Status;

struct SessionVipsAdapter {
    catalog: Catalog,
    calls: Calls,
    watches: Watches,
    needs: Needs,
    /// Interface needs that are not handed on yet.
    new_needs: Option<Needs>,
    reports: Reports,
    lost: Lost,
    /// The addresses that each session last declared.
    peers: BTreeMap<String, Vec<IpAddr>>,
    status: Status,
    ops: Arc<Ops>,
    /// When the watch of sessions last showed something.
    watched: Time,
    blind_after: Duration,
}

/// Holds VIPs of Services and other `IPAddress` objects until the process is asked to end. `reserved`: the control plane's VIPs.
///
/// # Errors
/// What prevents the start. Once the loop runs, only a signal ends it.
pub async fn run(
    settings: Arc<Settings>,
    services: Services,
    cluster: Cluster,
    ops: Arc<Ops>,
    reserved: watch::Receiver<Vec<IpAddr>>,
) -> Result<(), RunError> {
    let signals = Signals::catch()?;
    let heart = ops.liveness.watch("services", STUCK);
    let (told, inbox) = mpsc::channel(INBOX);
    let lease = format!("{PREFIX}{}", settings.node_name);
    tokio::spawn(tell_reserved(reserved, told.clone()));
    let (status, queries) = Status::new(&settings.node_name, format!("{}/{lease}", services.sessions), &ops);
    let rules = rules(&settings);
    let (first, elsewhere) = interfaces(&settings, &services);
    let needs = Needs { first, ..Needs::default() };
    let started = start_address_task(needs.clone(), &settings, &ops).await;
    let (segments, frames) = Segments::new(settings.rate_limit_each(), ops.clone());
    let servers = cluster.servers.clone();
    let namespace = services.sessions;
    ops.readiness.set("services", Some("what there is was not listed yet".into()));
    let adapter = SessionVipsAdapter {
        blind_after: rules.blind_after(),
        catalog: Catalog::new(&settings.node_name, elsewhere),
        calls: Calls::new(&settings.node_name, servers.clone(), namespace.clone(), told.clone()),
        watches: Watches::start(servers, &settings.node_name, Some(&namespace), told),
        needs,
        new_needs: None,
        reports: Reports::new(settings.node_name.clone(), (namespace, lease), cluster, ops.clone()),
        lost: Lost::default(),
        peers: BTreeMap::new(),
        status,
        ops,
        watched: clock::boottime(),
    };
    let event_loop = EventLoop::new(SessionVips::new(rules), adapter, segments, started.task);
    let (_, answers) = mpsc::channel(1);
    event_loop.run(Inputs { signals, frames, notices: started.notices, answers, inbox, queries }, heart).await;
    Ok(())
}

impl SessionVipsAdapter {
    fn seen(&mut self, seen: Seen) -> Vec<Event> {
        let of_services = matches!(seen, Seen::Services(_));
        let inputs = self.catalog.take(seen);
        tell_remarks(&mut self.catalog, self.reports.events());
        let synced = inputs.contains(&Input::Synced);
        if synced {
            self.ops.readiness.set("services", None);
        }
        if synced || inputs.iter().any(|input| matches!(input, Input::Wanted(_) | Input::Unwanted(_))) {
            let all_known = synced || self.needs.all_known;
            let needs = Needs::of(self.needs.first.clone(), self.catalog.demands(), all_known);
            if needs != self.needs {
                self.needs = needs.clone();
                self.new_needs = Some(needs);
            }
        }
        if self.catalog.asks_for_nodes() {
            self.watches.nodes();
        }
        if of_services {
            self.watches.slices_of(self.catalog.local_services());
        }
        inputs.into_iter().map(Event::Input).collect()
    }

    /// Whether the event may change the addresses to listen for. Renewals of sessions come many times a second.
    fn may_change_listening(&mut self, core: &SessionVips, event: &Event) -> bool {
        match event {
            Event::Input(Input::Session(view) | Input::Member(Member { copy: view, .. })) => {
                let addresses: Vec<IpAddr> = view.links().iter().flat_map(|link| link.addresses.clone()).collect();
                if self.peers.get(&view.node) == Some(&addresses) {
                    return false;
                }
                self.peers.insert(view.node.clone(), addresses);
                true
            }
            // Another holder or another demand of a known VIP changes no addresses.
            Event::Input(Input::Wanted(demands)) => demands.iter().any(|demand| !core.knows(demand.address)),
            Event::Input(Input::Address { address, view: Some(_), .. }) => !core.knows(*address),
            Event::Node { .. }
            | Event::Input(
                Input::Unwanted(_)
                | Input::SessionDeleted(_)
                | Input::Sessions { .. }
                | Input::Followed { .. }
                | Input::Members(_)
                | Input::Address { .. },
            )
            | Event::LeftOver(_) => true,
            _ => false,
        }
    }
}

impl Adapter for SessionVipsAdapter {
    type Core = SessionVips;
    /// Answers come with the messages, in their order.
    type Answer = Infallible;
    type Message = Message;
    type Query = oneshot::Sender<ServicesStatus>;

    fn take_answer(&mut self, answer: Infallible) -> Event {
        match answer {}
    }

    fn take(&mut self, _: &SessionVips, _: &[Interface], message: Message) -> Vec<Event> {
        match message {
            Message::Input(input) => {
                if let Input::Reserved(reserved) = &input {
                    self.catalog.reserve(reserved.clone());
                    tell_remarks(&mut self.catalog, self.reports.events());
                }
                vec![Event::Input(input)]
            }
            Message::Seen(seen) => self.seen(*seen),
            Message::WatchLost => vec![Event::Input(Input::WatchLost)],
            Message::Watch { name, wrong } => {
                self.lost.take(name, wrong.as_deref());
                vec![]
            }
            Message::Namespace { exists } => {
                self.reports.namespace(exists);
                vec![]
            }
            Message::MemberRefused(why) => {
                self.reports.member_refused(why.as_deref());
                vec![]
            }
            Message::Kind(api) => {
                self.reports.kind(api.as_ref().map(Addresses::version));
                self.calls.set_addresses(api);
                vec![]
            }
        }
    }

    fn interfaces_changed(&mut self, _: &SessionVips, _: &[Interface]) -> Vec<Event> {
        vec![]
    }

    fn new_needs(&mut self) -> Option<Needs> {
        self.new_needs.take()
    }

    fn before_step(&mut self, at: Moment, core: &SessionVips, event: &Event) -> bool {
        match event {
            Event::Input(Input::Session(_) | Input::Followed { .. } | Input::Sessions { id: None, .. }) => {
                self.watched = at.now;
            }
            // A list shows what the watch should have shown: the watch may hang on one API server while another
            // answers.
            Event::Input(Input::Sessions { id: Some(_), result: Ok(_) })
                if at.now.since(self.watched) > self.blind_after =>
            {
                self.watched = at.now;
                self.watches.kick();
            }
            _ => {}
        }
        self.may_change_listening(core, event)
    }

    fn call(&mut self, call: Call) {
        self.calls.call(call, &self.catalog, &mut self.watches);
    }

    fn report(&mut self, at: Moment, core: &SessionVips, _: &[Interface], reports: Vec<Report>) {
        self.reports.tell(at, &reports, &self.catalog, &self.calls);
        self.status.update(at.now, core);
    }

    fn answer(&self, core: &SessionVips, interfaces: &[Interface], query: oneshot::Sender<ServicesStatus>) {
        // The client may be gone.
        let _ = query.send(self.status.status(core, &self.catalog, interfaces, &self.reports));
    }

    fn asked_to_end(&mut self, again: bool) {
        if !again {
            self.reports.leave();
        }
    }
}
