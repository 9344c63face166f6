//! What is done to the cluster, and how it is judged.

use std::io::Stdout;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow};
use futures::future::{try_join, try_join_all};

use super::cluster::{KubeadmCluster, Parts, WORKERS, is, items};
use super::config::Join;
use super::run::Ran;
use super::{control_plane, services};
use crate::assets;
use crate::observe::now;
use crate::report::{Report, Tone};
use crate::runner::Skip;
use crate::userns;

/// How much longer `kubeadm init` may take with our static pod than with the VIP put on by hand.
const SLOWER: Duration = Duration::from_secs(3);
/// How long the VIP may take to answer after a step that should not take long.
pub(super) const PATIENCE: Duration = Duration::from_secs(40);

/// A check, and how it went.
#[derive(Clone, Debug)]
pub struct Judged {
    /// What was checked.
    pub name: &'static str,
    /// What was found, or what is wrong.
    pub outcome: Result<String, String>,
}

/// What can be done, once the cluster is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Act {
    /// `kubeadm init` with the VIP put on by hand, for comparison
    ByHand,
    /// The host with the VIP loses its power
    Crash,
    /// The static pods get another image, one after another
    Upgrade,
    /// The API servers restart, one after another
    Apis,
    /// An agent stands still
    Hang,
    /// A Service of type `LoadBalancer`, and the drain of its node
    Services,
}

/// A report that collects judgements.
struct Story {
    report: Report<Stdout>,
    judged: Vec<Judged>,
    /// The acts that are wanted; all, when none is named.
    acts: Vec<Act>,
}

impl Story {
    /// Whether an act is wanted; says then that it begins.
    fn begins(&mut self, act: Act, title: &str) -> bool {
        let wanted = self.acts.is_empty() || self.acts.contains(&act);
        if wanted {
            self.report.title(title);
        }
        wanted
    }

    fn judge(&mut self, name: &'static str, outcome: Result<String>) {
        let outcome = outcome.map_err(|error| format!("{error:#}"));
        match &outcome {
            Ok(found) => self.report.event(Tone::Good, &format!("{name}: {found}")),
            Err(wrong) => self.report.event(Tone::Bad, &format!("{name}: FAILED: {wrong}")),
        }
        self.judged.push(Judged { name, outcome });
    }
}

/// What clusters are made of, where the machine can have one.
///
/// # Errors
/// [`Skip`] where it cannot; or a program or an image cannot be made.
pub async fn parts() -> Result<Parts> {
    if !userns::is_machine_root() {
        return Err(Skip("containers need the machine's root".into()).into());
    }
    for program in ["ip", "ldd", "mount", "umount", "unshare"] {
        assets::on_path(program).ok_or_else(|| Skip(format!("{program} is not installed")))?;
    }
    tokio::task::spawn_blocking(Parts::find).await?.map_err(missing)
}

/// Makes the cluster, does everything to it, and answers with it, and whether all was well.
///
/// # Errors
/// [`Skip`] where the machine cannot do it; or the cluster cannot be made.
pub async fn tell(wanted: Vec<Act>) -> Result<(KubeadmCluster, bool)> {
    let mut story = Story { report: Report::to_stdout(), judged: Vec::new(), acts: wanted };
    story.report.title("Programs and images");
    let parts = parts().await?;
    story.report.event(Tone::Good, "all there");

    let mut compared = None;
    if story.begins(Act::ByHand, "kubeadm init, the VIP put on by hand") {
        let took = by_hand(&parts).await?;
        story.report.event(Tone::Good, &format!("kubeadm init takes {}", s(took)));
        compared = Some(took);
    }

    story.report.title("A cluster through the VIP of our static pod");
    let mut cluster = KubeadmCluster::machines(&parts, true).await?;
    story.report.event(Tone::Good, &format!("{} machines with containerd", cluster.machines.len()));
    let made = make(&mut story, &cluster, &parts, compared).await;
    let done = match made {
        Ok(()) => {
            acts(&mut story, &mut cluster, &parts).await;
            Ok(())
        }
        Err(error) => Err(error),
    };
    let good = done.is_ok() && story.judged.iter().all(|one| one.outcome.is_ok());
    if !good {
        let logs = cluster.logs();
        story.report.event(Tone::Bad, &format!("the logs of all hosts stay in {}{logs}", cluster.keep().display()));
    }
    story.report.title("What was found");
    let head = ["check", "", "found"].map(str::to_owned).to_vec();
    let row = |one: &Judged| {
        let (word, text) = match &one.outcome {
            Ok(found) => ("good", found),
            Err(wrong) => ("FAILED", wrong),
        };
        vec![one.name.to_owned(), word.to_owned(), text.lines().next().unwrap_or_default().to_owned()]
    };
    let rows: Vec<_> = std::iter::once(head).chain(story.judged.iter().map(row)).collect();
    story.report.table(&rows);
    match done {
        Ok(()) => Ok((cluster, good)),
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

/// How long `kubeadm init` takes when a person has put the VIP on the host.
async fn by_hand(parts: &Parts) -> Result<Duration> {
    let cluster = KubeadmCluster::machines(parts, false).await?;
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
async fn make(story: &mut Story, cluster: &KubeadmCluster, parts: &Parts, by_hand: Option<Duration>) -> Result<()> {
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

/// What happens to the cluster. An act that fails is judged, and the next one begins.
async fn acts(story: &mut Story, cluster: &mut KubeadmCluster, parts: &Parts) {
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
    if story.begins(Act::Hang, "An agent hangs") {
        let replaced = control_plane::hang(&mut story.report, cluster).await;
        story.judge("a hanging agent is started again", replaced);
    }
    if story.begins(Act::Services, "Services of type LoadBalancer") {
        let installed = services::install(cluster).await;
        let usable = installed.is_ok();
        story.judge("DaemonSet and allocator, as the manifests are", installed);
        if usable {
            let exposed = services::expose(cluster).await;
            let usable = exposed.is_ok();
            story.judge("a Service answers the client", exposed);
            if usable {
                let drained = services::drain(&mut story.report, cluster).await;
                story.judge("drain of the Service's node", drained);
            }
        }
    }
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
