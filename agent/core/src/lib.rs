//! What decides. Nothing in here knows tokio, kube, a clock or a socket: it is given `now` and what was seen, and
//! answers with what to do. The edges (in `mooring-agent`) translate.
//! The compiler sees to it: this crate depends on none of them.
//!
//! [`keeper::Keeper`] is the whole for one Lease and its VIPs, [`leased::Leased`] for many Leases, [`fleet::Fleet`] for a
//! node's session and many VIPs: `step(moment, event) -> actions`. Each of the other modules is one idea they use.

pub mod action;
pub mod event;
pub mod fence;
pub mod fleet;
pub mod health;
pub mod keeper;
pub mod leader;
pub mod lease;
pub mod leased;
pub mod mac;
pub mod moves;
pub mod observation;
pub mod placement;
pub mod planted;
pub mod rules;
pub mod schedule;
pub mod session;
pub mod time;
pub mod trace;
pub mod witness;
