//! The API server on the holder's own node.

use std::time::Duration;

use anyhow::Result;

use super::scene::{SOON, Scene, pass};
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
    let (scene, first) = Scene::elected(ctx, Shape::stacked(), AgentOptions::default()).await?;
    let (from, https) = (now(), scene.https()?);
    https.success_after(from, SOON).await?;
    // Agents must have found their own API server healthy before a failure of it means something.
    pass(3).await;
    let killed = scene.lab.stop_api(&first)?;
    let second = scene.successor(&first, Duration::from_secs(15)).await?;
    ctx.note(&format!("{second} took it {:?} after the API server of {first} died", now().since(killed)));
    https.success_after(now(), SOON).await?;
    scene.settled().await?;
    scene.never_shared(from)?;

    // Now those of all: nobody is better, so nothing moves.
    let holder = scene.holder().await?;
    let from = now();
    for name in scene.lab.control_planes().into_iter().filter(|name| *name != first) {
        scene.lab.stop_api(&name)?;
    }
    pass(10).await;
    scene.still(&holder, from)
}
