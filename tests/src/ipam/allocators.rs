//! Allocators as processes: started, frozen, killed.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};

use crate::host::{Host, Process, Spec};
use crate::observe::now;
use crate::observe::page::page;

/// Longest time for a start on a busy machine.
const STARTED: Duration = Duration::from_mins(1);

/// An allocator on a host of the lab. A clone is the same allocator.
#[derive(Clone, Debug)]
pub struct Allocator {
    host: Host,
    process: Process,
    port: u16,
}

impl Allocator {
    /// Starts the allocator. `port`: its port for health and metrics.
    ///
    /// # Errors
    /// An allocator of that name runs on the host, or the start fails.
    pub fn start(
        host: &Host,
        name: &str,
        binary: &PathBuf,
        kubeconfig: &str,
        port: u16,
        args: &[&str],
    ) -> Result<Self> {
        let spec = Spec::new(name, binary)
            .arg("--kubeconfig")
            .arg(kubeconfig)
            .arg(format!("--metrics=127.0.0.1:{port}"))
            .args(args.iter().copied());
        Ok(Self { host: host.clone(), process: host.start(spec)?, port })
    }

    /// Its process: log, signals, memory.
    #[must_use]
    pub fn process(&self) -> &Process {
        &self.process
    }

    /// Waits until the allocator reports that it is ready.
    ///
    /// # Errors
    /// The allocator ended, or takes longer than a minute.
    pub async fn ready(&self) -> Result<()> {
        let deadline = now() + STARTED;
        loop {
            let said = match self.get("/readyz").await {
                Ok((200, _)) => return Ok(()),
                Ok((code, text)) => format!("{code} {text}"),
                Err(error) => format!("{error:#}"),
            };
            if !self.process.is_running() || now() > deadline {
                bail!("{} is not ready: {said}{}", self.process.name(), self.process.log_tail(10));
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Sends SIGTERM, and waits for the end of the process.
    ///
    /// # Errors
    /// The process does not end.
    pub async fn stop(&self) -> Result<()> {
        self.process.terminate()?;
        self.process.ended(STARTED).await?;
        Ok(())
    }

    /// Sends SIGKILL, and waits until the process is gone.
    ///
    /// # Errors
    /// The process does not run.
    pub async fn kill(&self) -> Result<()> {
        self.process.kill()?;
        self.process.ended(STARTED).await?;
        Ok(())
    }

    /// Starts the allocator again with the same options.
    ///
    /// # Errors
    /// The host is down.
    pub fn start_again(&self) -> Result<()> {
        self.process.start()?;
        Ok(())
    }

    /// The value of a metric, from the first line that begins with `name` and contains all of `labels`.
    ///
    /// # Errors
    /// The allocator does not answer.
    pub async fn metric(&self, name: &str, labels: &[&str]) -> Result<Option<f64>> {
        let (code, text) = self.get("/metrics").await?;
        if code != 200 {
            bail!("/metrics: {code} {text}");
        }
        let named = |line: &&str| {
            let rest = line.strip_prefix(name);
            rest.is_some_and(|rest| rest.starts_with([' ', '{'])) && labels.iter().all(|label| line.contains(label))
        };
        let line = text.lines().find(named);
        line.and_then(|line| line.rsplit(' ').next()).map(|value| value.parse().context("no number")).transpose()
    }

    /// Sends an HTTP request; returns the status code and the text.
    ///
    /// # Errors
    /// The allocator does not answer.
    pub async fn get(&self, path: &str) -> Result<(u16, String)> {
        page(self.host.netns(), self.port, path).await
    }
}
