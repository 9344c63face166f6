//! Faults of hosts and of processes.

use std::net::IpAddr;

use mooring_agent::core::time::Time;
use nix::sys::signal::Signal;

use super::{Error, lock};
use crate::clock;
use crate::host::{Host, Process};
use crate::lab::Lab;

impl Lab {
    /// Power failure. The host's ports go down first, so that no frame, not even a FIN, gets out; then every process on
    /// the host is killed at once. Its interfaces, addresses and `/run` are gone; its disk (its folder) stays. The
    /// answer is the time of the host's last possible frame.
    ///
    /// # Errors
    /// There is no such host, or it is down already.
    pub fn crash(&self, host: &str) -> Result<Time, Error> {
        self.wear(host);
        let host = self.host(host)?;
        let running = host.processes().iter().filter(|one| one.is_running()).map(|one| one.name().to_owned()).collect();
        if !host.is_up() {
            return Err(crate::host::Error::Down { host: host.name().to_owned() }.into());
        }
        let nics = lock(&self.0.nics).get(host.name()).cloned().unwrap_or_default();
        for nic in &nics {
            // An interface that a test has deleted has no port.
            if self.0.segment.switch().index(&nic.port).is_ok() {
                self.0.segment.set_port(&nic.port, false)?;
            }
        }
        let at = clock::now();
        host.kill();
        lock(&self.0.faults.slow).retain(|(slowed, _), _| slowed != host.name());
        lock(&self.0.faults.crashed).insert(host.name().to_owned(), running);
        for nic in &nics {
            if host.netns().index(&nic.interface).is_ok() {
                nic.unplug(host.netns())?;
            }
        }
        self.heal_api(host.name())?;
        forget_loopback(&host)?;
        Ok(at)
    }

    /// Power is back: the host boots, its interfaces are plugged in, and it starts the programs that ran when it
    /// crashed.
    ///
    /// # Errors
    /// There is no such host, or it runs.
    pub fn revive(&self, host: &str) -> Result<Time, Error> {
        let host = self.host(host)?;
        let Some(running) = lock(&self.0.faults.crashed).remove(host.name()) else {
            let detail = "has not crashed".to_owned();
            return Err(crate::host::Error::Init { host: host.name().to_owned(), detail }.into());
        };
        host.boot_again()?;
        self.plug_all(&host, "")?;
        for name in running {
            host.process(&name)?.start()?;
        }
        Ok(clock::now())
    }

    /// Stops every process of a host (SIGSTOP) in one system call. The kernel keeps running: it answers ARP and pings.
    ///
    /// # Errors
    /// There is no such host, or it is down.
    pub fn freeze_host(&self, host: &str) -> Result<Time, Error> {
        self.wear(host);
        Ok(self.host(host)?.signal_all(Signal::SIGSTOP)?)
    }

    /// Resumes every process of a host.
    ///
    /// # Errors
    /// There is no such host, or it is down.
    pub fn thaw_host(&self, host: &str) -> Result<Time, Error> {
        Ok(self.host(host)?.signal_all(Signal::SIGCONT)?)
    }

    /// A process of a host, for [`Process::kill`], [`Process::freeze`] and so on.
    ///
    /// # Errors
    /// There is no process of this name.
    pub fn process(&self, host: &str, process: &str) -> Result<Process, Error> {
        Ok(self.host(host)?.process(process)?)
    }
}

/// After a power failure, `lo` has only its own addresses.
fn forget_loopback(host: &Host) -> Result<(), Error> {
    let own = |address: &IpAddr| address.is_loopback();
    for (address, _) in host.netns().addresses("lo")?.into_iter().filter(|(address, _)| !own(address)) {
        host.netns().delete_address("lo", address)?;
    }
    Ok(())
}
