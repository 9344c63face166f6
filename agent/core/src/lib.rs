//! What decides in the agent. Nothing in here knows tokio, kube, a clock or a socket: a core is told `now` and what
//! happened, and answers with what to do. `mooring-agent` translates between the cores and the world. The compiler keeps it so:
//! this crate depends on none of those crates.
//!
//! [`control_plane::ControlPlane`] decides for one Lease and its VIPs, [`lease_vips::LeaseVips`] for many Leases,
//! [`session_vips::SessionVips`] for a node's session and many VIPs. Each is a [`Core`]: `step(moment, event) -> outputs`. The
//! first two rest on [`elector::Elector`]. Each of the other modules is one idea that the cores use.
//!
//! # Where to look
//!
//! - **How long a VIP lives in the kernel**: `lifetime` in [`fence`] computes it from a deadline. The deadline comes from
//!   `deadline` in `elector/carrying.rs`, and for session VIPs from `session_vips/lapsing.rs` or, for a short fence,
//!   `take_up` and `refresh_short` in `session_vips/carrying.rs`. The lifetime that reaches the kernel is computed in the agent's
//!   `datapath/put.rs`; where a core calls `lifetime` itself, it predicts when the kernel drops the address.
//! - **Who may write a holder record** (`mooring.dev/holder` on an `IPAddress`): the head of `session_vips/records.rs` says who
//!   and when; `session_vips/record_state.rs` says whose the VIP is by it. A Lease is written in `elector/writing.rs`.
//! - **What happens on a foreign ARP frame**: `mooring-agent` reads it (`segment/listener.rs`, `segment/hear.rs`) and hands it to its
//!   event loop. [`Event::Heard`] reaches `heard` in `session_vips/challenge.rs`, or in
//!   `elector/intake.rs` and then `challenged` in `elector/holding.rs`. A defence restarts the VIP's [`schedule`], and what is due
//!   there leaves as [`Output::Announce`]. What silence means: [`witness`].
//! - **Who may carry a VIP while the API is silent**: [`peers`] says how many other nodes must be heard. `elector/unleased.rs` and
//!   `session_vips/lapsing.rs` refresh short fences by that; nobody announces there on its own (`may_announce`).
//! - **Which combinations of state are legal**: `elector/invariants.rs` and `session_vips/invariants.rs`.
//! - **Times that several modules share and that are no settings**: [`rules`].

#![warn(missing_docs)]

pub mod action;
pub mod clocks;
pub mod control_plane;
pub mod core;
pub mod echo;
pub mod elector;
pub mod event;
pub mod evidence;
pub mod fence;
mod frames;
pub mod health;
pub mod lease_vips;
mod look;
pub mod moves;
mod name_taken;
mod named;
pub mod parties;
pub mod peers;
pub mod placement;
pub mod planted;
mod proxies;
pub mod rules;
pub mod schedule;
pub mod session;
pub mod session_vips;
pub(crate) mod step;
#[cfg(test)]
mod test_world;
pub mod trace;
mod windows;
pub mod witness;

pub use mooring_lease::{lease, mac, observation, time};

pub use self::core::{Core, Event, Interface, NO_INTERFACE, Output, Probe, Vip};
