//! A lab that stands until `lab down`: a process of its own, asked over a socket.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use nix::sys::socket::getsockopt;
use nix::sys::socket::sockopt::PeerCredentials;
use serde::{Deserialize, Serialize};
use tokio::sync::{mpsc, oneshot};

use super::{Kind, socket};
use crate::agents::AgentOptions;
use crate::fault::Fault;
use crate::guard;
use crate::lab::Lab;
use crate::progress;

/// The hidden word of the process that keeps a lab.
pub const WORD: &str = "__stand";
/// How long a request may take: a first fault may install nftables.
const ANSWER: Duration = Duration::from_mins(3);

#[derive(Debug, Serialize, Deserialize)]
enum Request {
    Down,
    Init { host: String },
    Fault(Fault),
}

#[derive(Debug, Serialize, Deserialize)]
enum Answer {
    Done(String),
    /// The PID of a host's init, and where its agent's program is.
    Init(u32, Option<PathBuf>),
    Failed(String),
}

/// Brings a lab up in a process of its own, shows what it says, and returns when it stands.
pub fn up(name: &str, kind: Kind, agents: bool) -> anyhow::Result<()> {
    let path = socket(name)?;
    if UnixStream::connect(&path).is_ok() {
        bail!("the lab {name} is up already; `cargo lab down` ends it, or take another --name");
    }
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
    let path = socket(name)?;
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
    // The file was left by a lab that was killed.
    drop(std::fs::remove_file(&path));
    let listener = UnixListener::bind(&path).with_context(|| format!("cannot listen at {}", path.display()))?;
    tell(&lab, name);
    let log = std::fs::File::create(lab.dir().join("lab.log")).context("cannot write lab.log")?;
    progress::line(STANDS);
    nix::unistd::dup2_stderr(&log).context("cannot redirect")?;
    let (requests, mut asked) = mpsc::channel::<(Request, oneshot::Sender<Answer>)>(1);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(stream) = stream else { return };
            if let Err(error) = serve(&stream, &requests) {
                progress::line(format_args!("a request: {error:#}"));
            }
        }
    });
    loop {
        let (request, reply) = tokio::select! {
            request = asked.recv() => request.context("the socket's thread ended")?,
            _ = guard::interrupted() => break,
        };
        if matches!(request, Request::Down) {
            let (dir, kept) = (lab.dir().display().to_string(), name.to_owned());
            lab.down();
            drop(std::fs::remove_file(&path));
            // The process that asked may be gone by now.
            drop(reply.send(Answer::Done(format!("the lab {kept} is down ({dir} is deleted)"))));
            // Let the socket's thread pass it on.
            tokio::time::sleep(Duration::from_millis(50)).await;
            return Ok(());
        }
        let lab = lab.clone();
        let answer = tokio::task::spawn_blocking(move || answer(&lab, request)).await?;
        drop(reply.send(answer));
    }
    drop(std::fs::remove_file(&path));
    lab.down();
    Ok(())
}

fn answer(lab: &Lab, request: Request) -> Answer {
    match request {
        Request::Fault(fault) => match lab.apply(&fault) {
            Ok(at) => Answer::Done(format!("done at {at}")),
            Err(error) => Answer::Failed(error.to_string()),
        },
        Request::Init { host } => match lab.host(&host).map(|host| host.pid()) {
            Ok(Some(pid)) => Answer::Init(pid, lab.agent_folder()),
            Ok(None) => Answer::Failed(format!("{host} is down")),
            Err(error) => {
                let all: Vec<_> = lab.hosts().iter().map(|host| host.name().to_owned()).collect();
                Answer::Failed(format!("{error}; there are: {}", all.join(" ")))
            }
        },
        Request::Down => Answer::Failed("is handled elsewhere".into()),
    }
}

fn serve(stream: &UnixStream, requests: &mpsc::Sender<(Request, oneshot::Sender<Answer>)>) -> anyhow::Result<()> {
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line)?;
    if line.is_empty() {
        return Ok(());
    }
    let (reply, answer) = oneshot::channel();
    requests.blocking_send((serde_json::from_str(&line)?, reply))?;
    writeln!({ stream }, "{}", serde_json::to_string(&answer.blocking_recv()?)?)?;
    Ok(())
}

fn ask(name: &str, request: &Request) -> anyhow::Result<Answer> {
    let path = socket(name)?;
    let stream = UnixStream::connect(&path).with_context(|| nobody(name))?;
    stream.set_read_timeout(Some(ANSWER))?;
    writeln!(&stream, "{}", serde_json::to_string(request)?)?;
    let mut line = String::new();
    BufReader::new(&stream).read_line(&mut line).context("the lab does not answer")?;
    serde_json::from_str(&line).context("the lab ended while it was asked")
}

/// `lab down`
pub fn down(name: &str) -> anyhow::Result<()> {
    let elector =
        getsockopt(&UnixStream::connect(socket(name)?).with_context(|| nobody(name))?, PeerCredentials)?.pid();
    done(ask(name, &Request::Down)?)?;
    // Its process has nothing left to do; a shell that goes on after this shall not see it.
    let end = Instant::now() + Duration::from_secs(5);
    while Path::new("/proc").join(elector.to_string()).exists() {
        if Instant::now() > end {
            bail!("its process {elector} does not end");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

fn nobody(name: &str) -> String {
    format!("no lab {name} is up; `cargo lab up` starts one")
}

/// `lab fault`
pub fn fault(name: &str, fault: Fault) -> anyhow::Result<()> {
    done(ask(name, &Request::Fault(fault))?)
}

/// The PID of a host's init, and where its agent's program is.
pub fn init_of(name: &str, host: &str) -> anyhow::Result<(u32, Option<PathBuf>)> {
    match ask(name, &Request::Init { host: host.to_owned() })? {
        Answer::Init(pid, programs) => Ok((pid, programs)),
        Answer::Failed(why) | Answer::Done(why) => bail!("{why}"),
    }
}

fn done(answer: Answer) -> anyhow::Result<()> {
    match answer {
        Answer::Done(text) => progress::line(text),
        Answer::Init(pid, _) => progress::line(pid),
        Answer::Failed(why) => bail!("{why}"),
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
