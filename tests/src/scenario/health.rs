//! The API server on the holder's own node.

use std::time::Duration;

use anyhow::Result;

use super::rig::{SOON, ScenarioRig, pass};
use super::story;
use crate::agents::AgentOptions;
use crate::lab::Shape;
use crate::observe::now;
use crate::runner::{Ctx, Test};

/// The stories of this theme.
pub fn all() -> Vec<Test<()>> {
    vec![story!("health", own_api_dead, "own-api-server-dead-moves-the-vip", 3)]
}

async fn own_api_dead(ctx: &mut Ctx<()>) -> Result<()> {
    let (rig, first) = ScenarioRig::elected(ctx, Shape::stacked(), AgentOptions::default()).await?;
    let (from, https) = (now(), rig.https()?);
    https.success_after(from, SOON).await?;
    // An agent must have found its own API server healthy before a failure of that API server counts.
    pass(3).await;
    let killed = rig.lab.stop_api(&first)?;
    let second = rig.successor(&first, Duration::from_secs(15)).await?;
    ctx.note(&format!("{second} took it {:?} after the API server of {first} died", now().since(killed)));
    https.success_after(now(), SOON).await?;
    rig.settled().await?;
    rig.never_shared(from)?;

    // Now every API server fails: no host is better than the holder, so the VIP stays.
    let holder = rig.holder().await?;
    let from = now();
    for name in rig.lab.control_planes().into_iter().filter(|name| *name != first) {
        rig.lab.stop_api(&name)?;
    }
    pass(10).await;
    rig.still(&holder, from)
}
