//! What agents cost when nothing happens.

use std::time::Duration;

use anyhow::{Context, Result};

use super::rig::Rig;
use super::stats::{Figure, Statistic};
use super::{MB, Order, resident};
use crate::agents::{AGENT, AgentOptions};
use crate::lab::Shape;
use crate::observe::audit;
use crate::observe::now;

/// Start and election are no part of it.
const SETTLED: Duration = Duration::from_secs(15);
/// Requests are counted for this long.
const COUNTED: Duration = Duration::from_mins(1);
/// The user agent of our agents begins so.
const NAME: &str = "mooring";

/// Requests a second of three agents, those for the health of the own API server aside.
pub(super) async fn requests(order: &Order) -> Result<Vec<Figure>> {
    let rig = Rig::up(order, Shape::external().audited(), AgentOptions::default()).await?;
    let (mut reads, mut writes) = (Vec::new(), Vec::new());
    tokio::time::sleep(SETTLED).await;
    for _ in 0..order.runs {
        rig.settled().await?;
        let from = now();
        tokio::time::sleep(COUNTED).await;
        let to = now();
        let (mut read, mut written) = (0_u32, 0_u32);
        for name in rig.lab.control_planes() {
            let log = rig.lab.host(&name)?.dir().join("audit.log");
            let all = audit::requests(&log, from, to)?;
            for one in all.iter().filter(|one| one.agent.starts_with(NAME) && !one.is_health()) {
                if one.is_write() { written += 1 } else { read += 1 }
            }
        }
        reads.push(f64::from(read) / to.since(from).as_secs_f64());
        writes.push(f64::from(written) / to.since(from).as_secs_f64());
    }
    let (read, written) = ("idle-requests-reads", "idle-requests-writes");
    Ok(vec![
        Figure::new(written, "1/s", &writes)?.goal(Statistic::Max, 1.0),
        Figure::new(read, "1/s", &reads)?.goal(Statistic::Max, 1.0),
    ])
}

/// Resident memory of each of three agents, some seconds after the election.
pub(super) async fn rss(order: &Order) -> Result<Vec<Figure>> {
    let rig = Rig::up(order, Shape::external(), AgentOptions::default()).await?;
    let mut sizes = Vec::new();
    tokio::time::sleep(SETTLED).await;
    for _ in 0..order.runs {
        rig.settled().await?;
        for name in rig.lab.control_planes() {
            sizes.push(resident(&rig.lab.process(&name, AGENT)?)?);
        }
    }
    Ok(vec![Figure::new("agent-rss", "MB", &sizes)?.goal(Statistic::Max, 12.0)])
}

/// Size of the binary.
pub(super) async fn binary(order: &Order) -> Result<Vec<Figure>> {
    let file = tokio::fs::metadata(&order.agent).await.with_context(|| format!("look at {}", order.agent.display()))?;
    let size = f64::from(u32::try_from(file.len())?) / MB;
    Ok(vec![Figure::new("agent-binary", "MB", &[size])?.goal(Statistic::Max, 12.0)])
}
