//! `cargo lab demo`: the main jobs, for a person to watch.

mod claims;
mod endpoint;
mod services;

use std::time::Duration;

use anyhow::Result;
use mooring_agent::core::time::Time;

use crate::agents::AgentOptions;
use crate::lab::Shape;
use crate::observe::https::{self, Attempt};
use crate::observe::now;
use crate::observe::probes::Probes;
use crate::observe::timeline::longest;
use crate::report::{Report, Tone};
use crate::rig::control_plane::ControlPlaneRig;
use crate::runner::Skip;

/// How long a fail-over may take before the demo gives up.
const PATIENCE: Duration = Duration::from_secs(40);
/// How long the API servers are away.
const OUTAGE: Duration = Duration::from_secs(20);

/// Brings the lab up, shows an election, a crash, a planned hand-over, an API outage, claims and a Service, and takes it down.
///
/// # Errors
/// The lab's, or the VIP did not move.
pub async fn run() -> Result<()> {
    let mut report = Report::to_stdout();
    report.title("A cluster's control plane: three API servers, one etcd, a client");
    let mut rig = ControlPlaneRig::up(Shape::external(), AgentOptions::default()).await?;
    rig.lab.agent_binary()?;
    crate::assets::allocator(crate::assets::Profile::Dev)?;
    report.event(Tone::Good, "three API servers answer");
    let mut acts = vec![];

    report.title("Election");
    let begun = now();
    rig.start_agents()?;
    let holder = rig.holder().await?;
    let vip = rig.lab.vip();
    let prober = rig.prober()?;
    let (first, _) = prober.answer_after(begun, None, PATIENCE).await?;
    report
        .event(Tone::Good, &format!("{holder} holds {vip}, {} after the agents were started", ms(first.since(begun))));
    let https = rig.https()?;
    https.success_after(begun, PATIENCE).await?;
    report.event(Tone::Good, &format!("an HTTPS client reads https://{vip}:6443/readyz"));
    rest().await;

    report.title("The holder's host loses its power");
    let crashed = rig.crash(&holder)?;
    report.event_at(crashed, Tone::Fault, &format!("{holder} is dead"));
    let (back, next) = prober.answer_after(crashed, None, PATIENCE).await?;
    report.event_at(back, Tone::Good, &format!("{next} answers: {} without the VIP", ms(back.since(crashed))));
    let api = https.success_after(crashed, PATIENCE).await?;
    report.event_at(api, Tone::Good, "the HTTPS client reads on");
    rest().await;
    acts.push(Act::new("crash", &holder, &next, crashed));
    rig.revive(&holder)?;
    report.event(Tone::Plain, &format!("{holder} has its power back"));
    rig.lab.cluster()?.ready().await?;
    rest().await;

    report.title("The holder is asked to end (SIGTERM)");
    let asked = rig.lab.agent(&next)?.terminate()?;
    let last = rig.successor(&next, PATIENCE).await?;
    let (moved, _) = prober.answer_after(asked, Some(&last), PATIENCE).await?;
    report.event_at(moved, Tone::Good, &format!("{last} has taken over, {} later", ms(moved.since(asked))));
    rest().await;
    acts.push(Act::new("planned hand-over", &next, &last, asked));
    rig.lab.agent(&next)?.start_again()?;
    rest().await;

    report.title(&format!("All API servers are away for {} s", OUTAGE.as_secs()));
    let away = rig.lab.stop_all_apis()?;
    report.event_at(away, Tone::Fault, "every API server is dead; nobody can renew a Lease");
    rig.until(away + OUTAGE).await;
    rig.lab.start_all_apis()?;
    rig.lab.cluster()?.ready().await?;
    report.event(Tone::Good, "they are back");
    rest().await;
    let holder = rig.holder().await?;
    report.event(Tone::Good, &format!("{holder} still holds the VIP"));
    acts.push(Act::new("API outage", &last, &holder, away));

    report.title("What it cost");
    report.table(&costs(&rig, &acts, &prober.finish()?, &https.finish()?));

    report.title("Claims get their addresses");
    claims::act(&mut report, &rig.lab).await?;
    rig.lab.down();

    self::endpoint(&mut report).await?;

    report.title("A Service of type LoadBalancer");
    match services::act(&mut report).await {
        // A machine without nft shows the rest all the same.
        Err(error) if error.is::<Skip>() => report.event(Tone::Plain, &format!("left out: {error}")),
        other => other?,
    }
    Ok(())
}

/// Shows a Cluster that gets its control-plane endpoint, and nothing else.
///
/// # Errors
/// The lab's, or the Cluster gets no endpoint.
pub async fn run_endpoint() -> Result<()> {
    endpoint(&mut Report::to_stdout()).await
}

async fn endpoint(report: &mut Report<std::io::Stdout>) -> Result<()> {
    report.title("A Cluster of Cluster API gets its control-plane endpoint");
    endpoint::act(report).await
}

/// Something that was done to the cluster, from then to now.
struct Act {
    what: &'static str,
    holder: String,
    from: Time,
    to: Time,
}

impl Act {
    fn new(what: &'static str, old: &str, new: &str, from: Time) -> Self {
        let holder = if old == new { old.to_owned() } else { format!("{old} -> {new}") };
        Self { what, holder, from, to: now() }
    }
}

async fn rest() {
    tokio::time::sleep(Duration::from_secs(3)).await;
}

/// A row for each act: how long nothing was heard of the VIP, packets lost, HTTPS outage, two owners.
fn costs(rig: &ControlPlaneRig, acts: &[Act], probes: &Probes, attempts: &[Attempt]) -> Vec<Vec<String>> {
    let head = ["what happened", "holder", "VIP silent", "packets lost", "HTTPS away", "two owners"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    for act in acts {
        let seen = probes.between(act.from, act.to);
        let silence = seen.outages().iter().map(|gap| gap.to.since(gap.from)).max().unwrap_or_default();
        let https = https::outages(attempts).into_iter().filter(|o| o.to > act.from && o.from < act.to);
        let https = https.map(|o| o.to.since(o.from)).max().unwrap_or_default();
        let owners = longest(&rig.timeline().two_owners(act.from, act.to));
        rows.push(vec![
            act.what.to_owned(),
            act.holder.clone(),
            ms(silence),
            format!("{} of {}", seen.lost(), seen.all().len()),
            ms(https),
            ms(owners),
        ]);
    }
    rows
}

fn ms(time: Duration) -> String {
    format!("{} ms", time.as_millis())
}
