//! Renews a lab that a test has used: its API servers and etcd keep running, everything else is removed.

use std::collections::BTreeSet;
use std::fs;
use std::net::IpAddr;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures::TryStreamExt as _;

use super::{Error, Lab};
use crate::cluster::{API_SERVER, ETCD};
use crate::host::{self, Host, Process, Spec, lock};

/// A killed process ends within this time.
const GONE: Duration = Duration::from_secs(10);
/// The folder for agents' data that must not outlive a boot.
const RUN_DIR: &str = "/run/mooring";

impl Lab {
    /// Ends a host that was added to the shape's hosts, and removes it.
    ///
    /// # Errors
    /// There is no such host, or the kernel refuses.
    pub fn remove_host(&self, name: &str) -> Result<(), Error> {
        let host = self.host(name)?;
        for nic in lock(&self.0.nics).remove(name).unwrap_or_default() {
            // A crash or a test may have removed the interface before.
            if host.netns().index(&nic.interface).is_ok() {
                nic.unplug(host.netns())?;
            }
        }
        host.kill();
        lock(&self.0.hosts).remove(name);
        self.0.faults.forget(name);
        Ok(())
    }

    /// Removes the leftovers of a test: faults, hosts, programs with their logs, addresses and neighbours. Leaves the
    /// objects in the API alone.
    ///
    /// # Errors
    /// A change of the cluster or its hosts cannot be undone, or the kernel refuses.
    pub async fn renew(&self) -> Result<(), Error> {
        if self.0.faults.worn.load(Ordering::Relaxed) {
            return Err(
                host::Error::Unknown { what: "unharmed cluster in", name: self.dir().display().to_string() }.into()
            );
        }
        self.0.faults.end();
        self.heal_all()?;
        let own: BTreeSet<String> = self.0.shape.hosts().into_iter().map(|(name, _)| name).collect();
        for host in self.hosts().iter().filter(|host| !own.contains(host.name())) {
            self.remove_host(host.name())?;
        }
        for host in self.hosts() {
            end_programs(&host).await?;
            forget_addresses(&host)?;
        }
        Ok(())
    }
}

/// Kills programs that are not part of the cluster, and deletes their files.
async fn end_programs(host: &Host) -> Result<(), Error> {
    let all = host.processes();
    let of_cluster = |process: &&Process| [API_SERVER, ETCD].contains(&process.name());
    for process in all.iter().filter(|process| !of_cluster(process)) {
        if process.is_running() {
            process.kill()?;
            process.ended(GONE).await?;
        }
        // The program may never have written a log.
        drop(fs::remove_file(process.log()));
    }
    if all.len() > all.iter().filter(of_cluster).count() {
        let cleaner = host.start(Spec::new("renew", "/bin/rm").args(["-rf", RUN_DIR]))?;
        cleaner.ended(GONE).await?;
    }
    Ok(())
}

/// Deletes addresses that are not the host's own, and all neighbours.
fn forget_addresses(host: &Host) -> Result<(), Error> {
    let own = host.addresses();
    let link_local = |address: &IpAddr| matches!(address, IpAddr::V6(address) if address.is_unicast_link_local());
    for interface in ["lo", "eth0"] {
        for (address, _) in host.netns().addresses(interface)? {
            if !own.contains(&address) && !address.is_loopback() && !link_local(&address) {
                host.netns().delete_address(interface, address)?;
            }
        }
    }
    host.netns().netlink("forget neighbours", async |handle| {
        let all: Vec<_> = handle.neighbours().get().execute().try_collect().await?;
        for one in all {
            // An entry that the kernel keeps, or that is already gone.
            drop(handle.neighbours().del(one).execute().await);
        }
        Ok(())
    })?;
    Ok(())
}
