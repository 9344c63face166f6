//! Somebody or something disturbs the held VIP: a cable, a person, a stranger. How long the client misses it.

use std::time::Duration;

use anyhow::{Result, bail};

use super::Order;
use super::rig::{Memory, Rig, longest_gap};
use super::stats::{Figure, Statistic};
use crate::agents::{AGENT, AgentOptions};
use crate::lab::Shape;
use crate::observe::now;

/// The VIP must be back within this.
const LIMIT: Duration = Duration::from_secs(30);
/// The holder's port is down for this long.
const DOWN: Duration = Duration::from_secs(2);
/// The return of the old holder is watched, too.
const AFTER: Duration = Duration::from_secs(8);
/// RFC 5227 2.4: one defence within 10 s.
const DEFENDED: Duration = Duration::from_secs(11);
/// The host that announces what it does not have.
const INTRUDER: (&str, u8) = ("intruder", 66);
/// So many lines of the holder's log are searched for the intruder.
const LINES: usize = 40;

/// The holder's port goes down, and up again.
pub(super) async fn link_flap(order: &Order) -> Result<Vec<Figure>> {
    let mut rig = Rig::up(order, Shape::external(), AgentOptions::default()).await?;
    let runs = rig.warm_runs(order, Memory::Fresh, async |rig, holder, prober| {
        let before = now();
        rig.lab.port_down(&holder)?;
        tokio::time::sleep(DOWN).await;
        rig.lab.port_up(&holder)?;
        prober.answer_after(now(), None, LIMIT).await?;
        tokio::time::sleep(AFTER).await;
        let end = now();
        Ok(longest_gap(&prober.finish()?, before, end))
    });
    let gaps = runs.await?;
    Ok(vec![Figure::of_times("link-flap", &gaps)?.goal(Statistic::Max, 1_000.0)])
}

/// Somebody deletes the VIP on the holder.
pub(super) async fn deleted(order: &Order) -> Result<Vec<Figure>> {
    let mut rig = Rig::up(order, Shape::external(), AgentOptions::default()).await?;
    let runs = rig.warm_runs(order, Memory::Kept, async |rig, holder, prober| {
        let before = now();
        let gone = rig.lab.delete_address(&holder, rig.lab.vip())?;
        // It may be back before the deletion has returned: then the loss is what was lost.
        prober.answer_after(gone, None, LIMIT).await?;
        tokio::time::sleep(Duration::from_secs(1)).await;
        let end = now();
        Ok(longest_gap(&prober.finish()?, before, end))
    });
    let times = runs.await?;
    Ok(vec![Figure::of_times("addr-deleted", &times)?.goal(Statistic::Max, 50.0)])
}

/// A host announces the VIP, which it does not have, once.
pub(super) async fn foreign(order: &Order) -> Result<Vec<Figure>> {
    let shape = Shape::external().with_host(INTRUDER.0, INTRUDER.1);
    let mut rig = Rig::up(order, shape, AgentOptions::default()).await?;
    let mac = rig.lab.host(INTRUDER.0)?.mac().to_string();
    let runs = rig.warm_runs(order, Memory::Kept, async |rig, holder, prober| {
        let before = now();
        let announced = rig.lab.announce(INTRUDER.0, rig.lab.vip())?;
        prober.answer_after(announced, None, LIMIT).await?;
        tokio::time::sleep(Duration::from_secs(1)).await;
        let end = now();
        let gap = longest_gap(&prober.finish()?, before, end);
        let log = rig.lab.process(&holder, AGENT)?.log_tail(LINES);
        if !log.to_lowercase().contains(&mac.to_lowercase()) {
            bail!("the agent of {holder} does not report the intruder {mac}:\n{log}");
        }
        tokio::time::sleep(DEFENDED).await;
        Ok(gap)
    });
    let times = runs.await?;
    Ok(vec![Figure::of_times("foreign-takes", &times)?.goal(Statistic::Max, 300.0)])
}
