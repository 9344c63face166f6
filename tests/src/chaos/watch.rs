//! Brings together what the observers saw of a round.

use std::time::Duration;

use anyhow::{Context, Result};
use mooring_agent::core::time::Time;

use super::agents::Agents;
use super::seen::{Happened, Lifetime, Seen};
use crate::observe::addresses::{Change, Event};
use crate::observe::audit::Tail;
use crate::observe::from_wall;
use crate::observe::now;
use crate::observe::prober::Prober;
use crate::observe::probes::Probes;
use crate::observe::pulse::{Pulse, merged};
use crate::observe::timeline::Interval;
use crate::stage::Stage;

/// Between two probes of the client: fewer than in a bench, to leave the machine to the agents.
const PACE: Duration = Duration::from_millis(5);
/// Whoever sends every 5 ms and does not for so long was not let.
const STALL: Duration = Duration::from_millis(100);
/// The user agent of our agents begins so.
const NAME: &str = "mooring";

/// The observers of a run, beside those of the stage.
pub struct Watch {
    /// Of the round that goes on.
    pub prober: Prober,
    audits: Vec<Tail>,
    pulse: Pulse,
    /// The round began then.
    from: Time,
}

/// What a round left behind.
pub struct Record {
    /// For the rules.
    pub seen: Seen,
    /// For the story of what went wrong.
    pub probes: Probes,
    /// What happened to the VIP's address.
    pub events: Vec<Event>,
}

/// How a round came to its end.
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
    /// The first round begins.
    ///
    /// # Errors
    /// No socket.
    pub fn start(stage: &Stage) -> Result<Self> {
        let mut audits = Vec::new();
        for name in stage.lab.control_planes() {
            audits.push(Tail::of(&stage.lab.host(&name)?.dir().join("audit.log")));
        }
        let mut watch = Self { prober: prober(stage)?, audits, pulse: Pulse::start()?, from: now() };
        // What was asked before is no round's.
        watch.requests()?;
        Ok(watch)
    }

    /// The round is over; the next one begins at the same moment.
    ///
    /// # Errors
    /// An observer failed.
    pub async fn end(
        &mut self,
        stage: &Stage,
        agents: &mut Agents,
        faults: Vec<Happened>,
        end: Healed,
    ) -> Result<Record> {
        agents.check(stage)?;
        let (from, to) = (self.from, now());
        let old = std::mem::replace(&mut self.prober, prober(stage)?);
        self.from = to;
        let probes = tokio::task::spawn_blocking(|| old.finish()).await.context("the prober")??;
        let probes = probes.between(from, to);
        let vip = stage.lab.vip();
        let events: Vec<Event> = stage.addresses.events().into_iter().filter(|event| event.address == vip).collect();
        let seen = Seen {
            from,
            healed: end.healed,
            ready: end.ready.max(end.healed),
            to,
            faults,
            holds: stage.timeline(),
            lifetimes: lifetimes(&events, from),
            gaps: probes.outages(),
            named: end.named,
            requests: self.requests()?,
            unasked: agents.take(),
            memory: agents.memory(stage),
            spent: false,
            stalls: self.stalls(&probes, from, to),
            starved: agents.starved(stage),
        };
        let events = events.into_iter().filter(|event| event.at >= from && event.at <= to).collect();
        Ok(Record { seen, probes, events })
    }

    /// When the machine gave the observers no time: their pulse missed, or the prober did not get to send.
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

fn prober(stage: &Stage) -> Result<Prober> {
    let to = std::net::SocketAddr::new(stage.lab.vip(), crate::observe::echo::PORT);
    Ok(Prober::paced(&stage.client()?, to, PACE)?)
}

/// Those told from `from` on, and the last one before of each host: hosts may live on it.
fn lifetimes(events: &[Event], from: Time) -> Vec<Lifetime> {
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
