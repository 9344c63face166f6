//! How other commands reach a lab that stands: a socket, at which the lab's process answers.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use nix::sys::socket::getsockopt;
use nix::sys::socket::sockopt::PeerCredentials;
use serde::{Deserialize, Serialize};
use tokio::sync::{mpsc, oneshot};

use super::socket;
use crate::fault::Fault;
use crate::host::enter::Inside;
use crate::lab::Lab;
use crate::progress;

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
    /// The PID of a host's init, and what a command finds there.
    Init(u32, Inside),
    Failed(String),
}

/// The door of a lab; nobody reaches the lab any more when it is dropped.
pub struct Door {
    name: String,
    path: PathBuf,
    asked: mpsc::Receiver<(Request, oneshot::Sender<Answer>)>,
}

/// Somebody wants the lab down, and waits until it is.
pub struct Leave {
    name: String,
    reply: oneshot::Sender<Answer>,
}

impl Door {
    /// Opens the door of the lab of that name.
    ///
    /// # Errors
    /// A lab of that name stands already, or the socket cannot be made.
    pub fn open(name: &str) -> anyhow::Result<Self> {
        let path = free(name)?;
        // The file was left by a lab that was killed.
        drop(std::fs::remove_file(&path));
        let listener = UnixListener::bind(&path).with_context(|| format!("cannot listen at {}", path.display()))?;
        let (requests, asked) = mpsc::channel(1);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(stream) = stream else { return };
                if let Err(error) = serve(&stream, &requests) {
                    progress::line(format_args!("a request: {error:#}"));
                }
            }
        });
        Ok(Self { name: name.to_owned(), path, asked })
    }

    /// Answers until somebody wants the lab down. `programs`: the folders that are searched first for a command on a host.
    ///
    /// # Errors
    /// The socket's thread has ended.
    pub async fn keep(&mut self, lab: &Lab, programs: impl Fn() -> Vec<PathBuf>) -> anyhow::Result<Leave> {
        loop {
            let (request, reply) = self.asked.recv().await.context("the socket's thread ended")?;
            if matches!(request, Request::Down) {
                return Ok(Leave { name: self.name.clone(), reply });
            }
            let (lab, programs) = (lab.clone(), programs());
            let answer = tokio::task::spawn_blocking(move || answer(&lab, request, programs)).await?;
            // The process that asked may be gone by now.
            drop(reply.send(answer));
        }
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        drop(std::fs::remove_file(&self.path));
    }
}

impl Leave {
    /// Says that the lab is down, and its folder deleted.
    pub async fn gone(self, folder: &Path) {
        let text = format!("the lab {} is down ({} is deleted)", self.name, folder.display());
        // The process that asked may be gone by now.
        drop(self.reply.send(Answer::Done(text)));
        // Let the socket's thread pass it on.
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Where a lab of that name would listen.
///
/// # Errors
/// One does already, or the name is none for a lab.
pub fn free(name: &str) -> anyhow::Result<PathBuf> {
    let path = socket(name)?;
    if UnixStream::connect(&path).is_ok() {
        bail!("the lab {name} is up already; `cargo lab down` ends it, or take another --name");
    }
    Ok(path)
}

fn answer(lab: &Lab, request: Request, programs: Vec<PathBuf>) -> Answer {
    match request {
        Request::Fault(fault) => match lab.apply(&fault) {
            Ok(at) => Answer::Done(format!("done at {at}")),
            Err(error) => Answer::Failed(error.to_string()),
        },
        Request::Init { host } => match lab.host(&host).map(|host| (host.pid(), host.dir().to_owned())) {
            Ok((Some(pid), home)) => Answer::Init(pid, Inside { programs, home }),
            Ok((None, _)) => Answer::Failed(format!("{host} is down")),
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

/// The PID of a host's init, and what a command finds there.
pub fn init_of(name: &str, host: &str) -> anyhow::Result<(u32, Inside)> {
    match ask(name, &Request::Init { host: host.to_owned() })? {
        Answer::Init(pid, inside) => Ok((pid, inside)),
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
