//! The `DaemonSet` that carries the control plane's VIP (`manifests/agent-control-plane`).

use std::time::Duration;

use anyhow::{Result, ensure};

use super::super::rig::{SOON, ScenarioRig, pass};
use super::{apply, exact, refused};
use crate::agents::AgentOptions;
use crate::ipam::server::{Server, documents_in};
use crate::lab::Shape;
use crate::observe::now;
use crate::runner::Ctx;

/// The user that the manifests' service account is.
const USER: &str = "system:serviceaccount:kube-system:mooring-agent-control-plane";
/// For one agent after the other.
const MOVED: Duration = Duration::from_secs(20);

/// A foreign owner of the VIP, the election, a hand-over without a loss, the end of an agent, and the power failure of a node.
pub async fn all_that_it_does(ctx: &mut Ctx<()>) -> Result<()> {
    let mut rig = ScenarioRig::set(ctx, Shape::external().audited(), AgentOptions::default()).await?;
    let roles = documents_in("agent-control-plane/rbac.yaml")?;
    let server = Server::of(rig.lab.clone()).await?;
    apply(&server, &roles).await?;
    let pki = rig.lab.cluster()?.pki();
    // As with the service account: the API server by an address that is the same on every node.
    let identity = pki.client(USER, &["system:serviceaccounts", "system:serviceaccounts:kube-system"], None)?;
    let kubeconfig = rig.lab.dir().join("control-plane-daemonset.conf");
    std::fs::write(&kubeconfig, pki.kubeconfig(&identity, "https://127.0.0.1:6443")?)?;

    let vip = rig.lab.vip();
    rig.lab.stranger(vip, true)?;
    for name in rig.lab.control_planes() {
        rig.lab
            .agent(&name)?
            .start(AgentOptions { kubeconfig: Some(kubeconfig.clone()), ..AgentOptions::default() })?;
    }
    rig.event("ForeignOwner", MOVED).await?;
    rig.lab.stranger_leaves(vip)?;
    let first = rig.settled().await?;
    rig.all_take_part().await?;

    let (from, prober) = (now(), rig.prober()?);
    prober.answer_after(from, Some(&first), SOON).await?;
    rig.lab.agent(&first)?.stop(MOVED).await?;
    let second = rig.successor(&first, SOON).await?;
    ensure!(rig.settled().await? == second, "it moved once more");
    rig.nothing_lost(&prober.finish()?)?;

    rig.lab.agent(&first)?.start_again()?;
    rig.all_take_part().await?;
    // The others have heard that it is back.
    pass(3).await;
    refused(&server, USER, &OTHERS).await?;
    let crash = rig.crash(&second)?;
    let third = rig.successor(&second, MOVED).await?;
    ctx.note(&format!("{third} has it {} ms after the power of {second} failed", now().since(crash).as_millis()));
    ensure!(rig.settled().await? == third, "it moved once more");
    rig.never_shared(from)?;
    exact(&rig.lab, (USER, "mooring-agent"), &roles)
}

/// What the service account may not read.
const OTHERS: [&str; 4] = [
    "/api/v1/namespaces/kube-system/secrets",
    "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases",
    "/api/v1/nodes",
    "/api/v1/services",
];
