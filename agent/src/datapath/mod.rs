//! Addresses on interfaces, through rtnetlink.
//!
//! A VIP stands on an interface with a finite lifetime ([`crate::core::fence`]). The VIP is deprecated from the start
//! (`preferred_lft 0`), so that the kernel never picks it as a source address, and is marked as ours ([`ownership`]).
//! The agent never refreshes and never removes an address that is not ours. Every request has a deadline.

pub mod address;
pub mod capability;
pub mod error;
pub mod find;
pub mod link;
pub mod monitor;
pub mod ownership;
mod prefix;
mod put;
mod remove;
mod request;
mod routes;
mod service;
mod unanswered;

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::JoinHandle;

pub use mooring_common::clock;

pub use self::address::Vip;
pub use self::capability::missing_capabilities;
pub use self::error::Error;
pub use self::find::{Found, Kind};
pub use self::link::Interface;
pub use self::monitor::KernelEvent;
pub use self::put::{Placed, Put, PutAll};
pub use self::remove::RemoveAll;

use self::ownership::Known;
use self::request::Requests;

/// How many kernel events may wait for the event loop. If the event loop does not take them, the kernel's own buffer
/// fills up and events are lost. [`KernelEvent::Resync`] reports the loss.
const EVENTS: usize = 256;

/// Options for opening the datapath.
#[derive(Clone, Debug)]
pub struct Options {
    /// How long a request may take. The kernel answers in microseconds, unless its networking lock is held.
    pub deadline: Duration,
    /// The directory of the record of our addresses, for kernels that do not keep the mark (before 5.18).
    pub run_dir: PathBuf,
    /// Leaves the mark off, as if the kernel did not know the attribute: for tests.
    pub no_proto: bool,
    /// Which VIPs this datapath manages.
    pub whose: Whose,
}

/// Which VIPs a datapath manages. Each kind leaves the addresses of the other kind alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Whose {
    /// The control plane's VIPs.
    #[default]
    ControlPlane,
    /// The VIPs of Services, and other VIPs from `IPAddress` objects.
    Services,
}

impl Whose {
    /// The name of the file that lists the addresses, where the kernel keeps no mark.
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
    whose: Whose,
    requests: Requests,
    known: Shared,
    monitor: JoinHandle<()>,
}

impl Datapath {
    /// Opens the datapath for the network namespace of this thread, with default options; spawns on the current
    /// runtime.
    pub fn open() -> Result<(Self, mpsc::Receiver<KernelEvent>), Error> {
        Self::open_with(&Options::default())
    }

    /// Opens the datapath for the network namespace of this thread; spawns on the current runtime.
    pub fn open_with(options: &Options) -> Result<(Self, mpsc::Receiver<KernelEvent>), Error> {
        let requests = Requests::open(options.deadline)?;
        let known = Shared::new(Known::load(options)?);
        let (events, receiver) = mpsc::channel(EVENTS);
        let monitor = monitor::spawn(known.clone(), events)?;
        Ok((Self { whose: options.whose, requests, known, monitor }, receiver))
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

/// The state that the datapath and its monitor share. Never locked across an await.
#[derive(Clone, Debug)]
struct Shared(Arc<Mutex<Known>>);

impl Shared {
    fn new(known: Known) -> Self {
        Self(Arc::new(Mutex::new(known)))
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        // A panic while the lock was held leaves at worst an address unknown; the agent then looks for the address.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
