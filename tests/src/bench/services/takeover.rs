//! A thousand VIPs are put on and announced, beside the floor: the same by one datagram of netlink and one call that sends
//! all frames. The agent was killed, its addresses are gone, and it is started again: the records name this node, so
//! nothing but the datapath stands between it and its VIPs. Both as the kernel and the segment tell it: from the
//! first address that is there to the last VIP's first announcement.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use mooring_agent::core::time::Time;
use serde_json::json;

use super::super::Order;
use super::super::stats::{Figure, Statistic};
use super::many::Many;
use super::raw;
use crate::observe::addresses::{Addresses, Change};
use crate::observe::tap::Tap;
use crate::observe::{inside, now};

/// VIPs of the node.
const VIPS: usize = 1_000;
/// What follows the first putting is over.
const SETTLED: Duration = Duration::from_secs(8);
/// For the agent's start and all it does.
const LIMIT: Duration = Duration::from_mins(1);
/// How often the floor is measured.
const FLOORS: usize = 5;

/// The ratio, and what it is of.
pub async fn measure(order: &Order) -> Result<Vec<Figure>> {
    let (mut ours, mut floors, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..order.runs {
        let logs = tempfile::tempdir()?;
        let many = Many::up(order, logs.path(), 1, VIPS, &json!({})).await?;
        many.carried(None).await?;
        tokio::time::sleep(SETTLED).await;

        let agent = many.workers.lab().agent("w1")?;
        agent.kill()?;
        agent.process()?.ended(LIMIT).await?;
        let place = many.workers.lab().netns("w1")?;
        let vips = many.vips.clone();
        inside(&place, move || raw::remove("eth0", &vips))?;
        let floor = floor(&many).await?;

        let (addresses, tap) = observers(&many)?;
        let begin = now();
        agent.start_again()?;
        let took = between(&many.vips, &addresses, &tap, begin).await.with_context(|| many.workers.logs())?;
        ratios.push(took.as_secs_f64() / floor.as_secs_f64());
        ours.push(took);
        floors.push(floor);
    }
    let name = "services-takeover-ratio";
    Ok(vec![
        Figure::new(name, "", &ratios)?.goal(Statistic::Max, 1.5),
        Figure::of_times("services-takeover", &ours)?,
        Figure::of_times("services-takeover-floor", &floors)?,
    ])
}

/// The median of some.
async fn floor(many: &Many) -> Result<Duration> {
    let mut times = Vec::new();
    for _ in 0..FLOORS {
        let (addresses, tap) = observers(many)?;
        let place = many.workers.lab().netns("w1")?;
        let (put, removed) = (many.vips.clone(), many.vips.clone());
        let begin = now();
        inside(&place, move || raw::put_and_announce("eth0", &put))?;
        times.push(between(&many.vips, &addresses, &tap, begin).await?);
        inside(&place, move || raw::remove("eth0", &removed))?;
    }
    times.sort_unstable();
    times.get(FLOORS / 2).copied().context("no floor")
}

fn observers(many: &Many) -> Result<(Addresses, Tap)> {
    let mut addresses = Addresses::of(&many.vips);
    addresses.watch("w1", &many.workers.lab().netns("w1")?)?;
    Ok((addresses, Tap::start(&many.workers.lab().netns("client")?, &[])?))
}

/// From the first address to the last VIP's first announcement.
async fn between(vips: &[IpAddr], addresses: &Addresses, tap: &Tap, from: Time) -> Result<Duration> {
    let deadline = from + LIMIT;
    loop {
        let mut first: BTreeMap<IpAddr, Time> = BTreeMap::new();
        for frame in tap.between(from, deadline, |frame| frame.announces(frame.sender)) {
            first.entry(frame.sender).or_insert(frame.at);
        }
        first.retain(|vip, _| vips.contains(vip));
        if first.len() == vips.len() {
            let events = addresses.events();
            let put = events.iter().filter(|one| one.at >= from && one.change == Change::Added).map(|one| one.at).min();
            let (put, last) = (put.context("no address came")?, first.values().max().copied().unwrap_or(from));
            return Ok(last.since(put));
        }
        ensure!(now() < deadline, "{} of {} are announced", first.len(), vips.len());
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}
