//! kube-proxy on a host.

use std::path::Path;

use anyhow::{Context as _, Result};
use serde_json::json;

use crate::host::{Host, Process, Spec};

/// The name of its process.
const NAME: &str = "kube-proxy";

/// Starts kube-proxy in nftables mode for the Node that is called as the host, with that kubeconfig.
///
/// # Errors
/// It cannot be started.
pub fn start(host: &Host, binary: &Path, kubeconfig: &Path) -> Result<Process> {
    let netns = host.netns();
    for key in ["ipv4/ip_forward", "ipv6/conf/all/forwarding"] {
        netns.sysctl(key, "1")?;
    }
    let config = json!({
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1", "kind": "KubeProxyConfiguration", "mode": "nftables",
        "clientConnection": {"kubeconfig": kubeconfig.display().to_string()},
        "hostnameOverride": host.name(), "clusterCIDR": "10.244.0.0/16",
        // A lab's namespace may not set the machine's limits.
        "conntrack": {"maxPerCore": 0}, "oomScoreAdj": 0,
        "bindAddress": "0.0.0.0", "healthzBindAddress": "0.0.0.0:10256", "metricsBindAddress": "127.0.0.1:10249",
    });
    let file = host.dir().join("kube-proxy.yaml");
    std::fs::write(&file, config.to_string()).with_context(|| format!("write {}", file.display()))?;
    Ok(host.start(Spec::new(NAME, binary).arg(format!("--config={}", file.display())))?)
}
