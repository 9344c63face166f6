//! What is done to the cluster, and how it is judged.

use std::time::Duration;

use anyhow::Result;

use super::cluster::{ALL, KubeadmCluster, Parts};
use super::verdict::Verdicts;
use super::{certificates, control_plane, from_pool, making, proxies, services};
use crate::assets::{self, Profile};
use crate::report::Tone;
use crate::runner::Skip;
use crate::userns;

/// How long the VIP may take to answer after a step that should not take long.
pub(super) const PATIENCE: Duration = Duration::from_secs(40);

/// What can be done, once the cluster is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Act {
    /// `kubeadm init` with the VIP put on by hand, for comparison
    ByHand,
    /// A cluster whose VIP comes from a pool, by Cluster API's bootstrap data
    FromPool,
    /// The host with the VIP loses its power
    Crash,
    /// The static pods get another image, one after another
    Upgrade,
    /// The API servers restart, one after another
    Apis,
    /// `kubeadm certs renew all` on one control plane after another
    Certificates,
    /// An agent stands still
    Hang,
    /// A Service of type `LoadBalancer`, and the drain of its node
    Services,
    /// The same Service, with kube-proxy in each of its modes
    KubeProxy,
}

/// What clusters are made of, where the machine can have one. `profile`: how our programs are built.
///
/// # Errors
/// [`Skip`] where it cannot; or a program or an image cannot be made.
pub async fn parts(profile: Profile) -> Result<Parts> {
    if !userns::is_machine_root() {
        return Err(Skip("containers need the machine's root".into()).into());
    }
    for program in ["ip", "ldd", "mount", "umount", "unshare"] {
        assets::on_path(program).ok_or_else(|| Skip(format!("{program} is not installed")))?;
    }
    tokio::task::spawn_blocking(move || Parts::find(profile)).await?.map_err(missing)
}

/// Makes the cluster, does everything to it, and answers with it, and whether all was well.
///
/// # Errors
/// [`Skip`] where the machine cannot do it; or the cluster cannot be made.
pub async fn tell(wanted: Vec<Act>) -> Result<(KubeadmCluster, bool)> {
    let mut story = Verdicts::new(wanted);
    story.report.title("Programs and images");
    let parts = parts(Profile::Release).await?;
    story.report.event(Tone::Good, "all there");

    let mut compared = None;
    if story.begins(Act::ByHand, "kubeadm init, the VIP put on by hand") {
        let took = making::by_hand(&parts).await?;
        story.report.event(Tone::Good, &format!("kubeadm init takes {}", s(took)));
        compared = Some(took);
    }

    if story.begins(
        Act::FromPool,
        "A Cluster of Cluster API gets its VIP from a pool, and kubeadm is fed with its bootstrap data",
    ) {
        let outcome = from_pool::all_the_way(&parts).await;
        story.judge("from a pool to an API that answers", outcome);
    }

    story.report.title("A cluster through the VIP of our static pod");
    let mut cluster = KubeadmCluster::machines(&parts, &ALL).await?;
    story.report.event(Tone::Good, &format!("{} machines with containerd", cluster.machines.len()));
    let made = making::make(&mut story, &cluster, &parts, compared).await;
    if made.is_ok() {
        acts(&mut story, &mut cluster, &parts).await;
    }
    if made.is_err() || !story.good() {
        let logs = cluster.logs();
        story.report.event(Tone::Bad, &format!("the logs of all hosts stay in {}{logs}", cluster.keep().display()));
    }
    story.tell();
    match made {
        Ok(()) => Ok((cluster, story.good())),
        Err(error) => {
            cluster.down();
            Err(error)
        }
    }
}

/// A program that cannot be had is no failure.
fn missing(error: anyhow::Error) -> anyhow::Error {
    match error.downcast::<assets::Error>() {
        Ok(error @ (assets::Error::Missing { .. } | assets::Error::Nowhere { .. })) => Skip(error.to_string()).into(),
        Ok(other) => other.into(),
        Err(other) => other,
    }
}

/// What happens to the cluster. An act that fails is judged, and the next one begins.
async fn acts(story: &mut Verdicts, cluster: &mut KubeadmCluster, parts: &Parts) {
    if story.begins(Act::Crash, "A control plane loses its power") {
        let crashed = control_plane::crash(&mut story.report, cluster).await;
        story.judge("crash of the VIP's control plane", crashed);
    }
    if story.begins(Act::Upgrade, "The agents get another image, one after another") {
        let upgraded = control_plane::upgrade(&mut story.report, cluster, &parts.images).await;
        story.judge("upgrade of the agents under traffic", upgraded);
    }
    if story.begins(Act::Apis, "The API servers restart, one after another") {
        let restarted = control_plane::restart_apis(&mut story.report, cluster).await;
        story.judge("restart of the API servers under traffic", restarted);
    }
    if story.begins(Act::Certificates, "The certificates are renewed, on one control plane after another") {
        let renewed = certificates::renew(&mut story.report, cluster).await;
        story.judge("renewal of the certificates under traffic", renewed);
        let replaced = certificates::replace(cluster).await;
        story.judge("another file in the place of admin.conf", replaced);
    }
    if story.begins(Act::Hang, "An agent hangs") {
        let replaced = control_plane::hang(&mut story.report, cluster).await;
        story.judge("a hanging agent is started again", replaced);
    }
    if !story.wants(Act::Services) && !story.wants(Act::KubeProxy) {
        return;
    }
    story.report.title("Services of type LoadBalancer");
    if !expose(story, cluster).await {
        return;
    }
    if story.wants(Act::Services) {
        let drained = services::drain(&mut story.report, cluster).await;
        story.judge("drain of the Service's node", drained);
    }
    if story.begins(Act::KubeProxy, "kube-proxy's modes") {
        proxies::all(story, cluster).await;
    }
}

/// Makes the Service. Answers whether it answers.
async fn expose(story: &mut Verdicts, cluster: &KubeadmCluster) -> bool {
    let installed = services::install(cluster).await;
    if !story.judge("DaemonSet and allocator, as the manifests are", installed) {
        return false;
    }
    let exposed = services::expose(cluster).await;
    story.judge("a Service answers the client", exposed)
}

/// Seconds, for people.
pub(super) fn s(time: Duration) -> String {
    format!("{:.2} s", time.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_program_is_a_reason_to_skip_and_a_failed_build_is_not() {
        let error = assets::Error::Missing { program: "runc".into(), detail: "install the package runc".into() };
        let skip = missing(error.into()).downcast::<Skip>().unwrap();
        assert_eq!(skip.to_string(), "runc is not installed: install the package runc");
        let error = assets::Error::Failed { command: "go build".into(), detail: "a wrong sum".into() };
        assert!(missing(error.into()).downcast::<Skip>().is_err());
    }
}
