//! The act about kube-proxy's modes: the Service answers in each of them that the kernel has.

use anyhow::{Context as _, Result};

use super::cluster::KubeadmCluster;
use super::proxy::Mode;
use super::services;
use super::story::s;
use super::verdict::Verdicts;
use crate::observe::now;

/// Switches to one mode after another, and back to the first.
pub async fn all(story: &mut Verdicts, cluster: &KubeadmCluster) {
    for mode in Mode::ALL {
        let name = match mode {
            Mode::Nftables => "a Service with kube-proxy in nftables mode",
            Mode::Iptables => "a Service with kube-proxy in iptables mode",
            Mode::Ipvs => "a Service with kube-proxy in IPVS mode, strictARP",
        };
        let answered = answers(cluster, mode).await;
        story.judge(name, answered);
    }
    if let Err(error) = Mode::default().switch(cluster).await {
        story.judge("kube-proxy back in its first mode", Err(error));
    }
}

async fn answers(cluster: &KubeadmCluster, mode: Mode) -> Result<String> {
    let machine = cluster.machines.values().next().context("there is no machine")?;
    mode.usable(machine).await?;
    let begin = now();
    mode.switch(cluster).await?;
    let switched = s(now().since(begin));
    Ok(format!("all nodes in {mode} mode after {switched}; {}", services::answer(cluster).await?))
}
