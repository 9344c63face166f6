//! The agent's loop.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{mpsc, oneshot};

use super::api::ApiHands;
use super::clocks::Clocks;
use super::place::{Job, Place};
use super::reports::Reports;
use super::{Told, names, rules, show};
use crate::core::action::Action;
use crate::core::event::{Event, Moment};
use crate::core::keeper::Keeper;
use crate::core::time::Time;
use crate::core::trace::Recorder;
use crate::datapath::{self, Datapath, Interface};
use crate::ops::{self, Liveness, Metrics, Readiness};
use crate::segment::{self, Heard, Segment, To};
use crate::settings::Settings;

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
    /// Metrics, health or the status socket could not be served.
    #[error(transparent)]
    Ops(#[from] ops::Error),
    /// Signals cannot be caught, or the trace cannot be written.
    #[error(transparent)]
    Io(#[from] std::io::Error),
}

struct Driver {
    keeper: Keeper,
    clocks: Clocks,
    recorder: Option<Recorder<std::fs::File>>,
    settings: Arc<Settings>,
    interface: Option<Interface>,
    segment: Option<Segment>,
    heard: Option<mpsc::Receiver<(Time, Heard)>>,
    jobs: mpsc::Sender<Job>,
    api: ApiHands,
    reports: Reports,
    metrics: Metrics,
    readiness: Readiness,
    vips: Vec<IpAddr>,
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
    let settings = Arc::new(settings);
    let (metrics, readiness) = (Metrics::new(), Readiness::new());
    let liveness = Liveness::new([("core", STUCK), ("datapath", STUCK)]);
    let options = datapath::Options { run_dir: settings.run_dir.clone(), ..datapath::Options::default() };
    let (show_requests, mut shown) = show::channel();
    let _served = ops::serve(&settings, &metrics, &liveness, &readiness, show_requests)?;

    let (datapath, kernel) = Datapath::open_with(options)?;
    let (told, mut inbox) = mpsc::channel(256);
    let (jobs, work) = mpsc::channel(64);
    let place = Place::new(settings.clone(), datapath, told.clone(), metrics.clone(), liveness.clone());
    tokio::spawn(place.run(work, kernel));
    let api = ApiHands::start(settings.clone(), told.clone(), metrics.clone());
    let (names, mut resolved) = mpsc::channel(1);
    tokio::spawn(names::follow(settings.addresses.clone(), settings.dns_mode, names));

    let rules = rules(&settings);
    let recorder = match &settings.record {
        Some(path) => Some(Recorder::new(std::fs::File::create(path)?, &rules)?),
        None => None,
    };
    let mut driver = Driver {
        keeper: Keeper::new(rules),
        clocks: Clocks::new(),
        recorder,
        interface: None,
        segment: None,
        heard: None,
        jobs,
        reports: Reports::new(&settings, metrics.clone(), api.events()),
        api,
        metrics,
        readiness,
        vips: vec![],
        exit: false,
        settings: settings.clone(),
    };
    driver.now_vips(names::fixed(&settings.addresses)).await;

    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut asked_to_end = false;
    while !driver.exit {
        let wake = driver.sleep();
        tokio::select! {
            biased;
            _ = terminate.recv() => if driver.end(&mut asked_to_end).await { break },
            _ = interrupt.recv() => if driver.end(&mut asked_to_end).await { break },
            heard = next_heard(&mut driver.heard) => driver.heard(heard).await,
            told = inbox.recv() => match told {
                Some(Told::Event(event)) => driver.step(event).await,
                Some(Told::Place(interface)) => driver.place(interface),
                Some(Told::Vips(vips)) => driver.now_vips(vips).await,
                None => break,
            },
            Some(vips) = resolved.recv() => driver.now_vips(vips).await,
            Some(request) = shown.recv() => driver.show(request),
            () = tokio::time::sleep(wake) => driver.step(Event::Tick).await,
        }
        liveness.beat("core");
    }
    driver.flush().await;
    Ok(())
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

    async fn step(&mut self, event: Event) {
        let (at, jump) = self.clocks.read();
        if let Some(by) = jump {
            self.step_at(at, Event::ClockJump(by)).await;
        }
        self.step_at(at, event).await;
    }

    async fn step_at(&mut self, at: Moment, event: Event) {
        let actions = self.keeper.step(at, event.clone());
        let quiet = event == Event::Tick && actions.is_empty();
        if let Some(recorder) = self.recorder.as_mut().filter(|_| !quiet)
            && let Err(error) = recorder.step(at, &event, &actions)
        {
            tracing::error!(%error, "the trace cannot be written any more");
            self.recorder = None;
        }
        for action in actions {
            self.act(action).await;
        }
        self.after_step(at.now);
    }

    async fn act(&mut self, action: Action) {
        match action {
            Action::Read { id, within } => self.api.read(id, within),
            Action::Write { id, base, record, notes, within } => self.api.write(id, base, record, notes, within),
            Action::AskPeers { id, within } => self.api.ask_peers(id, within),
            Action::Carry { address, until } => self.job(Job::Put { address, until }).await,
            Action::Drop { address } => self.job(Job::Remove { address }).await,
            Action::Announce { address } => {
                if let Some(segment) = &self.segment {
                    segment.announce(address);
                    self.metrics.announced(address);
                }
            }
            Action::Probe { address, to } => {
                if let Some(segment) = &self.segment {
                    segment.probe(address, to.map_or(To::Broadcast, To::Unicast));
                }
            }
            Action::Report(report) => {
                let holder = self.keeper.lease_holder().to_owned();
                self.reports.tell(&report, &holder, &self.vips);
            }
            Action::Exit => self.exit = true,
        }
    }

    async fn job(&self, job: Job) {
        if self.jobs.send(job).await.is_err() {
            tracing::error!("the datapath's task has ended");
        }
    }

    /// What others may want to know of the new state.
    fn after_step(&mut self, now: Time) {
        let snapshot = self.keeper.snapshot(now);
        self.reports.state(&snapshot);
        self.readiness.set(&show::reasons(&snapshot, self.interface.is_some(), self.segment.is_some(), &self.api));
        self.api.prefer_local(snapshot.healthy != Some(false));
        let parties = self.keeper.third_parties();
        let interesting: BTreeSet<IpAddr> = self.vips.iter().copied().chain(parties).collect();
        if let Some(segment) = &self.segment {
            segment.listen_for(interesting);
        }
    }

    async fn heard(&mut self, heard: Option<(Time, Heard)>) {
        match heard {
            Some((_, heard)) => self.step(Event::Heard { address: heard.address, mac: heard.mac }).await,
            None => {
                // The listener has ended with its interface; a new one comes with the next.
                self.heard = None;
                self.segment = None;
                let interface = self.interface.take();
                tracing::warn!(interface = ?interface.map(|i| i.name), "no longer listening on the segment");
            }
        }
    }

    fn place(&mut self, interface: Option<Interface>) {
        self.segment = None;
        self.heard = None;
        self.interface = interface;
        let Some(interface) = &self.interface else { return };
        let options = segment::Options { frames_per_second: self.settings.announce.rate_limit };
        match Segment::open(interface, options) {
            Ok((segment, heard)) => {
                segment.listen_for(self.vips.iter().copied().collect());
                self.segment = Some(segment);
                self.heard = Some(heard);
            }
            Err(error) => {
                tracing::error!(interface = %interface.name, %error, "cannot speak on the segment: VIPs are not announced");
            }
        }
    }

    async fn now_vips(&mut self, vips: Vec<IpAddr>) {
        self.vips.clone_from(&vips);
        self.step(Event::Vips(vips.clone())).await;
        self.job(Job::Vips(vips)).await;
    }

    fn show(&self, request: show::Request) {
        let now = datapath::clock::boottime();
        let document = show::document(&self.settings, &self.keeper.snapshot(now), self.interface.as_ref(), &self.api, &self.reports);
        // The asker may have gone.
        let _ = request.send(document);
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
        self.reports.flush().await;
    }
}
