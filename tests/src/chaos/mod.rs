//! `cargo lab chaos`: real faults, drawn at random from a seed, on a real lab, judged by rules.
//!
//! A run is a sequence of rounds. In each, one to three faults overlap and are healed; then calm is awaited (one holder,
//! named by the Lease, heard by the client), and what the observers saw is judged. The next round begins where the last one
//! ended, so nothing goes unseen.

mod act;
mod agents;
pub mod bounds;
mod calm;
mod class;
mod draw;
mod hearing;
mod report;
mod rules;
mod seen;
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
use crate::say;
use crate::stage::Stage;
use act::{Cast, INTRUDER};
use agents::Agents;
use bounds::SETTLED;
use calm::After;
use class::Class;
use draw::{Draw, Plan};
pub use report::Report;
use report::{Round, Violation};
use rules::{Breach, Rule};
use seen::Happened;
use watch::{Healed, Watch};

/// A VIP that has moved so often within [`WINDOW`] may not be moved by the witness any more: one less than the agents allow,
/// whose count may differ by one.
const SPENT: usize = 3;
/// See [`SPENT`].
const WINDOW: Duration = Duration::from_mins(3);
/// In one of so many rounds that find the witness spent it stays so; before the others all agents are restarted.
const SPENT_SHARE: u64 = 4;
/// Beyond the bound, calm is awaited for so long: how late it was is worth knowing.
const LATE: Duration = Duration::from_secs(20);

/// What is asked for.
#[derive(Clone, Debug)]
pub struct Wish {
    /// How long.
    pub minutes: u64,
    /// The seed of the sequence.
    pub seed: u64,
    /// The first round that is made; those before are drawn and left out.
    pub first: u64,
    /// Whether each control plane has an etcd member of its own.
    pub stacked: bool,
    /// The agent's binary.
    pub agent: PathBuf,
}

/// Runs until the time is over, or somebody interrupts. A report comes of it in either case.
///
/// # Errors
/// The lab does not come up.
pub async fn run(wish: &Wish) -> Result<Report> {
    let began = Timestamp::try_from(SystemTime::now()).map(|at| at.to_string()).unwrap_or_default();
    let mut report = Report {
        seed: wish.seed,
        minutes: wish.minutes,
        etcd: if wish.stacked { "stacked" } else { "external" },
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
        say::line(format_args!("the logs are kept in {}", chaos.stage.lab.keep_logs().display()));
    }
    Ok(report)
}

struct Chaos {
    stage: Stage,
    agents: Agents,
    watch: Watch,
    begin: Time,
    holder: String,
    /// When the VIP moved, since all agents were restarted.
    moves: Vec<Time>,
    command: String,
}

impl Chaos {
    async fn up(wish: &Wish) -> Result<Self> {
        let shape = if wish.stacked { Shape::stacked() } else { Shape::external() };
        let shape = shape.audited().with_host(INTRUDER.0, INTRUDER.1).with_agent(AgentBinary::Path(wish.agent.clone()));
        let stage = Stage::up(shape, AgentOptions::default()).await?;
        stage.start_agents()?;
        stage.holder().await?;
        let mut agents = Agents::of(&stage.lab.control_planes());
        let mut watch = Watch::start(&stage)?;
        let calm = calm::come(&stage, &watch.prober, SETTLED).await?;
        let calm = calm.calm.with_context(|| format!("no election comes to an end; {}", stage.logs()))?;
        // What happened until here is no round's.
        let healed = Healed { healed: now(), ready: now(), named: None };
        watch.end(&stage, &mut agents, Vec::new(), healed).await?;
        let command = format!(
            "cargo lab chaos{} --minutes {} --seed {}",
            if wish.stacked { " --stacked" } else { "" },
            wish.minutes,
            wish.seed
        );
        Ok(Self { stage, agents, watch, begin: now(), holder: calm.holder, moves: Vec::new(), command })
    }

    async fn round(&mut self, plan: &Plan, report: &mut Report) -> Result<()> {
        let spent = self.refresh(plan, report).await?;
        tokio::time::sleep(plan.pause).await;
        let hosts = self.stage.lab.control_planes();
        let casts: Vec<Cast> = plan.orders.iter().map(|order| Cast::of(*order, &self.holder, &hosts)).collect();
        let started = now();
        let (faults, breaches) = self.make(&casts).await?;
        let made =
            Made { started, texts: casts.iter().map(Cast::text).collect(), faults, breaches, spent, counts: true };
        if !self.judge(plan, made, report).await? {
            // A state that does not heal by itself: it is in the report, and the run goes on from a sound one.
            self.afresh().await?;
            self.settle(now()).await?;
        }
        Ok(())
    }

    /// Waits for calm, looks at what was seen, and reports it. `false`: calm does not come.
    async fn judge(&mut self, plan: &Plan, made: Made, report: &mut Report) -> Result<bool> {
        let mut breaches = made.breaches;
        let healed = now();
        if !breaches.is_empty() {
            calm::restore(&mut self.stage)?;
        }
        let After { ready, calm } =
            calm::come(&self.stage, &self.watch.prober, SETTLED + LATE).await.unwrap_or_else(|error| {
                breaches.push(Breach { rule: Rule::Lab, at: now(), detail: format!("{error:#}") });
                After { ready: now(), calm: None }
            });
        let named = calm.as_ref().map(|calm| calm.named);
        let healed = Healed { healed, ready, named };
        let mut record = self.watch.end(&self.stage, &mut self.agents, made.faults, healed).await?;
        record.seen.spent = made.spent;
        breaches.extend(rules::judge(&record.seen));
        self.moves.extend(record.seen.moves().iter().map(|(at, _)| *at));

        let at = made.started.since(self.begin).as_secs_f64();
        let round = Round::of(plan.round, at, made.texts, &record.seen, &breaches);
        say::line(round.line());
        // Where the machine had no time for the agents, nothing that depends on time speaks against them.
        let judged = !rules::is_starved(&record.seen) || breaches.iter().any(|breach| !breach.rule.needs_time());
        let violation = (!breaches.is_empty()).then(|| {
            let timeline = story::tell(&self.stage, self.begin, &record, &breaches);
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
        let came = calm.is_some();
        if let Some(calm) = calm {
            self.holder = calm.holder;
        }
        Ok(came)
    }

    /// Makes the faults and heals them, each at its time. What the lab refuses is a breach of its own rule.
    async fn make(&mut self, casts: &[Cast]) -> Result<(Vec<Happened>, Vec<Breach>)> {
        let began = now();
        let mut steps: Vec<(Duration, usize, bool)> = Vec::new();
        for (i, cast) in casts.iter().enumerate() {
            steps.push((cast.order.after, i, true));
            steps.push((cast.order.after + cast.order.lasts, i, false));
        }
        // A fault begins before it ends, also when it is over at once.
        steps.sort_by_key(|(at, i, begins)| (*at, *i, !begins));
        let mut faults: Vec<Option<Happened>> = vec![None; casts.len()];
        let mut breaches = Vec::new();
        for (at, i, begins) in steps {
            self.stage.until(began + at).await;
            self.agents.check(&self.stage)?;
            let cast = &casts[i];
            let refused = |error: anyhow::Error| {
                let detail = format!("{} {}: {error:#}", cast.text(), if begins { "begins" } else { "ends" });
                Breach { rule: Rule::Lab, at: now(), detail }
            };
            if begins {
                let from = now();
                match cast.begin(&mut self.stage, &mut self.agents).await {
                    Ok(true) => faults[i] = Some(happened(cast, &self.holder, from)),
                    Ok(false) => {}
                    Err(error) => breaches.push(refused(error)),
                }
            } else if let Some(fault) = &mut faults[i] {
                match cast.end(&mut self.stage, &mut self.agents).await {
                    Ok(to) => fault.to = to,
                    Err(error) => breaches.push(refused(error)),
                }
            }
        }
        Ok((faults.into_iter().flatten().collect(), breaches))
    }

    /// Whether the witness may not decide in this round. As a rule it may: all agents are restarted then, and count anew.
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
        let made = Made { started, texts, faults: vec![fault], breaches: Vec::new(), spent: false, counts: false };
        let came = self.judge(plan, made, report).await?;
        ensure!(came, "no calm after all agents were restarted; {}", self.stage.logs());
        self.moves.clear();
        Ok(false)
    }

    /// Restarts all agents.
    async fn afresh(&mut self) -> Result<()> {
        act::upgrade(&mut self.stage, &mut self.agents).await
    }

    /// From a state that did not heal by itself to a sound one; nothing of it is judged.
    async fn settle(&mut self, from: Time) -> Result<()> {
        calm::restore(&mut self.stage)?;
        let calm = calm::come(&self.stage, &self.watch.prober, SETTLED + LATE).await?;
        let calm =
            calm.calm.with_context(|| format!("no calm after all agents were restarted; {}", self.stage.logs()))?;
        let healed = Healed { healed: from, ready: from, named: None };
        self.watch.end(&self.stage, &mut self.agents, Vec::new(), healed).await?;
        self.holder = calm.holder;
        self.moves.clear();
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
    /// Whether they are of the plan.
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
