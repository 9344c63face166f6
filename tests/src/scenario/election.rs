//! Who carries the VIP first, and how.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use mooring_agent::core::time::Time;
use mooring_agent::datapath::address::OUR_PROTO;

use super::rig::{SOON, ScenarioRig, pass, says};
use super::story;
use crate::agents::{AGENT, AgentOptions};
use crate::lab::Shape;
use crate::observe::addresses::Change;
use crate::observe::now;
use crate::runner::{Ctx, Test};

/// The stories of this theme.
pub fn all() -> Vec<Test<()>> {
    vec![
        story!("election", one_holder, "one-holder-alone-in-its-namespace", 3).quick(),
        story!("election", short_timers, "timers-5-3-1", 3),
        story!("election", bootstrap, "bootstrap-with-403", 3),
    ]
}

async fn one_holder(ctx: &mut Ctx<()>) -> Result<()> {
    let (rig, holder) = ScenarioRig::usual(ctx).await?;
    let (vip, started) = (rig.lab.vip(), now());
    let mac = rig.lab.host(&holder)?.mac();
    rig.tap.frame("an announcement", Time::from_nanos(0), SOON, |f| f.announces(vip) && f.source == mac).await?;

    // The address has our mark and lives as long as the Lease, not longer; the agent writes the address again as it
    // renews the Lease.
    for _ in 0..2 {
        let what = "the fence to move";
        let from = now();
        let moved = rig.addresses.event(what, from, Duration::from_secs(10), |e| *e.host == *holder).await?;
        ensure!(moved.change == Change::Refreshed, "{moved:?}");
        ensure!(moved.state.protocol == Some(OUR_PROTO), "IFA_PROTO is {:?}", moved.state.protocol);
        ensure!((1..=15).contains(&moved.state.valid), "valid for {} s, the Lease for 15 s", moved.state.valid);
        ensure!(moved.state.prefix == 32, "a /{}", moved.state.prefix);
    }
    let spec = rig.lease().await?.spec.context("an empty Lease")?;
    ensure!(spec.lease_duration_seconds == Some(15), "{spec:?}");
    rig.still(&holder, started)?;

    // A second agent on the holder's host waits, and the first is not affected.
    let host = rig.lab.host(&holder)?;
    let mut second = host.process(AGENT)?.spec();
    second.name = "second-agent".into();
    second.env.push(("MOORING_RUN_DIR".into(), host.dir().join("second").display().to_string()));
    second.env.push(("MOORING_METRICS".into(), String::new()));
    let second = host.start(second)?;
    says(&second, "waiting: another mooring-agent (pid ").await?;
    pass(1).await;
    rig.still(&holder, started)?;
    second.terminate()?;
    second.ended(SOON).await?;
    Ok(())
}

async fn short_timers(ctx: &mut Ctx<()>) -> Result<()> {
    let options =
        AgentOptions::default().env("vip_leaseduration", "5").env("vip_renewdeadline", "3").env("vip_retryperiod", "1");
    let (mut rig, holder) = ScenarioRig::elected(ctx, Shape::external(), options).await?;
    let from = now();
    pass(8).await;
    rig.still(&holder, from)?;
    let spec = rig.lease().await?.spec.context("an empty Lease")?;
    ensure!(spec.lease_duration_seconds == Some(5), "{spec:?}");
    rig.crash(&holder)?;
    rig.successor(&holder, SOON).await?;
    rig.never_shared(from)
}

async fn bootstrap(ctx: &mut Ctx<()>) -> Result<()> {
    let rig = ScenarioRig::set(ctx, Shape::external().unbound(), AgentOptions::default()).await?;
    let from = now();
    rig.start_agents()?;
    // As in kubeadm init: the API refuses the user at first. The VIP must be there all the same, or kubeadm waits for
    // ever.
    rig.holder().await?;
    ensure!(rig.lease().await.is_err(), "a Lease was written without rights");
    rig.lab.cluster()?.bind_admin().await?;
    rig.settled().await?;
    rig.never_shared(from)
}
