//! Two Services have one address by turns, as blue and green versions of one do, with a Lease for each Service. A node that has not heard
//! yet that the one is gone still has the address by its Lease, while another node may take it by the other's.

use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::json;

use super::changes::{Both, SERVICES};
use crate::fault::ApiCut;
use crate::ipam::services::ADDRESSES;
use crate::observe::echo;
use crate::observe::now;
use crate::observe::timeline::{longest, total};
use crate::rig::worker::vip;
use crate::runner::{Ctx, Test};
use crate::scenario::rig::pass;
use crate::scenario::story;

/// All of them.
pub fn all() -> Vec<Test<()>> {
    vec![story!("services", by_turns, "two-services-have-an-address-by-turns", 5)]
}

/// How long the address may be on two nodes, or on none, once all agents may know whose it is, on a busy machine.
const SETTLES: Duration = Duration::from_secs(3);
/// A node has it by another Lease and is challenged: so long at most.
const TWO: Duration = Duration::from_secs(1);

async fn by_turns(ctx: &mut Ctx<()>) -> Result<()> {
    let both = Both::set(ctx, "lease-per-service").await?;
    let wants = json!({ADDRESSES: vip(0).to_string()});
    let turns = ["blue", "green"].into_iter().cycle();
    both.make("blue", echo::PORT, wants.clone()).await?;
    both.shows("blue", &[vip(0)]).await?;
    let mut last = "blue";
    for (round, next) in turns.skip(1).take(4).enumerate() {
        let holder = both.rig.settled(vip(0)).await?;
        let agent = both.rig.lab().agent(&holder)?.process()?;
        // The holder's agent hangs; then all agents are cut off the API.
        let (hangs, cut) = (round == 1 || round == 2, round == 3);
        if hangs {
            agent.freeze()?;
        }
        for node in both.rig.nodes.iter().filter(|_| cut) {
            both.rig.lab().cut_api(node, ApiCut::Everywhere)?;
        }
        if cut {
            pass(6).await;
        }
        both.rig.server.delete(&format!("{SERVICES}/{last}")).await?;
        both.make(next, echo::PORT, wants.clone()).await?;
        if hangs || cut {
            pass(3).await;
        }
        let since = now();
        if hangs {
            agent.thaw()?;
        }
        for node in both.rig.nodes.iter().filter(|_| cut) {
            both.rig.lab().heal_api(node)?;
        }
        pass(6).await;
        both.rig.settled(vip(0)).await?;
        both.shows(next, &[vip(0)]).await?;
        let timeline = both.rig.timeline(vip(0));
        let (two, none) = (timeline.two_owners(since, now()), timeline.nobody(since, now()));
        ensure!(total(&two) < TWO, "round {round}: on two nodes: {two:?}; {}", both.logs());
        ensure!(longest(&none) < SETTLES, "round {round}: on none: {none:?}; {}", both.logs());
        last = next;
    }
    both.allocator.stop().await
}
