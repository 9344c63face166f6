//! The VIPs that are named by their `IPAddress`. The agent reads each once, and remembers it for the next start.
//!
//! The address of an `IPAddress` never changes: its spec cannot be changed. So the agent carries an address once read
//! until the agent restarts, whatever happens to the object: a VIP that clients know is not exchanged because an object
//! was deleted. The agent also writes the addresses to a file in its own directory. After a restart while no API server
//! answers, the agent goes on carrying them.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use crate::api::addresses::Addresses;
use crate::api::objects::Key;
use crate::api::{ApiError, EventNote, Events, Regarding, Servers, Severity};
use crate::cluster::Cluster;
use crate::ops::Ops;
use crate::settings::{Address, usable};

/// The time limit of a call.
const WITHIN: Duration = Duration::from_secs(3);
/// The time limit of the first calls.
const BRIEFLY: Duration = Duration::from_secs(1);
/// The first pause between two looks while an object is not known. Each later pause is twice as long.
const FIRST: Duration = Duration::from_millis(500);
/// The longest such pause.
const LAST: Duration = Duration::from_secs(4);
/// The time between two checks of a known object: whether its address is still the same.
const FOLLOW: Duration = Duration::from_secs(30);
/// The name of the file in the agent's own directory.
const FILE: &str = "named-addresses.json";

/// Why an `IPAddress` gives no VIP (yet).
#[derive(Debug, thiserror::Error)]
enum Why {
    /// No API server answers, or the answer is an error.
    #[error(transparent)]
    Api(#[from] ApiError),
    #[error("the API server serves no kind IPAddress: install Cluster API, or manifests/crds/standalone")]
    NoKind,
    #[error("it does not exist (any more)")]
    Missing,
    #[error("it is being deleted")]
    Deleting,
    #[error("its claim is not bound to it (yet)")]
    Unbound,
    #[error("it is labelled {0}: nodes advertise it as a VIP of Services; take the label off, or name another")]
    Labelled(&'static str),
    #[error("its spec.address is {0}")]
    Unusable(String),
}

/// An object that the settings name.
struct Named {
    key: Key,
    /// The address at the last read before the agent started.
    remembered: Option<IpAddr>,
    /// The address that this run carries.
    known: Option<IpAddr>,
    /// The current address, which the next run will carry.
    says: Option<IpAddr>,
    /// The last text reported about the object: each text is reported once.
    told: String,
}

/// The objects among the named VIPs; None: there are none.
#[must_use]
pub fn named(addresses: &[Address]) -> Option<Vec<Key>> {
    let named = addresses.iter().filter_map(|address| match address {
        Address::Object(key) => Some(key.clone()),
        Address::Ip(_) | Address::Name(_) => None,
    });
    let named: Vec<Key> = named.collect();
    (!named.is_empty()).then_some(named)
}

/// Sends the addresses of these objects whenever another one is known.
pub async fn follow(
    objects: Vec<Key>,
    cluster: Cluster,
    run_dir: PathBuf,
    ops: Arc<Ops>,
    known: watch::Sender<Vec<IpAddr>>,
) {
    let file = run_dir.join(FILE);
    let remembered = load(&file).await;
    let named = |key: Key| {
        let ip = remembered.get(&key.to_string()).copied().filter(|ip| usable(*ip).is_ok());
        Named { key, remembered: ip, known: None, says: ip, told: String::new() }
    };
    let mut all: Vec<Named> = objects.into_iter().map(named).collect();
    // VIPs that are carried already must not wait for an API server that is away.
    let mut within = BRIEFLY;
    let mut pause = FIRST;
    loop {
        let mut waits = Vec::new();
        let mut changed = false;
        for one in &mut all {
            let found = read(&cluster.servers, &one.key, within).await;
            let before = one.says;
            waits.extend(one.hear(found, &cluster.events));
            changed |= one.says != before;
        }
        send(&all, &known);
        ops.readiness.set("address-object", (!waits.is_empty()).then(|| waits.join("; ")));
        if changed {
            save(&file, &all).await;
        }
        if known.is_closed() {
            return;
        }
        within = WITHIN;
        pause = if waits.is_empty() { FOLLOW } else { (pause * 2).min(LAST) };
        tokio::time::sleep(crate::api::jitter(pause)).await;
    }
}

/// Sends all known addresses.
fn send(all: &[Named], known: &watch::Sender<Vec<IpAddr>>) {
    let mut now: Vec<IpAddr> = all.iter().filter_map(|one| one.known).collect();
    now.sort_unstable();
    now.dedup();
    known.send_if_modified(|before| {
        let changed = *before != now;
        *before = now;
        changed
    });
}

impl Named {
    /// Takes in the result of a read. Some: what the object waits for.
    fn hear(&mut self, found: Result<IpAddr, Why>, events: &Events) -> Option<String> {
        if let Ok(ip) = found {
            self.says = Some(ip);
        }
        match (found, self.known) {
            (Ok(ip), None) => {
                tracing::info!(object = %self.key, address = %ip, "an IPAddress names the VIP");
                self.known = Some(ip);
                self.told.clear();
                None
            }
            (Ok(ip), Some(known)) if ip == known => {
                self.told.clear();
                None
            }
            (Ok(ip), Some(known)) => {
                let text = format!(
                    "it was made again with the address {ip}: the VIP stays {known} until the agent is restarted"
                );
                self.tell(events, text);
                None
            }
            (Err(Why::Api(error)), Some(_)) => {
                tracing::debug!(object = %self.key, %error, "IPAddress of the VIP could not be read; retrying");
                None
            }
            (Err(why), Some(known)) => {
                self.tell(events, format!("{why}: the VIP stays {known} until the agent is restarted"));
                None
            }
            (Err(Why::Api(error)), None) if self.remembered.is_some() => {
                let address = self.remembered;
                tracing::warn!(object = %self.key, ?address, %error, "IPAddress of the VIP cannot be read; the address stored by an earlier run is used");
                self.known = address;
                None
            }
            (Err(why), None) => {
                let text = format!("waits for IPAddress {}: {why}", self.key);
                if self.told != text {
                    tracing::warn!("{text}");
                    self.told.clone_from(&text);
                }
                Some(text)
            }
        }
    }

    /// Reports a text to people, once.
    fn tell(&mut self, events: &Events, text: String) {
        if self.told == text {
            return;
        }
        tracing::warn!(object = %self.key, "IPAddress of the VIP: {text}");
        let Key { namespace, name } = self.key.clone();
        events.send(EventNote {
            regarding: Regarding::Address { namespace, name, uid: None },
            severity: Severity::Warning,
            reason: "AddressChanged",
            action: "Hold",
            note: text.clone(),
        });
        self.told = text;
    }
}

/// The address of an object that may be carried: the object is bound, or has no claim, and no node advertises it for
/// others.
async fn read(servers: &Servers, key: &Key, within: Duration) -> Result<IpAddr, Why> {
    let api = Addresses::discover(servers, within).await?.ok_or(Why::NoKind)?;
    let object = api.get(key, within).await?.ok_or(Why::Missing)?;
    if object.metadata.deletion_timestamp.is_some() {
        return Err(Why::Deleting);
    }
    if let Some(label) = object.metadata.labels.advertised() {
        return Err(Why::Labelled(label));
    }
    if api.is_bound(key, &object, within).await? == Some(false) {
        return Err(Why::Unbound);
    }
    let ip = object.address().ok_or_else(|| Why::Unusable("none".to_owned()))?;
    usable(ip).map_err(|(problem, _)| Why::Unusable(format!("{ip}, {problem}")))
}

async fn load(file: &Path) -> BTreeMap<String, IpAddr> {
    let read = match tokio::fs::read(file).await {
        Ok(bytes) => serde_json::from_slice(&bytes).map_err(std::io::Error::from),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return BTreeMap::new(),
        Err(error) => Err(error),
    };
    read.unwrap_or_else(|error| {
        tracing::warn!(file = %file.display(), %error, "stored addresses of IPAddress objects cannot be read; they are read from an API server");
        BTreeMap::new()
    })
}

/// Writes the whole file or nothing. If the directory cannot be written to, only the memory for the next start is lost.
async fn save(file: &Path, all: &[Named]) {
    let known: BTreeMap<String, IpAddr> = all.iter().filter_map(|one| Some((one.key.to_string(), one.says?))).collect();
    let new = file.with_extension("new");
    let write = async {
        if let Some(dir) = file.parent() {
            tokio::fs::create_dir_all(dir).await?;
        }
        tokio::fs::write(&new, serde_json::to_vec(&known)?).await?;
        tokio::fs::rename(&new, file).await
    };
    if let Err(error) = write.await {
        let file = file.display();
        tracing::warn!(%file, %error, "address of the IPAddress could not be stored: an agent that starts while no API server answers has to wait");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::Settings;

    fn named(remembered: Option<&str>) -> Named {
        let key = Key { namespace: "kube-system".into(), name: "api".into() };
        let remembered = remembered.map(|ip| ip.parse().unwrap());
        Named { key, remembered, known: None, says: remembered, told: String::new() }
    }

    fn away() -> Result<IpAddr, Why> {
        Err(Why::Api(crate::api::unsayable(&std::io::Error::other("away"))))
    }

    fn nobody() -> Events {
        let settings = Settings::control_plane(crate::api::Source::File("/nowhere/admin.conf".into()), "n1".to_owned());
        Events::start(Servers::new(settings, Arc::new(())), "n1")
    }

    #[tokio::test]
    async fn what_was_read_stays_until_the_next_start() {
        let events = nobody();
        let ip = |text: &str| Ok(text.parse().unwrap());
        let mut one = named(None);
        assert!(
            one.hear(Err(Why::Missing), &events)
                .is_some_and(|wait| wait.contains("kube-system/api: it does not exist"))
        );
        assert_eq!(one.hear(ip("192.0.2.10"), &events), None);
        for later in [ip("192.0.2.11"), Err(Why::Missing), Err(Why::Deleting), Err(Why::NoKind)] {
            assert_eq!(one.hear(later, &events), None);
            assert_eq!(one.known, ip("192.0.2.10").ok());
        }
        assert!(one.told.contains("the VIP stays 192.0.2.10"), "{}", one.told);
        assert_eq!(one.says, ip("192.0.2.11").ok(), "for the next start");
    }

    #[tokio::test]
    async fn what_is_remembered_counts_only_while_nobody_can_be_asked() {
        let events = nobody();
        let ip = |text: &str| Ok(text.parse().unwrap());
        let mut one = named(Some("192.0.2.10"));
        assert_eq!(one.hear(ip("192.0.2.11"), &events), None);
        assert_eq!(one.known, ip("192.0.2.11").ok());
        let mut one = named(Some("192.0.2.10"));
        assert!(one.hear(Err(Why::Missing), &events).is_some(), "it is gone");
        let mut one = named(Some("192.0.2.10"));
        assert_eq!(one.hear(away(), &events), None);
        assert_eq!(one.hear(ip("192.0.2.11"), &events), None);
        assert_eq!((one.known, one.says), (ip("192.0.2.10").ok(), ip("192.0.2.11").ok()), "not within a run");
        let mut one = named(None);
        assert!(one.hear(away(), &events).is_some());
    }

    #[tokio::test]
    async fn what_is_saved_is_loaded() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join(FILE);
        assert!(load(&file).await.is_empty());
        save(&file, &[named(Some("2001:db8::10"))]).await;
        assert_eq!(load(&file).await, [("kube-system/api".to_owned(), "2001:db8::10".parse().unwrap())].into());
        std::fs::write(&file, "nonsense").unwrap();
        assert!(load(&file).await.is_empty());
        let file = dir.path().join("not/there/yet");
        save(&file, &[named(Some("192.0.2.10"))]).await;
        assert_eq!(load(&file).await.len(), 1);
    }
}
