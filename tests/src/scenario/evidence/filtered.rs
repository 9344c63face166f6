//! A network that drops ARP by its sender address, as port security of OpenStack, OVN and dynamic ARP inspection do: a node
//! may speak as its own address and as the VIP. Probes with the sender 0.0.0.0 do not get through.

use std::time::Duration;

use anyhow::{Result, ensure};

use super::{SELDOM, busy};
use crate::agents::AgentOptions;
use crate::lab::Shape;
use crate::observe::now;
use crate::runner::{Ctx, Test};
use crate::scenario::rig::{SOON, ScenarioRig, pass};
use crate::scenario::story;

/// A crash is noticed in this time: the Lease lasts 15 s.
const EARLY: Duration = Duration::from_secs(6);

/// The stories of this theme.
pub fn all() -> Vec<Test<()>> {
    vec![
        story!("evidence", lives, "filter-by-arp-sender-moves-nothing", 3),
        story!("evidence", outage, "filter-by-arp-sender-in-an-api-outage", 3).nightly(),
        story!("evidence", crash, "filter-by-arp-sender-handover-and-crash", 4),
    ]
}

/// An elected holder on such a network. Nobody talks without being asked.
async fn elected(ctx: &Ctx<()>) -> Result<(ScenarioRig, String)> {
    let rig = ScenarioRig::set(ctx, Shape::external(), AgentOptions::default()).await?;
    for name in rig.lab.control_planes() {
        let own = rig.lab.host(&name)?.ip4();
        rig.lab.let_speak(&name, &[own.into(), rig.lab.vip()])?;
    }
    rig.start_agents()?;
    let holder = rig.settled().await?;
    ctx.note(&format!("{holder} is elected"));
    rig.all_take_part().await?;
    Ok((rig, holder))
}

/// All live. The gateway has many hosts to ask for, and the nodes ask for each other now and then.
async fn lives(ctx: &mut Ctx<()>) -> Result<()> {
    let (rig, holder) = elected(ctx).await?;
    let from = now();
    let _busy = busy(&rig.lab, &[])?;
    let names = rig.lab.control_planes();
    let _seldom = names.iter().map(|name| rig.lab.talk(name, SELDOM)).collect::<Result<Vec<_>, _>>()?;
    pass(30).await;
    rig.still(&holder, from)
}

/// The API is away for longer than the Lease. The holder has heard another node by chance, a moment before.
async fn outage(ctx: &mut Ctx<()>) -> Result<()> {
    let (rig, holder) = elected(ctx).await?;
    let from = now();
    let _seldom = rig.lab.talk(&rig.other_than(&[&holder])?, SELDOM)?;
    pass(1).await;
    rig.lab.stop_all_apis()?;
    pass(20).await;
    rig.still(&holder, from)?;
    rig.lab.start_all_apis()?;
    ensure!(rig.settled().await? == holder, "it moved; {}", rig.logs());
    rig.still(&holder, from)
}

/// A planned hand-over, then a crash.
async fn crash(ctx: &mut Ctx<()>) -> Result<()> {
    let (mut rig, first) = elected(ctx).await?;
    let (from, prober) = (now(), rig.prober()?);
    let agent = rig.lab.agent(&first)?;
    agent.stop(Duration::from_secs(15)).await?;
    let second = rig.successor(&first, SOON).await?;
    prober.answer_after(now(), Some(&second), SOON).await?;
    agent.start_again()?;
    ensure!(rig.settled().await? == second, "it moved once more; {}", rig.logs());
    let settled = now();
    rig.all_take_part().await?;
    pass(2).await;
    rig.still(&second, settled)?;
    let crashed = rig.crash(&second)?;
    let third = rig.successor(&second, EARLY).await?;
    ctx.note(&format!("{third} took it {:?} after {second} crashed", now().since(crashed)));
    prober.answer_after(crashed, Some(&third), SOON).await?;
    rig.never_shared(from)
}
