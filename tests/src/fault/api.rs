//! Faults of the API: cut off, stopped, frozen, slow.

use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use mooring_agent::core::time::Time;
use serde::{Deserialize, Serialize};

use super::rules::nft;
use super::{Error, lock};
use crate::clock;
use crate::cluster::API_SERVER;
use crate::host::{Process, Status};
use crate::lab::Lab;

/// How long a slow API server works between two pauses.
const BURST: Duration = Duration::from_millis(20);

/// Which API servers a host is cut off from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
pub enum ApiCut {
    /// All, its own as well: also by 127.0.0.1 and by its own addresses.
    Everywhere,
    /// Those of other hosts.
    Others,
}

impl Lab {
    /// Drops TCP packets from the host's programs to port 6443: their requests hang. ARP, NDP and UDP still work, and
    /// others still reach the API server of this host. (The client inside the host's own API server is cut off as
    /// well.)
    ///
    /// # Errors
    /// There is no such host, or nft is missing.
    pub fn cut_api(&self, host: &str, cut: ApiCut) -> Result<Time, Error> {
        let host = self.host(host)?;
        let place = match cut {
            ApiCut::Everywhere => "",
            ApiCut::Others => "oifname != \"lo\" ",
        };
        let table = "inet mooring";
        let kind = "type filter hook output priority 0; policy accept;";
        let rule = format!("{place}tcp dport 6443 drop");
        let delete = format!("table {table}\ndelete table {table}\n");
        let chain = format!("chain output {{\n{kind}\n{rule}\n}}");
        nft(host.netns(), format!("{delete}table {table} {{\n{chain}\n}}\n"))?;
        lock(&self.0.faults.api_cuts).insert(host.name().to_owned());
        Ok(clock::now())
    }

    /// Ends [`Lab::cut_api`]; without a cut, does nothing.
    ///
    /// # Errors
    /// nft is missing.
    pub fn heal_api(&self, host: &str) -> Result<Time, Error> {
        if lock(&self.0.faults.api_cuts).remove(host) {
            nft(self.host(host)?.netns(), "table inet mooring\ndelete table inet mooring\n".into())?;
        }
        Ok(clock::now())
    }

    /// Kills the API server of a host: connections are refused from now on.
    ///
    /// # Errors
    /// There is none, or it does not run.
    pub fn stop_api(&self, host: &str) -> Result<Time, Error> {
        Ok(self.api_process(host)?.kill()?)
    }

    /// Starts the API server again; it answers some seconds later ([`crate::cluster::Cluster::api_ready`]).
    ///
    /// # Errors
    /// There is none, or the host is down.
    pub fn start_api(&self, host: &str) -> Result<Time, Error> {
        Ok(self.api_process(host)?.start()?)
    }

    /// Freezes the API server of a host: connections are accepted, and hang.
    ///
    /// # Errors
    /// There is none, or it does not run.
    pub fn freeze_api(&self, host: &str) -> Result<Time, Error> {
        Ok(self.api_process(host)?.freeze()?)
    }

    /// Resumes the API server.
    ///
    /// # Errors
    /// There is none, or it does not run.
    pub fn thaw_api(&self, host: &str) -> Result<Time, Error> {
        Ok(self.api_process(host)?.thaw()?)
    }

    /// Kills every API server; answers with the time of the last kill.
    ///
    /// # Errors
    /// The lab has no cluster, or one does not run.
    pub fn stop_all_apis(&self) -> Result<Time, Error> {
        self.each_api(Self::stop_api)
    }

    /// Starts every API server.
    ///
    /// # Errors
    /// The lab has no cluster, or a host is down.
    pub fn start_all_apis(&self) -> Result<Time, Error> {
        self.each_api(Self::start_api)
    }

    /// Freezes every API server.
    ///
    /// # Errors
    /// The lab has no cluster, or one does not run.
    pub fn freeze_all_apis(&self) -> Result<Time, Error> {
        self.each_api(Self::freeze_api)
    }

    /// Resumes every API server.
    ///
    /// # Errors
    /// The lab has no cluster, or one does not run.
    pub fn thaw_all_apis(&self) -> Result<Time, Error> {
        self.each_api(Self::thaw_api)
    }

    /// Makes an API server slow: it works 20 ms, pauses for `pause`, and so on; an answer comes late by up to `pause`.
    /// Zero makes it as fast as it was.
    ///
    /// # Errors
    /// There is none, or it does not run.
    pub fn slow_api(&self, host: &str, pause: Duration) -> Result<Time, Error> {
        self.slow(&self.api_process(host)?, pause)
    }

    /// Makes any process slow in the same way, like a program on a starved host. Zero ends it.
    ///
    /// # Errors
    /// There is none, or it does not run.
    pub fn slow_process(&self, host: &str, process: &str, pause: Duration) -> Result<Time, Error> {
        self.slow(&self.process(host, process)?, pause)
    }

    fn slow(&self, process: &Process, pause: Duration) -> Result<Time, Error> {
        let key = (process.host().to_owned(), process.name().to_owned());
        // Ends the previous slowdown, and resumes the process.
        lock(&self.0.faults.slow).remove(&key);
        if !pause.is_zero() {
            process.freeze()?;
            lock(&self.0.faults.slow).insert(key, Slow::start(process.clone(), pause));
        }
        Ok(clock::now())
    }

    fn api_process(&self, host: &str) -> Result<Process, Error> {
        self.wear(host);
        self.cluster()?;
        Ok(self.host(host)?.process(API_SERVER)?)
    }

    fn each_api(&self, fault: impl Fn(&Self, &str) -> Result<Time, Error>) -> Result<Time, Error> {
        self.control_planes().iter().try_fold(clock::now(), |_, host| fault(self, host))
    }
}

/// A process that is stopped and resumed in turn, until this is dropped.
#[derive(Debug)]
pub struct Slow {
    /// Dropped first: it ends the thread.
    end: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Slow {
    /// The process is frozen now.
    fn start(process: Process, pause: Duration) -> Self {
        let (end, ended) = mpsc::channel();
        let thread = thread::spawn(move || {
            let mut frozen = true;
            while matches!(process.status(), Status::Running { .. }) {
                let for_long = if frozen { pause } else { BURST };
                let over = ended.recv_timeout(for_long) != Err(RecvTimeoutError::Timeout);
                if over && !frozen {
                    return;
                }
                frozen = !frozen;
                let sent = if frozen { process.freeze() } else { process.thaw() };
                // The process, or its host, ended meanwhile.
                if over || sent.is_err() {
                    return;
                }
            }
        });
        Self { end: Some(end), thread: Some(thread) }
    }
}

impl Drop for Slow {
    fn drop(&mut self) {
        self.end.take();
        if let Some(thread) = self.thread.take() {
            // A panic of the thread has already been printed.
            drop(thread.join());
        }
    }
}
