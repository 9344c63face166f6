//! The holder's interface goes down, or is deleted.

use std::time::Duration;

use anyhow::{Result, ensure};

use super::rig::{SOON, ScenarioRig, pass};
use super::story;
use crate::agents::AgentOptions;
use crate::lab::Shape;
use crate::observe::now;
use crate::runner::{Ctx, Test};

/// The stories of this theme.
pub fn all() -> Vec<Test<()>> {
    vec![
        story!("link", flap_and_recreate, "flap-then-interface-re-created", 4),
        story!("link", two_nics, "two-nics-on-one-segment", 3),
    ]
}

async fn flap_and_recreate(ctx: &mut Ctx<()>) -> Result<()> {
    let (rig, first) = ScenarioRig::usual(ctx).await?;
    let prober = rig.prober()?;
    let down = rig.lab.port_down(&first)?;
    let (_, by) = prober.answer_after(down, None, Duration::from_secs(10)).await?;
    ensure!(by != first, "{first} answers through a port that is down");
    pass(2).await;
    let up = rig.lab.port_up(&first)?;
    pass(5).await;
    let second = rig.settled().await?;
    rig.never_shared(up + SOON)?;

    // The test deletes the host's interface with all addresses: another host takes over, and this host works again when
    // the interface is back.
    let gone = rig.lab.delete_interface(&second)?;
    let (_, by) = prober.answer_after(gone, None, Duration::from_secs(20)).await?;
    ensure!(by != second, "{second} answers without an interface");
    pass(2).await;
    rig.lab.create_interface(&second)?;
    pass(5).await;
    let third = rig.settled().await?;
    ensure!(rig.lab.agent(&second)?.is_running(), "the agent of {second} ended: {}", rig.logs());
    // Only this host is left: it takes the VIP on the new interface.
    for name in rig.lab.control_planes().into_iter().filter(|name| *name != second && *name != third) {
        rig.lab.agent(&name)?.stop(Duration::from_secs(15)).await?;
    }
    if third != second {
        rig.lab.agent(&third)?.stop(Duration::from_secs(15)).await?;
    }
    ensure!(rig.settled().await? == second, "{second} does not take it on its new interface; {}", rig.logs());
    // The host's own addresses were added after the agent found the interface: the agent announces them to the others.
    let lease = rig.lease().await?;
    let known =
        lease.metadata.annotations.and_then(|all| all.get("mooring.dev/participants").cloned()).unwrap_or_default();
    let address = rig.lab.host(&second)?.ip4();
    ensure!(known.contains(&format!("\"{address}\"")), "nobody knows the address {address} of {second}: {known}");
    Ok(())
}

async fn two_nics(ctx: &mut Ctx<()>) -> Result<()> {
    let rig = ScenarioRig::set(ctx, Shape::external(), AgentOptions::default()).await?;
    for name in rig.lab.control_planes() {
        rig.lab.add_nic(&name, 1)?;
    }
    rig.start_agents()?;
    // By default the kernel answers ARP for any of its addresses on any interface: an agent must not take its own host
    // for a stranger.
    let holder = rig.settled().await?;
    let from = now();
    pass(5).await;
    rig.still(&holder, from)?;
    rig.prober()?.answer_after(now(), Some(&holder), SOON).await?;
    rig.lab.agent(&holder)?.stop(Duration::from_secs(15)).await?;
    rig.successor(&holder, SOON).await?;
    rig.settled().await?;
    rig.never_shared(from)
}
