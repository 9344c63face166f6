//! Cluster API's own managers on a lab's API server: core, kubeadm bootstrap and kubeadm control plane; and its provider for
//! development.

use std::fs;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use super::endpoint_kinds::{INFRASTRUCTURE, crd, free, infrastructure_kind};
use super::server::{Server, documents};
use crate::assets::{self, Manager};
use crate::host::{Process, Spec};
use crate::observe::now;

/// The host on which they run.
const HOST: &str = "client";
/// The first of their ports; each has three.
const PORTS: u16 = 9_500;
/// How long they may take to be healthy.
const STARTED: Duration = Duration::from_mins(1);
/// The contract that the kinds of infrastructure here follow.
const CONTRACT: (&str, &str) = ("cluster.x-k8s.io/v1beta2", "v1beta2");

/// The managers, running.
pub struct Managers {
    processes: Vec<Process>,
}

impl Managers {
    /// Installs Cluster API's kinds, and kinds of a stand-in for an infrastructure provider; starts the managers.
    ///
    /// # Errors
    /// They cannot be built, or do not start.
    pub async fn start(server: &Server) -> Result<Self> {
        let binaries = install(server, &Manager::NEEDED).await?;
        stand_ins(server).await?;
        Self::run(server, binaries, None)
    }

    /// As [`Managers::start`], with the provider for development in place of a stand-in. `address`: the one at which its API
    /// servers serve, and for which they have certificates. It becomes an address of the managers' host.
    ///
    /// # Errors
    /// As [`Managers::start`].
    pub async fn with_development(server: &Server, address: IpAddr) -> Result<Self> {
        let all: Vec<Manager> = Manager::NEEDED.into_iter().chain([Manager::Development]).collect();
        let binaries = install(server, &all).await?;
        server.lab().host(HOST)?.netns().add_address("eth0", address, if address.is_ipv4() { 32 } else { 128 })?;
        Self::run(server, binaries, Some(address))
    }

    fn run(server: &Server, binaries: Vec<(Manager, PathBuf)>, address: Option<IpAddr>) -> Result<Self> {
        let (lab, cluster) = (server.lab(), server.lab().cluster()?);
        let dir = lab.dir().join("managers");
        fs::create_dir_all(&dir)?;
        // Nothing calls their webhooks: no WebhookConfiguration is installed. They do not start without a certificate.
        fs::copy(cluster.pki().path("apiserver.crt"), dir.join("tls.crt"))?;
        fs::copy(cluster.pki().path("apiserver.key"), dir.join("tls.key"))?;
        let url = cluster.servers().first().cloned().context("no API server")?;
        let kubeconfig = dir.join("kubeconfig");
        fs::write(&kubeconfig, cluster.pki().kubeconfig(&cluster.pki().super_admin()?, &url)?)?;

        let host = lab.host(HOST)?;
        let mut processes = Vec::new();
        for (port, (manager, binary)) in (PORTS..).step_by(3).zip(binaries) {
            let mut spec = Spec::new(manager.name(), binary).args([
                format!("--kubeconfig={}", kubeconfig.display()),
                format!("--webhook-cert-dir={}", dir.display()),
                format!("--webhook-port={port}"),
                format!("--health-addr=127.0.0.1:{}", port + 1),
                format!("--diagnostics-address=127.0.0.1:{}", port + 2),
                "--insecure-diagnostics".to_owned(),
                "--skip-crd-migration-phases=StorageVersionMigration,CleanupManagedFields".to_owned(),
            ]);
            if let Some(address) = address.filter(|_| manager == Manager::Development) {
                spec = spec.env("POD_IP", address.to_string());
            }
            processes.push(host.start(spec)?);
        }
        Ok(Self { processes })
    }

    /// Fails if one of them has ended; with the last lines of its log.
    ///
    /// # Errors
    /// One has ended.
    pub fn running(&self) -> Result<()> {
        for process in &self.processes {
            ensure!(process.is_running(), "{} has ended:\n{}", process.name(), process.log_tail(30));
        }
        Ok(())
    }

    /// The last lines of their logs, for messages.
    #[must_use]
    pub fn logs(&self) -> String {
        let all: Vec<_> = self.processes.iter().map(|one| format!("{}:\n{}", one.name(), one.log_tail(15))).collect();
        all.join("\n")
    }
}

/// Builds managers, and installs their kinds.
async fn install(server: &Server, managers: &[Manager]) -> Result<Vec<(Manager, PathBuf)>> {
    let managers = managers.to_vec();
    let (files, binaries) = tokio::task::spawn_blocking(move || {
        let mut files = Vec::new();
        let mut binaries = Vec::new();
        for manager in managers {
            files.extend(assets::managed_crds(manager)?);
            binaries.push((manager, assets::manager(manager)?));
        }
        Ok::<_, assets::Error>((files, binaries))
    })
    .await??;
    for file in files {
        for mut kind in documents(&file)? {
            // As the managers' own manifests label them: the versions by the contract that they follow.
            kind["metadata"]["labels"] = json!({CONTRACT.0: CONTRACT.1, "cluster.x-k8s.io/v1beta1": "v1beta1"});
            add(server, &kind).await?;
        }
    }
    Ok(binaries)
}

/// Installs the kinds of a stand-in for an infrastructure provider.
async fn stand_ins(server: &Server) -> Result<()> {
    let machines = ["VSphereMachine", "VSphereMachineTemplate"];
    let machines = machines.map(|kind| crd(INFRASTRUCTURE, kind, &[("v1beta2", free())]));
    for mut kind in machines.into_iter().chain([infrastructure_kind()]) {
        kind["metadata"]["labels"] = json!({CONTRACT.0: CONTRACT.1});
        add(server, &kind).await?;
    }
    Ok(())
}

async fn add(server: &Server, kind: &Value) -> Result<()> {
    server.apply(kind).await?;
    server.established(kind["metadata"]["name"].as_str().unwrap_or_default()).await
}

/// Stands in for the infrastructure provider, for ever: it does what Cluster API's contract asks of one, no more. An
/// infrastructure cluster is provisioned when it has a host.
///
/// # Errors
/// The API server refuses.
pub async fn infrastructure(server: &Server, namespace: &str) -> Result<()> {
    let all = format!("/apis/{INFRASTRUCTURE}/v1beta2/namespaces/{namespace}/vsphereclusters");
    loop {
        let list = server.get(&all).await?;
        for one in list["items"].as_array().into_iter().flatten() {
            let host = one.pointer("/spec/controlPlaneEndpoint/host").and_then(Value::as_str).unwrap_or_default();
            if !host.is_empty() && one.pointer("/status/initialization/provisioned").is_none() {
                let name = one["metadata"]["name"].as_str().unwrap_or_default();
                let status = json!({"status": {"ready": true, "initialization": {"provisioned": true}}});
                server.merge(&format!("{all}/{name}/status"), &status).await?;
            }
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Waits for something that the managers do; looks ten times a second.
///
/// # Errors
/// It does not come, or a manager has ended.
pub async fn until<T, F: Future<Output = Result<Option<T>>>>(
    managers: &Managers,
    what: &str,
    look: impl Fn() -> F,
) -> Result<T> {
    let deadline = now() + 2 * STARTED;
    loop {
        if let Some(found) = look().await? {
            return Ok(found);
        }
        managers.running()?;
        ensure!(now() < deadline, "waited for {what}:\n{}", managers.logs());
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}
