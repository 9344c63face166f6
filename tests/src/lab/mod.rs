//! A lab: a segment, hosts, and on them a cluster.
//!
//! ```no_run
//! # async fn story() -> Result<(), Box<dyn std::error::Error>> {
//! use mooring_tests::{Lab, Shape};
//! use mooring_tests::agents::AgentOptions;
//!
//! let lab = Lab::up(Shape::external()).await?;
//! for name in lab.control_planes() {
//!     lab.agent(&name)?.start(AgentOptions::default())?;
//! }
//! lab.crash("cp1")?;
//! lab.revive("cp1")?;
//! lab.down();
//! # Ok(()) }
//! ```

mod folder;
mod renew;
mod shape;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use folder::Folder;
pub use shape::{Shape, Topology};

use crate::agents::Agent;
use crate::assets;
use crate::cluster::{self, Cluster};
use crate::fault::Faults;
use crate::host::{self, Host, Netns, lock};
use crate::pki;
use crate::segment::{self, Nic, Segment};

/// A lab could not be brought up, or did not carry out a request.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A host, a process or a namespace.
    #[error(transparent)]
    Host(#[from] host::Error),
    /// The binaries.
    #[error(transparent)]
    Assets(#[from] assets::Error),
    /// The certificates.
    #[error(transparent)]
    Pki(#[from] pki::Error),
    /// The cluster.
    #[error(transparent)]
    Cluster(#[from] cluster::Error),
    /// A fault.
    #[error(transparent)]
    Fault(#[from] crate::fault::Error),
}

/// A running lab. A clone is the same lab; the lab ends with the last clone.
#[derive(Clone, Debug)]
pub struct Lab(pub(crate) Arc<Inner>);

#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) shape: Shape,
    pub(crate) hosts: Mutex<BTreeMap<String, Host>>,
    pub(crate) segment: Segment,
    pub(crate) cluster: Option<Cluster>,
    pub(crate) faults: Faults,
    /// The interfaces of each host, as plugged in at boot.
    pub(crate) nics: Mutex<BTreeMap<String, Vec<Nic>>>,
    /// The agent's binary, once it is built.
    pub(crate) agent: Mutex<Option<PathBuf>>,
    hosts_file: PathBuf,
    /// The last field: hosts end before the folder is deleted.
    pub(crate) folder: Folder,
}

impl Lab {
    /// Brings a lab up. The lab is ready when this returns: every API server answers and all of them know each other.
    ///
    /// # Errors
    /// What is missing on this machine, and how to fix it.
    pub async fn up(shape: Shape) -> Result<Self, Error> {
        let folder = Folder::new()?;
        let hosts_file = folder.path.join("hosts");
        let mut names = "127.0.0.1 localhost\n::1 localhost\n".to_owned();
        for (name, number) in shape.hosts() {
            let (v4, v6) = (segment::ip4(number), segment::ip6(number));
            // Writing to a String cannot fail.
            _ = writeln!(names, "{v4} {name}\n{v6} {name}");
        }
        fs::write(&hosts_file, names).map_err(host::Error::io(format!("write {}", hosts_file.display())))?;
        let segment = Segment::new()?;
        let (mut hosts, mut nics) = (BTreeMap::new(), BTreeMap::new());
        for (name, number) in shape.hosts() {
            let host = Host::boot(&name, number, folder.path.join(&name), &hosts_file)?;
            let nic = Nic::first(&host);
            nic.plug(host.netns(), &segment)?;
            nics.insert(name.clone(), vec![nic]);
            hosts.insert(name, host);
        }
        let cluster = match shape.topology {
            Topology::Segment => None,
            _ => Some(Cluster::prepare(&shape, &hosts, &folder.path).await?),
        };
        let lab = Self(Arc::new(Inner {
            shape,
            hosts: Mutex::new(hosts),
            segment,
            cluster,
            faults: Faults::default(),
            nics: Mutex::new(nics),
            agent: Mutex::new(None),
            folder,
            hosts_file,
        }));
        if let Some(cluster) = &lab.0.cluster {
            cluster.up().await?;
        }
        Ok(lab)
    }

    /// A host by its name: `cp1` to `cp3`, `client`, `etcd` (external only), and the additional hosts of the shape.
    ///
    /// # Errors
    /// There is none of that name.
    pub fn host(&self, name: &str) -> Result<Host, host::Error> {
        let unknown = || host::Error::Unknown { what: "host", name: name.to_owned() };
        lock(&self.0.hosts).get(name).cloned().ok_or_else(unknown)
    }

    /// All hosts, by name.
    #[must_use]
    pub fn hosts(&self) -> Vec<Host> {
        lock(&self.0.hosts).values().cloned().collect()
    }

    /// The names of the control planes, in order.
    #[must_use]
    pub fn control_planes(&self) -> Vec<String> {
        (1..=self.0.shape.control_planes()).map(|n| format!("cp{n}")).collect()
    }

    /// Boots one more host and plugs it in.
    ///
    /// # Errors
    /// The name or the number is taken, or the kernel refuses.
    pub fn add_host(&self, name: &str, number: u8) -> Result<Host, Error> {
        if let Some(taken) = self.hosts().iter().find(|host| host.name() == name || host.number() == number) {
            let detail = format!("{name} at .{number}: {} at .{} is there already", taken.name(), taken.number());
            return Err(host::Error::Init { host: name.to_owned(), detail }.into());
        }
        let host = Host::boot(name, number, self.0.folder.path.join(name), &self.0.hosts_file)?;
        self.plug(&host, Nic::first(&host))?;
        // Written in place: each host has the file mounted.
        let names = fs::read_to_string(&self.0.hosts_file).map_err(host::Error::io("read the hosts file"))?;
        let names = format!("{names}{} {name}\n{} {name}\n", host.ip4(), host.ip6());
        fs::write(&self.0.hosts_file, names).map_err(host::Error::io("write the hosts file"))?;
        lock(&self.0.hosts).insert(name.to_owned(), host.clone());
        Ok(host)
    }

    /// Adds an interface `ethN` to a host, on the same segment; see [`Nic::more`].
    ///
    /// # Errors
    /// There is no such host, or the host has that interface already.
    pub fn add_nic(&self, host: &str, n: u8) -> Result<Nic, Error> {
        self.wear(host);
        let host = self.host(host)?;
        let nic = Nic::more(&host, n);
        self.plug(&host, nic.clone())?;
        Ok(nic)
    }

    fn plug(&self, host: &Host, nic: Nic) -> Result<(), Error> {
        nic.plug(host.netns(), &self.0.segment)?;
        lock(&self.0.nics).entry(host.name().to_owned()).or_default().push(nic);
        Ok(())
    }

    /// The segment; [`Segment::switch`] is the place for a tap.
    #[must_use]
    pub fn segment(&self) -> &Segment {
        &self.0.segment
    }

    /// The namespace of a host: short for `host(name)?.netns()`.
    ///
    /// # Errors
    /// There is no such host.
    pub fn netns(&self, host: &str) -> Result<Netns, host::Error> {
        Ok(self.host(host)?.netns().clone())
    }

    /// The first VIP of the shape, by default 10.77.0.100.
    #[must_use]
    pub fn vip(&self) -> IpAddr {
        self.0.shape.vips.first().copied().unwrap_or_else(|| segment::ip4(100).into())
    }

    /// All VIPs of the shape, by default 10.77.0.100 and `fd77::100`.
    #[must_use]
    pub fn vips(&self) -> &[IpAddr] {
        &self.0.shape.vips
    }

    /// The agent of a host.
    ///
    /// # Errors
    /// There is no such host.
    pub fn agent(&self, host: &str) -> Result<Agent, host::Error> {
        Ok(Agent::new(self, self.host(host)?))
    }

    /// The folder of the lab: a folder for each host with its logs, `pki/`, and kubeconfigs.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.0.folder.path
    }

    /// `/etc/hosts` of all hosts; may be rewritten while they run (in place, not renamed over).
    #[must_use]
    pub fn hosts_file(&self) -> &Path {
        &self.0.hosts_file
    }

    /// The cluster.
    ///
    /// # Errors
    /// The lab has none.
    pub fn cluster(&self) -> Result<&Cluster, cluster::Error> {
        self.0.cluster.as_ref().ok_or(cluster::Error::None)
    }

    /// Keeps the folder with all logs when the lab ends, and answers with its path. For a test that failed.
    #[allow(clippy::must_use_candidate, reason = "who keeps them may know the folder")]
    pub fn keep_logs(&self) -> PathBuf {
        self.0.folder.keep.store(true, Ordering::Relaxed);
        // Later labs delete the folders of killed labs, except those with this file. Without it the logs are deleted
        // earlier.
        drop(fs::write(self.0.folder.path.join(Folder::KEPT), ""));
        self.0.folder.path.clone()
    }

    /// Takes everything down and waits until it is gone, even if there are other clones of this lab.
    pub fn down(self) {
        self.0.faults.end();
        for host in self.hosts() {
            host.kill();
        }
    }
}
