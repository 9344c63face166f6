//! The rules of pools of floating IPs: those that the provider for OpenStack has.

use super::{Rule, Rules};

/// All of them.
pub(crate) fn floating_ip_pool() -> Rules {
    vec![(
        "/properties/identityRef",
        vec![Rule::new(
            "!has(self.region) && !has(oldSelf.region) || has(self.region) && has(oldSelf.region) && self.region == oldSelf.region",
            "region is immutable",
        )],
    )]
}
