//! Reads and writes one Lease.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use kube::core::Request;
use kube::core::params::{GetParams, PostParams};

use crate::core::lease::{LeaseView, Notes, Record};

use super::codec::{Flaw, encode};
use super::error::cut;
use super::race::{Call, Limits, Outcome};
use super::raw::Raw;
use super::servers::Servers;
use super::{ApiError, Away, Failure, Try, Verb};

/// As RBAC has it.
pub(crate) const RESOURCE: &str = "leases.coordination.k8s.io";
/// Annotations under this are the codec's own.
const OURS: &str = "mooring.dev/";
/// So many Leases as they were last seen are kept, for writes based on them.
const KEPT: usize = 8;

/// Which Lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseSettings {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Annotations that are put on it at every write. Those under `mooring.dev/` are not taken from here.
    pub annotations: BTreeMap<String, String>,
}

/// What a read found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Read {
    /// None: there is no such Lease.
    pub view: Option<LeaseView>,
    /// What is wrong with it.
    pub flaws: Vec<Flaw>,
}

/// What is to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Write {
    /// The version this is based on: if the Lease has another, [`ApiError::Conflict`]. None: there must be no Lease.
    pub base: Option<String>,
    /// The record.
    pub record: Record,
    /// The annotations of Mooring. What is None or empty is removed.
    pub notes: Notes,
}

/// One Lease. Clones are the same one.
#[derive(Clone)]
pub struct LeaseApi(Arc<Inner>);

struct Inner {
    servers: Servers,
    settings: LeaseSettings,
    /// The Leases as the API gave them, newest last: they carry what others put on them.
    raw: Mutex<VecDeque<Lease>>,
}

impl fmt::Debug for LeaseApi {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("LeaseApi").field(&self.what()).finish()
    }
}

impl LeaseApi {
    /// Makes no call.
    #[must_use]
    pub fn new(servers: Servers, settings: LeaseSettings) -> Self {
        Self(Arc::new(Inner { servers, settings, raw: Mutex::default() }))
    }

    /// The Lease as it is now: a consistent read. A deadline of 0 is no call.
    pub async fn read(&self, deadline: Duration) -> Result<Read, ApiError> {
        self.read_within(Limits::within(deadline)).await
    }

    /// [`LeaseApi::read`] with limits of its own.
    pub async fn read_within(&self, limits: Limits) -> Result<Read, ApiError> {
        // Without a resourceVersion: the newest that etcd's majority has, not what a cache shows.
        let request = Request::new(self.path()).get(&self.0.settings.name, &GetParams::default());
        let call = self.call(Verb::Get, request)?;
        let outcome = self.0.servers.ask(&call, limits).await;
        match self.parse(outcome, Verb::Get, limits.deadline) {
            Ok(lease) => {
                let (view, flaws) = self.remember(lease);
                Ok(Read { view: Some(view), flaws })
            }
            Err(ApiError::NotFound { .. }) => Ok(Read { view: None, flaws: Vec::new() }),
            Err(error) => Err(error),
        }
    }

    /// Writes it by compare-and-swap, and answers with what it is now. See [`ApiError::maybe_applied`].
    pub async fn write(&self, write: &Write, deadline: Duration) -> Result<LeaseView, ApiError> {
        self.write_within(write, Limits::within(deadline)).await
    }

    /// [`LeaseApi::write`] with limits of its own.
    pub async fn write_within(&self, write: &Write, limits: Limits) -> Result<LeaseView, ApiError> {
        let began = tokio::time::Instant::now();
        let settings = &self.0.settings;
        let mut lease = match &write.base {
            None => Lease::default(),
            Some(version) => self.known(version).ok_or_else(|| ApiError::Conflict {
                what: self.what(),
                message: format!("version {} is not known here any more", cut(version, 40)),
            })?,
        };
        lease.metadata.name = Some(settings.name.clone());
        lease.metadata.namespace = Some(settings.namespace.clone());
        let extra = settings.annotations.iter().filter(|(name, _)| !name.starts_with(OURS));
        let annotations = lease.metadata.annotations.get_or_insert_default();
        annotations.extend(extra.map(|(name, value)| (name.clone(), value.clone())));
        encode(&mut lease, &write.record, &write.notes);
        let wanted = lease.spec.clone();
        let body = serde_json::to_vec(&lease).map_err(|error| internal(&error))?;
        let request = Request::new(self.path());
        // PUT, not PATCH: the role made for kube-vip has no patch.
        let (verb, request) = match &write.base {
            None => (Verb::Create, request.create(&PostParams::default(), body)),
            Some(_) => (Verb::Update, request.replace(&settings.name, &PostParams::default(), body)),
        };
        let call = self.call(verb, request)?;
        let outcome = self.0.servers.ask(&call, limits).await;
        let doubt = outcome.doubt;
        match self.parse(outcome, verb, limits.deadline) {
            Ok(lease) => Ok(self.remember(lease).0),
            Err(conflict @ ApiError::Conflict { .. }) if doubt => {
                // Two API servers were asked, and the silent one may be who applied it: then the Lease is as we wrote it.
                let left = limits.deadline.saturating_sub(began.elapsed());
                let away = |tries| ApiError::Away(Away { tries, after: began.elapsed(), maybe_applied: true });
                let request = Request::new(self.path()).get(&settings.name, &GetParams::default());
                let outcome = self.0.servers.ask(&self.call(Verb::Get, request)?, Limits::within(left)).await;
                match self.parse(outcome, Verb::Get, left) {
                    Ok(raw) if raw.lease.spec == wanted => Ok(self.remember(raw).0),
                    Ok(lease) => {
                        self.remember(lease);
                        Err(conflict)
                    }
                    Err(ApiError::NotFound { .. }) => Err(conflict),
                    Err(ApiError::Away(inner)) => Err(away(inner.tries)),
                    Err(_) => Err(away(Vec::new())),
                }
            }
            Err(error) => Err(error),
        }
    }

    /// Keeps the Lease for writes based on it, and shows what is on it.
    pub(crate) fn remember(&self, raw: Raw) -> (LeaseView, Vec<Flaw>) {
        let shown = raw.show();
        let lease = raw.lease;
        let mut raw = self.raw();
        raw.retain(|known| known.metadata.resource_version != lease.metadata.resource_version);
        raw.push_back(lease);
        while raw.len() > KEPT {
            raw.pop_front();
        }
        shown
    }

    /// The `uid` of the Lease as last seen: Events name it.
    #[must_use]
    pub fn uid(&self) -> Option<String> {
        self.raw().back().and_then(|lease| lease.metadata.uid.clone())
    }

    pub(crate) fn servers(&self) -> &Servers {
        &self.0.servers
    }

    pub(crate) fn settings(&self) -> &LeaseSettings {
        &self.0.settings
    }

    pub(crate) fn path(&self) -> String {
        format!("/apis/coordination.k8s.io/v1/namespaces/{}/leases", self.0.settings.namespace)
    }

    pub(crate) fn what(&self) -> String {
        format!("Lease {}/{}", self.0.settings.namespace, self.0.settings.name)
    }

    fn known(&self, version: &str) -> Option<Lease> {
        self.raw().iter().find(|lease| lease.metadata.resource_version.as_deref() == Some(version)).cloned()
    }

    fn raw(&self) -> MutexGuard<'_, VecDeque<Lease>> {
        self.0.raw.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn call(
        &self,
        verb: Verb,
        request: Result<http::Request<Vec<u8>>, kube::core::request::Error>,
    ) -> Result<Call, ApiError> {
        let request = request.map_err(|error| internal(&error))?;
        Ok(Call { verb, resource: RESOURCE, what: self.what(), request })
    }

    fn parse(&self, outcome: Outcome<hyper::body::Bytes>, verb: Verb, after: Duration) -> Result<Raw, ApiError> {
        let body = outcome.result?;
        let nonsense = |what| {
            let server = outcome.server.as_ref().map(ToString::to_string).unwrap_or_default();
            let tries = vec![Try { server, failure: Failure::Malformed(what) }];
            ApiError::Away(Away { tries, after, maybe_applied: verb.writes() })
        };
        let raw: Raw = serde_json::from_slice(&body).map_err(|error| nonsense(cut(&error.to_string(), 120)))?;
        let lease = &raw.lease;
        if lease.metadata.resource_version.as_deref().is_none_or(str::is_empty) {
            return Err(nonsense("a Lease without resourceVersion".into()));
        }
        if lease.metadata.name.as_ref() != Some(&self.0.settings.name) {
            return Err(nonsense("another object than was asked for".into()));
        }
        Ok(raw)
    }
}

/// A request that cannot be written down: a name that is no name.
fn internal(error: &dyn std::error::Error) -> ApiError {
    ApiError::Rejected { code: 0, message: format!("cannot be asked for: {}", cut(&error.to_string(), 200)) }
}
