//! Combines the observations of a round.

use std::time::Duration;

use anyhow::{Context, Result};
use mooring_agent::core::time::Time;

use super::agents::Agents;
use super::bounds::Etcd;
use super::floor::Floor;
use super::seen::{Happened, Lifetime, Seen};
use crate::observe::addresses::{Change, Event};
use crate::observe::audit::Tail;
use crate::observe::from_wall;
use crate::observe::now;
use crate::observe::prober::Prober;
use crate::observe::probes::Probes;
use crate::observe::pulse::{Pulse, merged};
use crate::observe::timeline::Interval;
use crate::rig::control_plane::ControlPlaneRig;

/// Time between two probes of the client: longer than in a bench, to leave the machine to the agents.
const PACE: Duration = Duration::from_millis(5);
/// A prober sends every 5 ms. If it sends nothing for this long, the machine did not let it run.
const STALL: Duration = Duration::from_millis(100);
/// The user agent of our agents begins with this text.
const NAME: &str = "mooring";

/// The observers of a run, in addition to those of the rig.
pub struct Watch {
    /// The prober of the current round.
    pub prober: Prober,
    audits: Vec<Tail>,
    pulse: Pulse,
    floor: Floor,
    /// When the round began.
    from: Time,
}

/// The record of a round.
pub struct Record {
    /// For the rules.
    pub seen: Seen,
    /// For the story of a violation.
    pub probes: Probes,
    /// What happened to the VIP's address.
    pub events: Vec<Event>,
}

/// How a round ended.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::struct_field_names, reason = "a moment each")]
pub struct Healed {
    /// When the last fault was healed.
    pub healed: Time,
    /// When every API server was ready.
    pub ready: Time,
    /// When the Lease was seen to name the holder.
    pub named: Option<Time>,
}

impl Watch {
    /// Starts the first round.
    ///
    /// # Errors
    /// No socket.
    pub fn start(rig: &ControlPlaneRig) -> Result<Self> {
        let mut audits = Vec::new();
        for name in rig.lab.control_planes() {
            audits.push(Tail::of(&rig.lab.host(&name)?.dir().join("audit.log")));
        }
        let mut watch =
            Self { prober: prober(rig)?, audits, pulse: Pulse::start()?, floor: Floor::start(rig)?, from: now() };
        // Earlier requests belong to no round.
        watch.requests()?;
        Ok(watch)
    }

    /// Ends the round; the next one begins at the same moment.
    ///
    /// # Errors
    /// An observer failed.
    pub async fn end(
        &mut self,
        rig: &ControlPlaneRig,
        agents: &mut Agents,
        faults: Vec<Happened>,
        end: Healed,
    ) -> Result<Record> {
        agents.check(rig)?;
        let (from, to) = (self.from, now());
        let old = std::mem::replace(&mut self.prober, prober(rig)?);
        self.from = to;
        let probes = tokio::task::spawn_blocking(|| old.finish()).await.context("the prober")??;
        let probes = probes.between(from, to);
        let vip = rig.lab.vip();
        let events: Vec<Event> = rig.addresses.events().into_iter().filter(|event| event.address == vip).collect();
        let seen = Seen {
            from,
            healed: end.healed,
            ready: end.ready.max(end.healed),
            to,
            faults,
            holds: rig.timeline(),
            lifetimes: lifetimes(&events, from),
            gaps: probes.outages(),
            named: end.named,
            etcd: Etcd::Apart,
            services: false,
            requests: self.requests()?,
            unasked: agents.take(),
            memory: agents.memory(rig),
            left: Duration::ZERO,
            spent: false,
            stalls: self.stalls(&probes, from, to),
            starved: agents.starved(rig),
            floor: self.floor.lapses(from),
        };
        let events = events.into_iter().filter(|event| event.at >= from && event.at <= to).collect();
        Ok(Record { seen, probes, events })
    }

    /// When the machine gave the observers no time: their pulse was late, or the prober could not send.
    fn stalls(&self, probes: &Probes, from: Time, to: Time) -> Vec<Interval> {
        let pauses = probes.all().windows(2).map(|pair| Interval { from: pair[0].sent, to: pair[1].sent });
        let long = pauses.filter(|pause| pause.length() > STALL);
        merged(self.pulse.between(from, to).into_iter().chain(long).collect())
    }

    fn requests(&mut self) -> Result<Vec<Time>> {
        let mut times = Vec::new();
        for audit in &mut self.audits {
            let ours = audit.read()?.into_iter().filter(|one| one.agent.starts_with(NAME) && !one.is_health());
            times.extend(ours.map(|one| from_wall(one.at)));
        }
        Ok(times)
    }
}

fn prober(rig: &ControlPlaneRig) -> Result<Prober> {
    let to = std::net::SocketAddr::new(rig.lab.vip(), crate::observe::echo::PORT);
    Ok(Prober::paced(&rig.client()?, to, PACE)?)
}

/// The lifetimes set from `from` on, and the last one of each host before: it may still apply.
pub fn lifetimes(events: &[Event], from: Time) -> Vec<Lifetime> {
    let told = events.iter().filter(|event| event.change != Change::Removed);
    let all: Vec<Lifetime> = told
        .map(|event| Lifetime {
            host: event.host.to_string(),
            at: event.at,
            valid: event.state.valid,
            preferred: event.state.preferred,
        })
        .collect();
    let later = |one: &Lifetime| all.iter().any(|next| next.host == one.host && next.at > one.at && next.at < from);
    let begin = all.partition_point(|one| one.at + Duration::from_mins(2) < from);
    all[begin..].iter().filter(|one| one.at >= from || !later(one)).cloned().collect()
}
