//! The state that the API server shows: every claim, address and pool, and their history in the order of the store.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Result, bail};
use futures::StreamExt as _;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind};
use kube::runtime::WatchStreamExt as _;
use kube::runtime::utils::Backoff;
use kube::runtime::watcher::{Config, Event, watcher};
use kube::{Api, Client};
use serde_json::Value;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::host::lock;

/// Longest time, on a busy machine, for a step that takes well below a second on an idle one.
pub const SOON: Duration = Duration::from_secs(30);

/// The watched kinds: kind, version, plural.
const KINDS: [(&str, &str, &str); 7] = [
    ("Service", "v1", "services"),
    ("IPAddressClaim", "v1beta2", "ipaddressclaims"),
    ("IPAddress", "v1beta2", "ipaddresses"),
    ("InClusterIPPool", "v1alpha2", "inclusterippools"),
    ("GlobalInClusterIPPool", "v1alpha2", "globalinclusterippools"),
    ("InClusterPrefixPool", "v1alpha2", "inclusterprefixpools"),
    ("GlobalInClusterPrefixPool", "v1alpha2", "globalinclusterprefixpools"),
];

/// An object's kind, namespace and name.
pub type Id = (&'static str, String, String);

/// A state of an object, limited to the fields that decide which claim has an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The resourceVersion: one count for all kinds, because they share one store.
    pub version: u64,
    /// The object.
    pub id: Id,
    /// The uid.
    pub uid: String,
    /// Whether the object is gone.
    pub gone: bool,
    /// Whether the object is being deleted, and no other program's finalizer holds it.
    pub going: bool,
    /// An address: `address/prefix` and its pool. A claim: the name in `status.addressRef`.
    pub says: Option<String>,
    /// An address: the uid of the claim that owns it.
    pub owner: Option<String>,
}

/// The known state.
#[derive(Debug, Default)]
pub struct State {
    /// Every object, as last shown.
    pub objects: BTreeMap<Id, Value>,
    /// The history, in the order of arrival.
    pub history: Vec<Change>,
    /// The kinds that were listed.
    listed: BTreeSet<&'static str>,
}

impl State {
    /// An object.
    #[must_use]
    pub fn get(&self, kind: &'static str, namespace: &str, name: &str) -> Option<&Value> {
        self.objects.get(&(kind, namespace.to_owned(), name.to_owned()))
    }

    /// All objects of a kind in a namespace (`""`: in all namespaces).
    pub fn all<'a>(&'a self, kind: &'static str, namespace: &'a str) -> impl Iterator<Item = &'a Value> {
        let within = move |id: &Id| id.0 == kind && (namespace.is_empty() || id.1 == namespace);
        self.objects.iter().filter(move |(id, _)| within(id)).map(|(_, object)| object)
    }

    fn shown(&mut self, kind: &'static str, object: Value, gone: bool) {
        let text = |path: &str| object.pointer(path).and_then(Value::as_str).map(str::to_owned);
        let id = (kind, text("/metadata/namespace").unwrap_or_default(), text("/metadata/name").unwrap_or_default());
        let says = match kind {
            "IPAddress" => text("/spec/address").map(|address| {
                let pool = &object["spec"]["poolRef"];
                format!("{address}/{} {} {}", object["spec"]["prefix"], pool["kind"], pool["name"])
            }),
            "IPAddressClaim" => text("/status/addressRef/name"),
            _ => None,
        };
        let owners = object["metadata"]["ownerReferences"].as_array().cloned().unwrap_or_default();
        let owner = owners.iter().find(|one| one["controller"] == true).and_then(|one| one["uid"].as_str());
        if kind.starts_with("IPAddress") {
            let version = text("/metadata/resourceVersion").and_then(|version| version.parse().ok());
            self.history.push(Change {
                version: version.unwrap_or_default(),
                id: id.clone(),
                uid: text("/metadata/uid").unwrap_or_default(),
                gone,
                going: object["metadata"]["deletionTimestamp"].is_string()
                    && object["metadata"]["finalizers"].as_array().is_none_or(|all| all.len() < 2),
                says,
                owner: owner.map(str::to_owned),
            });
        }
        if gone {
            self.objects.remove(&id);
        } else {
            self.objects.insert(id, object);
        }
    }
}

/// A record of the API server; the watches end when this is dropped.
pub struct World {
    state: Arc<Mutex<State>>,
    changed: watch::Receiver<()>,
    _tasks: JoinSet<()>,
}

impl World {
    /// Starts the watches; returns when all kinds were listed.
    ///
    /// # Errors
    /// A kind cannot be listed.
    pub async fn watch(client: &Client, kinds: &[&str]) -> Result<Self> {
        let state = Arc::new(Mutex::new(State::default()));
        let (sender, changed) = watch::channel(());
        let mut tasks = JoinSet::new();
        let mut wanted = BTreeSet::new();
        for (kind, version, plural) in KINDS.into_iter().filter(|(kind, ..)| kinds.contains(kind)) {
            let group = if kind == "Service" { "" } else { "ipam.cluster.x-k8s.io" };
            let gvk = GroupVersionKind::gvk(group, version, kind);
            let api = Api::<DynamicObject>::all_with(client.clone(), &ApiResource::from_gvk_with_plural(&gvk, plural));
            tasks.spawn(follow(kind, api, Arc::clone(&state), sender.clone()));
            wanted.insert(kind);
        }
        let world = Self { state, changed, _tasks: tasks };
        world.until("all kinds to be listed", |state| (state.listed == wanted).then_some(())).await?;
        Ok(world)
    }

    /// All kinds.
    #[must_use]
    pub fn kinds() -> Vec<&'static str> {
        KINDS.map(|(kind, ..)| kind).to_vec()
    }

    /// Looks at the known state.
    pub fn look<T>(&self, look: impl FnOnce(&State) -> T) -> T {
        look(&lock(&self.state))
    }

    /// Waits until `look` finds something, at most [`SOON`].
    ///
    /// # Errors
    /// It finds nothing in this time.
    pub async fn until<T>(&self, what: &str, look: impl FnMut(&State) -> Option<T>) -> Result<T> {
        self.until_within(SOON, what, look).await
    }

    /// As [`World::until`], with another limit.
    ///
    /// # Errors
    /// It finds nothing in this time.
    pub async fn until_within<T>(
        &self,
        limit: Duration,
        what: &str,
        mut look: impl FnMut(&State) -> Option<T>,
    ) -> Result<T> {
        let mut changed = self.changed.clone();
        let waiting = async {
            loop {
                changed.mark_unchanged();
                if let Some(found) = look(&lock(&self.state)) {
                    return Ok(found);
                }
                if changed.changed().await.is_err() {
                    bail!("the watch ended while waiting for {what}");
                }
            }
        };
        match tokio::time::timeout(limit, waiting).await {
            Ok(found) => found,
            Err(_) => bail!("waited {} s for {what}", limit.as_secs()),
        }
    }
}

/// Between two tries of a watch. The usual pause grows to 30 s, as long as a test waits.
struct Pause;

impl Iterator for Pause {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        Some(Duration::from_millis(500))
    }
}

impl Backoff for Pause {
    fn reset(&mut self) {}
}

/// Follows one kind; after a broken watch the kind is listed again.
async fn follow(kind: &'static str, api: Api<DynamicObject>, state: Arc<Mutex<State>>, changed: watch::Sender<()>) {
    let mut events = std::pin::pin!(watcher(api, Config::default()).backoff(Pause));
    let mut listed = Vec::new();
    while let Some(event) = events.next().await {
        let value = |object: DynamicObject| serde_json::to_value(object).unwrap_or_default();
        match event {
            Ok(Event::Apply(object)) => lock(&state).shown(kind, value(object), false),
            Ok(Event::Delete(object)) => lock(&state).shown(kind, value(object), true),
            Ok(Event::Init) => listed.clear(),
            Ok(Event::InitApply(object)) => listed.push(value(object)),
            Ok(Event::InitDone) => relisted(kind, &mut lock(&state), std::mem::take(&mut listed)),
            Err(error) => tracing::debug!(%error, kind, "a watch broke"),
        }
        changed.send_replace(());
    }
}

fn relisted(kind: &'static str, state: &mut State, listed: Vec<Value>) {
    let uid = |object: &Value| object["metadata"]["uid"].clone();
    let there: BTreeSet<String> = listed.iter().map(|object| uid(object).to_string()).collect();
    let gone = state.objects.iter().filter(|(id, object)| id.0 == kind && !there.contains(&uid(object).to_string()));
    let gone: Vec<Value> = gone.map(|(_, object)| object.clone()).collect();
    for object in gone {
        state.shown(kind, object, true);
    }
    for object in listed {
        state.shown(kind, object, false);
    }
    state.listed.insert(kind);
}
