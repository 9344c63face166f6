//! A lab that stands until `lab down`: a process of its own, asked over a socket.

use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context as _, bail};
use tokio::sync::oneshot;

use super::Kind;
use super::door::{self, Door};
use crate::agents::AgentOptions;
use crate::guard;
use crate::lab::Lab;
use crate::progress;

/// The hidden word of the process that keeps a lab.
pub const WORD: &str = "__stand";

/// Brings a lab up in a process of its own, shows what it says, and returns when it stands.
pub fn up(name: &str, kind: Kind, agents: bool) -> anyhow::Result<()> {
    door::free(name)?;
    let shape = clap::ValueEnum::to_possible_value(&kind).context("no shape")?;
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["--name", name, WORD, shape.get_name()]).args(agents.then_some("--agents"));
    // A process group of its own: Ctrl-C after this is not for it. Before, its standard input ends, and so it does.
    let child = command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn();
    let mut child = child.context("cannot start the lab's process")?;
    let said = BufReader::new(child.stderr.take().context("no pipe")?);
    let mut stands = false;
    for line in said.lines() {
        let line = line?;
        if line == STANDS {
            stands = true;
            break;
        }
        progress::line(line);
    }
    if !stands {
        bail!("the lab did not come up ({})", child.wait()?);
    }
    Ok(())
}

/// The line that ends the talk with `up`.
const STANDS: &str = "__stands";

/// Keeps a lab until it is told to end.
pub async fn stand(name: &str, kind: Kind, agents: bool) -> anyhow::Result<()> {
    let work = async {
        let lab = Lab::up(kind.shape()).await?;
        if agents {
            for host in lab.control_planes() {
                lab.agent(&host)?.start(AgentOptions::default())?;
            }
        }
        anyhow::Ok(lab)
    };
    let lab = tokio::select! {
        lab = work => lab?,
        // The process that waits for this lab is gone.
        by = guard::interrupted() => bail!("interrupted by {by}"),
        () = deserted() => bail!("nobody waits for it any more"),
    };
    let mut door = Door::open(name)?;
    tell(&lab, name);
    let log = std::fs::File::create(lab.dir().join("lab.log")).context("cannot write lab.log")?;
    progress::line(STANDS);
    nix::unistd::dup2_stderr(&log).context("cannot redirect")?;
    let leave = tokio::select! {
        leave = door.keep(&lab, || lab.agent_folder().into_iter().collect()) => Some(leave?),
        _ = guard::interrupted() => None,
    };
    let folder = lab.dir().to_owned();
    lab.down();
    drop(door);
    if let Some(leave) = leave {
        leave.gone(&folder).await;
    }
    Ok(())
}

/// Waits until the process that started this one is gone. Standard input is a pipe from that process, and ends with it.
async fn deserted() {
    let (gone, is_gone) = oneshot::channel();
    std::thread::spawn(move || {
        // It sends nothing; the end, or an error, is the news.
        drop(std::io::copy(&mut std::io::stdin(), &mut std::io::sink()));
        // Nobody waits once the lab stands.
        _ = gone.send(());
    });
    drop(is_gone.await);
}

fn tell(lab: &Lab, name: &str) {
    let dir = lab.dir();
    let hosts: Vec<_> = lab.hosts().iter().map(|host| format!("{} {}", host.name(), host.ip4())).collect();
    progress::line(format_args!("\nThe lab {name} is up: {}", hosts.join(", ")));
    let other = if name == "default" { String::new() } else { format!(" --name {name}") };
    if lab.cluster().is_ok() {
        let conf = Path::new(dir).join("super-admin.conf");
        progress::line(format_args!("  kubeconfig   {} (server: the VIP {})", conf.display(), lab.vip()));
        let server = "-s https://10.77.0.11:6443";
        progress::line(format_args!(
            "  kubectl      cargo lab{other} enter client kubectl --kubeconfig {} {server} get nodes",
            conf.display()
        ));
    }
    progress::line(format_args!("  a host       cargo lab{other} enter cp1"));
    if lab.agent_folder().is_some() {
        progress::line(format_args!("  its agent    cargo lab{other} enter cp1 mooring-agent status"));
    }
    progress::line(format_args!("  a fault      cargo lab{other} fault crash cp1"));
    progress::line(format_args!("  logs         {}", dir.display()));
    progress::line(format_args!("  the end      cargo lab{other} down"));
}
