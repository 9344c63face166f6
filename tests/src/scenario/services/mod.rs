//! VIPs of Services, from `IPAddress` objects made by hand: the agents' half of the contract with the allocator. And from Services
//! that change, with an allocator.

mod by_turns;
mod changes;
mod left;
mod members;
mod mishaps;
mod owners;
mod placements;
mod refused;
mod stories;
mod told;
mod two_networks;
mod upgraded;

use crate::runner::Test;

/// All of them.
pub fn all() -> Vec<Test<()>> {
    let groups = [
        stories::all,
        by_turns::all,
        changes::all,
        left::all,
        members::all,
        mishaps::all,
        owners::all,
        placements::all,
        refused::all,
        told::all,
        two_networks::all,
        upgraded::all,
    ];
    groups.into_iter().flat_map(|group| group()).collect()
}
