//! The agent's loop.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{mpsc, oneshot, watch};

use super::api::ApiHands;
use super::clocks::Clocks;
use super::place::{Dropped, Job, Place};
use super::reach::Reach;
use super::show::Show;
use super::{Told, fleet, names, objects, reports, rules};
use crate::core::action::Action;
use crate::core::event::{Event, Moment};
use crate::core::keeper::Keeper;
use crate::core::rules::Rules;
use crate::core::time::Time;
use crate::core::trace::Recorder;
use crate::datapath::{self, Datapath, Interface};
use crate::ops::lock::{Lock, LockError};
use crate::ops::metrics::Form;
use crate::ops::status_server::StatusServer;
use crate::ops::{self, Ops};
use crate::segment::{self, Counts, Heard, Kind, Segment, To};
use crate::settings::{Placement, Settings};

/// The loop steps at least this often, so that clocks that jump are seen.
const IDLE: Duration = Duration::from_secs(1);
/// How old the loop's last beat may be before `/livez` fails.
const STUCK: Duration = Duration::from_secs(15);
/// How long the addresses that are to go may take to go when the process ends.
const FLUSH: Duration = Duration::from_secs(2);

/// Why the agent did not start, or had to end.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// Capabilities are missing.
    #[error("missing {}: give the container these capabilities (securityContext.capabilities.add), or run as root", .0.join(" and "))]
    Capabilities(Vec<&'static str>),
    /// The kernel's side could not be opened.
    #[error(transparent)]
    Datapath(#[from] datapath::Error),
    /// Another agent runs here.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// Signals cannot be caught, or the trace cannot be written.
    #[error("{what}: {source}")]
    Io {
        /// What was tried.
        what: String,
        /// Why it did not work.
        source: std::io::Error,
    },
}

struct Driver {
    keeper: Keeper,
    clocks: Clocks,
    recorder: Option<Recorder<std::fs::File>>,
    settings: Arc<Settings>,
    interface: Option<Interface>,
    segment: Option<Segment>,
    counted: Counts,
    heard: Option<mpsc::Receiver<(Time, Heard)>>,
    jobs: mpsc::Sender<Job>,
    api: ApiHands,
    show: Show,
    ops: Arc<Ops>,
    vips: Vec<IpAddr>,
    /// Those of them that are the node's own.
    own: BTreeSet<IpAddr>,
    dropped: Dropped,
    listening: BTreeSet<IpAddr>,
    look_again: Time,
    exit: bool,
}

/// Runs the agent until it is asked to end.
///
/// # Errors
/// What keeps it from starting. Once it runs, nothing ends it but a signal.
pub async fn run(settings: Settings) -> Result<(), RunError> {
    let missing = datapath::missing_capabilities()?;
    if !missing.is_empty() {
        return Err(RunError::Capabilities(missing));
    }
    let _lock = Lock::take()?;
    let settings = Arc::new(settings);
    let ops = Ops::new(ops::boottime, &settings.node_name);
    serve(&settings, &ops);
    let reach = Reach::start(&settings, &ops);
    // Each goes on whatever becomes of the other, and both end by the same signal.
    let control_plane = async {
        if settings.control_plane() {
            control_plane(settings.clone(), reach.clone(), ops.clone()).await
        } else {
            Ok(())
        }
    };
    let services = async {
        let Some(services) = settings.services.clone() else { return Ok(()) };
        match services.placement.clone() {
            Placement::Sessions => fleet::run(settings.clone(), services, reach.clone(), ops.clone()).await,
            Placement::Leases(leases) => {
                fleet::run_leases(settings.clone(), services, leases, reach.clone(), ops.clone()).await
            }
        }
    };
    tokio::try_join!(control_plane, services).map(drop)
}

/// Holds the control plane's VIPs until the process is asked to end.
async fn control_plane(settings: Arc<Settings>, reach: Reach, ops: Arc<Ops>) -> Result<(), RunError> {
    let heart = ops.liveness.watch("core", STUCK);
    let options = datapath::Options { run_dir: settings.run_dir.clone(), ..datapath::Options::default() };
    let (datapath, kernel) = Datapath::open_with(&options)?;
    let (told, mut inbox) = mpsc::channel(256);
    let (jobs, work) = mpsc::channel(64);
    let place_heart = ops.liveness.watch("datapath", STUCK);
    let dropped = Dropped::default();
    let place = Place::new(settings.clone(), datapath, dropped.clone(), told.clone(), ops.clone(), place_heart);
    let api = ApiHands::start(&settings, told, reach.clone());
    let (names, mut resolved) = mpsc::channel(1);
    let (objects, known) = watch::channel(Vec::new());
    tokio::spawn(names::follow(settings.addresses.clone(), settings.dns_mode, known, names));
    if let Some(named) = objects::named(&settings.addresses) {
        tokio::spawn(objects::follow(named, reach.clone(), settings.run_dir.clone(), ops.clone(), objects));
    }

    let rules = rules(&settings);
    let mut driver = Driver {
        recorder: record(&settings, &rules)?,
        keeper: Keeper::new(rules),
        clocks: Clocks::new(),
        interface: None,
        segment: None,
        counted: Counts::default(),
        heard: None,
        jobs,
        api,
        show: Show::new(ops.clone()),
        ops,
        vips: vec![],
        own: BTreeSet::new(),
        dropped,
        listening: BTreeSet::new(),
        look_again: Time::default(),
        exit: false,
        settings: settings.clone(),
    };
    driver.now_vips(names::fixed(&settings.addresses)).await;
    tokio::spawn(place.run(work, kernel));

    let mut terminate = catch(SignalKind::terminate())?;
    let mut interrupt = catch(SignalKind::interrupt())?;
    let mut asked_to_end = false;
    while !driver.exit {
        let wake = driver.sleep();
        tokio::select! {
            biased;
            _ = terminate.recv() => if driver.end(&mut asked_to_end).await { break },
            _ = interrupt.recv() => if driver.end(&mut asked_to_end).await { break },
            frame = next_heard(&mut driver.heard) => driver.heard(frame).await,
            told = inbox.recv() => match told {
                Some(Told::Event(event)) => driver.step(event).await,
                Some(Told::Place(interface)) => driver.place(interface),
                Some(Told::Own(own)) => driver.now_own(own).await,
                None => break,
            },
            Some(vips) = resolved.recv() => driver.now_vips(vips).await,
            () = tokio::time::sleep(wake) => driver.tick().await,
        }
        heart.beat();
    }
    driver.flush().await;
    Ok(())
}

pub(super) fn catch(kind: SignalKind) -> Result<Signal, RunError> {
    signal(kind).map_err(|source| RunError::Io { what: "cannot catch signals".into(), source })
}

fn record(settings: &Settings, rules: &Rules) -> Result<Option<Recorder<std::fs::File>>, RunError> {
    let Some(path) = &settings.record else { return Ok(None) };
    let recorder = std::fs::File::create(path).and_then(|file| Recorder::new(file, rules));
    let failed = |source| RunError::Io { what: format!("cannot record to {}", path.display()), source };
    recorder.map(Some).map_err(failed)
}

/// Metrics, health and the status socket: none of them keeps a VIP from being carried.
fn serve(settings: &Settings, ops: &Arc<Ops>) {
    if let Some(listen) = settings.metrics {
        tokio::spawn(ops::server::serve(listen, ops.clone()));
    }
    match StatusServer::bind(&settings.status_socket) {
        Ok(server) => drop(tokio::spawn(server.serve(ops.clone()))),
        Err(error) => tracing::warn!(%error, "`mooring-agent status` will not work"),
    }
}

/// Waits for ever while there is no segment.
async fn next_heard(heard: &mut Option<mpsc::Receiver<(Time, Heard)>>) -> Option<(Time, Heard)> {
    match heard {
        Some(heard) => heard.recv().await,
        None => std::future::pending().await,
    }
}

impl Driver {
    fn sleep(&self) -> Duration {
        let now = datapath::clock::boottime();
        self.keeper.wake().map_or(IDLE, |wake| wake.since(now).min(IDLE))
    }

    /// Without a segment nothing is announced: it is opened again as soon as it can be.
    async fn tick(&mut self) {
        let now = datapath::clock::boottime();
        if self.segment.is_none() && self.interface.is_some() && now >= self.look_again {
            self.look_again = now + IDLE;
            self.job(Job::Look).await;
        }
        self.step(Event::Tick).await;
    }

    async fn step(&mut self, event: Event) {
        let (at, jump) = self.clocks.read();
        if let Some(by) = jump {
            self.step_at(at, Event::ClockJump(by)).await;
        }
        self.step_at(at, event).await;
    }

    async fn step_at(&mut self, at: Moment, event: Event) {
        if let (Event::Read { result: Ok(Some(read)), .. }, Some(known)) = (&event, self.keeper.snapshot().lease)
            && read.version != known.version
        {
            self.api.distrust_watch();
        }
        let actions = self.keeper.step(at, event.clone());
        let quiet = event == Event::Tick && actions.is_empty();
        if let Some(recorder) = self.recorder.as_mut().filter(|_| !quiet)
            && let Err(error) = recorder.step(at, &event, &actions)
        {
            tracing::error!(%error, "the trace cannot be written any more");
            self.recorder = None;
        }
        let mut why = None;
        for action in actions {
            if let Action::Report(report) = action {
                let told = reports::tell(&report, &self.settings, &self.vips, &self.api, &self.ops);
                why = told.or(why);
            } else {
                self.act(action).await;
            }
        }
        self.after_step(at, why);
    }

    async fn act(&mut self, action: Action) {
        match action {
            Action::Read { id, within } => self.api.read(id, within),
            Action::Write { id, base, record, notes, within } => self.api.write(id, base, record, notes, within),
            Action::AskPeers { id, within } => self.api.ask_peers(id, within),
            Action::Carry { address, until } => {
                self.dropped.set(address, false);
                self.job(Job::Put { address, until }).await;
            }
            Action::Drop { address } => {
                self.dropped.set(address, true);
                // An announcement that the limit has delayed must not leave after the VIP has gone.
                if let Some(segment) = &self.segment {
                    segment.withdraw(address);
                }
                self.job(Job::Remove { address }).await;
            }
            Action::Announce { address } => self.speak(|segment| segment.announce(address)),
            Action::Probe { address, to } => {
                self.speak(|segment| segment.probe(address, to.map_or(To::Broadcast, To::Unicast)));
            }
            Action::Report(_) => {}
            Action::Exit => self.exit = true,
        }
    }

    async fn job(&self, job: Job) {
        if self.jobs.send(job).await.is_err() {
            tracing::error!("the datapath's task has ended");
        }
    }

    fn speak(&mut self, what: impl FnOnce(&Segment) -> Result<(), segment::Error>) {
        let Some(segment) = &self.segment else { return };
        if let Err(error) = what(segment) {
            tracing::debug!(%error, "a frame was not sent");
        }
        let counts = segment.counts();
        let forms = [
            (Kind::ArpRequest, Form::ArpRequest),
            (Kind::ArpReply, Form::ArpReply),
            (Kind::Advertisement, Form::NeighborAdvertisement),
        ];
        for (kind, form) in forms {
            let new = counts.sent(kind).saturating_sub(self.counted.sent(kind));
            if new > 0 {
                self.ops.metrics.announced(form, new);
            }
        }
        self.counted = counts;
    }

    /// What others may want to know of the new state.
    fn after_step(&mut self, at: Moment, why: Option<String>) {
        let snapshot = self.keeper.snapshot();
        self.show.state(at, snapshot, why, &self.settings, self.interface.as_ref(), &self.api);
        let wanted = self.keeper.listens_for();
        if let Some(segment) = self.segment.as_ref().filter(|_| wanted != self.listening) {
            segment.listen_for(wanted.iter().copied());
            self.listening = wanted;
        }
    }

    async fn heard(&mut self, heard: Option<(Time, Heard)>) {
        if let Some((_, heard)) = heard {
            self.step(Event::Heard { address: heard.address, mac: heard.mac }).await;
        } else {
            // It has ended with its interface, or its sockets broke.
            self.heard = None;
            self.segment = None;
            tracing::warn!("no longer listening on the segment; looking for the interface");
        }
    }

    fn place(&mut self, interface: Option<Interface>) {
        self.segment = None;
        self.heard = None;
        self.counted = Counts::default();
        self.interface = interface;
        let Some(interface) = &self.interface else { return };
        let own = interface.addresses.iter().map(ipnet::IpNet::addr).collect();
        self.api.servers().set_own_addresses(own);
        let options = segment::Options { frames_per_second: self.settings.announce.rate_limit };
        match Segment::open(interface, options) {
            Ok((segment, heard)) => {
                segment.listen_for(self.listening.iter().copied());
                self.segment = Some(segment);
                self.heard = Some(heard);
            }
            Err(error) => {
                tracing::error!(interface = %interface.name, %error, "cannot speak on the segment: VIPs are not announced");
            }
        }
    }

    async fn now_vips(&mut self, vips: Vec<IpAddr>) {
        // What is said of VIPs that are let go names those, and not what is carried on.
        self.vips.retain(|known| !vips.contains(known));
        self.step(Event::Vips(self.carried(&vips))).await;
        self.vips.clone_from(&vips);
        self.job(Job::Vips(vips)).await;
    }

    /// A node whose own address is the VIP is no candidate for it.
    async fn now_own(&mut self, own: BTreeSet<IpAddr>) {
        self.own = own;
        let vips = self.carried(&self.vips);
        self.step(Event::Vips(vips)).await;
    }

    fn carried(&self, vips: &[IpAddr]) -> Vec<IpAddr> {
        vips.iter().copied().filter(|vip| !self.own.contains(vip)).collect()
    }

    /// The first signal asks for a hand-over, the second ends the process at once. True: end now.
    async fn end(&mut self, asked: &mut bool) -> bool {
        if *asked {
            tracing::warn!("asked to end twice: ending at once; the VIPs' fences end by themselves");
            return true;
        }
        *asked = true;
        tracing::info!("asked to end");
        self.step(Event::Shutdown).await;
        false
    }

    async fn flush(&mut self) {
        let (done, all_done) = oneshot::channel();
        self.job(Job::Flush(done)).await;
        if tokio::time::timeout(FLUSH, all_done).await.is_err() {
            tracing::error!("the kernel did not answer; the VIPs' fences end by themselves");
        }
    }
}
