//! kube-proxy's modes: which of them this kernel has, and the switch from one to another.

use std::fmt;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpStream};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use serde_json::{Value, json};

use super::cluster::{KubeadmCluster, READY};
use super::machine::Machine;
use super::run::{Run, run};
use crate::assets;
use crate::observe::{inside, now};
use crate::runner::Skip;

/// Where kube-proxy tells its mode, on every node.
const TOLD: u16 = 10_249;
/// For one question.
const ASKED: Duration = Duration::from_secs(5);
/// What is there once the kernel has IPVS.
const IPVS: &str = "/proc/net/ip_vs";
const DAEMON_SET: [&str; 3] = ["--namespace=kube-system", "daemonset", "kube-proxy"];

/// How kube-proxy sends packets on to pods.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// By a table of nftables.
    #[default]
    Nftables,
    /// By chains of iptables.
    Iptables,
    /// By the kernel's IPVS, with strictARP.
    Ipvs,
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Nftables => "nftables",
            Self::Iptables => "iptables",
            Self::Ipvs => "ipvs",
        })
    }
}

impl Mode {
    /// All modes.
    pub const ALL: [Self; 3] = [Self::Nftables, Self::Iptables, Self::Ipvs];

    /// Puts the mode into a configuration of kube-proxy. In IPVS mode every node has the addresses of all Services on an interface:
    /// it must not answer ARP for them.
    pub fn put(self, config: &mut Value) {
        config["mode"] = self.to_string().into();
        config["ipvs"]["strictARP"] = (self == Self::Ipvs).into();
    }

    /// Whether it can work on this machine.
    ///
    /// # Errors
    /// [`Skip`] with what is missing.
    pub async fn usable(self, machine: &Machine) -> Result<()> {
        match self {
            Self::Nftables => Ok(()),
            Self::Iptables => {
                let iptables = assets::on_path("iptables").ok_or_else(|| Skip("iptables is not installed".into()))?;
                let list = Run::new("iptables", iptables).args(["--wait", "--table", "nat", "--list-rules"]);
                let listed = run(&machine.host, list, ASKED).await;
                listed.map(drop).map_err(|error| Skip(format!("iptables does not work here: {error:#}")).into())
            }
            Self::Ipvs if !Path::new(IPVS).exists() => {
                Err(Skip(format!("the kernel has no IPVS ({IPVS}); `modprobe ip_vs` loads it where it is a module"))
                    .into())
            }
            Self::Ipvs => {
                assets::on_path("ipset").map(drop).ok_or_else(|| Skip("ipset is not installed".into()).into())
            }
        }
    }

    /// Changes kube-proxy's configuration, starts its pods anew, and waits until all nodes tell the mode. kube-proxy itself removes what
    /// it had put in place in the other mode.
    ///
    /// # Errors
    /// It does not come to that.
    pub async fn switch(self, cluster: &KubeadmCluster) -> Result<()> {
        let map = cluster.get(&["--namespace=kube-system", "configmap", "kube-proxy"]).await?;
        let text = map.pointer("/data/config.conf").and_then(Value::as_str).context("kube-proxy has no config.conf")?;
        let mut config: Value = serde_saphyr::from_str(text).context("kube-proxy's config.conf is no YAML")?;
        self.put(&mut config);
        let patch = json!({"data": {"config.conf": config.to_string()}}).to_string();
        let patch = ["--namespace=kube-system", "patch", "configmap", "kube-proxy", "--type=merge", "--patch", &patch];
        cluster.kubectl(patch).await?;
        cluster.kubectl(["--namespace=kube-system", "rollout", "restart", "daemonset/kube-proxy"]).await?;
        cluster.until(&DAEMON_SET, READY, rolled_out).await?;
        for machine in cluster.machines.values() {
            self.told(machine).await?;
        }
        Ok(())
    }

    async fn told(self, machine: &Machine) -> Result<()> {
        let deadline = now() + READY;
        loop {
            match ask(machine) {
                Ok(mode) if mode == self.to_string() => return Ok(()),
                _ if now() < deadline => tokio::time::sleep(Duration::from_millis(300)).await,
                Ok(mode) => bail!("kube-proxy on {} is in mode {mode}, not {self}", machine.host.name()),
                Err(error) => return Err(error.context(format!("ask kube-proxy on {}", machine.host.name()))),
            }
        }
    }
}

/// Whether all pods of a `DaemonSet` are of its last form, and ready.
fn rolled_out(set: &Value) -> bool {
    let at = |path: &str| set.pointer(path).and_then(Value::as_u64);
    let wanted = at("/status/desiredNumberScheduled");
    at("/metadata/generation") == at("/status/observedGeneration")
        && [at("/status/updatedNumberScheduled"), at("/status/numberReady")].iter().all(|count| *count == wanted)
}

/// The mode that kube-proxy tells on its node.
fn ask(machine: &Machine) -> Result<String> {
    let text = inside(machine.host.netns(), || {
        let asked = || {
            let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, TOLD))?;
            stream.set_read_timeout(Some(ASKED))?;
            stream.write_all(b"GET /proxyMode HTTP/1.0\r\n\r\n")?;
            let mut text = String::new();
            stream.read_to_string(&mut text).map(|_| text)
        };
        Ok(asked())
    })??;
    Ok(text.lines().last().unwrap_or_default().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_configuration_gets_the_mode_and_strict_arp_for_ipvs_only() {
        let mut config =
            json!({"mode": "", "ipvs": {"strictARP": false, "minSyncPeriod": "0s"}, "clusterCIDR": "10.244.0.0/16"});
        Mode::Ipvs.put(&mut config);
        let pool = config["clusterCIDR"].clone();
        assert_eq!(
            (&config["mode"], &config["ipvs"]["strictARP"], pool),
            (&json!("ipvs"), &json!(true), json!("10.244.0.0/16"))
        );
        Mode::Iptables.put(&mut config);
        assert_eq!((&config["mode"], &config["ipvs"]["strictARP"]), (&json!("iptables"), &json!(false)));
    }

    #[test]
    fn a_roll_out_ends_when_all_pods_are_new_and_ready() {
        let set = |generation, updated, ready| {
            json!({
                "metadata": {"generation": 2},
                "status": {"observedGeneration": generation, "desiredNumberScheduled": 5, "updatedNumberScheduled": updated, "numberReady": ready},
            })
        };
        assert!(rolled_out(&set(2, 5, 5)));
        for wrong in [set(1, 5, 5), set(2, 4, 5), set(2, 5, 4)] {
            assert!(!rolled_out(&wrong), "{wrong}");
        }
    }
}
