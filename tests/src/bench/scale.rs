//! What agents ask of one API server, and what they are told by it, as their number grows: nothing happens, a node dies, the API
//! server restarts, all agents restart.
//!
//! Requests are not enough to count: what one agent writes, the API server may deliver to all.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context as _, Result};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use http::Request;
use serde_json::json;

use super::stats::{Figure, Statistic};
use super::{Order, resident};
use crate::agents::{AGENT, AgentBinary};
use crate::host::Process;
use crate::lab::Shape;
use crate::observe::now;
use crate::progress;
use crate::rig::worker::WorkerRig;

/// The numbers of nodes, when nobody says.
const NODES: [u8; 3] = [10, 20, 40];
/// A Node names so many images, as kubelets report them: 50, which makes some 15 kB.
const IMAGES: usize = 50;
/// A kubelet writes the status of its node this often if nothing changes (`nodeStatusReportFrequency`).
const HEARTBEAT: Duration = Duration::from_mins(5);
/// Start and first lists are no part of what is counted.
const SETTLED: Duration = Duration::from_secs(30);
/// What happens while nothing does is counted for so long.
const IDLE: Duration = Duration::from_mins(1);
/// What follows a fault is counted for so long.
const AFTER: Duration = Duration::from_mins(1);
/// Between the restarts of two agents.
const ROLLING: Duration = Duration::from_secs(1);
/// How long all sessions may take to begin.
const LIMIT: Duration = Duration::from_mins(5);

/// What the API server has counted since its start.
#[derive(Clone, Debug, Default)]
struct Counted {
    requests: f64,
    /// The same by verb and kind.
    kinds: BTreeMap<String, f64>,
    events: f64,
    /// Of the events.
    event_bytes: f64,
    /// Of the answers, lists included.
    answer_bytes: f64,
    /// Seconds on a processor.
    cpu: f64,
}

impl Counted {
    fn since(mut self, before: &Self) -> Self {
        for (kind, count) in &mut self.kinds {
            *count -= before.kinds.get(kind).copied().unwrap_or_default();
        }
        Self {
            requests: self.requests - before.requests,
            kinds: self.kinds,
            events: self.events - before.events,
            event_bytes: self.event_bytes - before.event_bytes,
            answer_bytes: self.answer_bytes - before.answer_bytes,
            cpu: self.cpu - before.cpu,
        }
    }

    /// Lists of anything, by anybody: the lab's own are a few.
    fn lists(&self) -> f64 {
        self.kinds.iter().filter(|(kind, _)| kind.starts_with("LIST ")).map(|(_, count)| count).sum()
    }

    fn values(&self) -> [(&'static str, &'static str, f64); 6] {
        [
            ("requests", "", self.requests),
            ("lists", "", self.lists()),
            ("events", "", self.events),
            ("event-bytes", "kB", self.event_bytes / 1_000.0),
            ("answer-bytes", "kB", self.answer_bytes / 1_000.0),
            ("api-cpu", "s", self.cpu),
        ]
    }

    /// Tells people which requests there were.
    fn tell(&self, phase: &str) {
        for (kind, count) in self.kinds.iter().filter(|(_, count)| **count > 0.0) {
            progress::line(format_args!("  {phase}: {count:6.0} {kind}"));
        }
    }

    /// Reads the API server's metrics.
    async fn read(rig: &WorkerRig) -> Result<Self> {
        let request = Request::get("/metrics").body(Vec::new())?;
        let text = rig.server.client.request_text(request).await.context("read the API server's metrics")?;
        let mut counted = Self::default();
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let (series, value) = line.rsplit_once(' ').unwrap_or_default();
            let name = series.split('{').next().unwrap_or_default();
            let sum = match name {
                "apiserver_request_total" => &mut counted.requests,
                "apiserver_watch_events_total" => &mut counted.events,
                "apiserver_watch_events_sizes_sum" => &mut counted.event_bytes,
                "apiserver_response_sizes_sum" => &mut counted.answer_bytes,
                "process_cpu_seconds_total" => &mut counted.cpu,
                _ => continue,
            };
            let value = value.parse::<f64>().with_context(|| line.to_owned())?;
            if name == "apiserver_request_total" {
                let of = |label: &str| label_of(series, label).unwrap_or_default();
                if of("resource").is_empty() {
                    // Its health: the lab asks for it all the time, and no agent does while nothing happens.
                    continue;
                }
                let kind = format!("{} {} {}", of("verb"), of("resource"), of("subresource"));
                *counted.kinds.entry(kind.trim_end().to_owned()).or_default() += value;
            }
            *sum += value;
        }
        Ok(counted)
    }
}

/// The value of a label in the name of a series.
fn label_of<'a>(series: &'a str, label: &str) -> Option<&'a str> {
    let (_, from) = series.split_once(&format!("{label}=\""))?;
    from.split_once('"').map(|(value, _)| value)
}

/// What may not grow faster than the nodes do.
const LINEAR: [&str; 7] = [
    "idle-requests",
    "idle-events",
    "idle-event-bytes",
    "idle-api-cpu",
    "crash-events",
    "crash-requests",
    "api-restart-lists",
];

/// The values of one phase or agent, by name and number of nodes.
type Found = BTreeMap<(String, &'static str), BTreeMap<u8, Vec<f64>>>;

/// All phases with each number of nodes; for each value the exponent of its growth.
pub(super) async fn measure(order: &Order) -> Result<Vec<Figure>> {
    let numbers = if order.nodes.is_empty() { NODES.to_vec() } else { order.nodes.clone() };
    let mut found = Found::new();
    for nodes in numbers.iter().copied() {
        for _ in 0..order.runs {
            one(order, nodes, &mut found).await.with_context(|| format!("{nodes} nodes"))?;
        }
    }
    let mut figures = Vec::new();
    for ((name, unit), of) in &found {
        for (nodes, values) in of {
            figures.push(Figure::new(&format!("scale-{name} n={nodes}"), unit, values)?);
        }
        if let Some(exponent) = exponent(of) {
            let figure = Figure::new(&format!("scale-{name} exponent"), "", &[exponent])?;
            figures.push(if LINEAR.contains(&name.as_str()) { figure.goal(Statistic::Max, 1.1) } else { figure });
        }
    }
    Ok(figures)
}

async fn one(order: &Order, nodes: u8, found: &mut Found) -> Result<()> {
    let logs = tempfile::tempdir()?;
    let shape = Shape::api_servers(1).with_agent(AgentBinary::Path(order.agent.clone()));
    let mut rig = WorkerRig::on(logs.path(), shape, nodes, 0, true).await?;
    let statuses = rig.nodes.iter().map(|node| kubelet(&rig, node, 0));
    stream::iter(statuses).buffer_unordered(8).try_collect::<()>().await?;
    rig.start_agents_apart(&WorkerRig::options()).await?;
    rig.sessions(LIMIT).await?;
    tokio::time::sleep(SETTLED).await;

    let mut add = |name: &str, unit: &'static str, value: f64| {
        found.entry((name.to_owned(), unit)).or_default().entry(nodes).or_default().push(value);
    };
    let (before, ran) = (Counted::read(&rig).await?, agents(&rig, Process::ran)?);
    let begun = now();
    // The kubelets' heartbeats of that time, evenly.
    let beats = u32::from(nodes) * u32::try_from(IDLE.as_secs())? / u32::try_from(HEARTBEAT.as_secs())?;
    for (beat, node) in (1..=beats.max(1)).zip(&rig.nodes) {
        kubelet(&rig, node, beat).await?;
        tokio::time::sleep(IDLE / beats.max(1)).await;
    }
    let (after, ran_after) = (Counted::read(&rig).await?, agents(&rig, Process::ran)?);
    let seconds = now().since(begun).as_secs_f64();
    let idle = after.since(&before);
    idle.tell("while nothing happens");
    for (name, unit, value) in idle.values() {
        let unit = if unit.is_empty() {
            "1/s"
        } else if unit == "kB" {
            "kB/s"
        } else {
            "s/s"
        };
        add(&format!("idle-{name}"), unit, value / seconds);
    }
    for (before, after) in ran.iter().zip(&ran_after) {
        add("agent-cpu", "%", after.saturating_sub(*before).as_secs_f64() / seconds * 100.0);
    }
    for node in &rig.nodes {
        add("agent-rss", "MB", resident(&rig.lab().process(node, AGENT)?)?);
    }

    let before = Counted::read(&rig).await?;
    let last = rig.nodes.last().cloned().context("no node")?;
    rig.crash(&last)?;
    tokio::time::sleep(AFTER).await;
    let crash = Counted::read(&rig).await?.since(&before);
    crash.tell("a crash");
    for (name, unit, value) in crash.values() {
        add(&format!("crash-{name}"), unit, value);
    }
    rig.revive(&last)?;
    rig.sessions(LIMIT).await?;
    tokio::time::sleep(SETTLED).await;

    let cluster = rig.lab().cluster()?;
    let api = cluster.api("cp1")?;
    api.terminate()?;
    api.ended(LIMIT).await?;
    api.start()?;
    cluster.api_ready(&rig.lab().host("cp1")?).await?;
    tokio::time::sleep(AFTER).await;
    // Its counts begin anew with it.
    let api_restart = Counted::read(&rig).await?;
    api_restart.tell("the API server's restart");
    for (name, unit, value) in api_restart.values() {
        add(&format!("api-restart-{name}"), unit, value);
    }

    let before = Counted::read(&rig).await?;
    for node in &rig.nodes {
        let agent = rig.lab().process(node, AGENT)?;
        agent.terminate()?;
        agent.ended(LIMIT).await?;
        rig.start_agent(node, &WorkerRig::options())?;
        tokio::time::sleep(ROLLING).await;
    }
    tokio::time::sleep(SETTLED).await;
    let agents_restart = Counted::read(&rig).await?.since(&before);
    agents_restart.tell("restarts of all agents");
    for (name, unit, value) in agents_restart.values() {
        add(&format!("agents-restart-{name}"), unit, value);
    }
    progress::line(format_args!("  {nodes} nodes: done"));
    Ok(())
}

/// The status of a node, as a kubelet writes it.
async fn kubelet(rig: &WorkerRig, node: &str, beat: u32) -> Result<()> {
    let image = |n: usize| {
        let digest = format!("{n:064x}");
        json!({"names": [format!("example.com/team/image-{n}@sha256:{digest}"), format!("example.com/team/image-{n}:v1.{n}.0")],
            "sizeBytes": 12_345_678 + n})
    };
    let time = format!("2026-01-01T{:02}:{:02}:{:02}Z", beat / 3600 % 24, beat / 60 % 60, beat % 60);
    let status = json!({"status": {
        "images": (0..IMAGES).map(image).collect::<Vec<_>>(),
        "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "kubelet is posting ready status",
            "lastHeartbeatTime": time, "lastTransitionTime": "2026-01-01T00:00:00Z"}],
    }});
    rig.server.merge(&format!("/api/v1/nodes/{node}/status"), &status).await?;
    Ok(())
}

/// Of each agent.
fn agents<T>(rig: &WorkerRig, what: impl Fn(&Process) -> Option<T>) -> Result<Vec<T>> {
    let of = |node: &String| {
        what(&rig.lab().process(node, AGENT)?).with_context(|| format!("the agent of {node} does not run"))
    };
    rig.nodes.iter().map(of).collect()
}

/// The slope of the logarithms: 1 for what grows as the nodes do, 2 for what grows as their square. None: too few numbers.
fn exponent(of: &BTreeMap<u8, Vec<f64>>) -> Option<f64> {
    let mean = |values: &[f64]| Some(values.iter().sum::<f64>() / f64::from(u32::try_from(values.len()).ok()?));
    let points = of.iter().filter_map(|(nodes, values)| Some((f64::from(*nodes).ln(), mean(values)?)));
    let points: Vec<(f64, f64)> = points.filter(|(_, y)| *y > 0.0).map(|(x, y)| (x, y.ln())).collect();
    if points.len() < 2 {
        return None;
    }
    let count = f64::from(u32::try_from(points.len()).ok()?);
    let (x, y) = points.iter().fold((0.0, 0.0), |(sum_x, sum_y), (x, y)| (sum_x + x, sum_y + y));
    let (x, y) = (x / count, y / count);
    let over: f64 = points.iter().map(|(a, b)| (a - x) * (b - y)).sum();
    let under: f64 = points.iter().map(|(a, _)| (a - x).powi(2)).sum();
    Some(over / under)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_is_read() {
        let series = r#"apiserver_request_total{code="200",resource="leases",subresource="status",verb="PATCH"}"#;
        assert_eq!(label_of(series, "verb"), Some("PATCH"));
        assert_eq!(label_of(series, "component"), None);
    }

    #[test]
    fn the_exponent_is_that_of_the_growth() {
        let grown = |power: i32| BTreeMap::from([10_u8, 20, 40].map(|n| (n, vec![3.0 * f64::from(n).powi(power)])));
        for power in [0, 1, 2] {
            let found = exponent(&grown(power)).expect("there are three points");
            assert!((found - f64::from(power)).abs() < 1e-9, "{found}");
        }
        assert_eq!(exponent(&BTreeMap::from([(10, vec![1.0])])), None);
    }
}
