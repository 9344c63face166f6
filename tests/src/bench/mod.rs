//! Figures: how they are measured and summed up, and what they are compared with.

mod agent_gone;
mod api_cut;
mod api_dead;
mod disturbed;
mod failover;
pub mod floor;
mod handover;
mod idle;
pub mod keepalived;
mod outage;
mod peers;
mod rig;
pub mod stats;

use std::path::PathBuf;

use anyhow::{Context, Result};
use futures::future::LocalBoxFuture;

use stats::Figure;

/// What a bench is told.
#[derive(Clone, Debug)]
pub struct Order {
    /// How often each figure is measured.
    pub runs: usize,
    /// The agent's binary.
    pub agent: PathBuf,
}

/// Figures that are measured together.
#[derive(Clone, Copy)]
pub struct Bench {
    /// What it is called by: the name of its first figure.
    pub name: &'static str,
    /// How many runs it makes when nobody says.
    pub runs: usize,
    /// Whether it is of the agent; the others are there for comparison.
    pub ours: bool,
    /// Measures.
    pub measure: for<'a> fn(&'a Order) -> LocalBoxFuture<'a, Result<Vec<Figure>>>,
}

macro_rules! bench {
    ($name:literal, $runs:literal, $ours:literal, $measure:path) => {
        Bench { name: $name, runs: $runs, ours: $ours, measure: |order| Box::pin($measure(order)) }
    };
}

/// Every bench there is, in the order in which they run.
pub const ALL: [Bench; 19] = [
    bench!("failover", 5, true, failover::plain),
    bench!("failover-stacked", 5, true, failover::stacked),
    bench!("failover-tuned", 5, true, failover::tuned),
    bench!("failover-api-down", 5, true, failover::api_down),
    bench!("handover", 5, true, handover::measure),
    bench!("outage", 1, true, outage::measure),
    bench!("api-cut", 3, true, api_cut::measure),
    bench!("agent-restart", 3, true, agent_gone::restart),
    bench!("agent-dead", 3, true, agent_gone::dead),
    bench!("freeze-two-owners", 3, true, agent_gone::frozen),
    bench!("api-dead-on-holder", 3, true, api_dead::measure),
    bench!("link-flap", 5, true, disturbed::link_flap),
    bench!("addr-deleted", 5, true, disturbed::deleted),
    bench!("foreign-takes", 5, true, disturbed::foreign),
    bench!("idle-requests", 1, true, idle::requests),
    bench!("agent-rss", 1, true, idle::rss),
    bench!("agent-binary", 1, true, idle::binary),
    bench!("floor", 10, false, peers::floor),
    bench!("keepalived", 5, false, peers::keepalived),
];

/// A figure of values that must be there.
fn some(figure: Option<Figure>, name: &str) -> Result<Figure> {
    figure.with_context(|| format!("{name}: nothing was measured; --runs must be 1 or more"))
}
