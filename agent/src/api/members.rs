//! Member objects: one `ConfigMap` for each node, under one label.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::Request;
use kube::core::params::{GetParams, Patch, PatchParams, PostParams};
pub use mooring_names::sessions::MEMBER;
use mooring_names::sessions::MEMBER_PREFIX;
use serde_json::json;

use super::ask::NamedCall;
use super::race::Limits;
use super::servers::Servers;
use super::{ApiError, Verb};
use crate::core::lease::Record;
use crate::core::session::{Member, View};
use mooring_common::text::cut;

/// The resource in RBAC.
pub const RESOURCE: &str = "configmaps";
/// The key of what the object says.
const KEY: &str = "session";
/// Longest text that the agent reads, in bytes: the longest declaration that it reads on a Lease, and what stands beside that.
const LONGEST: usize = super::sessions::LONGEST + (4 << 10);

/// Writes member objects. Clones share one client.
#[derive(Clone)]
pub struct Members {
    servers: Servers,
    namespace: String,
}

impl Members {
    /// Makes no call.
    #[must_use]
    pub const fn new(servers: Servers, namespace: String) -> Self {
        Self { servers, namespace }
    }

    /// The collection.
    #[must_use]
    pub fn path(&self) -> String {
        format!("/api/v1/namespaces/{}/configmaps", self.namespace)
    }

    /// Writes what a node's member object says, by compare-and-swap. Returns the object as it is now: as written, or as another one
    /// has made it. None: it was deleted meanwhile.
    ///
    /// # Errors
    /// The API server refuses, or does not answer.
    pub async fn write(&self, base: Option<&str>, copy: &View, within: Duration) -> Result<Option<Member>, ApiError> {
        let name = format!("{MEMBER_PREFIX}{}", copy.node);
        let what = format!("ConfigMap {}/{name}", self.namespace);
        let text = serde_json::to_string(copy).map_err(|error| super::unsayable(&error))?;
        let all = Request::new(self.path());
        let call = match base {
            None => {
                let object = serde_json::to_vec(&created(&name, text)).map_err(|error| super::unsayable(&error))?;
                NamedCall::new(Verb::Create, RESOURCE, what.clone(), all.create(&PostParams::default(), object))?
            }
            Some(base) => {
                let patch = json!({
                    "metadata": {"resourceVersion": base, "labels": {MEMBER: ""}},
                    "data": {KEY: text},
                });
                let request = all.patch(&name, &PatchParams::default(), &Patch::Merge(patch));
                NamedCall::new(Verb::Patch, RESOURCE, what.clone(), request)?
            }
        };
        let (result, _) = self.servers.ask_for::<ConfigMap>(&call, Limits::within(within)).await;
        match result {
            Ok(written) => Ok(member(&written)),
            Err(ApiError::Conflict { .. }) => {
                let request = Request::new(self.path()).get(&name, &GetParams::default());
                let call = NamedCall::new(Verb::Get, RESOURCE, what, request)?;
                match self.servers.ask_for::<ConfigMap>(&call, Limits::within(within)).await.0 {
                    // Without its label no watch shows it.
                    Ok(found) if !is_labelled(&found) => Ok(Some(unread(&copy.node, &found))),
                    Ok(found) => Ok(member(&found)),
                    Err(ApiError::NotFound { .. }) => Ok(None),
                    Err(error) => Err(error),
                }
            }
            // A patch of an object that is gone. (A creation that meets no namespace is an error.)
            Err(ApiError::NotFound { .. }) if base.is_some() => Ok(None),
            Err(error) => Err(error),
        }
    }
}

fn created(name: &str, text: String) -> ConfigMap {
    let labels = BTreeMap::from([(MEMBER.to_owned(), String::new())]);
    let metadata = ObjectMeta { name: Some(name.to_owned()), labels: Some(labels), ..ObjectMeta::default() };
    ConfigMap { metadata, data: Some(BTreeMap::from([(KEY.to_owned(), text)])), ..ConfigMap::default() }
}

/// A member object that says nothing this agent can read: who follows the Lease writes it anew.
fn unread(node: &str, object: &ConfigMap) -> Member {
    let copy = View {
        node: node.to_owned(),
        uid: String::new(),
        version: String::new(),
        record: Record::default(),
        declared: None,
        end: None,
        published: true,
    };
    Member { version: object.metadata.resource_version.clone().unwrap_or_default(), copy }
}

fn is_labelled(object: &ConfigMap) -> bool {
    object.metadata.labels.as_ref().is_some_and(|labels| labels.contains_key(MEMBER))
}

/// The node of a member object.
#[must_use]
pub fn node(object: &ConfigMap) -> Option<&str> {
    object.metadata.name.as_deref()?.strip_prefix(MEMBER_PREFIX).filter(|node| !node.is_empty())
}

/// What a member object says, or that nobody can read it ([`Member::is_read`]). None: by its name it is no member object.
#[must_use]
pub fn member(object: &ConfigMap) -> Option<Member> {
    let node = node(object)?;
    let text = object.data.as_ref().and_then(|data| data.get(KEY)).filter(|text| text.len() <= LONGEST);
    let Some(text) = text else {
        tracing::warn!(node, "member object says nothing, or too much: it is ignored and written anew");
        return Some(unread(node, object));
    };
    match serde_json::from_str::<View>(text) {
        Ok(copy) if copy.node == node && !copy.uid.is_empty() => {
            let copy = View { declared: copy.declared.map(super::sessions::sane), published: true, ..copy };
            Some(Member { version: object.metadata.resource_version.clone().unwrap_or_default(), copy })
        }
        Ok(copy) => {
            tracing::warn!(
                node,
                names = copy.node,
                "member object names another session: it is ignored and written anew"
            );
            Some(unread(node, object))
        }
        Err(error) => {
            let error = cut(&error.to_string(), 120);
            tracing::warn!(node, error, "member object cannot be read: it is ignored and written anew");
            Some(unread(node, object))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::testing::{Cluster, answer, status};
    use crate::core::session::Declared;

    #[test]
    fn what_is_written_is_read() {
        let copy = session("7");
        let mut object = created("mooring-member.n1", serde_json::to_string(&copy).unwrap());
        object.metadata.resource_version = Some("9".into());
        assert_eq!(member(&object), Some(Member { version: "9".into(), copy }));
        object.metadata.name = Some("mooring-member.n2".into());
        let other = member(&object).unwrap();
        assert!(other.copy.node == "n2" && other.version == "9" && !other.is_read(), "it names another node");
        object.data = Some(BTreeMap::from([(KEY.to_owned(), "{}".to_owned())]));
        assert!(!member(&object).unwrap().is_read());
        assert_eq!(member(&ConfigMap::default()), None);
    }

    fn session(version: &str) -> View {
        let record = Record { holder: "n1".into(), duration: Duration::from_secs(15), ..Record::default() };
        let (node, uid, version) = ("n1".into(), "u".into(), version.into());
        View { node, uid, version, record, declared: Some(Declared::default()), end: None, published: true }
    }

    /// Somebody took the label off: no watch shows the object any more, whatever it says.
    #[tokio::test]
    async fn an_object_without_its_label_counts_as_unread() {
        for labelled in [true, false] {
            let cluster = Cluster::new();
            let mut there = created("mooring-member.n1", serde_json::to_string(&session("7")).unwrap());
            there.metadata.resource_version = Some("9".into());
            there.metadata.labels = there.metadata.labels.filter(|_| labelled);
            let there = serde_json::to_string(&there).unwrap();
            let server = cluster
                .serve(move |request| {
                    let get = request.method() == http::Method::GET;
                    let given = if get { answer(200, there.clone()) } else { status(409, "already exists") };
                    async move { given }
                })
                .await;
            let members = Members::new(cluster.servers(vec![server.url()]), "mooring-system".into());
            let found = members.write(None, &session("7"), Duration::from_secs(20)).await.unwrap().unwrap();
            assert_eq!((found.version.as_str(), found.is_read()), ("9", labelled));
        }
    }
}
