//! Which of several allocators works: connects [`mooring_lease::leader`] with the Lease.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use mooring_common::api::codec::encode_spec;
use mooring_common::api::raw::Raw;
use mooring_common::clock::{boottime, realtime};
use mooring_lease::Failure;
use mooring_lease::leader::{Action, Event, Leader, Rules};
use mooring_lease::lease::{LeaseView, Record};
use mooring_lease::time::Time;
use serde_json::{Value, json};
use tokio::sync::{oneshot, watch};

use crate::api::{ApiError, Call, Client, Verb};
use crate::ops::Ops;
use crate::settings::Election;

const RESOURCE: &str = "leases";

/// Takes part until told to stop; then releases the Lease and ends. `leads` gets the time until which this allocator
/// surely leads.
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
        identity,
        lease_duration: elector.settings.lease_duration,
        renew_deadline: elector.settings.renew_deadline,
        retry_period: elector.settings.retry_period,
    });
    let mut event = Event::Tick;
    let mut stopping = false;
    loop {
        let mut next = None;
        for action in leader.step(boottime(), realtime(), event) {
            match action {
                Action::Leads(until) => elector.leads(until, &leads, leader.seen().holder()),
                Action::Exit => return,
                call => next = Some(call),
            }
        }
        event = if let Some(call) = next {
            // The elector makes one call at a time, and each call ends.
            elector.call(call).await
        } else {
            let at = leader.next_tick().unwrap_or_else(|| Time::default() + Duration::from_secs(1));
            let wait = tokio::time::sleep(at.since(boottime()));
            tokio::select! {
                biased;
                // The sender is gone: stop too.
                _ = &mut stop, if !stopping => {
                    stopping = true;
                    Event::Stop
                }
                () = wait => Event::Tick,
            }
        };
    }
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
    /// The last reported failure: the same failure is reported once.
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
                tracing::info!(lease, "became leader");
            } else {
                tracing::warn!(lease, holder, "lost leadership");
            }
        }
    }

    async fn call(&mut self, action: Action) -> Event {
        match action {
            Action::Write { id, base, record, within } => {
                let body = body(&self.settings, base.as_deref(), &record);
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
                    tracing::warn!(lease, %error, "Lease cannot be read or written; retrying");
                    self.told = Some(text);
                }
                Err(Failure::Away)
            }
        }
    }

    fn read(&self, bytes: &[u8]) -> Result<LeaseView, Failure> {
        let raw: Raw = serde_json::from_slice(bytes).map_err(|error| {
            tracing::warn!(lease = self.settings.name, %error, "Lease cannot be read; retrying");
            Failure::Away
        })?;
        Ok(raw.show().0)
    }
}

/// The data to send: a whole new Lease, or, for a Lease at this version, a patch of the elector's fields.
fn body(settings: &Election, base: Option<&str>, record: &Record) -> Value {
    let spec = encode_spec(record);
    match base {
        None => json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {"namespace": settings.namespace, "name": settings.name}, "spec": spec,
        }),
        Some(version) => json!({"metadata": {"resourceVersion": version}, "spec": spec}),
    }
}

#[cfg(test)]
mod tests {
    use mooring_lease::time::WallTime;

    use super::*;

    fn read(text: &str) -> LeaseView {
        serde_json::from_str::<Raw>(text).unwrap().show().0
    }

    #[test]
    fn what_is_written_is_read_and_is_client_gos() {
        let record = Record {
            holder: "pod-1_a".into(),
            duration: Duration::from_secs(15),
            acquired: Some(WallTime(1_795_168_800_000_000)),
            renewed: Some(WallTime(1_795_168_800_123_456)),
            transitions: 3,
        };
        let settings = Election {
            namespace: "n".into(),
            name: "l".into(),
            lease_duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry_period: Duration::from_secs(2),
        };
        let mut lease = body(&settings, None, &record);
        assert_eq!(lease["spec"]["acquireTime"], "2026-11-20T10:00:00.000000Z");
        assert_eq!(lease["spec"]["renewTime"], "2026-11-20T10:00:00.123456Z");
        lease["metadata"]["resourceVersion"] = "7".into();
        let view = read(&lease.to_string());
        assert_eq!((view.version.as_str(), view.record.clone()), ("7", record.clone()));
        let patch = body(&settings, Some("7"), &record);
        assert_eq!((&patch["metadata"]["resourceVersion"], patch.get("kind")), (&Value::from("7"), None));
    }

    #[test]
    fn absurd_leases_are_read_as_far_as_they_go() {
        let view = read(
            r#"{"metadata":{"resourceVersion":"1"},"spec":{"holderIdentity":"x","leaseDurationSeconds":-1,
            "acquireTime":"yesterday","renewTime":17,"leaseTransitions":-4}}"#,
        );
        assert_eq!((view.record.duration, view.record.transitions), (Duration::ZERO, 0));
        assert_eq!((view.record.acquired, view.record.renewed), (None, None));
        assert_eq!(read("{}").record, Record::default());
    }
}
