//! Nothing on the interface ever answers a probe. The VIP works by the Lease alone, and people must be told.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Result, ensure};

use crate::agents::AgentOptions;
use crate::host::{Host, Spec};
use crate::lab::Shape;
use crate::observe::now;
use crate::runner::{Ctx, Test};
use crate::scenario::rig::{ScenarioRig, pass};
use crate::scenario::story;

/// The reason of the Event.
const EVENT: &str = "NoProbeAnswered";
/// What `mooring-agent status` says.
const STATUS: &str = "no host on the segment answers this node's probes";
/// The line of the metric.
const METRIC: &str = "mooring_probes_answered 0";
/// Within this time all three are there.
const TOLD: Duration = Duration::from_mins(1);

/// The stories of this theme.
pub fn all() -> Vec<Test<()>> {
    vec![story!("evidence", unanswered, "no-probe-is-ever-answered", 4)]
}

async fn unanswered(ctx: &mut Ctx<()>) -> Result<()> {
    let rig = ScenarioRig::set(ctx, Shape::external(), AgentOptions::default()).await?;
    // Announcements of the VIP get through, and answers for it. No question does, and no answer for a node's own address.
    for name in rig.lab.control_planes() {
        rig.lab.let_speak_arp(&name, &[rig.lab.vip()])?;
    }
    rig.start_agents()?;
    let holder = rig.settled().await?;
    let from = now();
    let candidate = rig.lab.host(&rig.other_than(&[&holder])?)?;
    rig.event(EVENT, TOLD).await?;
    let binary = rig.lab.agent_binary()?;
    let deadline = now() + TOLD;
    loop {
        let status = candidate.start(Spec::new("status", &binary).arg("status"))?;
        status.ended(TOLD).await?;
        let (status, metrics) = (fs::read_to_string(status.log())?, metrics(&candidate)?);
        if status.contains(STATUS) && metrics.contains(METRIC) {
            break;
        }
        ensure!(now() < deadline, "status:\n{status}\nmetrics:\n{metrics}");
        pass(1).await;
    }
    rig.still(&holder, from)
}

/// What a Prometheus on the host itself reads.
fn metrics(host: &Host) -> Result<String> {
    let address = SocketAddr::from(([127, 0, 0, 1], 2112));
    let limit = Duration::from_secs(5);
    let read = host.netns().run(move || -> std::io::Result<String> {
        let mut stream = TcpStream::connect_timeout(&address, limit)?;
        stream.set_read_timeout(Some(limit))?;
        stream.write_all(b"GET /metrics HTTP/1.0\r\nHost: localhost\r\n\r\n")?;
        let mut text = String::new();
        stream.read_to_string(&mut text)?;
        Ok(text)
    });
    Ok(read?)
}
