//! In one election with client-go's elector, which kube-vip and the Kubernetes components use.

use std::fs;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::rig::{ScenarioRig, pass};
use super::story;
use crate::agents::AgentOptions;
use crate::assets;
use crate::host::Spec;
use crate::lab::Shape;
use crate::observe::now;
use crate::runner::{Ctx, Test};

/// The stories of this theme.
pub fn all() -> Vec<Test<()>> {
    vec![story!("mixed", client_go, "with-client-go", 10)]
}

async fn client_go(ctx: &mut Ctx<()>) -> Result<()> {
    let program = tokio::task::spawn_blocking(|| assets::go_program("elector")).await??;
    let rig = ScenarioRig::set(ctx, Shape::external(), AgentOptions::default()).await?;
    let cluster = rig.lab.cluster()?;
    let config = cluster.pki().kubeconfig(&cluster.pki().super_admin()?, &cluster.servers()[0])?;
    let path = rig.lab.dir().join("elector.conf");
    fs::write(&path, config)?;
    let spec = Spec::new("elector", program).args([
        format!("--kubeconfig={}", path.display()),
        "--identity=client-go".into(),
        "--release-on-cancel".into(),
        "--again".into(),
    ]);
    let elector = rig.lab.host("client")?.start(spec)?;
    let named = async |wanted: &str, seconds: u64| -> Result<()> {
        let deadline = now() + Duration::from_secs(seconds);
        loop {
            let holder = rig.lease().await.ok().and_then(|lease| lease.spec?.holder_identity);
            if holder.as_deref() == Some(wanted) {
                return Ok(());
            }
            ensure!(now() < deadline, "the Lease names {holder:?}, not {wanted}; {}", rig.logs());
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    named("client-go", 20).await?;

    // The elector holds the Lease: agents take no VIP for longer than the Lease lasts.
    rig.start_agents()?;
    pass(20).await;
    named("client-go", 0).await?;
    let holds = rig.timeline();
    ensure!(holds.holds().is_empty(), "taken beside a holder: {:?}; {}", holds.holds(), rig.logs());

    // The elector gives the Lease up: an agent takes the Lease. The elector comes back, and leaves the Lease alone.
    elector.terminate()?;
    elector.ended(Duration::from_secs(10)).await?;
    let first = rig.settled().await?;
    let from = elector.start()?;
    pass(20).await;
    rig.still(&first, from)?;

    // Only the elector is left: it takes the Lease that the last agent gives up.
    for name in rig.lab.control_planes() {
        rig.lab.agent(&name)?.terminate()?;
    }
    for name in rig.lab.control_planes() {
        rig.lab.agent(&name)?.process()?.ended(Duration::from_secs(20)).await?;
    }
    named("client-go", 30).await.context("after the agents ended")
}
