//! The holder's interface goes down, and away.

use std::time::Duration;

use anyhow::{Result, ensure};

use super::scene::{SOON, Scene, pass};
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
    let (scene, first) = Scene::usual(ctx).await?;
    let prober = scene.prober()?;
    let down = scene.lab.port_down(&first)?;
    let (_, by) = prober.answer_after(down, None, Duration::from_secs(10)).await?;
    ensure!(by != first, "{first} answers through a port that is down");
    pass(2).await;
    let up = scene.lab.port_up(&first)?;
    pass(5).await;
    let second = scene.settled().await?;
    scene.never_shared(up + SOON)?;

    // Its interface is deleted, with all addresses: another takes over, and it works again when it is back.
    let gone = scene.lab.delete_interface(&second)?;
    let (_, by) = prober.answer_after(gone, None, Duration::from_secs(20)).await?;
    ensure!(by != second, "{second} answers without an interface");
    pass(2).await;
    scene.lab.create_interface(&second)?;
    pass(5).await;
    let third = scene.settled().await?;
    ensure!(scene.lab.agent(&second)?.is_running(), "the agent of {second} ended: {}", scene.logs());
    // Only it is left: it takes the VIP on the new interface.
    for name in scene.lab.control_planes().into_iter().filter(|name| *name != second && *name != third) {
        scene.lab.agent(&name)?.stop(Duration::from_secs(15)).await?;
    }
    if third != second {
        scene.lab.agent(&third)?.stop(Duration::from_secs(15)).await?;
    }
    ensure!(scene.settled().await? == second, "{second} does not take it on its new interface; {}", scene.logs());
    // Its own addresses were put there after the interface was found: the others are told of them.
    let lease = scene.lease().await?;
    let known =
        lease.metadata.annotations.and_then(|all| all.get("mooring.dev/participants").cloned()).unwrap_or_default();
    let address = scene.lab.host(&second)?.ip4();
    ensure!(known.contains(&format!("\"{address}\"")), "nobody knows the address {address} of {second}: {known}");
    Ok(())
}

async fn two_nics(ctx: &mut Ctx<()>) -> Result<()> {
    let scene = Scene::set(ctx, Shape::external(), AgentOptions::default()).await?;
    for name in scene.lab.control_planes() {
        scene.lab.add_nic(&name, 1)?;
    }
    scene.start_agents()?;
    // By default the kernel answers ARP for any of its addresses on any interface: no reason to see a stranger in oneself.
    let holder = scene.settled().await?;
    let from = now();
    pass(5).await;
    scene.still(&holder, from)?;
    scene.prober()?.answer_after(now(), Some(&holder), SOON).await?;
    scene.lab.agent(&holder)?.stop(Duration::from_secs(15)).await?;
    scene.successor(&holder, SOON).await?;
    scene.settled().await?;
    scene.never_shared(from)
}
