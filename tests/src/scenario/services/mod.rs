//! VIPs of Services, out of `IPAddress` objects made by hand: the agents' half of the contract with the allocator.

pub(crate) mod field;
mod luck;
mod placements;
mod stories;

use crate::runner::Test;

/// All of them.
pub fn all() -> Vec<Test<()>> {
    [stories::all(), luck::all(), placements::all()].into_iter().flatten().collect()
}
