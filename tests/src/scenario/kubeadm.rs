//! A small cluster that kubeadm makes, with containers: `cargo lab kubeadm` does more, and takes longer.

use anyhow::Result;

use super::story;
use crate::assets::Profile;
use crate::kubeadm::cluster::{KubeadmCluster, Parts, WORKERS};
use crate::kubeadm::config::Join;
use crate::kubeadm::{services, story as whole};
use crate::rig::control_plane::ELECTED;
use crate::runner::{Ctx, Test};

/// The machines: a third control plane would show nothing more.
const MACHINES: [&str; 4] = ["cp1", "cp2", "w1", "w2"];

/// The stories of this theme.
pub fn all() -> Vec<Test<()>> {
    vec![story!("kubeadm", made, "init-and-joins-through-the-vip-and-a-service-answers", 10).alone()]
}

async fn made(ctx: &mut Ctx<()>) -> Result<()> {
    let parts = whole::parts(Profile::Dev).await?;
    let cluster = KubeadmCluster::machines(&parts, &MACHINES).await?;
    let outcome = through_the_vip(ctx, &cluster, &parts).await;
    if outcome.is_err() {
        ctx.note(&cluster.logs());
    }
    cluster.down();
    outcome
}

async fn through_the_vip(ctx: &Ctx<()>, cluster: &KubeadmCluster, parts: &Parts) -> Result<()> {
    for node in ["cp1", "cp2"] {
        cluster.static_pod(node, &parts.images.agent).await?;
    }
    let prober = cluster.rig.prober()?;
    let init = cluster.init().await?;
    prober.answer_after(init.from, Some("cp1"), ELECTED).await?;
    drop(prober);
    ctx.note(&format!("kubeadm init takes {:.1} s", init.took().as_secs_f64()));
    cluster.join("cp2", Join::ControlPlane).await?;
    for (worker, _) in WORKERS {
        cluster.join(worker, Join::Worker).await?;
    }
    cluster.nodes_ready().await?;
    for node in ["cp1", "cp2"] {
        cluster.agent_ready(node, &parts.images.agent).await?;
    }
    ctx.note(&services::install(cluster).await?);
    ctx.note(&services::expose(cluster).await?);
    Ok(())
}
