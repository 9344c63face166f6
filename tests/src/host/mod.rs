//! Hosts: each has namespaces of its own for network, processes, mounts and its name.
//!
//! A host's processes are children of its *init*, process 1 of its PID namespace. The init is this same program,
//! started again. So one SIGKILL ends everything on the host at once. When the lab's process dies in any way, the
//! kernel ends the inits and with them all hosts. A file descriptor of the lab holds the network namespace, so the
//! namespace outlives a crash of the host, as a network card does.

mod control;
pub mod enter;
mod error;
pub mod init;
mod netns;
mod process;
mod protocol;
mod spec;

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use mooring_agent::core::mac::Mac;
use mooring_agent::core::time::Time;
use nix::sys::signal::Signal;

use control::Init;
pub use control::helper;
pub use error::Error;
pub use netns::Netns;
pub use process::Process;
pub use spec::{Spec, Status};

use crate::segment;

/// How long a host's init may take for an answer.
const ANSWER: Duration = Duration::from_secs(20);

/// A host of the lab. A clone is the same host.
#[derive(Clone, Debug)]
pub struct Host(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    name: String,
    number: u8,
    netns: Netns,
    dir: PathBuf,
    hosts_file: PathBuf,
    init: Mutex<Option<Init>>,
    processes: Mutex<BTreeMap<String, Process>>,
}

impl Host {
    /// Makes the host and boots it; its only interface so far is `lo`.
    ///
    /// `dir` is the host's folder for logs and data, which outlives a crash as a disk does. `number` is the last part
    /// of the host's addresses. `hosts_file` replaces `/etc/hosts`.
    ///
    /// # Errors
    /// No namespaces (not root, or the kernel refuses user namespaces), or the init did not start.
    pub fn boot(name: &str, number: u8, dir: PathBuf, hosts_file: &Path) -> Result<Self, Error> {
        std::fs::create_dir_all(&dir).map_err(Error::io(format!("make the folder {}", dir.display())))?;
        let host = Self(Arc::new(Inner {
            name: name.to_owned(),
            number,
            netns: Netns::new(name)?,
            dir,
            hosts_file: hosts_file.to_owned(),
            init: Mutex::new(None),
            processes: Mutex::new(BTreeMap::new()),
        }));
        host.boot_again()?;
        Ok(host)
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// The last part of its addresses.
    #[must_use]
    pub fn number(&self) -> u8 {
        self.0.number
    }

    /// Its IPv4 address on the segment.
    #[must_use]
    pub fn ip4(&self) -> Ipv4Addr {
        segment::ip4(self.0.number)
    }

    /// Its IPv6 address on the segment.
    #[must_use]
    pub fn ip6(&self) -> Ipv6Addr {
        segment::ip6(self.0.number)
    }

    /// Both addresses.
    #[must_use]
    pub fn addresses(&self) -> [IpAddr; 2] {
        [self.ip4().into(), self.ip6().into()]
    }

    /// The MAC address of its `eth0`; a fixed one.
    #[must_use]
    pub fn mac(&self) -> Mac {
        segment::mac(self.0.number)
    }

    /// Its network namespace.
    #[must_use]
    pub fn netns(&self) -> &Netns {
        &self.0.netns
    }

    /// Its folder: logs (`NAME.log`) and data.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.0.dir
    }

    /// Whether it runs: booted, and not crashed since.
    #[must_use]
    pub fn is_up(&self) -> bool {
        lock(&self.0.init).as_ref().is_some_and(Init::is_alive)
    }

    /// The PID of its init, as the lab sees it.
    #[must_use]
    pub fn pid(&self) -> Option<u32> {
        lock(&self.0.init).as_ref().filter(|init| init.is_alive()).map(Init::pid)
    }

    /// Starts a program. Its standard output and error go to `NAME.log` in the host's folder (appended to).
    ///
    /// # Errors
    /// The host is down, a process of that name runs already, or the program cannot be executed.
    pub fn start(&self, spec: Spec) -> Result<Process, Error> {
        let process = {
            let mut all = lock(&self.0.processes);
            match all.get(&spec.name) {
                Some(known) if known.is_running() => return Err(known.error("runs already; stop it first")),
                Some(known) => {
                    known.respec(spec);
                    known.clone()
                }
                None => {
                    let process = Process::new(self, spec);
                    all.insert(process.name().to_owned(), process.clone());
                    process
                }
            }
        };
        process.start()?;
        Ok(process)
    }

    /// The process of that name, running or not.
    ///
    /// # Errors
    /// No process of this name was ever started on this host.
    pub fn process(&self, name: &str) -> Result<Process, Error> {
        lock(&self.0.processes)
            .get(name)
            .cloned()
            .ok_or_else(|| Error::Unknown { what: "process", name: format!("{name} on {}", self.0.name) })
    }

    /// All processes ever started by name, running or not.
    #[must_use]
    pub fn processes(&self) -> Vec<Process> {
        lock(&self.0.processes).values().cloned().collect()
    }

    /// Sends a signal to every process on the host except its init, in one system call.
    ///
    /// # Errors
    /// The host is down, or its init does not answer.
    pub fn signal_all(&self, signal: Signal) -> Result<Time, Error> {
        self.ask(protocol::Op::SignalAll { signal: signal as i32 })
    }

    /// Ends every process on the host at once, including its init, and waits until all are gone. No process can react.
    ///
    /// The network namespace stays. A caller that also wants the machine silent takes the port down first.
    #[allow(clippy::must_use_candidate, reason = "the time is of use to some only")]
    pub fn kill(&self) -> Time {
        let taken = lock(&self.0.init).take();
        match taken {
            Some(init) => init.kill(),
            None => crate::clock::now(),
        }
    }

    /// Boots a host that was killed: a new init, an empty `/run`, no processes.
    ///
    /// # Errors
    /// As [`Host::boot`].
    pub fn boot_again(&self) -> Result<Time, Error> {
        let mut init = lock(&self.0.init);
        if init.as_ref().is_some_and(Init::is_alive) {
            return Ok(crate::clock::now());
        }
        let (started, at) = Init::boot(&self.0.name, &self.0.netns, &self.0.dir, &self.0.hosts_file)?;
        *init = Some(started);
        Ok(at)
    }

    fn ask(&self, op: protocol::Op) -> Result<Time, Error> {
        let init = lock(&self.0.init);
        let init = init.as_ref().ok_or_else(|| Error::Down { host: self.0.name.clone() })?;
        init.ask(op, None)
    }
}

/// Takes a lock; a thread that panicked while it held the lock leaves no half-done change here.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
