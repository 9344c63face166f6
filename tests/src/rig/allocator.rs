//! A server with an allocator beside it, and a record of all that happens.

use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU8, AtomicU16, Ordering};

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use crate::assets::{self, Profile};
use crate::host::lock;
use crate::ipam::allocators::Allocator;
use crate::ipam::scope::Scope;
use crate::ipam::server::{Crds, Server, documents_in};
use crate::ipam::world::World;

/// The file with the allocators' kubeconfig, in the lab's folder.
const KUBECONFIG: &str = "allocator.conf";
/// The user that the manifests' service account is.
pub const USER: &str = "system:serviceaccount:mooring-system:mooring-allocator";
/// The network of the lab's hosts, 10.77.0.0/24: no scope has it.
const LAB_NET: u8 = 77;
/// The host on which allocators run.
const HOST: &str = "client";

pub struct AllocatorRig {
    /// The API server.
    pub server: Server,
    /// What it shows.
    pub world: World,
    /// Whose kinds it has.
    pub crds: Crds,
    binary: PathBuf,
    ports: AtomicU16,
    nets: AtomicU8,
}

/// Rigs that a test has left as it found them, for the next test.
static IDLE: Mutex<Vec<(AllocatorRig, Allocator)>> = Mutex::new(Vec::new());

impl AllocatorRig {
    /// Brings it up; no allocator runs yet.
    ///
    /// # Errors
    /// The lab's, or a CRD is refused.
    pub async fn up(crds: Crds) -> Result<Self> {
        let binary = tokio::task::spawn_blocking(|| assets::allocator(Profile::Dev)).await??;
        Self::with(crds, binary, true).await
    }

    /// As [`AllocatorRig::up`], with that allocator. `all`: whether all kinds are watched, or none, which costs nothing.
    ///
    /// # Errors
    /// As [`AllocatorRig::up`].
    pub async fn with(crds: Crds, binary: PathBuf, all: bool) -> Result<Self> {
        Self::on(Server::with(crds).await?, crds, binary, all).await
    }

    /// On a server that has Mooring's own CRDs.
    ///
    /// # Errors
    /// As [`AllocatorRig::up`].
    pub async fn of(server: Server) -> Result<Self> {
        let binary = tokio::task::spawn_blocking(|| assets::allocator(Profile::Dev)).await??;
        Self::on(server, Crds::Standalone, binary, true).await
    }

    /// As [`AllocatorRig::of`], with that allocator; nothing is watched.
    ///
    /// # Errors
    /// As [`AllocatorRig::up`].
    pub async fn unwatched(server: Server, binary: PathBuf) -> Result<Self> {
        Self::on(server, Crds::Standalone, binary, false).await
    }

    /// On a server that has these CRDs: allocators have the rights that these roles and bindings give.
    ///
    /// # Errors
    /// As [`AllocatorRig::up`].
    pub async fn confined(server: Server, crds: Crds, roles: &[Value]) -> Result<Self> {
        let binary = tokio::task::spawn_blocking(|| assets::allocator(Profile::Dev)).await??;
        Self::with_roles(server, crds, binary, true, roles).await
    }

    async fn on(server: Server, crds: Crds, binary: PathBuf, all: bool) -> Result<Self> {
        // With exactly the rights that the manifests give it.
        Self::with_roles(server, crds, binary, all, &documents_in("allocator/rbac.yaml")?).await
    }

    async fn with_roles(server: Server, crds: Crds, binary: PathBuf, all: bool, roles: &[Value]) -> Result<Self> {
        let cluster = server.lab().cluster()?;
        let url = cluster.servers().first().cloned().context("no API server")?;
        for object in documents_in("allocator/namespace.yaml")?.iter().chain(roles) {
            server.apply(object).await.with_context(|| format!("refused: {object}"))?;
        }
        let identity = cluster.pki().client(USER, &["system:serviceaccounts"], None)?;
        let kubeconfig = cluster.pki().kubeconfig(&identity, &url)?;
        std::fs::write(server.lab().dir().join(KUBECONFIG), kubeconfig)?;
        let kinds = World::kinds();
        let kinds: Vec<&str> =
            kinds.into_iter().filter(|kind| all && (crds != Crds::Theirs || !kind.contains("Prefix"))).collect();
        let world = World::watch(&server.client, &kinds).await?;
        Ok(Self { server, world, crds, binary, ports: AtomicU16::new(8_081), nets: AtomicU8::new(20) })
    }

    /// Starts an allocator of that name, without leader election, and waits until it is ready.
    ///
    /// # Errors
    /// It does not start.
    pub async fn start(&self, name: &str) -> Result<Allocator> {
        self.start_with(name, &["--leader-election=false"]).await
    }

    /// As [`AllocatorRig::start`], with arguments of your own.
    ///
    /// # Errors
    /// It does not start.
    pub async fn start_with(&self, name: &str, args: &[&str]) -> Result<Allocator> {
        let allocator = self.spawn(name, args)?;
        allocator.ready().await?;
        Ok(allocator)
    }

    /// Starts one and does not wait.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn spawn(&self, name: &str, args: &[&str]) -> Result<Allocator> {
        let lab = self.server.lab();
        let kubeconfig = lab.dir().join(KUBECONFIG).display().to_string();
        let port = self.ports.fetch_add(1, Ordering::Relaxed);
        let args = [&["--lease-namespace=mooring-system"], args].concat();
        Allocator::start(&lab.host(HOST)?, name, &self.binary, &kubeconfig, port, &args)
    }

    /// A namespace of its own with addresses of its own.
    ///
    /// # Errors
    /// The API server refuses.
    pub async fn scope(&self) -> Result<Scope<'_>> {
        let mut net = self.nets.fetch_add(1, Ordering::Relaxed);
        if net == LAB_NET {
            // There the API server is the control plane's.
            net = self.nets.fetch_add(1, Ordering::Relaxed);
        }
        ensure!(net < u8::MAX, "too many scopes");
        let name = format!("test-{net}");
        let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        self.server.create("/api/v1/namespaces", &object).await?;
        Ok(Scope::new(self, &name, net))
    }

    /// One with an allocator, brought up or left by another test. Hand it back by [`give_back`] when all is well.
    ///
    /// # Errors
    /// As [`AllocatorRig::up`].
    pub async fn lease(crds: Crds) -> Result<(Self, Allocator)> {
        let idle = {
            let mut all = lock(&IDLE);
            let place = all.iter().position(|(rig, _)| rig.crds == crds);
            place.map(|place| all.swap_remove(place))
        };
        if let Some(one) = idle {
            return Ok(one);
        }
        let rig = Self::up(crds).await?;
        let allocator = rig.start("allocator").await?;
        Ok((rig, allocator))
    }
}

/// Leaves a rig to the next test.
pub fn give_back(rig: AllocatorRig, allocator: Allocator) {
    // How many scopes one rig has room for.
    if rig.nets.load(Ordering::Relaxed) < 200 {
        lock(&IDLE).push((rig, allocator));
    }
}

/// Takes down the rigs that no test uses any more.
pub fn end() {
    let all = std::mem::take(&mut *lock(&IDLE));
    drop(all);
}

/// What an object is called, for messages.
#[must_use]
pub fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}
