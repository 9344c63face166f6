//! The rules of phpIPAM's pools.

use super::{Rule, Rules};

/// All of them. A pool in the old form is taken as it is, with what is missing told by its condition.
pub(crate) fn php_ipam_pool() -> Rules {
    vec![(
        "",
        vec![
            Rule::new(
                "!has(self.endpoint) || (self.endpoint.startsWith('https://') || self.endpoint.startsWith('http://')) && !self.endpoint.contains('@')",
                "endpoint must be a URL that begins with https:// (or http://), without a user in it",
            ),
            Rule::new(
                "has(self.subnets) && self.subnets.size() > 0 || has(self.subnetid)",
                "subnets is required: the numbers of the subnets in phpIPAM",
            ),
        ],
    )]
}
