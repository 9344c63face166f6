//! What the figures are compared with: a move by hand, and keepalived, in a lab without a cluster.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Result;

use super::Order;
use super::floor::{self as by_hand, Host};
use super::keepalived::{self as vrrp, End};
use super::stats::Figure;
use crate::host::Netns;
use crate::lab::{Lab, Shape};
use crate::observe::echo;
use crate::progress;

/// The interface of a host on the segment.
const INTERFACE: &str = "eth0";

/// A move by hand.
pub(super) async fn floor(order: &Order) -> Result<Vec<Figure>> {
    let lab = Lab::up(Shape::segment()).await?;
    let (one, two, client) = (lab.netns("cp1")?, lab.netns("cp2")?, lab.netns("client")?);
    let (one, two) = (host("cp1", &one), host("cp2", &two));
    let times = by_hand::floor([&one, &two], &client, vip(&lab), order.runs).await?;
    Ok(vec![Figure::of_times("floor", &times)?])
}

/// keepalived's failover, by default and tuned, and its hand-over. Nothing where it is not installed.
pub(super) async fn keepalived(order: &Order) -> Result<Vec<Figure>> {
    let Some(program) = vrrp::installed() else {
        progress::line("keepalived is not installed: left out");
        return Ok(Vec::new());
    };
    let mut figures = Vec::new();
    for (name, end, advert) in [
        ("keepalived-failover", End::Crash, Duration::from_secs(1)),
        ("keepalived-failover-tuned", End::Crash, Duration::from_millis(100)),
        ("keepalived-handover", End::Terminate, Duration::from_secs(1)),
    ] {
        let lab = Lab::up(Shape::segment()).await?;
        let (one, two, three) = (lab.netns("cp1")?, lab.netns("cp2")?, lab.netns("cp3")?);
        let hosts = [host("cp1", &one), host("cp2", &two), host("cp3", &three)];
        let places = (lab.segment().switch(), &lab.netns("client")?);
        let runs = vrrp::measure(&program, &hosts, places, vip(&lab), (end, advert, order.runs)).await?;
        let times: Vec<Duration> = runs.iter().map(|run| run.outage).collect();
        figures.push(Figure::of_times(name, &times)?);
    }
    Ok(figures)
}

fn vip(lab: &Lab) -> SocketAddr {
    SocketAddr::new(lab.vip(), echo::PORT)
}

fn host<'a>(name: &'a str, place: &'a Netns) -> Host<'a, Netns> {
    Host { name, place, interface: INTERFACE, port: name }
}
