//! How a claim gets an address that nobody else has.
//!
//! **No address twice.** Leader election keeps two allocators out of each other's way, but the protocol does not depend
//! on the election. The protocol depends on the one total order that exists, the order of the store:
//!
//! 1. An `IPAddress` is created, and its claim is *bound* (`status.addressRef`) only after the watch has shown that
//!    object, with every earlier one before it, and none of those that still stand has an address in common. Whatever a
//!    *list* shows beside it counts as earlier. So of two objects with the same address, at most one is ever bound: the
//!    later one's writer, whoever it is, has seen the earlier one.
//! 2. The later one is withdrawn, and its claim tries again. `addressRef` is a name, and the next object has the same
//!    one: so before an object is withdrawn, it is declared *void* on its claim (a count, by compare-and-swap), and an
//!    object is bound only where the claim's count is the object's own number. A bind that was under way, or that a
//!    thawed writer tries again, fails on one or the other. A bound claim cannot be voided by this: the same
//!    compare-and-swap.
//! 3. Every write carries the uid and the version it was decided on.

mod action;
#[cfg(test)]
mod arbitrary_events;
mod event;
pub(crate) mod flaws;
mod machine;
mod objects;
mod registry;
#[cfg(test)]
mod sim;
#[cfg(test)]
mod tests;
mod times;

pub use crate::work::{Failure, Moment, PoolTarget, Target};
pub use action::{Action, New, Purpose, Report, Write};
pub use event::{Done, Event, Object};
pub use machine::Machine;
pub use objects::{Address, Attempt, Claim, Condition, Hold, Links, Paused, Pool, PoolStatus, Reason, Rest};
