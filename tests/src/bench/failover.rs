//! The holder's host crashes: from its last frame until the client hears the VIP again.

use std::time::Duration;

use anyhow::{Context, Result};

use super::rig::Rig;
use super::stats::{Figure, Statistic};
use super::{Order, some};
use crate::agents::AgentOptions;
use crate::lab::Shape;

/// Longer than the slowest way to a new holder: the Lease runs out.
const LIMIT: Duration = Duration::from_mins(1);
/// The API is away for this long before the crash.
const AWAY: Duration = Duration::from_secs(4);

/// External etcd, default settings.
pub(super) async fn plain(order: &Order) -> Result<Vec<Figure>> {
    let times = crashes(order, AgentOptions::default()).await?;
    let figure = some(Figure::of_times("failover", &times), "failover")?;
    Ok(vec![figure.goal(Statistic::P99, 1_000.0).goal(Statistic::Median, 500.0)])
}

/// External etcd, a faster witness.
pub(super) async fn tuned(order: &Order) -> Result<Vec<Figure>> {
    let times = crashes(order, AgentOptions::default().arg("--witness-interval").arg("20ms")).await?;
    Ok(vec![some(Figure::of_times("failover-tuned", &times), "failover-tuned")?.goal(Statistic::Median, 150.0)])
}

async fn crashes(order: &Order, options: AgentOptions) -> Result<Vec<Duration>> {
    let mut rig = Rig::up(order, Shape::external(), options).await?;
    let mut times = Vec::new();
    for run in 0..order.runs {
        let holder = if run == 0 { rig.settled().await? } else { rig.fresh().await? };
        let prober = rig.stage.prober()?;
        let crash = rig.stage.crash(&holder)?;
        let (heard, _) = prober.answer_after(crash, None, LIMIT).await.with_context(|| rig.stage.logs())?;
        times.push(heard.since(crash));
        prober.finish()?;
        rig.revive(&holder).await?;
    }
    Ok(times)
}

/// Stacked etcd; the holder is etcd's leader as well.
pub(super) async fn stacked(order: &Order) -> Result<Vec<Figure>> {
    let mut rig = Rig::up(order, Shape::stacked(), AgentOptions::default()).await?;
    let (mut times, mut secure) = (Vec::new(), Vec::new());
    for run in 0..order.runs {
        if run > 0 {
            rig.fresh().await?;
        }
        let holder = rig.stage.holder().await?;
        rig.stage.lab.cluster()?.move_etcd_leader(&holder).await?;
        let holder = rig.settled().await?;
        let (prober, https) = (rig.stage.prober()?, rig.stage.https()?);
        let crash = rig.stage.crash(&holder)?;
        let (heard, _) = prober.answer_after(crash, None, LIMIT).await.with_context(|| rig.stage.logs())?;
        times.push(heard.since(crash));
        secure.push(https.success_after(crash, LIMIT).await?.since(crash));
        prober.finish()?;
        https.finish()?;
        rig.revive(&holder).await?;
    }
    Ok(vec![
        some(Figure::of_times("failover-stacked", &times), "failover-stacked")?.goal(Statistic::P99, 1_000.0),
        some(Figure::of_times("failover-stacked-https", &secure), "failover-stacked-https")?,
    ])
}

/// The API is away when the holder crashes.
pub(super) async fn api_down(order: &Order) -> Result<Vec<Figure>> {
    let mut rig = Rig::up(order, Shape::external(), AgentOptions::default()).await?;
    let mut times = Vec::new();
    for run in 0..order.runs {
        let holder = if run == 0 { rig.settled().await? } else { rig.fresh().await? };
        let prober = rig.stage.prober()?;
        rig.stage.lab.stop_all_apis()?;
        tokio::time::sleep(AWAY).await;
        let crash = rig.stage.crash(&holder)?;
        let (heard, _) = prober.answer_after(crash, None, LIMIT).await.with_context(|| rig.stage.logs())?;
        times.push(heard.since(crash));
        prober.finish()?;
        rig.stage.revive(&holder)?;
        rig.stage.lab.start_all_apis()?;
        rig.apis_ready().await?;
    }
    let name = "failover-api-down";
    Ok(vec![some(Figure::of_times(name, &times), name)?.goal(Statistic::P99, 2_000.0)])
}
