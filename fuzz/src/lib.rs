//! The checks are those of the agent and of the allocator: their stable tests run them on the kept corpus.

#[path = "../../agent/tests/hostile/check/mod.rs"]
mod agent;
#[path = "../../allocator/endpoints/tests/hostile/check/mod.rs"]
mod endpoints;

/// Runs the check of that name.
pub fn run(name: &str, data: &[u8]) {
    let target = agent::TARGETS.iter().chain(endpoints::TARGETS).find(|(there, _)| *there == name);
    target.unwrap_or_else(|| panic!("no target {name}")).1(data);
}
