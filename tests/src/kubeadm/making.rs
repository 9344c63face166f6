//! The cluster is made through the VIP.

use std::time::Duration;

use anyhow::{Context as _, Result, anyhow};
use futures::future::{try_join, try_join_all};

use super::cluster::{KubeadmCluster, Parts, WORKERS, is, items};
use super::config::Join;
use super::run::Ran;
use super::story::{PATIENCE, s};
use super::verdict::Verdicts;
use crate::observe::now;
use crate::report::Tone;

/// How much longer `kubeadm init` may take with our static pod than with the VIP put on by hand.
const SLOWER: Duration = Duration::from_secs(3);

/// How long `kubeadm init` takes when a person has put the VIP on the host.
pub async fn by_hand(parts: &Parts) -> Result<Duration> {
    let cluster = KubeadmCluster::machines(parts, &["cp1"]).await?;
    let vip = cluster.rig.lab.vip();
    cluster.machine("cp1")?.host.netns().add_address("eth0", vip, 32)?;
    let init = cluster.init().await?;
    cluster
        .kubectl(["get", "--raw=/readyz"])
        .await
        .context("the API does not answer through the VIP put on by hand")?;
    cluster.down();
    Ok(init.took())
}

/// Init and joins.
pub async fn make(
    story: &mut Verdicts,
    cluster: &KubeadmCluster,
    parts: &Parts,
    by_hand: Option<Duration>,
) -> Result<()> {
    for node in cluster.rig.lab.control_planes() {
        cluster.static_pod(&node, &parts.images.agent).await?;
    }
    let prober = cluster.rig.prober()?;
    let init = cluster.init().await?;
    let (answers, _) = prober.answer_after(init.from, Some("cp1"), PATIENCE).await?;
    let kubectl = cluster.kubectl(["get", "--raw=/readyz"]).await?;
    let found = format!(
        "{}, by hand {}; the VIP answers {} after the beginning, kubectl through it {} after the end",
        s(init.took()),
        by_hand.map_or_else(|| "not tried".to_owned(), s),
        s(answers.since(init.from)),
        s(kubectl.to.since(init.to))
    );
    let quick = by_hand.is_none_or(|by_hand| init.took() <= by_hand + SLOWER);
    let allowed = || anyhow!("{found}; allowed: {} longer", s(SLOWER));
    story.judge("kubeadm init with the static pod", if quick { Ok(found) } else { Err(allowed()) });
    drop(prober);

    let begin = now();
    let joins = ["cp2", "cp3"].map(|node| cluster.join(node, Join::ControlPlane));
    let workers = WORKERS.iter().map(|(node, _)| cluster.join(node, Join::Worker));
    let (joins, workers) = (try_join_all(joins), try_join_all(workers));
    let (joins, workers) = try_join(joins, workers).await?;
    let slowest = |all: &[Ran]| s(all.iter().map(Ran::took).max().unwrap_or_default());
    story.report.event(
        Tone::Good,
        &format!("joins through the VIP: control planes {}, workers {}", slowest(&joins), slowest(&workers)),
    );
    cluster.nodes_ready().await?;
    for node in cluster.rig.lab.control_planes() {
        cluster.agent_ready(&node, &parts.images.agent).await?;
    }
    let nodes = cluster.get(&["nodes"]).await?;
    let ready = items(&nodes).filter(|node| is(node, "Ready")).count();
    story.judge(
        "joins, and kubectl through the VIP from outside",
        Ok(format!("{ready} nodes and three agents ready {} after the first join began", s(now().since(begin)))),
    );
    Ok(())
}
