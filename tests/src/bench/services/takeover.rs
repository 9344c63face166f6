//! A thousand VIPs of a dead node are put on another one and announced, beside the floor: the same by one datagram of
//! netlink and one call that sends all frames. Both as the kernel and the segment tell it: from the first address that is
//! there to the last VIP's first announcement.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use mooring_agent::core::time::Time;
use serde_json::json;

use super::super::stats::{Figure, Statistic};
use super::super::{Order, some};
use super::many::Many;
use super::raw;
use crate::observe::addresses::{Addresses, Change};
use crate::observe::now;
use crate::observe::tap::Tap;

/// VIPs of the node.
const VIPS: usize = 1_000;
/// Watchers have to have heard it.
const SETTLED: Duration = Duration::from_secs(8);
/// Longer than a session lives without being renewed.
const LIMIT: Duration = Duration::from_mins(1);
/// How often the floor is measured.
const FLOORS: usize = 5;

/// The ratio, and what it is of.
pub async fn measure(order: &Order) -> Result<Vec<Figure>> {
    let (mut ours, mut floors, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..order.runs {
        let logs = tempfile::tempdir()?.keep();
        // The third is a witness only.
        let notes = json!({"mooring.dev/preferred-nodes": "w1=100", "mooring.dev/node-selector": "!witness"});
        let mut many = Many::up(order, &logs, 3, VIPS, &notes).await?;
        let label = json!({"metadata": {"labels": {"witness": ""}}});
        many.field.server.merge("/api/v1/nodes/w3", &label).await?;
        many.carried(Some("w1")).await?;
        tokio::time::sleep(SETTLED).await;

        let floor = floor(&many).await?;
        let (addresses, tap) = observers(&many)?;
        let crash = many.field.crash("w1")?;
        let took = took(&many, &addresses, &tap, crash).await.with_context(|| many.field.logs())?;
        ratios.push(took.as_secs_f64() / floor.as_secs_f64());
        ours.push(took);
        floors.push(floor);
    }
    let name = "services-takeover-ratio";
    Ok(vec![
        some(Figure::new(name, "", &ratios), name)?.goal(Statistic::Max, 1.5),
        some(Figure::of_times("services-takeover", &ours), "services-takeover")?,
        some(Figure::of_times("services-takeover-floor", &floors), "services-takeover-floor")?,
    ])
}

/// The median of some, with addresses that no VIP has, on the node that is going to take the VIPs.
async fn floor(many: &Many) -> Result<Duration> {
    let mut times = Vec::new();
    for _ in 0..FLOORS {
        let others: Vec<IpAddr> = (0..VIPS).map(|n| super::many::vip(2 * VIPS + n)).collect();
        let place = many.field.lab().netns("w2")?;
        let mut addresses = Addresses::of(&others);
        addresses.watch("w2", &place)?;
        let tap = Tap::start(&many.field.lab().netns("client")?, &[])?;
        let begin = now();
        let these = others.clone();
        crate::observe::inside(&place, move || raw::put_and_announce("eth0", &these))?;
        times.push(between(&others, &addresses, &tap, begin).await?);
        crate::observe::inside(&place, move || raw::remove("eth0", &others))?;
    }
    times.sort_unstable();
    times.get(FLOORS / 2).copied().context("no floor")
}

fn observers(many: &Many) -> Result<(Addresses, Tap)> {
    let mut addresses = Addresses::of(&many.vips);
    addresses.watch("w2", &many.field.lab().netns("w2")?)?;
    Ok((addresses, Tap::start(&many.field.lab().netns("client")?, &[])?))
}

async fn took(many: &Many, addresses: &Addresses, tap: &Tap, crash: Time) -> Result<Duration> {
    between(&many.vips, addresses, tap, crash).await
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
