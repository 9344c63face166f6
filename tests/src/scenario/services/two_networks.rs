//! Nodes with a second network card: VIPs and the API on the one, other traffic on the other.

use std::time::Duration;

use anyhow::{Result, ensure};

use crate::lab::Shape;
use crate::observe::now;
use crate::observe::timeline::longest;
use crate::rig::worker::{WorkerRig, vip};
use crate::runner::{Ctx, Test};
use crate::scenario::rig::pass;
use crate::scenario::story;
use crate::segment::{Nic, Segment};

/// All of them.
pub fn all() -> Vec<Test<()>> {
    vec![story!("services", cable, "a-cable-is-pulled-and-a-second-network-hears-the-node", 4).nightly()]
}

const VIPS: u8 = 6;
/// How long the session lasts, the take, and what a busy machine adds.
const WITHOUT: Duration = Duration::from_secs(20);

/// The node has lost the API with the cable: it can hand over nothing, and the others hear it on the second network. Its session must expire
/// first.
async fn cable(ctx: &mut Ctx<()>) -> Result<()> {
    let rig = WorkerRig::on(&ctx.dir, Shape::api_servers(1), 3, VIPS, true).await?;
    let network = Segment::new()?;
    for (n, node) in (1..).zip(&rig.nodes) {
        let host = rig.lab().host(node)?;
        Nic::elsewhere(&host, n).plug(host.netns(), &network)?;
    }
    rig.start_agents(&WorkerRig::options())?;
    for n in 0..VIPS {
        rig.make(n, "Cluster").await?;
    }
    for n in 0..VIPS {
        rig.settled(vip(n)).await?;
    }
    // Watchers ask for a VIP that its holder has had for a while.
    pass(5).await;
    let victim = rig.settled(vip(0)).await?;
    let had = rig.carried_by(&victim);
    let since = rig.lab().port_down(&victim)?;
    for vip in &had {
        rig.settled_but(*vip, &[&victim]).await?;
        let none = rig.timeline(*vip).without(&victim, since, None).nobody(since, now());
        ensure!(longest(&none) < WITHOUT, "{vip} was on no node: {none:?}; {}", rig.logs());
    }
    ctx.note(&format!("{} VIPs of {victim} moved", had.len()));
    Ok(())
}
