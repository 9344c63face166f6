//! Whether every agent that should run does run: only a fault may end one.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::time::Duration;

use anyhow::{Context, Result};

use super::seen::Unasked;
use crate::agents::AGENT;
use crate::host::Status;
use crate::observe::now;
use crate::rig::control_plane::ControlPlaneRig;

/// An agent ends within this time after SIGTERM: the grace time of a handover is 5 s.
const STOPPED: Duration = Duration::from_secs(15);
/// The text of a panic of a Rust program.
const PANIC: &str = "panicked at";

#[derive(Debug, Default)]
pub struct Agents {
    /// Whether a host's agent should run, and how much of its log was read.
    hosts: BTreeMap<String, (bool, u64)>,
    unasked: Vec<Unasked>,
    /// How long each agent had waited for a processor at the last check, and the process with that figure.
    waited: BTreeMap<String, (u32, Duration)>,
}

impl Agents {
    /// All agents should run.
    #[must_use]
    pub fn of(names: &[String]) -> Self {
        Self { hosts: names.iter().map(|name| (name.clone(), (true, 0))).collect(), ..Self::default() }
    }

    /// A fault ends this agent now.
    pub fn excuse(&mut self, host: &str) {
        self.hosts.entry(host.to_owned()).or_default().0 = false;
    }

    /// From now on this agent should run.
    pub fn expect(&mut self, host: &str) {
        self.hosts.entry(host.to_owned()).or_default().0 = true;
    }

    /// Starts the agent again.
    ///
    /// # Errors
    /// The host is down.
    pub fn start(&mut self, rig: &ControlPlaneRig, host: &str) -> Result<()> {
        rig.lab.agent(host)?.start_again()?;
        self.expect(host);
        Ok(())
    }

    /// Waits for the end of an agent after SIGTERM, and checks how it ended.
    ///
    /// # Errors
    /// The agent was never started, or does not even end by SIGKILL.
    pub async fn ends_well(&mut self, rig: &ControlPlaneRig, host: &str) -> Result<()> {
        let process = rig.lab.agent(host)?.process()?;
        match process.ended(STOPPED).await {
            Ok((how, _)) if how == "ended well" => {}
            Ok((how, _)) => self.note(host, format!("asked to end: {how}")),
            Err(_) => {
                self.note(host, format!("does not end within {} s of SIGTERM", STOPPED.as_secs()));
                process.kill()?;
                process.ended(STOPPED).await?;
            }
        }
        Ok(())
    }

    /// Checks all agents; starts those that ended without a fault.
    ///
    /// # Errors
    /// One cannot be started, or its log cannot be read.
    pub fn check(&mut self, rig: &ControlPlaneRig) -> Result<()> {
        let names: Vec<String> = self.hosts.keys().cloned().collect();
        for name in names {
            let process = rig.lab.agent(&name)?.process()?;
            let wanted = self.hosts.get(&name).is_some_and(|(wanted, _)| *wanted);
            if let (true, Status::Ended { how, .. }) = (wanted, process.status()) {
                self.note(&name, format!("ended by itself: {how}"));
                process.start()?;
            }
            let read = self.hosts.entry(name.clone()).or_default();
            let mut text = Vec::new();
            let mut log = File::open(process.log()).with_context(|| format!("open {}", process.log().display()))?;
            log.seek(SeekFrom::Start(read.1))?;
            read.1 += log.read_to_end(&mut text)? as u64;
            for line in String::from_utf8_lossy(&text).lines().filter(|line| line.contains(PANIC)) {
                self.note(&name, line.to_owned());
            }
        }
        Ok(())
    }

    /// What the agents did without cause since the last call.
    pub fn take(&mut self) -> Vec<Unasked> {
        std::mem::take(&mut self.unasked)
    }

    /// The resident memory of each, in kilobytes.
    #[must_use]
    pub fn memory(&self, rig: &ControlPlaneRig) -> Vec<(String, u64)> {
        let size = |name: &String| Some((name.clone(), rig.lab.process(name, AGENT).ok()?.rss_kb()?));
        self.hosts.keys().filter_map(size).collect()
    }

    /// The longest time, over all agents, for which an agent was ready to run but the machine had no processor for it,
    /// since the last call. For an agent that was restarted in between: since its start.
    pub fn starved(&mut self, rig: &ControlPlaneRig) -> Duration {
        let mut longest = Duration::ZERO;
        for name in self.hosts.keys() {
            let Ok(process) = rig.lab.process(name, AGENT) else { continue };
            let (Some(pid), Some(waited)) = (process.pid(), process.waited()) else { continue };
            let before = self.waited.insert(name.clone(), (pid, waited));
            let before = before.filter(|(known, _)| *known == pid).map_or(Duration::ZERO, |(_, before)| before);
            longest = longest.max(waited.saturating_sub(before));
        }
        longest
    }

    fn note(&mut self, host: &str, what: String) {
        self.unasked.push(Unasked { host: host.to_owned(), at: now(), what });
    }
}
