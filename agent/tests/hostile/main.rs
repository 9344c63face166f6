//! Hostile input: the decoders, on the kept corpus of the coverage-guided targets, on random changes of it, and on random
//! bytes. `fuzz/` runs the same checks for longer; see docs/src/reliability-fuzz.md.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::similar_names,
    reason = "checks: they fail by panicking"
)]

mod check;
mod corpus;
mod servers;
