//! The checks are the agent's: its stable tests run them on the kept corpus.

#[path = "../../agent/tests/hostile/check/mod.rs"]
mod check;

/// Runs the check of that name.
pub fn run(name: &str, data: &[u8]) {
    let target = check::TARGETS.iter().find(|(there, _)| *there == name);
    target.unwrap_or_else(|| panic!("no target {name}")).1(data);
}
