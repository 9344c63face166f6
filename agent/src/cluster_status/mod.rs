//! `mooring-agent status --cluster`: what the whole cluster's agents have written into the Kubernetes API, from any machine with a
//! kubeconfig.
//!
//! [`read`] lists the objects, [`judge`] makes of them what people ask for, [`tables`] prints it.

pub mod judge;
pub mod read;
mod tables;

use std::io;
use std::net::IpAddr;
use std::process::ExitCode;

use mooring_common::clock::realtime;
use serde::Serialize;

use self::read::{Place, ReadError};
use crate::cli::Output;
use crate::ops::repeat::{self, State};

/// The VIPs of a cluster and the nodes that carry them, as the API shows them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ClusterStatus {
    /// The control plane's VIP; None: no such Lease.
    pub control_plane: Option<ControlPlane>,
    /// VIPs of Services and of other `IPAddress` objects, in the order of their addresses.
    pub vips: Vec<Vip>,
    /// The nodes with a session, in the order of their names.
    pub nodes: Vec<Node>,
    /// What could not be read, and why. What depends on it is left out above.
    pub unread: Vec<String>,
}

/// The Lease of the control plane's VIP.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ControlPlane {
    /// NAMESPACE/NAME.
    pub lease: String,
    /// The node; empty: nobody.
    pub holder: String,
    /// Whether the holder is a Mooring agent that takes part in early fail-over; false: kube-vip, or an elector of client-go.
    pub takes_part: bool,
    /// The VIPs that the holder declares.
    pub vips: Vec<IpAddr>,
    /// Milliseconds since the last renewal, by this machine's clock; None: it was never renewed.
    pub renewed_ago_ms: Option<u64>,
    /// Not renewed for longer than the Lease lasts, by this machine's clock.
    pub expired: bool,
    /// How often it changed hands.
    pub transitions: u32,
    /// The nodes that take part, the holder left out.
    pub candidates: Vec<String>,
}

/// One VIP.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Vip {
    /// Its address.
    pub address: IpAddr,
    /// Its `IPAddress`, NAMESPACE/NAME.
    pub object: String,
    /// The Services that have it, NAMESPACE/NAME.
    pub services: Vec<String>,
    /// The node that carries it, by its record.
    pub holder: Option<String>,
    /// What the record and the sessions say.
    pub state: VipState,
    /// The nodes that would have it next, the best first.
    pub next: Vec<String>,
    /// Who else has the address, as the agents reported it.
    pub conflict: Option<String>,
}

/// What is known of a VIP's holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum VipState {
    /// A live session carries it.
    Carried,
    /// Its holder hands it over.
    HandedOver,
    /// Its holder has not renewed its session in time: the agent or its API server is away. It may still answer.
    HolderLate,
    /// Its holder's session has ended; nobody has taken it yet.
    HolderEnded,
    /// Nobody has it.
    Free,
    /// A Lease of kube-vip's kind gives it to the node.
    ByLease,
}

/// A node's session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Node {
    /// Its name.
    pub node: String,
    /// What its session says.
    pub session: Session,
    /// Milliseconds since the last renewal, by this machine's clock.
    pub renewed_ago_ms: Option<u64>,
    /// How many VIPs its records give it.
    pub vips: usize,
    /// Its interfaces and their addresses.
    pub links: Vec<String>,
    /// Who ended its session, and why.
    pub ended: Option<String>,
}

/// A session's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Session {
    /// Renewed in time.
    Live,
    /// Not renewed in time, by this machine's clock.
    Late,
    /// Its node is about to leave.
    Leaving,
    /// Ended.
    Ended,
}

/// Prints the state, once or repeatedly.
#[must_use]
pub fn print(place: &Place, output: Output, watch: bool) -> ExitCode {
    repeat::print(|| look(place), output, watch)
}

impl State for ClusterStatus {
    fn tables(&self) -> String {
        tables::render(self)
    }
}

/// Reads the cluster's state.
///
/// # Errors
/// No API server answers, or the credentials are not accepted.
fn look(place: &Place) -> Result<ClusterStatus, LookError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    Ok(judge::judge(&runtime.block_on(read::read(place))?, realtime()))
}

/// There is no state to print.
#[derive(Debug, thiserror::Error)]
enum LookError {
    #[error("cannot start: {0}")]
    Runtime(#[from] io::Error),
    #[error(transparent)]
    Read(#[from] ReadError),
}
