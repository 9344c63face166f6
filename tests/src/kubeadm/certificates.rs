//! The act about certificates: they are renewed as kubeadm's documentation says, and the agents go on.

use std::fs;
use std::io::Stdout;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::Value;

use super::cluster::{KubeadmCluster, READY, items};
use super::containers::{running, signal, until};
use super::control_plane::{API_RESTARTED, Traffic};
use super::machine::Machine;
use super::run::{Run, run};
use super::story::s;
use crate::chaos::bounds::HARMLESS;
use crate::observe::now;
use crate::report::{Report, Tone};

/// What reads its certificates once, when it starts. The manifests leave the kubelet's folder and come back.
const RESTARTED: [&str; 4] = ["etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"];
/// Our container.
const AGENT: &str = "mooring-agent";
/// The agents' credentials.
const ADMIN: &str = "etc/kubernetes/admin.conf";
/// What an agent logs when it has read them.
const READ: &str = "kubeconfig read";
/// How long an agent may take to read them again: it looks every two seconds, when it asks something.
const READ_AGAIN: Duration = Duration::from_secs(20);
/// How long the Lease may go without a renewal, on a busy machine.
const RENEWED: Duration = Duration::from_secs(10);

/// `kubeadm certs renew all` on one control plane after another, each with a restart of the static pods that need it. Ours is left
/// alone: it reads the new `admin.conf` by itself.
pub async fn renew(report: &mut Report<Stdout>, cluster: &KubeadmCluster) -> Result<String> {
    let (restarts, transitions) = (restarts(cluster).await?, transitions(cluster).await?);
    let traffic = Traffic::start(cluster).await?;
    let begin = now();
    let mut slowest = Duration::ZERO;
    for node in cluster.rig.lab.control_planes() {
        let machine = cluster.machine(&node)?;
        let (old, reads) = (read(&machine.file(ADMIN))?, reads(machine)?);
        run(&machine.host, machine.kubeadm("kubeadm-certs").args(["certs", "renew", "all"]), READY).await?;
        let renewed = now();
        ensure!(read(&machine.file(ADMIN))? != old, "kubeadm leaves {node}'s admin.conf as it was");
        read_again(machine, reads).await?;
        slowest = slowest.max(now().since(renewed));
        ensure!(sees_its_node_s(machine).await?, "the agent of {node} does not see the new admin.conf");
        restart(cluster, machine).await?;
        renews(cluster).await?;
        report.event(Tone::Plain, &format!("{node} has new certificates, and its static pods have restarted"));
    }
    let cost = traffic.end(cluster)?;
    let moves = self::transitions(cluster).await? - transitions;
    let found = format!(
        "three control planes in {}; agents read the new admin.conf after {} at most; {moves} hand-overs; {}; longest away {}",
        s(now().since(begin)),
        s(slowest),
        cost.text(),
        s(cost.away)
    );
    let after = self::restarts(cluster).await?;
    ensure!(after == restarts, "{found}; the agents have restarted: {restarts:?} times before, {after:?} times after");
    ensure!(
        cost.silent <= HARMLESS && cost.away <= API_RESTARTED,
        "{found}; allowed: {} silent, {} away",
        s(HARMLESS),
        s(API_RESTARTED)
    );
    Ok(found)
}

/// Another tool puts a new file in the place of `admin.conf`. The pod has the old file mounted: its agent sees the new one when the
/// kubelet starts it again, and not before.
pub async fn replace(cluster: &KubeadmCluster) -> Result<String> {
    let holder = cluster.rig.holder().await?;
    let others = cluster.rig.lab.control_planes();
    let node = others.iter().find(|node| **node != holder).context("there is one control plane only")?;
    let machine = cluster.machine(node)?;
    let (path, new) = (machine.file(ADMIN), machine.file("etc/kubernetes/admin.conf.new"));
    fs::copy(&path, &new).context("copy admin.conf")?;
    fs::rename(&new, &path).context("replace admin.conf")?;
    let admin = machine.kubeadm("kubeadm-certs").args(["certs", "renew", "admin.conf"]);
    run(&machine.host, admin, READY).await?;
    ensure!(!sees_its_node_s(machine).await?, "the agent of {node} sees the new file: nothing is to be shown");
    let before = running(machine, AGENT).await?;
    signal(machine, AGENT, "SIGTERM").await?;
    let deadline = now() + READY;
    while running(machine, AGENT).await?.is_none_or(|now| Some(now) == before) {
        ensure!(now() < deadline, "the kubelet of {node} does not start the agent again");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    ensure!(sees_its_node_s(machine).await?, "the agent of {node} has restarted, and does not see the new file");
    Ok(format!("{node}'s agent keeps the file that it has mounted, and sees the new one once it has restarted"))
}

/// The manifests of a control plane leave the kubelet's folder until nothing of them runs, and come back.
async fn restart(cluster: &KubeadmCluster, machine: &Machine) -> Result<()> {
    let (folder, aside) = (machine.file("etc/kubernetes/manifests"), machine.file("etc/kubernetes/aside"));
    fs::create_dir_all(&aside).with_context(|| format!("make {}", aside.display()))?;
    let shift = |from: &Path, to: &Path| -> Result<()> {
        for name in RESTARTED {
            let file = format!("{name}.yaml");
            fs::rename(from.join(&file), to.join(&file)).with_context(|| format!("move {file}"))?;
        }
        Ok(())
    };
    shift(&folder, &aside)?;
    for name in RESTARTED {
        until(machine, name, false, READY).await?;
    }
    shift(&aside, &folder)?;
    for name in RESTARTED {
        until(machine, name, true, READY).await?;
    }
    cluster.api_ready(machine.host.name()).await
}

/// How often the agents have been started again.
async fn restarts(cluster: &KubeadmCluster) -> Result<Vec<u64>> {
    let label = "--selector=app.kubernetes.io/name=mooring-agent,mooring.dev/vips=control-plane";
    let pods = cluster.get(&["--namespace=kube-system", "pods", label]).await?;
    let count = |pod: &Value| pod.pointer("/status/containerStatuses/0/restartCount").and_then(Value::as_u64);
    Ok(items(&pods).filter_map(count).collect())
}

async fn lease(cluster: &KubeadmCluster) -> Result<Value> {
    cluster.get(&["--namespace=kube-system", "lease", "plndr-cp-lock"]).await
}

async fn transitions(cluster: &KubeadmCluster) -> Result<u64> {
    let lease = lease(cluster).await?;
    lease.pointer("/spec/leaseTransitions").and_then(Value::as_u64).context("the Lease counts no transitions")
}

/// Waits for the next renewal of the Lease.
async fn renews(cluster: &KubeadmCluster) -> Result<()> {
    let time = |lease: &Value| lease.pointer("/spec/renewTime").cloned();
    let (before, begin) = (time(&lease(cluster).await?), now());
    while time(&lease(cluster).await?) == before {
        ensure!(now().since(begin) <= RENEWED, "the Lease is not renewed for {}", s(RENEWED));
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
    Ok(())
}

/// Whether the agent in its pod sees the file that the node has now.
async fn sees_its_node_s(machine: &Machine) -> Result<bool> {
    let pid = running(machine, AGENT).await?.context("no agent runs")?.pid;
    let own = Run::new("cat", "/bin/cat").args([format!("/proc/{pid}/root/{ADMIN}")]);
    Ok(run(&machine.host, own, READ_AGAIN).await?.text == read(&machine.file(ADMIN))?)
}

async fn read_again(machine: &Machine, before: usize) -> Result<()> {
    let deadline = now() + READ_AGAIN;
    while reads(machine)? <= before {
        if now() > deadline {
            bail!("the agent of {} does not read the new admin.conf within {}", machine.host.name(), s(READ_AGAIN));
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    Ok(())
}

/// How often the agent of a machine says that it has read its credentials.
fn reads(machine: &Machine) -> Result<usize> {
    let mut count = 0;
    let pods = machine.file("var/log/pods");
    for pod in fs::read_dir(&pods).with_context(|| format!("read {}", pods.display()))?.flatten() {
        for log in fs::read_dir(pod.path().join(AGENT)).into_iter().flatten().flatten() {
            count += read(&log.path())?.lines().filter(|line| line.contains(READ)).count();
        }
    }
    Ok(count)
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("read {}", path.display()))
}
