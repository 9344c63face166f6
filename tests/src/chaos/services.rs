//! VIPs of Services, which the agents of the control planes carry beside the control plane's own. Every rule that judges that VIP
//! judges each of these.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use anyhow::{Context as _, Result};
use mooring_agent::core::time::Time;
use serde_json::json;

use super::bounds::SETTLED;
use super::rules::{self, Breach};
use super::seen::{Happened, Seen};
use super::watch::lifetimes;
use super::{LATE, SPENT, WINDOW};
use crate::agents::AgentOptions;
use crate::ipam::server::{Server, documents_in};
use crate::lab::Shape;
use crate::observe::addresses::Event;
use crate::observe::echo;
use crate::observe::now;
use crate::observe::probes::Probes;
use crate::observe::swarm::Swarm;
use crate::rig::control_plane::ControlPlaneRig;
use crate::rig::worker;

/// How many.
pub const VIPS: u8 = 8;
/// Between two probes of a VIP.
const EVERY: Duration = Duration::from_millis(20);
/// One node alone has had each VIP for this long.
const QUIET: Duration = Duration::from_secs(2);
/// Between two looks.
const PAUSE: Duration = Duration::from_millis(100);

/// The VIPs, and their client.
pub struct Services {
    vips: Vec<IpAddr>,
    swarm: Swarm,
    /// When the present round began.
    from: Time,
    /// When each VIP moved lately.
    moves: BTreeMap<IpAddr, Vec<Time>>,
    /// The outage that the faults of the last round may still cost each VIP.
    pub(super) left: BTreeMap<IpAddr, Duration>,
}

/// What was found about the VIPs of a round.
#[derive(Debug, Default)]
pub struct Judged {
    /// The rules that were broken.
    pub breaches: Vec<Breach>,
    /// What was allowed because the kernel was late.
    pub allowed: Vec<String>,
}

fn vips() -> Vec<IpAddr> {
    (0..VIPS).map(worker::vip).collect()
}

/// The lab and the agents for them.
#[must_use]
pub fn asked_for(mut shape: Shape) -> (Shape, AgentOptions) {
    shape.vips.extend(vips());
    (shape, AgentOptions::default().env("MOORING_SERVICES", "on"))
}

impl Services {
    /// Makes a Service with an `IPAddress` for each VIP.
    ///
    /// # Errors
    /// The API server refuses an object.
    pub async fn make(rig: &ControlPlaneRig) -> Result<Self> {
        let server = Server::of(rig.lab.clone()).await?;
        server.install("crds").await?;
        server.install("crds/standalone").await?;
        for object in documents_in("allocator/namespace.yaml")? {
            server.apply(&object).await.context("the namespace of the sessions is refused")?;
        }
        for name in rig.lab.control_planes() {
            let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}});
            // The lab may have made it already.
            server.apply(&node).await.context("a Node is refused")?;
        }
        for n in 0..VIPS {
            worker::create(&server, n, "Cluster").await?;
        }
        Ok(Self { vips: vips(), swarm: swarm(rig)?, from: now(), moves: BTreeMap::new(), left: BTreeMap::new() })
    }

    /// Waits until one node alone has had each VIP for [`QUIET`] and answers for it. `false`: not in time.
    pub async fn settled(&self, rig: &ControlPlaneRig) -> bool {
        let deadline = now() + SETTLED + LATE;
        loop {
            let at = now();
            let quiet = self.vips.iter().all(|vip| {
                let timeline = rig.timeline_of(*vip);
                let last = timeline.holds().iter().flat_map(|hold| hold.to.into_iter().chain([hold.from])).max();
                timeline.holders_at(at).len() == 1 && last.is_some_and(|last| at.since(last) >= QUIET)
            });
            if quiet && self.swarm.all_answered(at, None, QUIET).await.is_ok() {
                return true;
            }
            if now() > deadline {
                return false;
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Ends the round at that moment: what the client heard of each VIP.
    ///
    /// # Errors
    /// The client failed.
    pub async fn end(&mut self, rig: &ControlPlaneRig, to: Time) -> Result<Vec<Probes>> {
        let old = std::mem::replace(&mut self.swarm, swarm(rig)?);
        let from = std::mem::replace(&mut self.from, to);
        let all = tokio::task::spawn_blocking(|| old.finish()).await.context("the client")??;
        Ok(all.iter().map(|probes| probes.between(from, to)).collect())
    }

    /// Judges each VIP by what was seen of it in the round that `seen` tells of for the control plane's.
    ///
    /// # Errors
    /// The client failed.
    pub async fn judge(&mut self, rig: &ControlPlaneRig, seen: &Seen) -> Result<Judged> {
        let events = rig.addresses.events();
        let heard = self.end(rig, seen.to).await?;
        let mut judged = Judged::default();
        for (vip, probes) in self.vips.clone().into_iter().zip(heard) {
            let of_vip: Vec<Event> = events.iter().filter(|event| event.address == vip).cloned().collect();
            let holds = rig.timeline_of(vip);
            let carried = |fault: &Happened| holds.holders_at(fault.from).contains(fault.host.as_str());
            let on =
                |fault: &Happened| Happened { on_holder: !fault.class.has_host() || carried(fault), ..fault.clone() };
            let moves = self.moves.entry(vip).or_default();
            moves.retain(|at| seen.from.since(*at) < WINDOW);
            let seen = Seen {
                faults: seen.faults.iter().map(on).collect(),
                lifetimes: lifetimes(&of_vip, seen.from),
                gaps: probes.outages(),
                named: Some(seen.to),
                spent: moves.len() >= SPENT,
                left: self.left.get(&vip).copied().unwrap_or_default(),
                holds,
                // They are the agents', and judged already.
                requests: vec![],
                unasked: vec![],
                memory: vec![],
                ..seen.clone()
            };
            self.left.insert(vip, rules::left(&seen));
            moves.extend(seen.moves().iter().map(|(at, _)| *at));
            let about = |breach: Breach| Breach { detail: format!("{vip}: {}", breach.detail), ..breach };
            judged.breaches.extend(rules::judge(&seen).into_iter().map(about));
            judged.allowed.extend(rules::allowances(&seen).into_iter().map(|what| format!("{vip}: {what}")));
        }
        Ok(judged)
    }
}

fn swarm(rig: &ControlPlaneRig) -> Result<Swarm> {
    Ok(Swarm::start(&rig.client()?, &vips(), echo::PORT, EVERY)?)
}
