//! keepalived beside it: the same segment, client and prober, with keepalived's VRRP in place of the agents.
//!
//! Every instance runs in a host's namespace with a configuration and pid files of its own, in the foreground, and
//! only its VRRP part: nothing of the machine's own keepalived is read or touched.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;
use tempfile::TempDir;

use super::floor::Host;
use crate::observe::echo::Echo;
use crate::observe::netlink::{remove_address, set_up};
use crate::observe::prober::Prober;
use crate::observe::{Error, Place, inside, now};

/// Longer than three lost adverts and an election.
const LIMIT: Duration = Duration::from_secs(20);

/// How the master ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Its port goes down and its processes are killed.
    Crash,
    /// It gets SIGTERM, and gives the address up itself.
    Terminate,
}

/// One run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// From the master's end to the first answer of another host.
    pub outage: Duration,
    /// Probes lost, of a thousand a second.
    pub lost: usize,
}

/// Where keepalived is, if it is installed.
#[must_use]
pub fn installed() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).chain(["/usr/sbin".into(), "/usr/local/sbin".into(), "/sbin".into()]);
    found.map(|dir| dir.join("keepalived")).find(|file| file.is_file())
}

/// Measures `runs` ends of the master. `advert`: time between VRRP adverts, keepalived's default is 1 s. The VIP must
/// be free, and is free again afterwards.
///
/// # Errors
/// When keepalived cannot be run, or the VIP does not come (back) within 20 s.
pub async fn measure<P: Place>(
    program: &Path,
    hosts: &[Host<'_, P>],
    (switch, client): (&P, &P),
    vip: SocketAddr,
    (end, advert, runs): (End, Duration, usize),
) -> Result<Vec<Run>, Error> {
    let dir = TempDir::with_prefix("mooring-keepalived-").map_err(Error::io("make a directory"))?;
    let mut nodes = Vec::new();
    for (host, priority) in hosts.iter().zip((1..=200).rev()) {
        nodes.push(Node {
            host,
            echo: Echo::start(host.place, host.name, vip)?,
            vip,
            instance: Instance::start(program, dir.path(), host, vip, priority, advert)?,
            priority,
        });
    }
    let mut results = Vec::with_capacity(runs);
    for _ in 0..runs {
        let prober = Prober::start(client, vip)?;
        let (_, master) = prober.answer_after(now(), None, LIMIT).await?;
        for node in &nodes {
            node.instance.settled(LIMIT).await?;
        }
        // A second and something of normal traffic; how far off the next advert is differs from run to run.
        let share = Duration::from_nanos(now().as_nanos() % 97).as_secs_f64() * 1e9 / 97.0;
        tokio::time::sleep(Duration::from_millis(1_130) + advert.mul_f64(share)).await;
        let others: BTreeSet<&str> = hosts.iter().map(|h| h.name).filter(|name| *name != master).collect();
        let Some(node) = nodes.iter_mut().find(|node| node.host.name == master) else {
            return Err(Error::Waited { what: format!("an answer of a host of ours, not of {master}"), limit: LIMIT });
        };
        let before = now();
        node.end(end, switch)?;
        let mut heard = Vec::new();
        for other in &others {
            heard.push(Box::pin(prober.answer_after(before, Some(other), LIMIT)));
        }
        let ((at, _), _) = futures::future::select_ok(heard).await?;
        let record = prober.finish()?;
        results.push(Run { outage: at.since(before), lost: record.between(before - advert, at).lost() });
        let priority = node.priority;
        node.recover(end, switch)?;
        node.instance = Instance::start(program, dir.path(), node.host, vip, priority, advert)?;
    }
    for node in nodes {
        node.leave()?;
    }
    Ok(results)
}

struct Node<'a, P> {
    host: &'a Host<'a, P>,
    echo: Echo,
    vip: SocketAddr,
    instance: Instance,
    priority: u8,
}

impl<P: Place> Node<'_, P> {
    fn end(&mut self, end: End, switch: &P) -> Result<(), Error> {
        match end {
            End::Crash => {
                self.port(switch, false)?;
                self.echo.silence(true);
                self.instance.kill()
            }
            End::Terminate => self.instance.terminate(),
        }
    }

    fn recover(&mut self, end: End, switch: &P) -> Result<(), Error> {
        // A killed keepalived leaves its address behind; a reboot would not.
        self.instance.kill()?;
        self.clear()?;
        if end == End::Crash {
            self.echo.silence(false);
            self.port(switch, true)?;
        }
        Ok(())
    }

    fn port(&self, switch: &P, up: bool) -> Result<(), Error> {
        let port = self.host.port.to_owned();
        inside(switch, move || set_up(&port, up))
    }

    fn clear(&self) -> Result<(), Error> {
        let (interface, vip) = (self.host.interface.to_owned(), self.vip.ip());
        inside(self.host.place, move || match remove_address(&interface, vip) {
            Err(Error::System { errno: Errno::EADDRNOTAVAIL, .. }) => Ok(()),
            other => other,
        })
    }

    fn leave(mut self) -> Result<(), Error> {
        self.instance.kill()?;
        self.clear()?;
        self.echo.stop()
    }
}

/// A running keepalived: its parent and its VRRP process. Both are killed when it is dropped.
struct Instance {
    child: Child,
    pid_file: PathBuf,
    log: PathBuf,
}

impl Instance {
    fn start<P: Place>(
        program: &Path,
        dir: &Path,
        host: &Host<'_, P>,
        vip: SocketAddr,
        priority: u8,
        advert: Duration,
    ) -> Result<Self, Error> {
        let file = |what: &str| dir.join(format!("{}.{what}", host.name));
        let (settings, log, pid_file) = (file("conf"), file("log"), file("vrrp.pid"));
        fs::write(&settings, configuration(host, vip, priority, advert))
            .map_err(Error::io("write keepalived's file"))?;
        // A killed one leaves its pid files, and they would keep the next from starting.
        for stale in [&pid_file, &file("pid")] {
            if stale.exists() {
                fs::remove_file(stale).map_err(Error::io("remove keepalived's pid file"))?;
            }
        }
        let output = File::create(&log).map_err(Error::io("create keepalived's log"))?;
        let errors = output.try_clone().map_err(Error::io("share keepalived's log"))?;
        let mut command = Command::new(program);
        command
            .args(["--dont-fork", "--vrrp", "--log-console", "--log-detail", "--no-syslog", "--dont-respawn"])
            .arg("--use-file")
            .arg(&settings)
            .arg("--pid")
            .arg(file("pid"))
            .arg("--vrrp_pid")
            .arg(&pid_file)
            .stdin(Stdio::null())
            .stdout(output)
            .stderr(errors)
            .process_group(0);
        let child = inside(host.place, move || command.spawn().map_err(Error::io("start keepalived")))?;
        Ok(Self { child, pid_file, log })
    }

    /// Waits until it has said what it is, master or backup: then it takes part.
    async fn settled(&self, limit: Duration) -> Result<(), Error> {
        let wait = async {
            loop {
                let text = fs::read_to_string(&self.log).unwrap_or_default();
                if text.contains("BACKUP STATE") || text.contains("MASTER STATE") {
                    break;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(limit, wait).await.map_err(|_| {
            let text = fs::read_to_string(&self.log).unwrap_or_default();
            let last = text.lines().last().unwrap_or("it said nothing");
            Error::Waited { what: format!("keepalived to take part; its last words: {last}"), limit }
        })
    }

    fn pid(&self) -> Option<Pid> {
        i32::try_from(self.child.id()).ok().map(Pid::from_raw)
    }

    fn terminate(&mut self) -> Result<(), Error> {
        self.pid().map_or(Ok(()), |pid| signal(kill(pid, Signal::SIGTERM)))
    }

    fn kill(&mut self) -> Result<(), Error> {
        // The VRRP process first: it says goodbye when it sees its parent die.
        if let Some(vrrp) = self.vrrp_process() {
            signal(kill(vrrp, Signal::SIGKILL))?;
        }
        if self.child.try_wait().ok().flatten().is_none()
            && let Some(pid) = self.pid()
        {
            signal(killpg(pid, Signal::SIGKILL))?;
        }
        self.child.wait().map(drop).map_err(Error::io("wait for keepalived"))
    }

    /// The VRRP process, if the pid in its file is still a child of ours.
    fn vrrp_process(&self) -> Option<Pid> {
        let pid: i32 = fs::read_to_string(&self.pid_file).ok()?.trim().parse().ok()?;
        let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let parent = status.lines().find_map(|line| line.strip_prefix("PPid:"))?.trim().parse::<u32>().ok()?;
        (parent == self.child.id()).then(|| Pid::from_raw(pid))
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        if let Err(error) = self.kill() {
            tracing::warn!(%error, "keepalived could not be ended");
        }
    }
}

/// A process that is gone already needs no signal.
fn signal(sent: Result<(), Errno>) -> Result<(), Error> {
    match sent {
        Ok(()) | Err(Errno::ESRCH) => Ok(()),
        Err(errno) => Err(Error::System { what: "signal keepalived".into(), errno }),
    }
}

fn configuration<P>(host: &Host<'_, P>, vip: SocketAddr, priority: u8, advert: Duration) -> String {
    let (prefix, version) = if vip.is_ipv6() { (128, 3) } else { (32, 2) };
    // VRRP version 2 knows whole seconds only.
    let version = if advert.subsec_nanos() == 0 { version } else { 3 };
    format!(
        "global_defs {{
    router_id {name}
    vrrp_version {version}
}}
vrrp_instance lab {{
    state BACKUP
    nopreempt
    interface {interface}
    virtual_router_id 51
    priority {priority}
    advert_int {advert}
    virtual_ipaddress {{
        {address}/{prefix} dev {interface}
    }}
}}
",
        name = host.name,
        interface = host.interface,
        advert = advert.as_secs_f64(),
        address = vip.ip(),
    )
}
