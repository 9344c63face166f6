//! A stand-in for kube-vip on a node: client-go's elector, which kube-vip uses, and the VIPs on the node's interface while it
//! leads, as kube-vip puts them there: for ever, and announced. On SIGTERM it releases the Lease first and removes the
//! addresses a little later, as kube-vip does.

use std::net::IpAddr;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use tokio::task::JoinHandle;

use crate::assets;
use crate::host::{Host, Process, Spec};
use crate::lab::Lab;
use crate::observe::now;
use crate::segment;

/// How soon the interface follows the election.
const FOLLOWS: Duration = Duration::from_millis(5);
/// For its end.
const ENDED: Duration = Duration::from_secs(20);

/// kube-vip on one node.
#[derive(Debug)]
pub struct KubeVip {
    host: Host,
    process: Process,
    vips: Vec<IpAddr>,
    follower: JoinHandle<()>,
}

impl KubeVip {
    /// Starts it: a candidate for the Lease (namespace and name), by the node's name.
    ///
    /// # Errors
    /// The elector cannot be built, or does not start.
    pub async fn start(lab: &Lab, node: &str, (namespace, name): (&str, &str), vips: &[IpAddr]) -> Result<Self> {
        let program = tokio::task::spawn_blocking(|| assets::go_program("elector")).await??;
        let (cluster, host) = (lab.cluster()?, lab.host(node)?);
        let server = cluster.servers().first().cloned().context("no API server")?;
        let config = host.dir().join("kube-vip.conf");
        std::fs::write(&config, cluster.pki().kubeconfig(&cluster.pki().super_admin()?, &server)?)?;
        let process = host.start(Spec::new("kube-vip", program).args([
            format!("--kubeconfig={}", config.display()),
            format!("--namespace={namespace}"),
            format!("--name={name}"),
            format!("--identity={node}"),
            "--release-on-cancel".into(),
            "--again".into(),
        ]))?;
        let follower = tokio::spawn(follow(host.clone(), process.clone(), vips.to_vec()));
        Ok(Self { host, process, vips: vips.to_vec(), follower })
    }

    /// SIGTERM, and its addresses go.
    ///
    /// # Errors
    /// It does not end, or an address cannot be removed.
    pub async fn stop(&self) -> Result<()> {
        self.process.terminate()?;
        self.process.ended(ENDED).await?;
        let deadline = now() + ENDED;
        while !self.has()?.is_empty() {
            ensure!(now() < deadline, "{} keeps {:?}", self.host.name(), self.has()?);
            tokio::time::sleep(FOLLOWS).await;
        }
        Ok(())
    }

    /// Those of its VIPs that the node has.
    ///
    /// # Errors
    /// The node has no interface.
    pub fn has(&self) -> Result<Vec<IpAddr>> {
        let there = self.host.netns().addresses("eth0")?;
        Ok(there.into_iter().map(|(address, _)| address).filter(|address| self.vips.contains(address)).collect())
    }
}

impl Drop for KubeVip {
    fn drop(&mut self) {
        self.follower.abort();
    }
}

/// Puts the VIPs onto the interface when the elector says that it leads, and takes them off when it says that it does not.
async fn follow(host: Host, process: Process, vips: Vec<IpAddr>) {
    let mut led = false;
    loop {
        tokio::time::sleep(FOLLOWS).await;
        let log = std::fs::read_to_string(process.log()).unwrap_or_default();
        let last = log.lines().rev().find(|line| line.contains("-leading\""));
        let leads = last.is_some_and(|line| line.contains("\"started-leading\""));
        if leads == led {
            continue;
        }
        led = leads;
        for vip in &vips {
            let prefix = if vip.is_ipv4() { 32 } else { 128 };
            let done = if leads {
                let put = host.netns().add_address("eth0", *vip, prefix);
                put.and_then(|()| segment::announce(host.netns(), "eth0", host.mac(), *vip).map(drop))
            } else {
                host.netns().delete_address("eth0", *vip)
            };
            if let Err(error) = done {
                tracing::warn!(%error, %vip, host = host.name(), "the stand-in for kube-vip");
            }
        }
    }
}
