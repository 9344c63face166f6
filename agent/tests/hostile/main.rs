//! Hostile input: the decoders, on the kept corpus of the coverage-guided targets, on random changes of it, and on random
//! bytes. `fuzz/` runs the same checks for longer; see docs/src/reliability-fuzz.md.

mod check;
mod corpus;
mod servers;
