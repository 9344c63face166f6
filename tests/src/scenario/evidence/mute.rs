//! A node that hears everything, and is not heard: its probes do not get out, so that nobody answers them.

use std::time::Duration;

use anyhow::{Result, ensure};
use mooring_agent::core::mac::Mac;
use mooring_agent::core::time::Time;

use super::busy;
use crate::agents::AgentOptions;
use crate::fault;
use crate::lab::{Lab, Shape};
use crate::observe::now;
use crate::observe::tap::{Frame, Kind};
use crate::runner::{Ctx, Test};
use crate::scenario::rig::{SOON, ScenarioRig, pass, says};
use crate::scenario::story;

/// What the agent of a node says that took a VIP by what the segment proved, and is not heard itself.
const SAYS_MUTE: &str = "reason=\"NotHeard\"";

/// A node that notices that it is mute gives its VIPs back within this time.
const GIVEN_BACK: Duration = Duration::from_secs(20);

/// The stories of this theme.
pub fn all() -> Vec<Test<()>> {
    vec![
        story!("evidence", candidate, "mute-candidate-takes-nothing", 3).counting(),
        story!("evidence", candidate_of_arp, "candidate-mute-by-arp-alone-takes-nothing", 3).counting(),
        story!("evidence", after_take, "mute-after-the-take-gives-back", 4),
    ]
}

/// Neither its ARP nor its NDP gets out.
async fn candidate(ctx: &mut Ctx<()>) -> Result<()> {
    takes_nothing(ctx, 30, Lab::mute).await
}

/// Its ARP does not get out, and its NDP does: third parties answer it by IPv6, which says nothing about ARP.
async fn candidate_of_arp(ctx: &mut Ctx<()>) -> Result<()> {
    takes_nothing(ctx, 15, |lab, host| lab.let_speak(host, &[])).await
}

/// The holder lives. A candidate that cannot ask hears what the gateway and the third node say to others.
async fn takes_nothing(
    ctx: &mut Ctx<()>,
    seconds: u64,
    mute: impl FnOnce(&Lab, &str) -> Result<Time, fault::Error>,
) -> Result<()> {
    let (rig, holder) = ScenarioRig::usual(ctx).await?;
    rig.all_take_part().await?;
    let unheard = rig.other_than(&[&holder])?;
    let third = rig.other_than(&[&holder, &unheard])?;
    let prober = rig.prober()?;
    prober.answer_after(now(), None, SOON).await?;
    let talk = busy(&rig.lab, &[&third])?;
    let from = mute(&rig.lab, &unheard)?;
    ctx.note(&format!("{unheard} is mute"));
    pass(seconds).await;
    drop(talk);
    rig.still(&holder, from)?;
    rig.nothing_lost(&prober.finish()?)
}

/// The holder crashes, and a candidate takes over, rightly: others have just answered it. It is not heard from then on. Another
/// node must have the VIP.
async fn after_take(ctx: &mut Ctx<()>) -> Result<()> {
    // The last window is open long enough to mute the candidate in it, once it has its answers.
    let options = AgentOptions::default().arg("--witness-interval").arg("500ms");
    let (mut rig, first) = ScenarioRig::elected(ctx, Shape::external(), options).await?;
    rig.all_take_part().await?;
    let second = rig.other_than(&[&first])?;
    let third = rig.other_than(&[&first, &second])?;
    // It takes nothing itself meanwhile, and never hears the second one answer for the VIP.
    rig.lab.mute(&third)?;
    pass(3).await;
    let (vip, mac) = (rig.lab.vip(), rig.lab.host(&second)?.mac());
    let crashed = rig.crash(&first)?;
    let last = |frame: &Frame| {
        frame.kind == Kind::ArpRequest
            && (frame.source, frame.destination, frame.target) == (mac, Mac::BROADCAST, vip)
            && frame.sender != vip
    };
    rig.tap.frame("the last probe, to everybody", crashed, SOON, last).await?;
    let at = rig.lab.mute(&second)?;
    let took = rig.successor(&first, SOON).await?;
    ensure!(took == second, "{took} took it, and not {second}; {}", rig.logs());
    ctx.note(&format!("{second} is mute, and took it {:?} after that", now().since(at)));
    rig.lab.unmute(&third)?;
    let deadline = now() + GIVEN_BACK;
    while !rig.timeline().holders_at(now()).contains(third.as_str()) {
        ensure!(now() < deadline, "{second} is mute, and keeps the VIP; {}", rig.logs());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    ctx.note(&format!("{third} took it {:?} after {second} turned mute", now().since(at)));
    rig.prober()?.answer_after(now(), Some(&third), SOON).await?;
    says(&rig.lab.agent(&second)?.process()?, SAYS_MUTE).await?;
    // It takes nothing back.
    let from = now() + Duration::from_secs(2);
    pass(7).await;
    rig.still(&third, from)
}
