//! Addresses on interfaces, through rtnetlink.
//!
//! A VIP stands on an interface with a finite lifetime ([`crate::core::fence`]), deprecated from the start
//! (`preferred_lft 0`) so that it is never picked as a source address, and marked as ours ([`ownership`]). What is not
//! ours is never refreshed and never removed. Every request has a deadline.

pub mod address;
mod batch;
pub mod capability;
pub mod clock;
pub mod error;
pub mod find;
pub mod link;
pub mod monitor;
pub mod ownership;
mod prefix;
mod put;
mod request;
mod service;

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::JoinHandle;

pub use self::address::Vip;
pub use self::batch::{Placed, PutAll};
pub use self::capability::missing_capabilities;
pub use self::error::{Error, ErrorList};
pub use self::find::{Found, Kind};
pub use self::link::Interface;
pub use self::monitor::KernelEvent;
pub use self::put::Put;

use self::ownership::Known;
use self::request::Requests;

/// How many kernel events may wait for the driver. When it does not come, the kernel's own buffer fills up, and then
/// events are lost, which is told by [`KernelEvent::Resync`].
const EVENTS: usize = 256;

/// What the datapath is opened with.
#[derive(Clone, Debug)]
pub struct Options {
    /// How long a request may take. The kernel answers in microseconds, unless its networking lock is held.
    pub deadline: Duration,
    /// Where it is written down which addresses are ours, on kernels that do not keep the mark (before 5.18).
    pub run_dir: PathBuf,
    /// Leave the mark off, as if the kernel did not know it: for tests.
    pub no_proto: bool,
    /// Whose addresses.
    pub whose: Whose,
}

/// Whose addresses: each leaves the other's alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Whose {
    /// The control plane's VIPs.
    #[default]
    ControlPlane,
    /// Those of Services, and others out of `IPAddress` objects.
    Services,
}

impl Whose {
    /// What the file is called that names them, where the kernel keeps no mark.
    const fn name(self) -> &'static str {
        match self {
            Self::ControlPlane => "addresses",
            Self::Services => "services",
        }
    }

    /// The mark.
    const fn proto(self) -> u8 {
        match self {
            Self::ControlPlane => address::OUR_PROTO,
            Self::Services => address::SERVICES_PROTO,
        }
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            deadline: Duration::from_secs(1),
            run_dir: "/run/mooring".into(),
            no_proto: false,
            whose: Whose::default(),
        }
    }
}

/// The addresses of this network namespace. Dropping it leaves the addresses to their lifetimes.
#[derive(Debug)]
pub struct Datapath {
    requests: Requests,
    known: Shared,
    monitor: JoinHandle<()>,
}

impl Datapath {
    /// Opens it for the network namespace of this thread, with default options; spawns on the current runtime.
    pub fn open() -> Result<(Self, mpsc::Receiver<KernelEvent>), Error> {
        Self::open_with(&Options::default())
    }

    /// Opens it for the network namespace of this thread; spawns on the current runtime.
    pub fn open_with(options: &Options) -> Result<(Self, mpsc::Receiver<KernelEvent>), Error> {
        let requests = Requests::open(options.deadline)?;
        let known = Shared::new(Known::load(options)?);
        let (events, receiver) = mpsc::channel(EVENTS);
        let monitor = monitor::spawn(known.clone(), events)?;
        Ok((Self { requests, known, monitor }, receiver))
    }

    /// From now on, [`KernelEvent::AddressGone`] and [`KernelEvent::AddressAdded`] are sent for these addresses, and
    /// for no others.
    pub fn watch_addresses(&self, addresses: impl IntoIterator<Item = IpAddr>) {
        let addresses: BTreeSet<_> = addresses.into_iter().collect();
        self.known.lock().watched = addresses;
    }
}

impl Drop for Datapath {
    fn drop(&mut self) {
        self.monitor.abort();
    }
}

/// What the datapath and its monitor both know. Never locked across an await.
#[derive(Clone, Debug)]
struct Shared(Arc<Mutex<Known>>);

impl Shared {
    fn new(known: Known) -> Self {
        Self(Arc::new(Mutex::new(known)))
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        // A panic while it was held leaves at worst an address unknown, which is then looked for.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
