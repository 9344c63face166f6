//! The driver of many VIPs (of [`leases`], where they are placed as kube-vip places them), beside that of the control plane's:
//!
//! ```text
//!  watches: IPAddress, Services, slices, Nodes ─▶ Catalog ─┐                     ┌─▶ calls (tasks)
//!  watch of sessions; answers of calls ────────────────────┼─▶ Fleet ─▶ Action ──┼─▶ place (thread): addresses, in batches
//!  kernel: links, addresses ───────────────────────────────┤   (this loop)       ├─▶ segments: announce, probe
//!  segments: ARP and NDP; signals ─────────────────────────┘                     └─▶ reports: log, Events, metrics
//! ```

mod calls;
mod contests;
mod crowd;
mod leases;
mod place;
mod reports;
mod run;
mod segments;
mod show;
mod watches;

pub use leases::run as run_leases;
pub use run::run;

use crate::api::addresses::Addresses;
use crate::catalog::Seen;
use crate::core::fleet::Event;
use crate::core::mac::Mac;
use crate::datapath::Interface;

/// What comes to the loop.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "few at a time, and most of them are events")]
enum Told {
    /// Something for the core.
    Event(Event),
    /// A watch showed something.
    Seen(Box<Seen>),
    /// A watch is lost, or works again.
    Watch {
        /// What is watched.
        what: &'static str,
        /// Why it is not.
        wrong: Option<String>,
    },
    /// The watch of sessions, or of addresses, broke.
    Blind,
    /// The cluster has the kind `IPAddress`, in that version; None: it has not.
    Kind(Option<Addresses>),
    /// The interfaces that VIPs may be on, the first one first, and all MAC addresses of the node.
    Interfaces(Vec<Interface>, Vec<Mac>),
}
