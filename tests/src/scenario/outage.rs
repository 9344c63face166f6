//! The API is away: traffic is not affected.

use std::time::Duration;

use anyhow::{Result, ensure};

use super::rig::{SOON, ScenarioRig, pass};
use super::story;
use crate::agents::AgentOptions;
use crate::fault::{ApiCut, Way};
use crate::lab::Shape;
use crate::observe::now;
use crate::observe::timeline::total;
use crate::runner::{Ctx, Test};

/// The default duration of a Lease, and what the test's clock may be off.
const LEASE: Duration = Duration::from_secs(16);

/// The stories of this theme.
pub fn all() -> Vec<Test<()>> {
    vec![
        story!("outage", refused_and_hanging, "api-refuses-then-hangs", 5).counting(),
        story!("outage", holder_cut, "holder-cut-from-the-api", 3),
        story!("outage", cut_off, "holder-cut-off-but-not-from-its-clients", 3),
        story!("outage", candidate_cut, "holder-and-candidate-cut", 3),
    ]
}

async fn refused_and_hanging(ctx: &mut Ctx<()>) -> Result<()> {
    let (rig, holder) = ScenarioRig::usual(ctx).await?;
    let (from, prober) = (now(), rig.prober()?);
    prober.answer_after(from, None, SOON).await?;
    // Longer than the Lease, both times.
    rig.lab.freeze_all_apis()?;
    pass(20).await;
    rig.still(&holder, from)?;
    rig.lab.thaw_all_apis()?;
    rig.settled().await?;
    rig.lab.stop_all_apis()?;
    pass(20).await;
    rig.still(&holder, from)?;
    rig.lab.start_all_apis()?;
    ensure!(rig.settled().await? == holder, "it moved");
    rig.still(&holder, from)?;
    rig.nothing_lost(&prober.finish()?)
}

async fn holder_cut(ctx: &mut Ctx<()>) -> Result<()> {
    let (rig, first) = ScenarioRig::usual(ctx).await?;
    let from = now();
    rig.lab.cut_api(&first, ApiCut::Everywhere)?;
    // Candidates see the holder alive on the segment, and take over when its Lease has run out.
    let second = rig.successor(&first, Duration::from_secs(40)).await?;
    rig.prober()?.answer_after(now(), Some(&second), SOON).await?;
    pass(3).await;
    rig.never_shared(from)?;
    rig.lab.heal_all()?;
    pass(5).await;
    rig.never_shared(from)
}

/// The holder is cut from the other nodes and from the API, and not from its clients. It announces often.
async fn cut_off(ctx: &mut Ctx<()>) -> Result<()> {
    let options = AgentOptions::default().arg("--announce-refresh").arg("2s");
    let (rig, first) = ScenarioRig::elected(ctx, Shape::external(), options).await?;
    let others: Vec<String> = rig.lab.control_planes().into_iter().filter(|name| *name != first).collect();
    let prober = rig.prober()?;
    rig.all_take_part().await?;
    let from = rig.lab.partition(&[&first], &others.iter().map(String::as_str).collect::<Vec<_>>(), Way::Both)?;
    rig.lab.cut_api(&first, ApiCut::Everywhere)?;
    let second = rig.successor(&first, SOON).await?;
    // Before its next renewal the holder does not know that it is cut off: it may call once more.
    let knows = from + Duration::from_secs(3);
    pass(20).await;
    let mac = rig.lab.host(&first)?.mac();
    let called = rig.tap.announcements(rig.lab.vips()[0], knows, Some(mac));
    ensure!(called.is_empty(), "{first} is cut off, and announces: {called:?}; {}", rig.logs());
    // The successor calls every two seconds.
    let later = prober.finish()?.between(knows + Duration::from_secs(3), now());
    let who: Vec<String> = later.who().into_iter().map(|span| span.node).collect();
    ensure!(who == [second.clone()], "the client was served by {who:?}, not by {second} alone; {}", rig.logs());
    let timeline = rig.timeline();
    let with = timeline.holders_at(now());
    ensure!(with.len() == 1 && with.contains(second.as_str()), "the VIP is with {with:?}; {}", rig.logs());
    let shared = total(&timeline.two_owners(from, now()));
    ensure!(shared < LEASE, "two owners for {shared:?}, longer than the Lease; {}", rig.logs());
    let healed = rig.lab.heal_all()?;
    ensure!(rig.settled().await? == second, "it moved; {}", rig.logs());
    rig.never_shared(healed)
}

async fn candidate_cut(ctx: &mut Ctx<()>) -> Result<()> {
    let (rig, holder) = ScenarioRig::usual(ctx).await?;
    let other = rig.other_than(&[&holder])?;
    for way in [Way::One, Way::Both] {
        // Frames from the candidate to the holder are lost; the holder renews the Lease through other API servers.
        let from = rig.lab.cut(&other, &holder, way)?;
        pass(10).await;
        rig.never_shared(from)?;
        rig.lab.heal_all()?;
        rig.settled().await?;
    }
    Ok(())
}
