//! What must hold for whatever bytes arrive, a file a decoder. The coverage-guided targets in `fuzz/` run the same
//! functions; here they run on the kept corpus and on random changes of it.

mod bytes;
mod elector;
mod frames;
mod kubeconfig;
mod lease;
mod names;
mod netlink;
mod objects;
mod settings;
mod slices;
mod status;
mod trace;

/// A decoder: the name of its target and corpus, and its check, which panics where something does not hold.
pub type Target = (&'static str, fn(&[u8]));

/// All of them.
pub const TARGETS: &[Target] = &[
    ("frames", frames::check),
    ("lease", lease::check),
    ("slices", slices::check),
    ("objects", objects::check),
    ("settings", settings::check),
    ("names", names::check),
    ("kubeconfig", kubeconfig::check),
    ("status", status::check),
    ("netlink", netlink::check),
    ("trace", trace::check),
    ("elector", elector::check),
];
/// Where their corpora are, from the crate's folder.
#[allow(dead_code, reason = "the coverage-guided targets are told which")]
pub const CORPUS: &str = "../fuzz/corpus";
