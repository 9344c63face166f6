//! Calls to the API that the core asks for. The task reports each result to the core.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::mpsc;

use crate::api::addresses::{Addresses, view};
use crate::api::members::Members;
use crate::api::objects::Key;
use crate::api::sessions::{SessionWrite, Sessions};
use crate::api::{ApiError, Servers};
use crate::catalog::Catalog;
use crate::core::event::Failure;
use crate::core::session::{AddressView, Holder, View};
use crate::core::session_vips::{Call, Input};
use crate::watches::{Message, Watches};

use super::refusals::Refusals;

/// Up to this many objects are read one by one; more are read by a list.
const FEW: usize = 8;
/// The time limit for recording a conflict.
const TELL: Duration = Duration::from_secs(5);

/// What calls need.
pub(super) struct Calls {
    node: String,
    sessions: Sessions,
    members: Members,
    addresses: Option<Addresses>,
    told: mpsc::Sender<Message>,
    /// The last write found no namespace for sessions.
    no_namespace: Arc<AtomicBool>,
    /// The last write of the own member object was refused.
    member_refused: Arc<AtomicBool>,
    refusals: Arc<Refusals>,
}

impl Calls {
    pub(super) fn new(node: &str, servers: Servers, namespace: String, told: mpsc::Sender<Message>) -> Self {
        Self {
            node: node.to_owned(),
            members: Members::new(servers.clone(), namespace.clone()),
            sessions: Sessions::new(servers, namespace),
            addresses: None,
            told,
            no_namespace: Arc::default(),
            member_refused: Arc::default(),
            refusals: Arc::default(),
        }
    }

    /// Sets the client: the cluster has the kind, or has it no longer.
    pub(super) fn set_addresses(&mut self, addresses: Option<Addresses>) {
        self.addresses = addresses;
    }

    /// Does what the core asks for. The answer is an [`Input`].
    pub(super) fn call(&self, call: Call, catalog: &Catalog, watches: &mut Watches) {
        match call {
            Call::Follow { nodes } => watches.follow_sessions(&nodes),
            Call::Publish { id, base, copy, within } => self.publish(id, base, copy, within),
            Call::ReadSessions { id, within } => self.read_sessions(id, within),
            Call::WriteSession { id, node, base, record, declared, end, within } => {
                let own = node == self.node;
                self.write_session(id, SessionWrite { node, base, record, declared, end, own }, within);
            }
            Call::ReadAddresses { id, addresses, within } => {
                let these = addresses.into_iter().map(|ip| (ip, catalog.key_of(ip).cloned()));
                self.read_addresses(id, these.collect(), within);
            }
            Call::WriteHolder { id, address, base, holder, within } => {
                self.write_holder(id, catalog.key_of(address).cloned(), base, holder, within);
            }
        }
    }

    fn read_sessions(&self, id: u64, within: Duration) {
        let (sessions, told, refusals) = (self.sessions.clone(), self.told.clone(), self.refusals.clone());
        tokio::spawn(async move {
            let result = sessions.list(within).await.map_err(|error| refusals.failure(&error, "list sessions", false));
            tell(&told, Input::Sessions { id: Some(id), result }).await;
        });
    }

    fn write_session(&self, id: u64, write: SessionWrite, within: Duration) {
        let (sessions, told) = (self.sessions.clone(), self.told.clone());
        let (no_namespace, refusals) = (self.no_namespace.clone(), self.refusals.clone());
        tokio::spawn(async move {
            let result = sessions.write(&write, within).await;
            // 404 for an object that is to be created is about its namespace.
            let missing = write.base.is_none() && matches!(result, Err(ApiError::NotFound { .. }));
            if (missing || result.is_ok()) && no_namespace.swap(missing, Ordering::Relaxed) != missing {
                let _ = told.send(Message::Namespace { exists: !missing }).await;
            }
            let why = |error: ApiError| {
                if missing { Failure::NoNamespace } else { refusals.failure(&error, "write a session", true) }
            };
            let result = result.map_err(why);
            tell(&told, Input::WroteSession { id, result }).await;
        });
    }

    fn publish(&self, id: u64, base: Option<String>, copy: View, within: Duration) {
        let (members, told, refusals) = (self.members.clone(), self.told.clone(), self.refusals.clone());
        let (own, member_refused) = (copy.node == self.node, self.member_refused.clone());
        tokio::spawn(async move {
            let result = members.write(base.as_deref(), &copy, within).await;
            let refused = result.as_ref().err().filter(|error| matches!(error, ApiError::Forbidden { .. }));
            let known = own && (refused.is_some() || result.is_ok());
            if known && member_refused.swap(refused.is_some(), Ordering::Relaxed) != refused.is_some() {
                let _ = told.send(Message::MemberRefused(refused.map(ToString::to_string))).await;
            }
            let why = |error: ApiError| {
                let failure = refusals.failure(&error, "write the member object of a session", true);
                if matches!(error, ApiError::Forbidden { .. }) { Failure::Refused } else { failure }
            };
            let result = result.map_err(why);
            tell(&told, Input::Published { id, result }).await;
        });
    }

    /// `these`: VIPs, and the object of each if known.
    fn read_addresses(&self, id: u64, these: Vec<(IpAddr, Option<Key>)>, within: Duration) {
        let (api, told, refusals) = (self.addresses.clone(), self.told.clone(), self.refusals.clone());
        tokio::spawn(async move {
            let result = match api {
                Some(api) => {
                    let read = tokio::time::timeout(within, read(&api, these, within)).await;
                    read.map_or(Err(Failure::Away), |read| {
                        read.map_err(|error| refusals.failure(&error, "read IPAddress", false))
                    })
                }
                None => Err(Failure::Away),
            };
            tell(&told, Input::Addresses { id, result }).await;
        });
    }

    fn write_holder(&self, id: u64, key: Option<Key>, base: String, holder: Option<Holder>, within: Duration) {
        let (api, told, refusals) = (self.addresses.clone(), self.told.clone(), self.refusals.clone());
        tokio::spawn(async move {
            let result = match (api, key) {
                (Some(api), Some(key)) => {
                    let written = api.hold(&key, &base, holder.as_ref(), within).await;
                    written.map_err(|error| refusals.failure(&error, "write who holds an IPAddress", true))
                }
                (None, _) => Err(Failure::Away),
                // The object is gone.
                (_, None) => Err(Failure::Conflict),
            };
            tell(&told, Input::WroteHolder { id, result }).await;
        });
    }

    /// Writes on a VIP's object that another host has the address on the segment, for the allocator and people.
    pub(super) fn tell_conflict(&self, key: Key, uid: Option<String>, text: String) {
        let Some(api) = self.addresses.clone() else { return };
        tokio::spawn(async move {
            if let Err(error) = api.tell_conflict(&key, uid.as_deref(), &text, TELL).await {
                tracing::warn!(object = %key, %error, "conflict could not be written to the IPAddress: the allocator does not know of it");
            }
        });
    }
}

async fn tell(told: &mpsc::Sender<Message>, input: Input) {
    // An error means that the event loop has ended: no receiver is left.
    let _ = told.send(Message::Input(input)).await;
}

async fn read(
    api: &Addresses,
    these: Vec<(IpAddr, Option<Key>)>,
    within: Duration,
) -> Result<Vec<(IpAddr, Option<AddressView>)>, ApiError> {
    if these.len() > FEW {
        let all = api.list(within).await?;
        let all: BTreeMap<Key, AddressView> = all.iter().map(|object| (object.metadata.key(), view(object))).collect();
        return Ok(these.into_iter().map(|(ip, key)| (ip, key.and_then(|key| all.get(&key).cloned()))).collect());
    }
    let reads = these.into_iter().map(|(ip, key)| async move {
        match key {
            Some(key) => api.get(&key, within).await.map(|found| (ip, found.as_ref().map(view))),
            None => Ok((ip, None)),
        }
    });
    futures::future::try_join_all(reads).await
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::api::testing::{Cluster, Server, answer, lease, status};
    use crate::core::lease::Record;

    /// The calls of n1 to an API server that refuses every write until it is told to make that object.
    async fn refused_until_allowed(
        cluster: &Cluster,
        made: Value,
        (code, message): (u16, &'static str),
    ) -> (Arc<AtomicBool>, Calls, mpsc::Receiver<Message>, Server) {
        let allowed = Arc::new(AtomicBool::new(false));
        let there = allowed.clone();
        let made = made.to_string();
        let server = cluster
            .serve(move |_| {
                let given =
                    if there.load(Ordering::SeqCst) { answer(201, made.clone()) } else { status(code, message) };
                async move { given }
            })
            .await;
        let (told, messages) = mpsc::channel(8);
        let calls = Calls::new("n1", cluster.servers(vec![server.url()]), "mooring-system".into(), told);
        (allowed, calls, messages, server)
    }

    #[tokio::test]
    async fn a_missing_namespace_is_told_once_and_so_is_its_coming() {
        let cluster = Cluster::new();
        let mut made = lease(7, "n1");
        made["metadata"]["name"] = "mooring-session.n1".into();
        let refusal = (404, "namespaces \"mooring-system\" not found");
        let (exists, calls, mut messages, _server) = refused_until_allowed(&cluster, made, refusal).await;
        let within = Duration::from_secs(20);
        let mut seen = vec![];
        for id in 0..4 {
            exists.store(id >= 2, Ordering::SeqCst);
            let record = Record { holder: "n1".into(), ..Record::default() };
            let write = SessionWrite { node: "n1".into(), base: None, record, declared: None, end: None, own: true };
            calls.write_session(id, write, within);
            loop {
                match tokio::time::timeout(within, messages.recv()).await.unwrap().unwrap() {
                    Message::Namespace { exists } => seen.push(format!("{id}: exists {exists}")),
                    Message::Input(Input::WroteSession { result, .. }) => {
                        assert_eq!(result.err(), (id < 2).then_some(Failure::NoNamespace));
                        break;
                    }
                    other => panic!("{other:?}"),
                }
            }
        }
        assert_eq!(seen, ["0: exists false", "2: exists true"]);
    }

    /// It is told once that the right is missing, and once that it is there.
    #[tokio::test]
    async fn a_refused_member_object_is_told_until_one_is_written() {
        let cluster = Cluster::new();
        let metadata = json!({"name": "mooring-member.n1", "resourceVersion": "8"});
        let made = json!({"metadata": metadata, "data": {"session": "{}"}});
        let refusal = (403, "configmaps is forbidden");
        let (allowed, calls, mut messages, _server) = refused_until_allowed(&cluster, made, refusal).await;
        let within = Duration::from_secs(20);
        let mut seen = vec![];
        for id in 0..4 {
            allowed.store(id >= 2, Ordering::SeqCst);
            let record = Record { holder: "n1".into(), ..Record::default() };
            let copy = View {
                node: "n1".into(),
                uid: "u".into(),
                version: "7".into(),
                record,
                declared: None,
                end: None,
                published: true,
            };
            calls.publish(id, None, copy, within);
            loop {
                match tokio::time::timeout(within, messages.recv()).await.unwrap().unwrap() {
                    Message::MemberRefused(why) => seen.push((id, why.is_some_and(|why| why.contains("not allowed")))),
                    Message::Input(Input::Published { result, .. }) => {
                        assert_eq!(result.err(), (id < 2).then_some(Failure::Refused), "which is not tried again soon");
                        break;
                    }
                    other => panic!("{other:?}"),
                }
            }
        }
        assert_eq!(seen, [(0, true), (2, false)]);
    }
}
