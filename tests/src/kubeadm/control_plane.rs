//! The acts about the control plane and its VIP.

use std::fs;
use std::io::Stdout;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use mooring_agent::core::time::Time;
use serde_json::Value;

use super::cluster::{KubeadmCluster, READY, is, replace};
use super::containers::signal;
use super::images::Images;
use super::story::{PATIENCE, s};
use crate::chaos::bounds::{HARMLESS, WITNESSED};
use crate::observe::https::{Attempt, Https, outages};
use crate::observe::now;
use crate::observe::prober::Prober;
use crate::report::{Report, Tone};

/// How long the API may be away after the crash of a control plane: etcd may elect a leader, on a busy machine.
const API_AWAY: Duration = Duration::from_secs(15);
/// How long it may be away when the API server of the VIP's node ends in order.
pub(super) const API_RESTARTED: Duration = Duration::from_secs(5);
/// How long a kubelet may take to end a pod and to start it again: probes, the pod's grace, its own rounds.
const REPLACED: Duration = Duration::from_mins(3);

/// A client's view of the VIP: packets, and requests by HTTPS.
pub(super) struct Traffic {
    prober: Prober,
    https: Https,
    from: Time,
}

/// What it was.
pub(super) struct Cost {
    pub(super) silent: Duration,
    lost: usize,
    all: usize,
    failed: Vec<Attempt>,
    requests: usize,
    /// Of the failed requests those that were under way when the VIP moved, and the moment of the move: their connection was to the
    /// node that had it, and the next one knows no such connection.
    cut: Vec<(Attempt, Time)>,
    pub(super) away: Duration,
}

impl Traffic {
    pub(super) async fn start(cluster: &KubeadmCluster) -> Result<Self> {
        let (prober, https, from) = (cluster.rig.prober()?, cluster.https()?, now());
        prober.answer_after(from, None, PATIENCE).await?;
        https.success_after(from, PATIENCE).await?;
        Ok(Self { prober, https, from })
    }

    pub(super) fn end(self, cluster: &KubeadmCluster) -> Result<Cost> {
        let attempts = self.https.finish()?;
        let timeline = cluster.rig.timeline();
        let moves: Vec<Time> = timeline.holds().iter().map(|hold| hold.from).collect();
        let cut = |one: &Attempt| {
            let at = moves.iter().find(|at| !one.ok() && one.from <= **at && **at <= one.to)?;
            Some((one.clone(), *at))
        };
        let probes = self.prober.finish()?.between(self.from, Time::from_nanos(u64::MAX));
        Ok(Cost {
            silent: probes.outages().iter().map(|gap| gap.to.since(gap.from)).max().unwrap_or_default(),
            lost: probes.lost(),
            all: probes.all().len(),
            away: outages(&attempts).iter().map(|one| one.to.since(one.from)).max().unwrap_or_default(),
            requests: attempts.len(),
            cut: attempts.iter().filter_map(cut).collect(),
            failed: attempts.into_iter().filter(|one| !one.ok()).collect(),
        })
    }
}

impl Cost {
    pub(super) fn text(&self) -> String {
        let Self { lost, all, requests, .. } = self;
        let failed = self.failed.len();
        let mut text = format!("{lost} of {all} packets lost, {failed} of {requests} HTTPS requests failed");
        if let Some((one, at)) = self.cut.first() {
            let (before, after) = (s(at.since(one.from)), s(one.to.since(*at)));
            let count = self.cut.len();
            text = format!(
                "{text}, {count} of them under way when the VIP moved (one from {before} before until {after} after)"
            );
        }
        if *lost > 0 {
            text = format!("{text}, the VIP silent for {} at most", s(self.silent));
        }
        if let Some(Attempt { result: Err(why), .. }) = self.failed.first() {
            text = format!("{text} (the first: {why})");
        }
        text
    }
}

/// The holder's host crashes; the VIP and the API answer from another one; it comes back.
pub async fn crash(report: &mut Report<Stdout>, cluster: &mut KubeadmCluster) -> Result<String> {
    let holder = cluster.rig.holder().await?;
    let Traffic { prober, https, .. } = Traffic::start(cluster).await?;
    let at = cluster.rig.crash(&holder)?;
    report.event_at(at, Tone::Fault, &format!("{holder} is dead"));
    let (back, next) = prober.answer_after(at, None, PATIENCE).await?;
    let api = https.success_after(at, PATIENCE).await?;
    let kubectl = cluster.kubectl_within(["get", "nodes"], PATIENCE).await?;
    let (vip, api, kubectl) = (back.since(at), api.since(at), kubectl.to.since(at));
    report.event(Tone::Good, &format!("{next} answers"));
    cluster.rig.revive(&holder)?;
    cluster.machine(&holder)?.up().await?;
    cluster.api_ready(&holder).await?;
    cluster.nodes_ready().await?;
    let found = format!(
        "the VIP answers from {next} after {}, the API by HTTPS after {}, kubectl after {}; {holder} is back {} later",
        s(vip),
        s(api),
        s(kubectl),
        s(now().since(at))
    );
    ensure!(
        next != holder && vip <= WITNESSED && api <= API_AWAY,
        "{found}; allowed: {}, {}",
        s(WITNESSED),
        s(API_AWAY)
    );
    Ok(found)
}

/// The image of the static pods changes, on one control plane after another: the same agent, under the name of a next version.
pub async fn upgrade(report: &mut Report<Stdout>, cluster: &KubeadmCluster, images: &Images) -> Result<String> {
    let traffic = Traffic::start(cluster).await?;
    let begin = now();
    for node in cluster.rig.lab.control_planes() {
        cluster.static_pod(&node, &images.agent_next).await?;
        cluster.agent_ready(&node, &images.agent_next).await?;
        report.event(Tone::Plain, &format!("{node} runs {}", images.agent_next));
    }
    let cost = traffic.end(cluster)?;
    let found = format!("three agents in {}; {}", s(now().since(begin)), cost.text());
    let others = cost.failed.len() - cost.cut.len();
    ensure!(
        others == 0 && cost.silent <= HARMLESS,
        "{found}; allowed: no other failed request, {} silent",
        s(HARMLESS)
    );
    Ok(found)
}

/// As `kubeadm upgrade` does it: the manifest of the API server changes, on one control plane after another.
pub async fn restart_apis(report: &mut Report<Stdout>, cluster: &KubeadmCluster) -> Result<String> {
    let traffic = Traffic::start(cluster).await?;
    let begin = now();
    for node in cluster.rig.lab.control_planes() {
        let machine = cluster.machine(&node)?;
        let path = machine.file("etc/kubernetes/manifests/kube-apiserver.yaml");
        let manifest = fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
        let mut pod: Value = serde_saphyr::from_str(&manifest).context("the API server's manifest is no YAML")?;
        let stamp = now().as_nanos().to_string();
        pod["metadata"]["annotations"]["lab.mooring.dev/restarted"] = stamp.clone().into();
        replace(&path, &pod.to_string())?;
        let name = format!("kube-apiserver-{node}");
        let started = |pod: &Value| {
            pod.pointer("/metadata/annotations/lab.mooring.dev~1restarted").is_some_and(|at| *at == stamp.as_str())
                && is(pod, "Ready")
        };
        cluster.until(&["--namespace=kube-system", "pod", &name], READY, started).await?;
        report.event(Tone::Plain, &format!("the API server of {node} has restarted"));
    }
    let cost = traffic.end(cluster)?;
    let found =
        format!("three API servers in {}; {}; longest away {}", s(now().since(begin)), cost.text(), s(cost.away));
    ensure!(
        cost.silent <= HARMLESS && cost.away <= API_RESTARTED,
        "{found}; allowed: {} silent, {} away",
        s(HARMLESS),
        s(API_RESTARTED)
    );
    Ok(found)
}

/// An agent stands still (SIGSTOP), on a control plane that does not hold the VIP: its probe fails, and the kubelet replaces it.
pub async fn hang(report: &mut Report<Stdout>, cluster: &KubeadmCluster) -> Result<String> {
    let holder = cluster.rig.holder().await?;
    let others = cluster.rig.lab.control_planes();
    let node = others.iter().find(|node| **node != holder).context("there is one control plane only")?;
    let machine = cluster.machine(node)?;
    let pod = format!("mooring-agent-{node}");
    let restarts = |pod: &Value| pod.pointer("/status/containerStatuses/0/restartCount").and_then(Value::as_u64);
    let what = ["--namespace=kube-system", "pod", &pod];
    let before = restarts(&cluster.get(&what).await?).unwrap_or_default();
    let traffic = Traffic::start(cluster).await?;
    signal(machine, "mooring-agent", "SIGSTOP").await?;
    let at = now();
    report.event_at(at, Tone::Fault, &format!("the agent of {node} stands still"));
    let again = |pod: &Value| restarts(pod).is_some_and(|count| count > before) && is(pod, "Ready");
    cluster.until(&what, REPLACED, again).await?;
    let cost = traffic.end(cluster)?;
    let found = format!("{node}'s is ready again {} later; {}", s(now().since(at)), cost.text());
    ensure!(cost.silent <= HARMLESS, "{found}; allowed: {} silent", s(HARMLESS));
    Ok(found)
}
