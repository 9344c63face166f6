//! A program on a host: started, signalled, stopped, started again.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use mooring_agent::core::time::Time;
use nix::sys::signal::Signal;
use tokio::sync::watch;

use super::protocol::Op;
use super::{Error, Host, Inner, Spec, Status, lock};

/// A busy machine needs no longer to stop a process.
const STOPS_WITHIN: Duration = Duration::from_secs(10);

/// A process of a host. A clone is the same process.
#[derive(Clone, Debug)]
pub struct Process(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    host: Weak<Inner>,
    host_name: String,
    name: String,
    log: PathBuf,
    spec: Mutex<Spec>,
    status: watch::Sender<Status>,
}

impl Process {
    pub(super) fn new(host: &Host, spec: Spec) -> Self {
        Self(Arc::new(Shared {
            host: Arc::downgrade(&host.0),
            host_name: host.name().to_owned(),
            name: spec.name.clone(),
            log: host.dir().join(format!("{}.log", spec.name)),
            spec: Mutex::new(spec),
            status: watch::Sender::new(Status::New),
        }))
    }

    pub(super) fn respec(&self, spec: Spec) {
        *lock(&self.0.spec) = spec;
    }

    /// Its name on the host.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// The host's name.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.0.host_name
    }

    /// Where its output goes.
    #[must_use]
    pub fn log(&self) -> &Path {
        &self.0.log
    }

    /// The specification that the process was started with.
    #[must_use]
    pub fn spec(&self) -> Spec {
        lock(&self.0.spec).clone()
    }

    /// Its state now.
    #[must_use]
    pub fn status(&self) -> Status {
        self.0.status.borrow().clone()
    }

    /// Whether it runs, or is stopped by SIGSTOP.
    #[must_use]
    pub fn is_running(&self) -> bool {
        matches!(*self.0.status.borrow(), Status::Running { .. })
    }

    /// Starts the process (again), as it was specified. Does nothing if the process runs.
    ///
    /// # Errors
    /// The host is down, or the program cannot be executed.
    pub fn start(&self) -> Result<Time, Error> {
        if self.is_running() {
            return Ok(crate::clock::now());
        }
        let Spec { argv, env, .. } = self.spec();
        let op = Op::Start { argv, env, log: self.0.log.clone() };
        let host = self.host_inner()?;
        let init = lock(&host.init);
        let init = init.as_ref().ok_or_else(|| Error::Down { host: self.0.host_name.clone() })?;
        init.ask(op, Some(self.0.status.clone()))
    }

    /// Sends a signal; answers with the time of sending.
    ///
    /// # Errors
    /// It does not run, or the host is down.
    pub fn signal(&self, signal: Signal) -> Result<Time, Error> {
        let Status::Running { pid } = self.status() else {
            return Err(self.error("does not run"));
        };
        Host(self.host_inner()?).ask(Op::Signal { pid, signal: signal as i32 })
    }

    /// Asks it to end (SIGTERM); does not wait.
    ///
    /// # Errors
    /// As [`Process::signal`].
    pub fn terminate(&self) -> Result<Time, Error> {
        self.signal(Signal::SIGTERM)
    }

    /// Kills it (SIGKILL); does not wait.
    ///
    /// # Errors
    /// As [`Process::signal`].
    pub fn kill(&self) -> Result<Time, Error> {
        self.signal(Signal::SIGKILL)
    }

    /// Stops the process where it stands (SIGSTOP): its sockets stay open, and hang. Answers with the time of sending, once all threads
    /// stand: one of them takes the signal when it runs next, and the others go on until then.
    ///
    /// # Errors
    /// As [`Process::signal`]; or it does not stop.
    pub fn freeze(&self) -> Result<Time, Error> {
        let sent = self.signal(Signal::SIGSTOP)?;
        let (pid, end) = (self.pid(), Instant::now() + STOPS_WITHIN);
        while pid.is_some_and(|pid| !stands(pid)) {
            if Instant::now() >= end {
                return Err(self.error("does not stop"));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(sent)
    }

    /// Resumes the process (SIGCONT).
    ///
    /// # Errors
    /// As [`Process::signal`].
    pub fn thaw(&self) -> Result<Time, Error> {
        self.signal(Signal::SIGCONT)
    }

    /// Waits for its end; answers how it ended and when.
    ///
    /// # Errors
    /// It goes on for longer than `limit`.
    pub async fn ended(&self, limit: Duration) -> Result<(String, Time), Error> {
        let mut status = self.0.status.subscribe();
        let ended = async {
            loop {
                if let Status::Ended { how, at } = &*status.borrow_and_update() {
                    return (how.clone(), *at);
                }
                if status.changed().await.is_err() {
                    return ("its host is gone".to_owned(), crate::clock::now());
                }
            }
        };
        let what = format!("the end of {} on {}", self.0.name, self.0.host_name);
        tokio::time::timeout(limit, ended).await.map_err(|_| Error::Late { what, seconds: limit.as_secs() })
    }

    /// Its PID as the lab and the machine see it; none when it does not run. Reads `/proc`.
    #[must_use]
    pub fn pid(&self) -> Option<u32> {
        let Status::Running { pid } = self.status() else {
            return None;
        };
        let init = Host(self.0.host.upgrade()?).pid()?;
        let space = fs::read_link(format!("/proc/{init}/ns/pid_for_children")).ok()?;
        fs::read_dir("/proc").ok()?.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).find(|outer| {
            let here = |outer: &u32| {
                let status = fs::read_to_string(format!("/proc/{outer}/status")).ok()?;
                let inner = status.lines().find(|line| line.starts_with("NSpid:"))?.split_whitespace().next_back()?;
                (inner == pid.to_string() && fs::read_link(format!("/proc/{outer}/ns/pid")).ok()? == space)
                    .then_some(())
            };
            here(outer).is_some()
        })
    }

    /// Its resident memory in kilobytes, from `/proc`; none when it does not run.
    #[must_use]
    pub fn rss_kb(&self) -> Option<u64> {
        self.memory_kb("VmRSS:")
    }

    /// The most resident memory that it has had, in kilobytes (`VmHWM` of proc(5)); none when it does not run.
    #[must_use]
    pub fn peak_rss_kb(&self) -> Option<u64> {
        self.memory_kb("VmHWM:")
    }

    fn memory_kb(&self, line_of: &str) -> Option<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid()?)).ok()?;
        status.lines().find_map(|line| line.strip_prefix(line_of))?.split_whitespace().next()?.parse().ok()
    }

    /// How long the threads of the process ran on a processor: the sum over its current threads
    /// (`/proc/PID/task/TID/schedstat`, Documentation/scheduler/sched-stats.rst). None if the process does not run.
    #[must_use]
    pub fn ran(&self) -> Option<Duration> {
        let of = |thread: fs::DirEntry| {
            let text = fs::read_to_string(thread.path().join("schedstat")).ok()?;
            text.split_whitespace().next()?.parse::<u64>().ok()
        };
        let threads = fs::read_dir(format!("/proc/{}/task", self.pid()?)).ok()?;
        Some(Duration::from_nanos(threads.filter_map(|thread| of(thread.ok()?)).sum()))
    }

    /// How long the main thread was ready to run but got no processor, since its start: from the kernel
    /// (`/proc/PID/schedstat`, Documentation/scheduler/sched-stats.rst). None if the process does not run.
    #[must_use]
    pub fn waited(&self) -> Option<Duration> {
        let text = fs::read_to_string(format!("/proc/{}/schedstat", self.pid()?)).ok()?;
        text.split_whitespace().nth(1)?.parse().ok().map(Duration::from_nanos)
    }

    /// The last lines of its log, each indented, for an error message.
    #[must_use]
    pub fn log_tail(&self, lines: usize) -> String {
        let text = fs::read(&self.0.log).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default();
        let all: Vec<_> = text.lines().collect();
        let end = &all[all.len().saturating_sub(lines)..];
        end.iter().fold(String::new(), |text, line| {
            text + "
    " + line
        })
    }

    /// An error about this process, with the end of its log.
    pub fn error(&self, detail: impl Into<String>) -> Error {
        let log = self.log_tail(8);
        let (host, process) = (self.0.host_name.clone(), self.0.name.clone());
        Error::Process { host, process, detail: detail.into(), log }
    }

    fn host_inner(&self) -> Result<Arc<Inner>, Error> {
        self.0.host.upgrade().ok_or_else(|| Error::Down { host: self.0.host_name.clone() })
    }
}

/// Whether no thread of a process runs (`/proc/PID/task/TID/stat`, proc(5)).
fn stands(pid: u32) -> bool {
    let thread = |thread: fs::DirEntry| {
        let text = fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
        let state = text.rsplit_once(')').and_then(|(_, rest)| rest.trim_start().chars().next());
        state.is_none_or(|state| "TtZX".contains(state))
    };
    let threads = fs::read_dir(format!("/proc/{pid}/task"));
    threads.map_or(true, |threads| threads.flatten().all(thread))
}
