//! This crate decides which claim gets which address. It does not use tokio, kube or a clock. Its input is the time and
//! what was seen; its output is a list of actions. The program around the crate translates.
//!
//! - *Arithmetic*: [`pool`] reads what a pool may hand out; [`book`] records the holders and the free units.
//! - *Protocol*: [`protocol`] brings a claim to an address that nobody else has, in whatever order things happen. The
//!   addresses come from a [`provider`]; [`in_cluster`] is one.
//! - *Placement hints*: [`placement_hints`] copies what pools say of interface and nodes onto addresses.
//! - *Work*: [`work`] is the queue that all machines have: timers, writes under way, back-off, answers.
//! - *What patches and judgement need besides*: [`retained_meta`] of claims, [`foreign_finalizers`] of addresses, [`clusters`]
//!   that hold claims back, the [`written_status`] of pools, and the [`scope`] of this allocator.

//! # Where to look
//!
//! - **Where a claim is bound to its address**: `protocol/machine/gate.rs`, by the rules in [`protocol`]'s text. The driver of
//!   `mooring-allocator` makes the patch (`allocator/src/driver/claims/writes.rs`, with `patch.rs` of `mooring-api`).
//! - **Which address a claim gets**: [`in_cluster`], over the free sets of [`book`].
//! - **When a claim waits, and for how long**: `protocol/machine/waiting.rs`; after failed writes: `work/back_off.rs`.
//! - **When an address is free again**: `protocol/machine/disposing.rs`.

#![warn(missing_docs)]

pub mod block;
pub mod book;
pub mod clusters;
pub mod few;
pub mod foreign_finalizers;
pub mod in_cluster;
pub mod names;
pub mod ownerless;
pub mod placement_hints;
pub mod pool;
pub mod protocol;
pub mod provider;
pub mod providers;
pub mod range_set;
pub mod remote;
pub mod retained_meta;
pub mod scope;
pub mod text;
pub mod work;
pub mod written_status;
