//! A lab with agents and observers: what every scenario, bench and the demo begin with.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use mooring_agent::core::time::Time;

use crate::agents::{AGENT, AgentOptions};
use crate::fault::Fault;
use crate::host::Netns;
use crate::lab::{Lab, Shape};
use crate::observe::addresses::Addresses;
use crate::observe::echo::{self, Echo};
use crate::observe::https::{Https, Target};
use crate::observe::prober::Prober;
use crate::observe::tap::Tap;
use crate::observe::timeline::Timeline;
use crate::observe::{Place, now};

/// How long an election may take on a busy machine.
pub const ELECTED: Duration = Duration::from_mins(1);

impl Place for Netns {
    fn spawn_thread<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> std::thread::JoinHandle<T> {
        Netns::spawn_thread(self, work)
    }
}

/// Observers see the first VIP; [`ControlPlaneRig::addresses`] sees all.
pub struct ControlPlaneRig {
    /// The lab.
    pub lab: Lab,
    /// When each VIP came and went on each control plane.
    pub addresses: Addresses,
    /// ARP and NDP on the switch.
    pub tap: Tap,
    echoes: Vec<(String, Echo)>,
    options: AgentOptions,
    down: Vec<(String, Time, Option<Time>)>,
}

impl ControlPlaneRig {
    /// Brings up the lab and its observers; no agent runs yet.
    ///
    /// # Errors
    /// The lab's.
    pub async fn up(shape: Shape, options: AgentOptions) -> Result<Self> {
        Self::on(Lab::up(shape).await?, options)
    }

    /// On a lab that is up; no agent runs.
    ///
    /// # Errors
    /// An observer cannot be started.
    pub fn on(lab: Lab, options: AgentOptions) -> Result<Self> {
        let addresses = Addresses::of(lab.vips());
        let ports: Vec<String> = lab.hosts().iter().map(|host| host.name().to_owned()).collect();
        let ports: Vec<&str> = ports.iter().map(String::as_str).collect();
        let tap = Tap::start(lab.segment().switch(), &ports)?;
        let mut rig = Self { lab, addresses, tap, echoes: vec![], options, down: vec![] };
        for name in rig.lab.control_planes() {
            rig.observe(&name)?;
        }
        Ok(rig)
    }

    /// Watches a control plane's addresses, and has it answer the prober.
    ///
    /// # Errors
    /// There is no such host, or it is down.
    pub fn observe(&mut self, name: &str) -> Result<()> {
        let netns = self.lab.netns(name)?;
        self.addresses.watch(name, &netns)?;
        self.echo(name, &netns)
    }

    fn echo(&mut self, name: &str, netns: &Netns) -> Result<()> {
        self.echoes.retain(|(known, _)| known != name);
        for vip in self.lab.vips().to_vec() {
            let echo = Echo::start(netns, name, SocketAddr::new(vip, echo::PORT))?;
            self.echoes.push((name.to_owned(), echo));
        }
        Ok(())
    }

    /// Starts an agent on every control plane.
    ///
    /// # Errors
    /// One cannot be started.
    pub fn start_agents(&self) -> Result<()> {
        for name in self.lab.control_planes() {
            self.start_agent(&name)?;
        }
        Ok(())
    }

    /// Starts the agent of one host.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn start_agent(&self, name: &str) -> Result<()> {
        self.lab.agent(name)?.start(self.options.clone())?;
        Ok(())
    }

    /// Waits until one control plane carries the VIP, and the Lease names it.
    ///
    /// # Errors
    /// Nobody does, or several.
    pub async fn holder(&self) -> Result<String> {
        let deadline = now() + ELECTED;
        loop {
            let timeline = self.timeline();
            let holders = timeline.holders_at(now());
            if let (1, Some(holder)) = (holders.len(), holders.first()) {
                return Ok((*holder).to_owned());
            }
            if now() > deadline {
                bail!("no election within {} s: the VIP is on {holders:?}; {}", ELECTED.as_secs(), self.logs());
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Waits until a control plane other than `not` carries the VIP.
    ///
    /// # Errors
    /// None does within `limit`.
    pub async fn successor(&self, not: &str, limit: Duration) -> Result<String> {
        let deadline = now() + limit;
        loop {
            if let Some(holder) = self.timeline().holders_at(now()).into_iter().find(|holder| *holder != not) {
                return Ok(holder.to_owned());
            }
            if now() > deadline {
                bail!("nobody took over from {not} within {} s; {}", limit.as_secs(), self.logs());
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// The timeline of the first VIP; a host that crashed has no part in it until it is revived.
    #[must_use]
    pub fn timeline(&self) -> Timeline {
        self.timeline_of(self.lab.vip())
    }

    /// The timeline of a VIP; a host that crashed has no part in it until it is revived.
    #[must_use]
    pub fn timeline_of(&self, vip: IpAddr) -> Timeline {
        let timeline = self.addresses.timeline(vip);
        self.down.iter().fold(timeline, |timeline, (name, from, to)| timeline.without(name, *from, *to))
    }

    /// Power failure of a host: see [`Lab::crash`].
    ///
    /// # Errors
    /// There is no such host, or it is down already.
    pub fn crash(&mut self, name: &str) -> Result<Time> {
        let at = self.lab.crash(name)?;
        self.echoes.retain(|(known, _)| known != name);
        self.down.push((name.to_owned(), at, None));
        Ok(at)
    }

    /// Power is back: the host boots, and starts what ran when it crashed.
    ///
    /// # Errors
    /// There is no such host, or it runs.
    pub fn revive(&mut self, name: &str) -> Result<Time> {
        let at = self.lab.revive(name)?;
        for down in self.down.iter_mut().filter(|(known, _, to)| known == name && to.is_none()) {
            down.2 = Some(at);
        }
        // Its network namespace outlived the crash, and with it the watch; its programs did not.
        let netns = self.lab.netns(name)?;
        self.echo(name, &netns)?;
        Ok(at)
    }

    /// Applies a fault, and follows what it does to the programs of this rig.
    ///
    /// # Errors
    /// As [`Lab::apply`].
    pub fn apply(&mut self, fault: &Fault) -> Result<Time> {
        match fault {
            Fault::Crash { host } => self.crash(host),
            Fault::Revive { host } => self.revive(host),
            _ => Ok(self.lab.apply(fault)?),
        }
    }

    /// A prober of the first VIP: 1,000 UDP echoes a second from the client.
    ///
    /// # Errors
    /// No socket.
    pub fn prober(&self) -> Result<Prober> {
        self.prober_of(self.lab.vip())
    }

    /// A prober of one VIP.
    ///
    /// # Errors
    /// No socket.
    pub fn prober_of(&self, vip: IpAddr) -> Result<Prober> {
        Ok(Prober::start(&self.client()?, SocketAddr::new(vip, echo::PORT))?)
    }

    /// An HTTPS prober of the API through the first VIP, with a new connection each time.
    ///
    /// # Errors
    /// No certificate.
    pub fn https(&self) -> Result<Https> {
        let pki = self.lab.cluster()?.pki();
        let admin = pki.super_admin()?;
        let target = Target {
            address: SocketAddr::new(self.lab.vip(), 6443),
            name: "kubernetes".to_owned(),
            path: "/readyz".to_owned(),
            ca: pki.ca().as_bytes().to_vec(),
            client: Some((admin.cert.into_bytes(), admin.key.into_bytes())),
            keep: false,
        };
        Ok(Https::start(&self.client()?, target)?)
    }

    /// The client's namespace.
    ///
    /// # Errors
    /// There is none.
    pub fn client(&self) -> Result<Netns> {
        self.lab.netns("client").context("the lab's client")
    }

    /// The last lines of every agent's log, for errors.
    #[must_use]
    pub fn logs(&self) -> String {
        let mut text = String::new();
        for name in self.lab.control_planes() {
            if let Ok(process) = self.lab.process(&name, AGENT) {
                text = format!("{text}\n--- {name}\n{}", process.log_tail(12));
            }
        }
        text
    }

    /// Waits for a moment.
    pub async fn until(&self, moment: Time) {
        tokio::time::sleep(moment.since(now())).await;
    }
}
