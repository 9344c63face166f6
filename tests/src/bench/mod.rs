//! Figures: how they are measured and summed up, and what they are compared with.

mod agent_gone;
mod api_cut;
mod api_dead;
mod claims;
mod disturbed;
mod endpoints;
mod failover;
pub mod floor;
mod handover;
mod idle;
pub mod keepalived;
mod memory;
mod openstack;
mod outage;
mod outside;
mod peers;
mod phpipam;
mod rig;
mod scale;
mod services;
pub mod stats;

use std::path::PathBuf;

use anyhow::{Context, Result};
use futures::future::LocalBoxFuture;

use stats::Figure;

use crate::host::Process;

/// Bytes of a megabyte.
const MB: f64 = 1_000_000.0;

/// What a bench is told.
#[derive(Clone, Debug)]
pub struct Order {
    /// How often each figure is measured.
    pub runs: usize,
    /// The agent's binary.
    pub agent: PathBuf,
    /// The allocator's binary.
    pub allocator: PathBuf,
    /// How many claims, or Services; each bench has its own number otherwise.
    pub count: Option<usize>,
    /// The numbers of nodes; empty: each bench has its own.
    pub nodes: Vec<u8>,
}

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// Our agent.
    Agent,
    /// Our allocator.
    Allocator,
    /// Both of ours.
    Both,
    /// What there is to compare the agent with.
    Peer,
}

/// Figures that are measured together.
#[derive(Clone, Copy)]
pub struct Bench {
    /// What it is called by: the name of its first figure.
    pub name: &'static str,
    /// How many runs it makes when nobody says.
    pub runs: usize,
    /// Of what.
    pub of: Subject,
    /// Measures.
    pub measure: for<'a> fn(&'a Order) -> LocalBoxFuture<'a, Result<Vec<Figure>>>,
}

macro_rules! bench {
    ($name:literal, $runs:literal, $of:ident, $measure:path) => {
        Bench { name: $name, runs: $runs, of: Subject::$of, measure: |order| Box::pin($measure(order)) }
    };
}

/// Every bench there is, in the order in which they run.
pub const ALL: [Bench; 35] = [
    bench!("failover", 5, Agent, failover::plain),
    bench!("failover-stacked", 5, Agent, failover::stacked),
    bench!("failover-tuned", 5, Agent, failover::tuned),
    bench!("failover-api-down", 5, Agent, failover::api_down),
    bench!("handover", 5, Agent, handover::measure),
    bench!("outage", 1, Agent, outage::measure),
    bench!("api-cut", 3, Agent, api_cut::measure),
    bench!("agent-restart", 3, Agent, agent_gone::restart),
    bench!("agent-dead", 3, Agent, agent_gone::dead),
    bench!("freeze-two-owners", 3, Agent, agent_gone::frozen),
    bench!("api-dead-on-holder", 3, Agent, api_dead::measure),
    bench!("link-flap", 5, Agent, disturbed::link_flap),
    bench!("addr-deleted", 5, Agent, disturbed::deleted),
    bench!("foreign-takes", 5, Agent, disturbed::foreign),
    bench!("idle-requests", 1, Agent, idle::requests),
    bench!("agent-rss", 1, Agent, idle::rss),
    bench!("agent-binary", 1, Agent, idle::binary),
    bench!("claims", 1, Allocator, claims::measure),
    bench!("claims-policy", 1, Allocator, claims::with_policy),
    bench!("metal3", 1, Allocator, claims::of_metal3),
    bench!("claims-growth", 1, Allocator, claims::grown),
    bench!("openstack", 3, Allocator, openstack::measure),
    bench!("phpipam", 1, Allocator, phpipam::measure),
    bench!("endpoint", 1, Allocator, endpoints::measure),
    bench!("allocator-peak-rss", 1, Allocator, memory::measure),
    bench!("services-create", 1, Both, services::create::measure),
    bench!("services-api", 1, Both, services::steady::measure),
    bench!("services-crash", 3, Agent, services::crash::measure),
    bench!("services-lease-crash", 3, Agent, services::lease_crash::measure),
    bench!("services-handover", 1, Agent, services::handover::measure),
    bench!("services-takeover-ratio", 3, Agent, services::takeover::measure),
    bench!("scale", 1, Agent, scale::measure),
    bench!("floor", 10, Peer, peers::floor),
    bench!("claims-floor", 1, Peer, claims::floor),
    bench!("keepalived", 5, Peer, peers::keepalived),
];

/// The resident memory of a process, in megabytes.
fn resident(process: &Process) -> Result<f64> {
    megabytes(process, process.rss_kb())
}

/// The most memory that a process has had, in megabytes.
fn peak(process: &Process) -> Result<f64> {
    megabytes(process, process.peak_rss_kb())
}

fn megabytes(process: &Process, kb: Option<u64>) -> Result<f64> {
    let kb = kb.with_context(|| format!("{} of {} does not run", process.name(), process.host()))?;
    Ok(f64::from(u32::try_from(kb)?) * 1_024.0 / MB)
}
