//! Which of several allocators works: carries words between [`mooring_core::leader`] and the Lease.

mod lease;

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use mooring_core::event::Failure;
use mooring_core::leader::{Action, Event, Leader};
use mooring_core::rules::Rules;
use mooring_core::time::{Time, WallTime};
use tokio::sync::{oneshot, watch};

use crate::api::{ApiError, Call, Client, Verb};
use crate::clock;
use crate::ops::Ops;
use crate::settings::Election;

const RESOURCE: &str = "leases";

/// Takes part until told to stop; then releases the Lease and ends. `leads` is told until when this one surely leads.
pub async fn run(
    settings: Election,
    identity: String,
    client: Client,
    ops: Arc<Ops>,
    leads: watch::Sender<Option<Duration>>,
    mut stop: oneshot::Receiver<()>,
) {
    let mut elector = Elector { path: path(&settings), settings, client, ops, led: false, told: None };
    let mut leader = Leader::new(Rules {
        node: identity,
        lease_duration: elector.settings.lease_duration,
        renew_deadline: elector.settings.renew_deadline,
        retry_period: elector.settings.retry_period,
        ..Rules::default()
    });
    let mut event = Event::Tick;
    let mut stopping = false;
    loop {
        let mut next = None;
        for action in leader.step(time(), wall(), event) {
            match action {
                Action::Leads(until) => elector.leads(until, &leads, leader.seen().holder()),
                Action::Exit => return,
                call => next = Some(call),
            }
        }
        event = if let Some(call) = next {
            // It makes one call at a time, and each has an end.
            elector.call(call).await
        } else {
            let at = leader.next_tick().map_or(Duration::from_secs(1), |at| Duration::from_nanos(at.as_nanos()));
            let wait = tokio::time::sleep(at.saturating_sub(clock::now()));
            tokio::select! {
                biased;
                // Whoever could tell is gone: that is the end too.
                _ = &mut stop, if !stopping => {
                    stopping = true;
                    Event::Stop
                }
                () = wait => Event::Tick,
            }
        };
    }
}

fn time() -> Time {
    Time::from_nanos(u64::try_from(clock::now().as_nanos()).unwrap_or(u64::MAX))
}

fn wall() -> WallTime {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    WallTime(i64::try_from(since.as_micros()).unwrap_or(i64::MAX))
}

fn path(settings: &Election) -> String {
    format!("/apis/coordination.k8s.io/v1/namespaces/{}/{RESOURCE}", settings.namespace)
}

struct Elector {
    settings: Election,
    path: String,
    client: Client,
    ops: Arc<Ops>,
    led: bool,
    /// What was last said about a failure: it is said once.
    told: Option<String>,
}

impl Elector {
    fn leads(&mut self, until: Option<Time>, leads: &watch::Sender<Option<Duration>>, holder: &str) {
        // Nobody listens any more: the program ends.
        let _ = leads.send(until.map(|until| Duration::from_nanos(until.as_nanos())));
        let now = until.is_some();
        self.ops.metrics.leads.set(i64::from(now));
        if now != self.led {
            self.led = now;
            let lease = format!("{}/{}", self.settings.namespace, self.settings.name);
            if now {
                tracing::info!(lease, "leads");
            } else {
                tracing::warn!(lease, holder, "leads no more");
            }
        }
    }

    async fn call(&mut self, action: Action) -> Event {
        match action {
            Action::Write { id, base, record, within } => {
                let body = lease::write(&self.settings.namespace, &self.settings.name, base.as_deref(), &record);
                let (verb, path) = match base {
                    None => (Verb::Create, self.path.clone()),
                    Some(_) => (Verb::Patch, format!("{}/{}", self.path, self.settings.name)),
                };
                let call = Call { verb, resource: RESOURCE, path, body: body.to_string().into() };
                let result = self.client.call(&call, within, &self.ops.metrics).await;
                let result = self.judge(result).and_then(|bytes| self.read(&bytes));
                Event::Wrote { id, result }
            }
            Action::Read { id, within } => {
                let path = format!("{}/{}", self.path, self.settings.name);
                let call = Call::read(Verb::Get, RESOURCE, path);
                let result = match self.client.call(&call, within, &self.ops.metrics).await {
                    Err(error) if error.is_not_found() => Ok(None),
                    result => self.judge(result).and_then(|bytes| self.read(&bytes)).map(Some),
                };
                Event::Read { id, result }
            }
            Action::Leads(_) | Action::Exit => Event::Tick,
        }
    }

    fn judge(&mut self, result: Result<Bytes, ApiError>) -> Result<Bytes, Failure> {
        match result {
            Ok(bytes) => {
                self.told = None;
                Ok(bytes)
            }
            Err(ApiError::Status { code: 409, .. }) => Err(Failure::Conflict),
            Err(error) => {
                let text = error.to_string();
                if self.told.as_ref() != Some(&text) {
                    let lease = format!("{}/{}", self.settings.namespace, self.settings.name);
                    tracing::warn!(lease, %error, "the Lease cannot be read or written; tried again");
                    self.told = Some(text);
                }
                Err(Failure::Away)
            }
        }
    }

    fn read(&self, bytes: &[u8]) -> Result<mooring_core::lease::LeaseView, Failure> {
        lease::read(bytes).map_err(|error| {
            tracing::warn!(lease = self.settings.name, %error, "the Lease makes no sense");
            Failure::Away
        })
    }
}
