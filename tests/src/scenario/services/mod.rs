//! VIPs of Services, from `IPAddress` objects made by hand: the agents' half of the contract with the allocator.

mod members;
mod mishaps;
mod owners;
mod placements;
mod stories;
mod told;
mod upgraded;

use crate::runner::Test;

/// All of them.
pub fn all() -> Vec<Test<()>> {
    let all = [
        stories::all(),
        members::all(),
        mishaps::all(),
        owners::all(),
        placements::all(),
        told::all(),
        upgraded::all(),
    ];
    all.into_iter().flatten().collect()
}
