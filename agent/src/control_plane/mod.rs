//! The control plane's VIPs: the part that their core adds to the event loop.

mod answers;
mod health;
mod lease_client;
mod names;
mod objects;
mod reports;
mod status;

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::Arc;

use tokio::sync::{mpsc, watch};

use crate::address_task::{self, Needs, Policy};
use crate::cluster::Cluster;
use crate::core::control_plane::{Call, ControlPlane, Event, Input, Observer, Report};
use crate::core::event::{Event as ForElector, Moment};
use crate::core::rules::Rules;
use crate::core::trace::Recorder;
use crate::datapath::Interface;
use crate::event_loop::{Adapter, EventLoop, Inputs, STUCK, Signals};
use crate::ops::Ops;
use crate::rules::rules;
use crate::run_error::RunError;
use crate::segments::Segments;
use crate::settings::Settings;
use lease_client::LeaseClient;
use status::Status;

/// How many answers to calls, and changes from the watch of the Lease, may wait for the loop.
const ANSWERS: usize = 256;

struct ControlPlaneAdapter {
    settings: Arc<Settings>,
    client: LeaseClient,
    status: Status,
    refused: reports::Refused,
    ops: Arc<Ops>,
    /// Interface needs that are not handed on yet.
    new_needs: Option<Needs>,
    /// Who must not take the VIPs for other purposes is told of them here.
    vips: watch::Sender<Vec<IpAddr>>,
}

/// The control plane's VIPs that the settings name by address: those that are known at once.
pub fn vips_at_start(settings: &Settings) -> Vec<IpAddr> {
    names::at_start(&settings.addresses).vips
}

/// Holds the control plane's VIPs until the process is asked to end. `vips`: is told which VIPs they are.
pub async fn run(
    settings: Arc<Settings>,
    cluster: Cluster,
    ops: Arc<Ops>,
    vips: watch::Sender<Vec<IpAddr>>,
) -> Result<(), RunError> {
    let signals = Signals::catch()?;
    let heart = ops.liveness.watch("core", STUCK);
    let needs = Needs { first: settings.interface.clone(), ..Needs::default() };
    let policy = Policy::ControlPlane(settings.prefix);
    let place_heart = ops.liveness.watch("datapath", STUCK);
    let started = address_task::start(policy, needs, &settings.run_dir, &ops, place_heart);
    // The thread ends only with the loop, or when it could not open the datapath.
    if let Ok(opened) = started.opened.await {
        opened?;
    }
    let rules = rules(&settings);
    let mut core = ControlPlane::new(rules.clone());
    if let Some(observer) = recorder(&settings, &rules)? {
        core = core.observed_by(observer);
    }
    let (answer, answers) = mpsc::channel(ANSWERS);
    let client = LeaseClient::start(&settings, answer, cluster.clone());
    let (names, inbox) = mpsc::channel(1);
    let (objects, known) = watch::channel(Vec::new());
    tokio::spawn(names::follow(settings.addresses.clone(), settings.dns_mode, known, names));
    if let Some(named) = objects::named(&settings.addresses) {
        tokio::spawn(objects::follow(named, cluster, settings.run_dir.clone(), ops.clone(), objects));
    }
    let (segments, frames) = Segments::new(settings.rate_limit_each(), ops.clone());
    let adapter = ControlPlaneAdapter {
        status: Status::new(ops.clone()),
        refused: reports::Refused::default(),
        settings: settings.clone(),
        client,
        ops,
        new_needs: None,
        vips,
    };
    let mut event_loop = EventLoop::new(core, adapter, segments, started.task);
    event_loop.take(names::at_start(&settings.addresses));
    let (_, queries) = mpsc::channel(1);
    let inputs = Inputs { signals, frames, notices: started.notices, answers, inbox, queries };
    event_loop.run(inputs, heart).await;
    Ok(())
}

/// Records each step of the Elector, if the settings name a file. Steps without output are left out.
fn recorder(settings: &Settings, rules: &Rules) -> Result<Option<Observer>, RunError> {
    let Some(path) = &settings.record else { return Ok(None) };
    let recorder = std::fs::File::create(path).and_then(|file| Recorder::new(file, rules));
    let failed = |source| RunError::Io { what: format!("cannot record to {}", path.display()), source };
    let mut recorder = Some(recorder.map_err(failed)?);
    Ok(Some(Box::new(move |at, event, actions| {
        let quiet = *event == ForElector::Tick && actions.is_empty();
        if let Some(open) = recorder.as_mut().filter(|_| !quiet)
            && let Err(error) = open.step(at, event, actions)
        {
            tracing::error!(%error, "recording cannot be written; it ends here");
            recorder = None;
        }
    })))
}

impl Adapter for ControlPlaneAdapter {
    type Core = ControlPlane;
    type Answer = Input;
    /// The VIPs that the settings, DNS and `IPAddress` objects name.
    type Message = names::Known;
    type Query = Infallible;

    fn take_answer(&mut self, answer: Input) -> Event {
        Event::Input(answer)
    }

    fn take(&mut self, _: &ControlPlane, _: &[Interface], known: names::Known) -> Vec<Event> {
        let (vips, all_known) = (known.vips, known.all);
        self.client.set_vips(&vips);
        self.vips.send_replace(vips.clone());
        let first = self.settings.interface.clone();
        self.new_needs = Some(Needs { first, vips: vips.iter().copied().collect(), all_known, ..Needs::default() });
        vec![Event::Input(Input::Vips(vips))]
    }

    fn interfaces_changed(&mut self, _: &ControlPlane, interfaces: &[Interface]) -> Vec<Event> {
        if let Some(interface) = interfaces.first() {
            self.client.set_interface(interface.addresses.iter().map(ipnet::IpNet::addr).collect());
        }
        vec![]
    }

    /// A node whose own address is the VIP is no candidate for the VIP.
    fn own_addresses(&mut self, own: BTreeSet<IpAddr>) -> Option<Event> {
        Some(Event::Input(Input::Own(own)))
    }

    fn new_needs(&mut self) -> Option<Needs> {
        self.new_needs.take()
    }

    fn before_step(&mut self, _: Moment, core: &ControlPlane, event: &Event) -> bool {
        // A read showed something the watch had not: the watch may hang on one API server while another answers. Open a
        // new watch.
        if let Event::Input(Input::Read { result: Ok(Some(read)), .. }) = event
            && core.elector().version().is_some_and(|known| known != read.version)
        {
            self.client.distrust_watch();
        }
        true
    }

    fn call(&mut self, call: Call) {
        self.client.call(call);
    }

    fn report(&mut self, at: Moment, core: &ControlPlane, interfaces: &[Interface], reports: Vec<Report>) {
        let refused = &mut self.refused;
        let told = reports.iter().map(|report| reports::tell(report, refused, &self.settings, &self.client, &self.ops));
        let why = told.flatten().last();
        self.status.update(at, core.snapshot(), why, &self.settings, interfaces.first(), &self.client);
    }

    fn answer(&self, _: &ControlPlane, _: &[Interface], query: Infallible) {
        match query {}
    }

    fn asked_to_end(&mut self, again: bool) {
        if again {
            tracing::warn!(
                "second signal to end: ending at once; the kernel removes the VIPs when their lifetime ends"
            );
        } else {
            tracing::info!("asked to end");
        }
    }
}
