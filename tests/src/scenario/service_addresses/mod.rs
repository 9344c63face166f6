//! Services of type `LoadBalancer` get addresses: from the Service to the claim, the `IPAddress`, the node that holds
//! the address (the tests play the node), and back. Covered: the source of an address, sharing, refusals, and leftovers
//! at the end.

mod basics;
mod bursts;
mod config;
mod requests;
mod sharing;
mod steering;
mod takeover;

use crate::runner::Test;

/// All of them.
pub fn all() -> Vec<Test<()>> {
    [basics::all, config::all, requests::all, sharing::all, steering::all, takeover::all, bursts::all]
        .into_iter()
        .flat_map(|theme| theme())
        .collect()
}

/// A story on a cluster without Cluster API: its allocator is shared with others, its namespace is not.
macro_rules! service {
    ($function:path, $name:literal) => {
        $crate::scenario::contract::rule!($function, $name, "service-addresses", Standalone)
    };
}
pub(crate) use service;
