//! Reads and writes one Lease.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use kube::core::Request;
use kube::core::params::{GetParams, PostParams};
use mooring_names::annotations::OURS;

use crate::core::lease::{LeaseView, Notes, Record};

use super::ask::NamedCall;
use super::codec::{Flaw, encode};
use super::header::decoded;
use super::race::{Limits, Outcome};
use super::raw::Raw;
use super::servers::Servers;
use super::{ApiError, Away, Verb, unsayable};
use mooring_common::text::cut;

/// The resource's name in RBAC rules.
pub(crate) const RESOURCE: &str = "leases.coordination.k8s.io";
/// How many recently seen Leases are kept, as the base of writes.
const KEPT: usize = 8;

/// The Leases of a namespace.
pub(super) fn path(namespace: &str) -> String {
    format!("/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases")
}

/// A Lease's name for people.
pub(super) fn what(namespace: &str, name: &str) -> String {
    format!("Lease {namespace}/{name}")
}

/// The Lease to read and write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseSettings {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Annotations for every write. Annotations under `mooring.dev/` are not taken from here.
    pub annotations: BTreeMap<String, String>,
}

/// The result of a read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Read {
    /// None: there is no such Lease.
    pub view: Option<LeaseView>,
    /// What is wrong with it.
    pub flaws: Vec<Flaw>,
}

/// The content of a write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Write {
    /// The version this write is based on: if the Lease has another, [`ApiError::Conflict`]. None: there must be no
    /// Lease.
    pub base: Option<String>,
    /// The record.
    pub record: Record,
    /// Mooring's annotations. An annotation that is None or empty is removed.
    pub notes: Notes,
}

/// The client of one Lease. Clones share the Lease.
#[derive(Clone)]
pub struct LeaseApi(Arc<Inner>);

struct Inner {
    servers: Servers,
    settings: LeaseSettings,
    /// The Leases as the API returned them, newest last: they include what others wrote on them.
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

    /// Reads the Lease consistently. A deadline of 0 makes no call.
    pub async fn read(&self, deadline: Duration) -> Result<Read, ApiError> {
        self.read_within(Limits::within(deadline)).await
    }

    /// [`LeaseApi::read`] with limits of its own.
    pub async fn read_within(&self, limits: Limits) -> Result<Read, ApiError> {
        // Without a resourceVersion: the newest that etcd's majority has, instead of a cached one.
        let request = Request::new(self.path()).get(&self.0.settings.name, &GetParams::default());
        let call = self.call(Verb::Get, request)?;
        match self.ask(&call, limits).await.result {
            Ok(lease) => {
                let (view, flaws) = self.remember(lease);
                Ok(Read { view: Some(view), flaws })
            }
            Err(ApiError::NotFound { .. }) => Ok(Read { view: None, flaws: Vec::new() }),
            Err(error) => Err(error),
        }
    }

    /// Writes the Lease by compare-and-swap, and returns the Lease as it is now. See [`ApiError::maybe_applied`].
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
        let body = serde_json::to_vec(&lease).map_err(|error| unsayable(&error))?;
        let request = Request::new(self.path());
        // PUT, not PATCH: the role made for kube-vip has no patch.
        let (verb, request) = match &write.base {
            None => (Verb::Create, request.create(&PostParams::default(), body)),
            Some(_) => (Verb::Update, request.replace(&settings.name, &PostParams::default(), body)),
        };
        let call = self.call(verb, request)?;
        let Outcome { result, doubt, .. } = self.ask(&call, limits).await;
        match result {
            Ok(lease) => Ok(self.remember(lease).0),
            Err(conflict @ ApiError::Conflict { .. }) if doubt => {
                // The request went to two API servers, and the silent one may have applied it: then the Lease is as we
                // wrote it.
                let left = limits.deadline.saturating_sub(began.elapsed());
                let away = |tries| ApiError::Away(Away { tries, after: began.elapsed(), maybe_applied: true });
                let request = Request::new(self.path()).get(&settings.name, &GetParams::default());
                let call = self.call(Verb::Get, request)?;
                match self.ask(&call, Limits::within(left)).await.result {
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

    /// Keeps the Lease as the base of writes, and returns its content.
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

    fn path(&self) -> String {
        path(&self.0.settings.namespace)
    }

    fn what(&self) -> String {
        what(&self.0.settings.namespace, &self.0.settings.name)
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
    ) -> Result<NamedCall, ApiError> {
        NamedCall::new(verb, RESOURCE, self.what(), request)
    }

    /// Asks for the Lease. Another object than the Lease is no answer.
    async fn ask(&self, call: &NamedCall, limits: Limits) -> Outcome<Raw> {
        let name = &self.0.settings.name;
        let decode = |body: &[u8]| {
            let raw: Raw = decoded(body)?;
            let metadata = &raw.lease.metadata;
            if metadata.resource_version.as_deref().is_none_or(str::is_empty) {
                return Err("a Lease without resourceVersion".into());
            }
            if metadata.name.as_ref() != Some(name) {
                return Err("another object than was asked for".into());
            }
            Ok(raw)
        };
        self.0.servers.ask_as(call, limits, decode).await
    }
}
