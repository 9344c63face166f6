//! The demo's act about Services: exposed, answered, and still answered when the node with its VIP is dead.

use std::io::Stdout;
use std::net::SocketAddr;

use anyhow::{Result, ensure};
use serde_json::json;

use super::PATIENCE;
use crate::ipam::table::{get, set};
use crate::observe::now;
use crate::report::{Report, Tone};
use crate::rig::traffic::{Programs, QUESTION, TrafficRig};
use crate::traffic::{Protocol, Stream};

const PORT: u16 = 80;

/// Brings up three workers with kube-proxy and a small web server each, on a lab of its own.
///
/// # Errors
/// The lab's, or a Service gets no address or is not answered.
pub async fn act(report: &mut Report<Stdout>) -> Result<()> {
    let logs = tempfile::tempdir()?;
    let mut rig =
        TrafficRig::with(logs.path(), Programs::built().await?, 3, &json!({"cidr-global": "10.77.0.200/32"})).await?;
    report.event(Tone::Good, "three workers with kube-proxy; kube-vip's ConfigMap says cidr-global: 10.77.0.200/32");
    tokio::time::sleep(std::time::Duration::from_secs(3)).await;
    rig.backends("web", &["w1", "w2", "w3"]).await?;
    let begin = now();
    rig.expose("web", "Cluster", &[(Protocol::Tcp, PORT)]).await?;
    report.detail("$ kubectl expose deployment web --type=LoadBalancer --port=80");
    show(report, &rig).await?;
    let to = SocketAddr::new(rig.external_ip("web").await?, PORT);
    let answer = rig.answered(Protocol::Tcp, to, |_| true).await?;
    report.event(Tone::Good, &format!("{to} answers {} ms after it was exposed", now().since(begin).as_millis()));
    show(report, &rig).await?;
    report.detail(&format!("$ curl http://{}/\n{} sees {}", to.ip(), answer.backend, answer.sees));
    let holder = rig.workers.settled(to.ip()).await?;
    let others: Vec<String> = rig.workers.nodes.iter().filter(|node| **node != holder).cloned().collect();
    rig.backends("web", &others.iter().map(String::as_str).collect::<Vec<_>>()).await?;
    rig.answered(Protocol::Tcp, to, |answer| answer.backend != holder).await?;
    tokio::time::sleep(std::time::Duration::from_secs(3)).await;

    let stream = Stream::start(&rig.client()?, Protocol::Tcp, to, QUESTION)?;
    let crash = rig.workers.crash(&holder)?;
    report.event_at(crash, Tone::Fault, &format!("{holder}, which carries {}, loses its power", to.ip()));
    let deadline = now() + PATIENCE;
    let back = loop {
        if let Some(one) = stream.asked().into_iter().find(|one| one.at > crash && one.answer.is_ok()) {
            break one.at;
        }
        ensure!(now() < deadline, "nobody answers any more; {}", rig.logs());
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    };
    let next = rig.workers.settled_but(to.ip(), &[&holder]).await?;
    report.event_at(back, Tone::Good, &format!("{next} answers: {} ms without the VIP", back.since(crash).as_millis()));
    drop(stream);
    rig.allocator.stop().await
}

async fn show(report: &mut Report<Stdout>, rig: &TrafficRig) -> Result<()> {
    let mut lines = get(&rig.allocators.server, "/api/v1/namespaces/default/services").await?;
    lines.retain(|line| line.first().is_some_and(|name| name != "kubernetes"));
    report.detail(&format!("$ kubectl get service\n{}", set(&lines)));
    Ok(())
}
