//! Agents on hosts.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use mooring_agent::core::time::Time;

use crate::assets::{self, Profile};
use crate::host::{Error, Host, Process, Spec, lock};
use crate::lab::{self, Lab};

/// The name of the agent's process on its host.
pub const AGENT: &str = "mooring-agent";

/// The file in a host's folder to which its agent records what its core was told and answered, since its last start.
pub const RECORD: &str = "mooring-agent.jsonl";

/// Which binary runs as the agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AgentBinary {
    /// Built from the clone, when the first one starts.
    Build(Profile),
    /// That file.
    Path(PathBuf),
}

impl Default for AgentBinary {
    fn default() -> Self {
        Self::Build(Profile::Dev)
    }
}

/// How to start an agent.
#[derive(Clone, Debug, Default)]
pub struct AgentOptions {
    /// Its VIPs; none: the lab's first one.
    pub vips: Vec<IpAddr>,
    /// Its kubeconfig; none: `admin.conf` in its host's folder, whose server is the VIP.
    pub kubeconfig: Option<PathBuf>,
    /// The program; none: the lab's.
    pub binary: Option<PathBuf>,
    /// Arguments after `run`.
    pub args: Vec<String>,
    /// Environment: beside, or instead of, what [`Agent::start`] sets.
    pub env: Vec<(String, String)>,
}

impl AgentOptions {
    /// Adds an argument.
    #[must_use]
    pub fn arg(mut self, arg: impl Into<String>) -> Self {
        self.args.push(arg.into());
        self
    }

    /// Sets a variable of the environment.
    #[must_use]
    pub fn env(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.env.push((key.into(), value.into()));
        self
    }

    /// Sets the VIPs.
    #[must_use]
    pub fn vips(mut self, vips: impl IntoIterator<Item = IpAddr>) -> Self {
        self.vips = vips.into_iter().collect();
        self
    }
}

/// The agent of a host.
#[derive(Clone, Debug)]
pub struct Agent {
    lab: Lab,
    host: Host,
}

impl Agent {
    pub(crate) fn new(lab: &Lab, host: Host) -> Self {
        Self { lab: lab.clone(), host }
    }

    /// Starts it as a kube-vip of a control plane is started: by `address`, `port`, `vip_interface`, `vip_nodename` and
    /// the like in the environment. Options come on top. Its log is `mooring-agent.log` in the host's folder, its record
    /// [`RECORD`].
    ///
    /// # Errors
    /// It runs already, the host is down, or the agent cannot be built.
    pub fn start(&self, options: AgentOptions) -> Result<Process, lab::Error> {
        let vips = if options.vips.is_empty() { vec![self.lab.vip()] } else { options.vips };
        let vips: Vec<_> = vips.iter().map(ToString::to_string).collect();
        let kubeconfig = options.kubeconfig.unwrap_or_else(|| self.host.dir().join("admin.conf"));
        let binary = options.binary.map_or_else(|| self.lab.agent_binary(), Ok)?;
        let mut spec = Spec::new(AGENT, binary)
            .arg("run")
            .args(options.args)
            .env("address", vips.join(","))
            .env("cp_enable", "true")
            .env("k8s_config_file", kubeconfig.display().to_string())
            .env("port", "6443")
            .env("vip_arp", "true")
            .env("vip_interface", "eth0")
            .env("vip_leaderelection", "true")
            .env("vip_nodename", self.host.name())
            .env("MOORING_RECORD", self.host.dir().join(RECORD).display().to_string());
        for (key, value) in options.env {
            spec.env.retain(|(known, _)| *known != key);
            spec.env.push((key, value));
        }
        Ok(self.host.start(spec)?)
    }

    /// Its host.
    #[must_use]
    pub fn host(&self) -> &Host {
        &self.host
    }

    /// Its process.
    ///
    /// # Errors
    /// It was never started.
    pub fn process(&self) -> Result<Process, Error> {
        self.host.process(AGENT)
    }

    /// Whether it runs.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.process().is_ok_and(|process| process.is_running())
    }

    /// SIGTERM; does not wait.
    ///
    /// # Errors
    /// It does not run.
    pub fn terminate(&self) -> Result<Time, Error> {
        self.process()?.terminate()
    }

    /// SIGKILL; does not wait.
    ///
    /// # Errors
    /// It does not run.
    pub fn kill(&self) -> Result<Time, Error> {
        self.process()?.kill()
    }

    /// SIGSTOP.
    ///
    /// # Errors
    /// It does not run.
    pub fn freeze(&self) -> Result<Time, Error> {
        self.process()?.freeze()
    }

    /// SIGCONT.
    ///
    /// # Errors
    /// It does not run.
    pub fn thaw(&self) -> Result<Time, Error> {
        self.process()?.thaw()
    }

    /// Starts it again with the options it had.
    ///
    /// # Errors
    /// It was never started, or the host is down.
    pub fn start_again(&self) -> Result<Time, Error> {
        self.process()?.start()
    }

    /// SIGTERM, and waits for its end.
    ///
    /// # Errors
    /// It does not run, or goes on for longer than `limit`.
    pub async fn stop(&self, limit: Duration) -> Result<Time, Error> {
        let process = self.process()?;
        let sent = process.terminate()?;
        process.ended(limit).await?;
        Ok(sent)
    }
}

impl Lab {
    /// The agent's binary; builds it the first time. Blocks meanwhile.
    ///
    /// # Errors
    /// It cannot be built.
    pub fn agent_binary(&self) -> Result<PathBuf, assets::Error> {
        let mut known = lock(&self.0.agent);
        if let Some(path) = &*known {
            return Ok(path.clone());
        }
        let path = match &self.0.shape.agent {
            AgentBinary::Build(profile) => assets::agent(*profile)?,
            AgentBinary::Path(path) => path.clone(),
        };
        *known = Some(path.clone());
        Ok(path)
    }

    /// Where the agent's binary is, if one was started.
    #[must_use]
    pub fn agent_folder(&self) -> Option<PathBuf> {
        lock(&self.0.agent).as_ref().and_then(|path| path.parent()).map(Path::to_owned)
    }
}
