//! The lab's end of a host's init.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::{self, JoinHandle};

use mooring_agent::core::time::Time;
use nix::sched::{CloneFlags, setns, unshare};
use tokio::sync::watch;

use super::protocol::{Answer, Op, Request};
use super::{ANSWER, Error, Netns, Status, init, lock};
use crate::clock;

static HELPER: OnceLock<PathBuf> = OnceLock::new();

/// Names the program that is started as the init of hosts: the `lab` binary. The default is the running program itself,
/// so only a test, which is another program, must set it. The first call counts.
pub fn helper(path: impl Into<PathBuf>) {
    HELPER.get_or_init(|| path.into());
}

/// A running init.
#[derive(Debug)]
pub struct Init {
    host: String,
    pid: u32,
    child: Arc<Mutex<Child>>,
    out: Mutex<UnixStream>,
    next: AtomicU64,
    shared: Arc<Shared>,
    reader: Option<JoinHandle<()>>,
}

/// What the requesting threads and the reading thread share.
#[derive(Debug, Default)]
struct Shared {
    dead: AtomicBool,
    pending: Mutex<HashMap<u64, Pending>>,
    running: Mutex<HashMap<i32, watch::Sender<Status>>>,
}

#[derive(Debug)]
struct Pending {
    reply: Sender<Result<Time, String>>,
    /// The status of a process that is being started.
    status: Option<watch::Sender<Status>>,
}

type Booted = (Child, UnixStream);

impl Init {
    /// Starts the init inside new namespaces and waits until the host has booted.
    pub fn boot(host: &str, netns: &Netns, dir: &Path, hosts_file: &Path) -> Result<(Self, Time), Error> {
        let shared = Arc::new(Shared::default());
        let (booted, boot) = mpsc::channel::<Result<(u32, Arc<Mutex<Child>>, UnixStream), Error>>();
        let (ready, is_ready) = mpsc::channel();
        let (name, netns, log) = (host.to_owned(), netns.clone(), dir.join("init.log"));
        let (hosts_file, for_reader) = (hosts_file.to_owned(), Arc::clone(&shared));
        // The thread lives as long as the host: the kernel kills the init when the init's parent *thread* ends.
        let reader = thread::Builder::new()
            .name(format!("host {host}"))
            .spawn(move || match launch(&name, &netns, &log, &hosts_file) {
                Err(error) => drop(booted.send(Err(error))),
                Ok((child, socket)) => {
                    let (pid, child) = (child.id(), Arc::new(Mutex::new(child)));
                    match socket.try_clone().map_err(Error::io("copy a socket")) {
                        Err(error) => drop(booted.send(Err(error))),
                        Ok(out) => {
                            drop(booted.send(Ok((pid, Arc::clone(&child), out))));
                            for_reader.read(socket, &ready);
                        }
                    }
                    for_reader.over(&child);
                }
            })
            .map_err(Error::io("start a thread"))?;
        let gone = |_| Error::Init { host: host.to_owned(), detail: "its thread ended".into() };
        let (pid, child, out) = boot.recv().map_err(gone)??;
        let init = Self {
            host: host.to_owned(),
            pid,
            child,
            out: Mutex::new(out),
            next: AtomicU64::new(1),
            shared,
            reader: Some(reader),
        };
        let at = init.wait(&is_ready)?;
        Ok((init, at))
    }

    pub fn pid(&self) -> u32 {
        self.pid
    }

    pub fn is_alive(&self) -> bool {
        !self.shared.dead.load(Ordering::Acquire)
    }

    /// Sends a request and waits for its answer. `status` belongs to a process that the request starts.
    pub fn ask(&self, op: Op, status: Option<watch::Sender<Status>>) -> Result<Time, Error> {
        let down = || Error::Down { host: self.host.clone() };
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let (reply, answer) = mpsc::channel();
        lock(&self.shared.pending).insert(id, Pending { reply, status });
        if !self.is_alive() {
            lock(&self.shared.pending).remove(&id);
            return Err(down());
        }
        let mut line = serde_json::to_vec(&Request { id, op }).map_err(|error| self.error(error.to_string()))?;
        line.push(b'\n');
        lock(&self.out).write_all(&line).map_err(|_| down())?;
        self.wait(&answer)
    }

    /// Kills the init, and with it every process of the host; returns when all are gone.
    pub fn kill(mut self) -> Time {
        self.end()
    }

    fn end(&mut self) -> Time {
        // The kernel refuses this only if the init is dead already.
        let sent = lock(&self.child).kill();
        let at = clock::now();
        if let (Ok(()), Some(reader)) = (sent, self.reader.take()) {
            // A panic of the reader has already been printed.
            drop(reader.join());
        }
        at
    }

    fn wait(&self, answer: &Receiver<Result<Time, String>>) -> Result<Time, Error> {
        match answer.recv_timeout(ANSWER) {
            Ok(Ok(at)) => Ok(at),
            Ok(Err(detail)) => Err(self.error(detail)),
            Err(mpsc::RecvTimeoutError::Disconnected) => Err(Error::Down { host: self.host.clone() }),
            Err(mpsc::RecvTimeoutError::Timeout) => {
                Err(Error::Late { what: format!("the init of {}", self.host), seconds: ANSWER.as_secs() })
            }
        }
    }

    fn error(&self, detail: String) -> Error {
        Error::Init { host: self.host.clone(), detail }
    }
}

impl Drop for Init {
    fn drop(&mut self) {
        self.end();
    }
}

impl Shared {
    /// Reads answers until the init is gone.
    fn read(&self, socket: UnixStream, ready: &Sender<Result<Time, String>>) {
        for line in BufReader::new(socket).lines() {
            let answer = match line.map_err(|error| error.to_string()).and_then(|line| {
                serde_json::from_str::<Answer>(&line).map_err(|error| format!("answer {line:?} of an init: {error}"))
            }) {
                Ok(answer) => answer,
                Err(error) => {
                    crate::progress::line(error);
                    return;
                }
            };
            match answer {
                // If no caller waits any more, the answer is not needed.
                Answer::Ready { at } => drop(ready.send(Ok(Time::from_nanos(at)))),
                Answer::Failed { id: 0, error } => drop(ready.send(Err(error))),
                Answer::Failed { id, error } => self.reply(id, None, Err(error)),
                Answer::Done { id, at } => self.reply(id, None, Ok(Time::from_nanos(at))),
                Answer::Started { id, pid, at } => self.reply(id, Some(pid), Ok(Time::from_nanos(at))),
                Answer::Exited { pid, how, at } => {
                    if let Some(status) = lock(&self.running).remove(&pid) {
                        status.send_replace(Status::Ended { how, at: Time::from_nanos(at) });
                    }
                }
            }
        }
    }

    fn reply(&self, id: u64, pid: Option<i32>, answer: Result<Time, String>) {
        let Some(Pending { reply, status }) = lock(&self.pending).remove(&id) else {
            return;
        };
        if let (Some(status), Some(pid)) = (status, pid) {
            // Set before the next line is read: that line may already say that the process ended.
            status.send_replace(Status::Running { pid });
            lock(&self.running).insert(pid, status);
        }
        drop(reply.send(answer));
    }

    /// The socket is closed: the init is dead or dying, and all its processes with it.
    fn over(&self, child: &Mutex<Child>) {
        self.dead.store(true, Ordering::Release);
        let mut child = lock(child);
        // An init that is already dead is the goal; a wait can only fail for a child that is not ours.
        drop(child.kill());
        drop(child.wait());
        let at = clock::now();
        for (_, status) in lock(&self.running).drain() {
            status.send_replace(Status::Ended { how: "its host was killed".into(), at });
        }
        lock(&self.pending).clear();
    }
}

/// Called on the thread that stays the init's parent.
fn launch(name: &str, netns: &Netns, log: &Path, hosts_file: &Path) -> Result<Booted, Error> {
    setns(netns, CloneFlags::CLONE_NEWNET).map_err(Error::namespace(format!("enter the namespace of {name}")))?;
    unshare(CloneFlags::CLONE_NEWNS | CloneFlags::CLONE_NEWUTS | CloneFlags::CLONE_NEWPID)
        .map_err(Error::namespace("make mount, host name and process namespaces"))?;
    let (ours, theirs) = UnixStream::pair().map_err(Error::io("make a socket pair"))?;
    let log_file =
        File::options().create(true).append(true).open(log).map_err(Error::io(format!("open {}", log.display())))?;
    let output = log_file.try_clone().map_err(Error::io("copy a file"))?;
    // Not by the path: a build may replace the binary while the lab runs.
    let program = HELPER.get().map_or_else(|| Path::new("/proc/self/exe"), PathBuf::as_path);
    let child = Command::new(program)
        .arg(init::WORD)
        .arg(name)
        .arg(hosts_file)
        .stdin(OwnedFd::from(theirs))
        .stdout(output)
        .stderr(log_file)
        // Ctrl-C at the terminal is for the lab alone.
        .process_group(0)
        .spawn()
        .map_err(Error::io(format!("start {} as the init of {name}", program.display())))?;
    Ok((child, ours))
}
