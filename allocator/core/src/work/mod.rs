//! The common parts of all level-triggered machines.
//!
//! An event changes the known state, and marks the objects that it concerns. The machine then evaluates each of these
//! again. Each has at most one write under way; a failed write is tried again later. The machine decides the order of
//! the marked objects ([`Order`]), and what to do with an answer. This module has the rest, once.

mod answer;
mod back_off;
mod moment;
mod object_writes;
mod order;
mod queue;
mod repeats;
mod target;
mod writes;

pub use answer::{Done, Failure};
pub use back_off::{BackOff, Retry};
pub use moment::Moment;
pub use object_writes::{ObjectWrite, ObjectWrites, Start};
pub use order::Order;
pub use queue::WorkQueue;
pub use repeats::{Repeatable, Repeats};
pub use target::{PoolTarget, Target};
pub use writes::{RETRY, SHOWN_WITHIN, STALE_WITHIN, UNSHOWN, Writes};

/// For a machine with more objects than this, the invariants are not checked after each step: the check would take too
/// long, in builds that check at all.
pub const FEW: usize = 64;
