//! `cargo lab chaos`: real faults, drawn at random from a seed, on a real lab, judged by rules.
//!
//! A run is a sequence of rounds. In each round, one to three faults overlap and are healed. Then the run waits until
//! the VIP has settled (one holder, named by the Lease, heard by the client), and judges the observations. The next
//! round begins where the last one ended, so every moment is observed.

mod act;
mod agents;
pub mod bounds;
mod class;
mod draw;
mod floor;
mod hearing;
mod quiesce;
mod report;
mod rules;
mod seen;
mod services;
mod story;
mod watch;

use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, ensure};
use k8s_openapi::jiff::Timestamp;
use mooring_agent::core::time::Time;

use crate::agents::{AgentBinary, AgentOptions};
use crate::assets;
use crate::guard;
use crate::lab::Shape;
use crate::observe::now;
use crate::progress;
use crate::rig::control_plane::ControlPlaneRig;
use act::Cast;
use agents::Agents;
use bounds::{Etcd, SETTLED};
use class::{Class, INTRUDER};
use draw::{Draw, Plan};
use quiesce::After;
pub use report::Report;
use report::{Round, Violation};
use rules::{Breach, Rule};
use seen::Happened;
use services::Services;
use watch::{Healed, Watch};

/// After this many moves within [`WINDOW`] the witness may not move the VIP any more. The number is one less than the
/// agents allow, because the agents' count may differ by one.
const SPENT: usize = 3;
/// See [`SPENT`].
const WINDOW: Duration = Duration::from_mins(3);
/// Of this many rounds that find the witness spent, one keeps it spent; before the others all agents are restarted.
const SPENT_SHARE: u64 = 4;
/// Beyond the bound, the run waits this long until the VIP settles, so that the report can say how late it was.
const LATE: Duration = Duration::from_secs(20);

/// The options of a run.
#[derive(Clone, Debug)]
pub struct Wish {
    /// How long.
    pub minutes: u64,
    /// The seed of the sequence.
    pub seed: u64,
    /// The first round that is run; earlier rounds are drawn and skipped.
    pub first: u64,
    /// Whether each control plane has an etcd member of its own.
    pub stacked: bool,
    /// Whether the agents carry VIPs of Services beside the control plane's.
    pub services: bool,
    /// The agent's binary.
    pub agent: PathBuf,
}

/// Runs until the time is over or the user interrupts. Both cases produce a report.
///
/// # Errors
/// The lab does not come up.
pub async fn run(wish: &Wish) -> Result<Report> {
    let began = Timestamp::try_from(SystemTime::now()).map(|at| at.to_string()).unwrap_or_default();
    let mut report = Report {
        seed: wish.seed,
        minutes: wish.minutes,
        etcd: if wish.stacked { "stacked" } else { "external" },
        service_vips: if wish.services { services::VIPS.into() } else { 0 },
        began,
        agent: wish.agent.display().to_string(),
        agent_sha256: assets::sha256(&wish.agent)?,
        ..Report::default()
    };
    let mut interrupted = std::pin::pin!(guard::interrupted());
    let mut chaos = tokio::select! {
        chaos = Chaos::up(wish) => chaos?,
        by = &mut interrupted => {
            report.ended_by = Some(by.to_owned());
            return Ok(report);
        }
    };
    let end = chaos.begin + Duration::from_secs(wish.minutes.saturating_mul(60));
    let mut draw = Draw::new(wish.seed);
    while now() < end {
        let plan = draw.deal();
        if plan.round < wish.first {
            continue;
        }
        let round = tokio::select! {
            round = chaos.round(&plan, &mut report) => round,
            by = &mut interrupted => {
                report.ended_by = Some(format!("{by}, in round {}", plan.round));
                break;
            }
        };
        if let Err(error) = round {
            let orders: Vec<_> = plan.orders.iter().map(|order| order.class.name()).collect();
            report.ended_by = Some(format!("round {} ({}): {error:#}", plan.round, orders.join(" + ")));
            report.failed = true;
            break;
        }
    }
    report.seconds = now().since(chaos.begin).as_secs_f64();
    if !report.good() {
        progress::line(format_args!("the logs are kept in {}", chaos.rig.lab.keep_logs().display()));
    }
    Ok(report)
}

struct Chaos {
    rig: ControlPlaneRig,
    agents: Agents,
    watch: Watch,
    services: Option<Services>,
    begin: Time,
    holder: String,
    /// When the VIP moved since the last restart of all agents.
    moves: Vec<Time>,
    /// The outage that the faults of the last round may still cost.
    left: Duration,
    stacked: bool,
    command: String,
}

impl Chaos {
    async fn up(wish: &Wish) -> Result<Self> {
        let shape = if wish.stacked { Shape::stacked() } else { Shape::external() };
        let shape = shape.audited().with_host(INTRUDER.0, INTRUDER.1).with_agent(AgentBinary::Path(wish.agent.clone()));
        let (shape, options) =
            if wish.services { services::asked_for(shape) } else { (shape, AgentOptions::default()) };
        let rig = ControlPlaneRig::up(shape, options).await?;
        let mut services = if wish.services { Some(Services::make(&rig).await?) } else { None };
        rig.start_agents()?;
        rig.holder().await?;
        let mut agents = Agents::of(&rig.lab.control_planes());
        let mut watch = Watch::start(&rig)?;
        let settled = quiesce::come(&rig, &watch.prober, SETTLED).await?;
        let settled = settled.settled.with_context(|| format!("no election comes to an end; {}", rig.logs()))?;
        // Events before this point belong to no round.
        let healed = Healed { healed: now(), ready: now(), named: None };
        watch.end(&rig, &mut agents, Vec::new(), healed).await?;
        if let Some(services) = &mut services {
            ensure!(services.settled(&rig).await, "VIPs of Services do not settle; {}", rig.logs());
            services.end(&rig, now()).await?;
        }
        let command = format!(
            "cargo lab chaos{}{} --minutes {} --seed {}",
            if wish.stacked { " --stacked" } else { "" },
            if wish.services { " --services" } else { "" },
            wish.minutes,
            wish.seed
        );
        let (begin, left) = (now(), Duration::ZERO);
        let (holder, stacked) = (settled.holder, wish.stacked);
        Ok(Self { rig, agents, watch, services, begin, holder, moves: Vec::new(), left, stacked, command })
    }

    async fn round(&mut self, plan: &Plan, report: &mut Report) -> Result<()> {
        let spent = self.refresh(plan, report).await?;
        tokio::time::sleep(plan.pause).await;
        let hosts = self.rig.lab.control_planes();
        let casts: Vec<Cast> = plan.orders.iter().map(|order| Cast::of(*order, &self.holder, &hosts)).collect();
        let leader = if self.stacked { self.rig.lab.cluster()?.etcd_leader().await.ok() } else { None };
        let started = now();
        let (faults, breaches) = self.make(&casts).await?;
        let leader_isolated =
            faults.iter().any(|fault| fault.class == Class::Isolated && Some(&fault.host) == leader.as_ref());
        let texts = casts.iter().map(Cast::text).collect();
        let made = Made { started, texts, faults, breaches, spent, leader_isolated, counts: true };
        if !self.judge(plan, made, report).await? {
            // This state does not heal by itself: the report has it, and the run continues from a healthy state.
            self.afresh().await?;
            self.settle(now()).await?;
        }
        Ok(())
    }

    /// Waits until the VIP has settled, judges the observations, and reports them. `false`: the VIP does not settle.
    async fn judge(&mut self, plan: &Plan, made: Made, report: &mut Report) -> Result<bool> {
        let mut breaches = made.breaches;
        let healed = now();
        if !breaches.is_empty() {
            quiesce::restore(&mut self.rig)?;
        }
        let After { ready, settled } =
            quiesce::come(&self.rig, &self.watch.prober, SETTLED + LATE).await.unwrap_or_else(|error| {
                breaches.push(Breach { rule: Rule::Lab, at: now(), detail: format!("{error:#}") });
                After { ready: now(), settled: None }
            });
        if let Some(services) = &self.services {
            services.settled(&self.rig).await;
        }
        let named = settled.as_ref().map(|settled| settled.named);
        let healed = Healed { healed, ready, named };
        let mut record = self.watch.end(&self.rig, &mut self.agents, made.faults, healed).await?;
        record.seen.spent = made.spent;
        record.seen.left = self.left;
        record.seen.etcd = match (self.stacked, made.leader_isolated) {
            (false, _) => Etcd::Apart,
            (true, false) => Etcd::Stacked,
            (true, true) => Etcd::LeaderIsolated,
        };
        record.seen.services = self.services.is_some();
        breaches.extend(rules::judge(&record.seen));
        let mut allowed = rules::allowances(&record.seen);
        if let Some(services) = &mut self.services {
            let of_services = services.judge(&self.rig, &record.seen).await?;
            breaches.extend(of_services.breaches);
            allowed.extend(of_services.allowed);
        }
        self.left = rules::left(&record.seen);
        self.moves.extend(record.seen.moves().iter().map(|(at, _)| *at));

        let at = made.started.since(self.begin).as_secs_f64();
        let round = Round::of(plan.round, at, made.texts, &record.seen, &breaches).allowing(allowed);
        progress::line(round.line());
        // If the machine gave the agents no time, a broken rule that depends on time proves nothing.
        let judged = !rules::is_starved(&record.seen) || breaches.iter().any(|breach| !breach.rule.needs_time());
        let violation = (!breaches.is_empty()).then(|| {
            let timeline = story::tell(&self.rig, self.begin, &record, &breaches);
            let broken = breaches.iter().map(|breach| (breach.rule, breach.detail.clone())).collect();
            Violation {
                round: plan.round,
                again: format!("{} --first {}", self.command, plan.round),
                judged,
                broken,
                timeline,
            }
        });
        if made.counts {
            report.add(round, &record.seen, violation);
        } else {
            report.add_between(&round, violation);
        }
        let came = settled.is_some();
        if let Some(settled) = settled {
            self.holder = settled.holder;
        }
        Ok(came)
    }

    /// Starts the faults and heals them, each at its time. An operation that the lab refuses breaks the rule `Lab`.
    async fn make(&mut self, casts: &[Cast]) -> Result<(Vec<Happened>, Vec<Breach>)> {
        let began = now();
        let mut steps: Vec<(Duration, usize, bool)> = Vec::new();
        for (i, cast) in casts.iter().enumerate() {
            steps.push((cast.order.after, i, true));
            steps.push((cast.order.after + cast.order.lasts, i, false));
        }
        // A fault begins before it ends, even if it is over at once.
        steps.sort_by_key(|(at, i, begins)| (*at, *i, !begins));
        let mut faults: Vec<Option<Happened>> = vec![None; casts.len()];
        let mut breaches = Vec::new();
        for (at, i, begins) in steps {
            self.rig.until(began + at).await;
            self.agents.check(&self.rig)?;
            let cast = &casts[i];
            let refused = |error: anyhow::Error| {
                let detail = format!("{} {}: {error:#}", cast.text(), if begins { "begins" } else { "ends" });
                Breach { rule: Rule::Lab, at: now(), detail }
            };
            if begins {
                let from = now();
                match cast.begin(&mut self.rig, &mut self.agents).await {
                    Ok(true) => faults[i] = Some(happened(cast, &self.holder, from)),
                    Ok(false) => {}
                    Err(error) => breaches.push(refused(error)),
                }
            } else if let Some(fault) = &mut faults[i] {
                match cast.end(&mut self.rig, &mut self.agents).await {
                    Ok(to) => {
                        fault.to = to;
                        fault.lasts = fault.lasts.max(to.since(fault.from));
                    }
                    Err(error) => breaches.push(refused(error)),
                }
            }
        }
        Ok((faults.into_iter().flatten().collect(), breaches))
    }

    /// Whether the witness may not decide in this round. Usually it may: all agents are restarted first, and count
    /// moves from zero.
    async fn refresh(&mut self, plan: &Plan, report: &mut Report) -> Result<bool> {
        let at = now();
        self.moves.retain(|moved| at.since(*moved) < WINDOW);
        if self.moves.len() < SPENT {
            return Ok(false);
        }
        if plan.round.is_multiple_of(SPENT_SHARE) {
            return Ok(true);
        }
        let started = now();
        self.afresh().await?;
        let fault = Happened {
            class: Class::AgentsUpgraded,
            host: String::new(),
            peer: None,
            on_holder: true,
            lasts: Duration::ZERO,
            from: started,
            to: now(),
        };
        let texts = vec!["all agents are restarted, to count moves anew".to_owned()];
        let made = Made {
            started,
            texts,
            faults: vec![fault],
            breaches: Vec::new(),
            spent: false,
            leader_isolated: false,
            counts: false,
        };
        let came = self.judge(plan, made, report).await?;
        ensure!(came, "the VIP does not settle after all agents were restarted; {}", self.rig.logs());
        self.moves.clear();
        Ok(false)
    }

    /// Restarts all agents.
    async fn afresh(&mut self) -> Result<()> {
        act::upgrade(&mut self.rig, &mut self.agents).await
    }

    /// Returns from a state that did not heal by itself to a healthy one; no rule judges this time.
    async fn settle(&mut self, from: Time) -> Result<()> {
        quiesce::restore(&mut self.rig)?;
        let settled = quiesce::come(&self.rig, &self.watch.prober, SETTLED + LATE).await?;
        let settled = settled
            .settled
            .with_context(|| format!("the VIP does not settle after all agents were restarted; {}", self.rig.logs()))?;
        let healed = Healed { healed: from, ready: from, named: None };
        let record = self.watch.end(&self.rig, &mut self.agents, Vec::new(), healed).await?;
        if let Some(services) = &mut self.services {
            services.settled(&self.rig).await;
            services.end(&self.rig, record.seen.to).await?;
            services.left.clear();
        }
        self.holder = settled.holder;
        self.moves.clear();
        self.left = Duration::ZERO;
        Ok(())
    }
}

/// Faults that were made, and healed.
struct Made {
    started: Time,
    texts: Vec<String>,
    faults: Vec<Happened>,
    breaches: Vec<Breach>,
    spent: bool,
    /// A host was isolated whose etcd member led when the round began.
    leader_isolated: bool,
    /// Whether the faults belong to the plan.
    counts: bool,
}

fn happened(cast: &Cast, holder: &str, from: Time) -> Happened {
    Happened {
        class: cast.order.class,
        host: cast.host.clone(),
        peer: cast.peer.clone(),
        on_holder: cast.host == holder || !cast.order.class.has_host(),
        lasts: cast.order.lasts,
        from,
        to: now(),
    }
}
