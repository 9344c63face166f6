//! The common parts of the driver's controllers.
//!
//! ```text
//!   watches ─▶ claims ──▶ Index ──┬─▶ service_controller        each: events ─▶ machine ─▶ Outbox
//!                    └▶ Change ───┴─▶ placement_hints
//!   Outbox.queue ─▶ driver: prepare ─▶ call ─▶ Outcome ─▶ answered
//! ```
//!
//! A controller knows the [`Index`] and the [`Outbox`], and neither the driver nor another controller.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use mooring_allocator_core::names::{ClaimKind, Key, Uid};
use mooring_allocator_core::remote;
use mooring_allocator_core::work::Target;
use mooring_allocator_endpoints::objects::Companion;
use mooring_api::patch::MetaChange;
use tokio::sync::{mpsc, watch};

use super::index::Index;
use super::queue::Queue;
use crate::api::{ApiError, Call};
use crate::events::Events;
use crate::ops::Ops;

/// A machine that decides, and the code that connects it to the API server.
pub trait Controller {
    /// The controller's kind of write.
    type Job: fmt::Debug;

    /// The latest time for the machine's next step while this allocator leads; None: nothing waits for a time.
    fn next_tick(&self, index: &Index) -> Option<Duration>;

    /// The call to send for a write, now.
    fn prepare(&self, index: &Index, job: &Self::Job) -> Prepared;

    /// The result of a write.
    fn answered(&mut self, index: &mut Index, job: &Self::Job, outcome: Outcome, out: &mut Outbox);
}

/// The call to send for a write.
#[derive(Clone, Debug)]
pub enum Prepared {
    /// This call.
    Call(Call),
    /// The object is read first; if it is still the target, it gets this change.
    ReadThenPatch {
        /// Where it is.
        path: String,
        /// The uid and version that the object must have.
        target: Target,
        /// The change to make.
        change: MetaChange,
    },
    /// Nothing to send: the object has the wanted state already.
    Already,
    /// Nothing to send: the state on which the write was decided is no longer the known state.
    Stale,
    /// The write cannot be encoded: a bug in the program.
    Impossible(String),
}

/// The result of a write.
#[derive(Debug)]
pub enum Outcome {
    /// The write was decided while this allocator led, and was not sent, because it no longer leads.
    NotSent,
    /// [`Prepared::Already`]
    Already,
    /// [`Prepared::Stale`]
    Stale,
    /// [`Prepared::Impossible`]
    Impossible(String),
    /// The write was sent.
    Answered(Result<Bytes, ApiError>),
}

/// A claim to read because of an address.
#[derive(Debug)]
pub struct ClaimRead {
    /// The action's number.
    pub id: u64,
    /// The claim.
    pub key: Key,
    /// The uid that the address names as its owner.
    pub owner: Uid,
}

/// An object that is read and not watched.
#[derive(Debug)]
pub struct ObjectRead {
    /// The action's number.
    pub id: u64,
    /// The read.
    pub call: Call,
    /// Who wants it.
    pub of: Reader,
}

/// The controller that reads an object.
#[derive(Debug)]
pub enum Reader {
    /// That of endpoints: what it reads.
    Endpoints(Companion),
    /// That of machines' addresses: a machine.
    Machines,
}

/// The place where controllers put their actions.
#[derive(Debug)]
pub struct Outbox {
    /// Writes.
    pub queue: Queue,
    /// Claims to read.
    pub reads: Vec<ClaimRead>,
    /// Objects to read.
    pub objects: Vec<ObjectRead>,
    /// Calls to outside systems.
    pub outside: Vec<remote::Call>,
    /// Asks the follower of addresses for a list.
    pub lists: mpsc::Sender<u64>,
    /// Asks that of metal3's addresses.
    pub metal3_lists: mpsc::Sender<u64>,
    /// Asks for lists of all kinds that Services, endpoints or machines depend on.
    pub relist: watch::Sender<u64>,
    /// Kubernetes Events.
    pub events: Events,
    /// Metrics, health and the log.
    pub ops: Arc<Ops>,
}

impl Outbox {
    /// Asks the follower of the addresses of these claims for a list.
    pub const fn lists(&self, of: ClaimKind) -> &mpsc::Sender<u64> {
        match of {
            ClaimKind::ClusterApi => &self.lists,
            ClaimKind::Metal3 => &self.metal3_lists,
        }
    }

    /// Asks for lists of all kinds. Returns the number of the request: it grows.
    pub fn ask_for_lists(&self) -> u64 {
        let mut number = 0;
        self.relist.send_modify(|last| {
            *last += 1;
            number = *last;
        });
        number
    }
}
