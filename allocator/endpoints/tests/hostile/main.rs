//! Hostile input: what people write as static pods. As the agent's tests of the same name; `fuzz/` runs the same check for
//! longer; see docs/src/reliability-fuzz.md.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "checks: they fail by panicking")]

mod check;
#[path = "../../../../agent/tests/hostile/corpus.rs"]
mod corpus;
