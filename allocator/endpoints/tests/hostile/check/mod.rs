//! What must hold for whatever bytes arrive, a file a decoder.

mod manifest;

/// A decoder: the name of its target and corpus, and its check, which panics where something does not hold.
pub type Target = (&'static str, fn(&[u8]));

/// All of them.
pub const TARGETS: &[Target] = &[("manifest", manifest::check)];
/// Where their corpora are, from the crate's folder.
#[allow(dead_code, reason = "the coverage-guided targets are told which")]
pub const CORPUS: &str = "../../fuzz/allocator-corpus";
