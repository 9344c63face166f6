//! The holder's host crashes: from its last frame until the client hears the VIP again.

use std::time::Duration;

use anyhow::{Context, Result};

use super::Order;
use super::rig::{Memory, Rig};
use super::stats::{Figure, Statistic};
use crate::agents::AgentOptions;
use crate::lab::Shape;

/// Longer than the slowest way to a new holder: the Lease runs out.
const LIMIT: Duration = Duration::from_mins(1);
/// The API is away for this long before the crash.
const AWAY: Duration = Duration::from_secs(4);

/// External etcd, default settings.
pub(super) async fn plain(order: &Order) -> Result<Vec<Figure>> {
    let times = crashes(order, AgentOptions::default()).await?;
    let figure = Figure::of_times("failover", &times)?;
    Ok(vec![figure.goal(Statistic::P99, 1_000.0).goal(Statistic::Median, 500.0)])
}

/// External etcd, a faster witness.
pub(super) async fn tuned(order: &Order) -> Result<Vec<Figure>> {
    let times = crashes(order, AgentOptions::default().arg("--witness-interval").arg("20ms")).await?;
    Ok(vec![Figure::of_times("failover-tuned", &times)?.goal(Statistic::Median, 150.0)])
}

async fn crashes(order: &Order, options: AgentOptions) -> Result<Vec<Duration>> {
    let mut rig = Rig::up(order, Shape::external(), options).await?;
    rig.runs(order, Memory::Fresh, async |rig, holder, prober| {
        let crash = rig.crash(&holder)?;
        let (heard, _) = prober.answer_after(crash, None, LIMIT).await.with_context(|| rig.logs())?;
        prober.finish()?;
        rig.repaired(&holder).await?;
        Ok(heard.since(crash))
    })
    .await
}

/// Stacked etcd; the holder is etcd's leader as well.
pub(super) async fn stacked(order: &Order) -> Result<Vec<Figure>> {
    let mut rig = Rig::up(order, Shape::stacked(), AgentOptions::default()).await?;
    let (mut times, mut secure) = (Vec::new(), Vec::new());
    for run in 0..order.runs {
        if run > 0 {
            rig.fresh().await?;
        }
        let holder = rig.holder().await?;
        rig.lab.cluster()?.move_etcd_leader(&holder).await?;
        let holder = rig.settled().await?;
        let (prober, https) = (rig.prober()?, rig.https()?);
        let crash = rig.crash(&holder)?;
        let (heard, _) = prober.answer_after(crash, None, LIMIT).await.with_context(|| rig.logs())?;
        times.push(heard.since(crash));
        secure.push(https.success_after(crash, LIMIT).await?.since(crash));
        prober.finish()?;
        https.finish()?;
        rig.repaired(&holder).await?;
    }
    Ok(vec![
        Figure::of_times("failover-stacked", &times)?.goal(Statistic::P99, 1_000.0),
        Figure::of_times("failover-stacked-https", &secure)?,
    ])
}

/// The API is away when the holder crashes.
pub(super) async fn api_down(order: &Order) -> Result<Vec<Figure>> {
    let mut rig = Rig::up(order, Shape::external(), AgentOptions::default()).await?;
    let crashes = rig.runs(order, Memory::Fresh, async |rig, holder, prober| {
        rig.lab.stop_all_apis()?;
        tokio::time::sleep(AWAY).await;
        let crash = rig.crash(&holder)?;
        let (heard, _) = prober.answer_after(crash, None, LIMIT).await.with_context(|| rig.logs())?;
        prober.finish()?;
        rig.revive(&holder)?;
        rig.lab.start_all_apis()?;
        rig.apis_ready().await?;
        Ok(heard.since(crash))
    });
    let times = crashes.await?;
    let name = "failover-api-down";
    Ok(vec![Figure::of_times(name, &times)?.goal(Statistic::P99, 2_000.0)])
}
