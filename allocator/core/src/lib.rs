//! What decides which claim gets which address. Nothing in here knows tokio, kube or a clock: it is given `now` and what
//! was seen, and answers with what to do. The edges translate.
//!
//! Two halves that know little of each other. The *arithmetic*: [`pool`] reads what a pool may hand out, [`book`] keeps
//! who has what and what is free. The *protocol*: how a claim comes to an address that nobody else has, whatever order
//! things happen in: [`protocol`], over a [`provider`] of addresses, of which
//! [`in_cluster`] is one. Beside them [`steering`]: what pools say to the nodes that hold their addresses.

pub mod block;
pub mod book;
pub mod in_cluster;
pub mod names;
pub mod pool;
pub mod protocol;
pub mod provider;
pub mod range_set;
pub mod steering;
pub mod text;
