//! Sessions: one Lease for each node, under one label.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::Request;
use kube::core::params::{GetParams, Patch, PatchParams, PostParams};
pub use mooring_names::sessions::{DECLARED, ENDED, LABEL, PREFIX, PUBLISHED};
use serde_json::{Value, json};

use super::ask::{Collection, NamedCall};
use super::codec::encode_spec;
use super::lease::RESOURCE;
use super::race::Limits;
use super::raw::Raw;
use super::servers::Servers;
use super::{ApiError, Verb};
use crate::core::lease::Record;
use crate::core::session::{Declared, End, View};
use mooring_common::text::cut;

/// Longest annotation that the agent reads, in bytes.
pub(super) const LONGEST: usize = 64 << 10;

/// Selects the sessions whose nodes have no member object.
#[must_use]
pub fn unpublished() -> String {
    format!("{LABEL}=")
}

/// The field selector of one node's session.
#[must_use]
pub fn of_node(node: &str) -> String {
    format!("metadata.name={PREFIX}{node}")
}

/// Reads and writes sessions. Clones share one client.
#[derive(Clone)]
pub struct Sessions {
    servers: Servers,
    namespace: String,
}

/// A write by compare-and-swap.
#[derive(Clone, Debug)]
pub struct SessionWrite {
    /// The node whose session this is.
    pub node: String,
    /// The version that the Lease must still have; None: the Lease must not exist.
    pub base: Option<String>,
    /// The Lease's spec.
    pub record: Record,
    /// The node's declarations; None: unchanged.
    pub declared: Option<Declared>,
    /// The node that ended the session, when this write is an end.
    pub end: Option<End>,
    /// The session is the writer's own: it has a member object from now on. Otherwise the mark stays as it is.
    pub own: bool,
}

impl Sessions {
    /// Makes no call.
    #[must_use]
    pub const fn new(servers: Servers, namespace: String) -> Self {
        Self { servers, namespace }
    }

    /// The collection.
    #[must_use]
    pub fn path(&self) -> String {
        format!("/apis/coordination.k8s.io/v1/namespaces/{}/leases", self.namespace)
    }

    /// All sessions, read consistently.
    pub async fn list(&self, within: Duration) -> Result<Vec<View>, ApiError> {
        let path = self.path();
        let collection =
            Collection { path: &path, resource: RESOURCE, what: "the sessions", fields: None, labels: Some(LABEL) };
        let (listed, _) = self.servers.ask_for_all::<Raw>(collection, &mut None, Limits::within(within)).await?;
        Ok(listed.iter().filter_map(view).collect())
    }

    /// Writes one session, and returns the session as it is now.
    pub async fn write(&self, write: &SessionWrite, within: Duration) -> Result<View, ApiError> {
        let name = format!("{PREFIX}{}", write.node);
        let what = format!("Lease {}/{name}", self.namespace);
        let limits = Limits::within(within);
        let leases = Request::new(self.path());
        let call = match &write.base {
            None => NamedCall::new(
                Verb::Create,
                RESOURCE,
                what.clone(),
                leases.create(&PostParams::default(), created(write)?),
            )?,
            Some(base) => {
                let patch = Patch::Merge(patched(write, base));
                NamedCall::new(
                    Verb::Patch,
                    RESOURCE,
                    what.clone(),
                    leases.patch(&name, &PatchParams::default(), &patch),
                )?
            }
        };
        let none = || ApiError::NotFound { what: what.clone(), message: "it is no session".into() };
        let (result, doubt) = self.servers.ask_for::<Raw>(&call, limits).await;
        match result {
            Err(error @ ApiError::Conflict { .. }) if doubt => {
                // The request went to two API servers, and the silent one may have applied it.
                let request = Request::new(self.path()).get(&name, &GetParams::default());
                let call = NamedCall::new(Verb::Get, RESOURCE, what.clone(), request)?;
                let found = view(&self.servers.ask_for::<Raw>(&call, limits).await.0?).ok_or_else(none)?;
                if is_as_written(&found, write) { Ok(found) } else { Err(error) }
            }
            result => view(&result?).ok_or_else(none),
        }
    }
}

fn is_as_written(found: &View, write: &SessionWrite) -> bool {
    let (a, b) = (&found.record, &write.record);
    (&a.holder, a.transitions, a.renewed, a.acquired) == (&b.holder, b.transitions, b.renewed, b.acquired)
}

/// A Lease as a session; None: the Lease is not a session.
#[must_use]
pub fn view(raw: &Raw) -> Option<View> {
    let (shown, flaws) = raw.show();
    let meta = &raw.lease.metadata;
    let node = meta.name.as_deref()?.strip_prefix(PREFIX).filter(|node| !node.is_empty())?;
    let annotation =
        |name: &str| meta.annotations.as_ref().and_then(|all| all.get(name)).filter(|t| t.len() <= LONGEST);
    let declared = annotation(DECLARED).and_then(|text| match serde_json::from_str::<Declared>(text) {
        Ok(declared) => Some(sane(declared)),
        Err(error) => {
            tracing::warn!(
                node,
                error = cut(&error.to_string(), 120),
                "session Lease: declaration cannot be read and is ignored"
            );
            None
        }
    });
    if let Some(flaw) = flaws.first() {
        tracing::debug!(node, %flaw, "session Lease: a field is invalid and is ignored");
    }
    Some(View {
        node: node.to_owned(),
        uid: meta.uid.clone().unwrap_or_default(),
        version: shown.version,
        record: shown.record,
        declared,
        end: annotation(ENDED).and_then(|text| serde_json::from_str(text).ok()),
        published: meta.labels.as_ref().and_then(|all| all.get(LABEL)).is_some_and(|value| value == PUBLISHED),
    })
}

/// Other programs write Leases too: values that no host can have are left out.
pub(super) fn sane(mut declared: Declared) -> Declared {
    declared.links.truncate(64);
    for link in &mut declared.links {
        link.altnames.truncate(64);
        link.macs.retain(|mac| mac.is_host());
        link.macs.truncate(16);
        link.addresses.retain(|ip| !ip.is_unspecified() && !ip.is_multicast() && !ip.is_loopback());
        link.addresses.truncate(64);
        link.subnets.truncate(64);
    }
    if let Some(let_go) = &mut declared.let_go {
        let_go.vips.truncate(64);
    }
    declared
}

fn created(write: &SessionWrite) -> Result<Vec<u8>, ApiError> {
    let metadata = ObjectMeta {
        name: Some(format!("{PREFIX}{}", write.node)),
        labels: Some([(LABEL.to_owned(), PUBLISHED.to_owned())].into()),
        annotations: Some(
            annotations(write)
                .into_iter()
                .filter_map(|(name, value)| Some((name, value.as_str()?.to_owned())))
                .collect(),
        ),
        ..ObjectMeta::default()
    };
    let lease = Lease { metadata, spec: Some(encode_spec(&write.record)) };
    serde_json::to_vec(&lease).map_err(|error| super::unsayable(&error))
}

fn patched(write: &SessionWrite, base: &str) -> Value {
    let mut patch = json!({
        "metadata": {
            "resourceVersion": base,
            "annotations": annotations(write).into_iter().collect::<serde_json::Map<_, _>>(),
        },
        "spec": encode_spec(&write.record),
    });
    if write.own {
        patch["metadata"]["labels"] = json!({ LABEL: PUBLISHED });
    }
    patch
}

/// Null takes one off.
fn annotations(write: &SessionWrite) -> Vec<(String, Value)> {
    let text = |value: serde_json::Result<String>| value.map_or(Value::Null, Value::String);
    let mut all = Vec::new();
    if let Some(declared) = &write.declared {
        all.push((DECLARED.to_owned(), text(serde_json::to_string(declared))));
    }
    all.push((ENDED.to_owned(), write.end.as_ref().map_or(Value::Null, |end| text(serde_json::to_string(end)))));
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::session::EndCause;

    #[test]
    fn what_is_written_is_read() {
        let record =
            Record { holder: "n1".into(), duration: Duration::from_secs(15), transitions: 4, ..Record::default() };
        let declared = Declared { transitions: 4, began: Some("7".into()), ..Declared::default() };
        let (node, said) = ("n1".into(), Some(declared.clone()));
        let write = SessionWrite { node, base: None, record, declared: said, end: None, own: true };
        let raw: Raw = serde_json::from_slice(&created(&write).unwrap()).unwrap();
        let found = view(&raw).unwrap();
        assert_eq!((found.node.as_str(), found.declared(), found.is_live()), ("n1", Some(&declared), true));
        assert!(found.published);
        assert_eq!(
            patched(&write, "9")["metadata"]["labels"][LABEL],
            PUBLISHED,
            "an agent of before may have written it"
        );
        assert!(is_as_written(&found, &write));
    }

    #[test]
    fn an_end_says_who_wrote_it_and_leaves_the_declaration() {
        let end = End { by: "n2".into(), cause: EndCause::Abandoned };
        let record = Record { transitions: 4, duration: Duration::from_secs(1), ..Record::default() };
        let (node, base) = ("n1".into(), Some("9".into()));
        let write = SessionWrite { node, base, record, declared: None, end: Some(end), own: false };
        let patch = patched(&write, "9");
        assert_eq!(patch["metadata"]["resourceVersion"], "9");
        assert_eq!(patch["metadata"]["annotations"].as_object().unwrap().len(), 1);
        assert_eq!(patch["metadata"]["annotations"][ENDED], r#"{"by":"n2","cause":"abandoned"}"#);
        assert_eq!(patch["spec"]["holderIdentity"], "");
        assert!(patch["metadata"]["labels"].is_null(), "whether the node has a member object is for its agent to say");
    }

    #[test]
    fn another_lease_is_no_session() {
        let raw: Raw =
            serde_json::from_str(r#"{"metadata":{"name":"plndr-cp-lock"},"spec":{"holderIdentity":"a"}}"#).unwrap();
        assert!(view(&raw).is_none());
    }
}
