//! The rules of claims and addresses: Cluster API's core has them in a webhook.

use super::{Rule, Rules};

/// Of an `IPAddress`.
pub(crate) fn address() -> Rules {
    let ip = |what: &str| {
        Rule::new("isIP(self)", format!("{what} is not a valid IP address"))
            .says("\"'\" + self + \"' is not a valid IP address\"")
    };
    vec![
        (
            "",
            vec![
                Rule::new("self == oldSelf", "IPAddress spec is immutable"),
                Rule::new(
                    "!isIP(self.address) || self.address.contains(':') || self.prefix <= 32",
                    "prefix is too large for an IPv4 address: it is 0 to 32",
                )
                .about(".prefix"),
            ],
        ),
        ("/properties/address", vec![ip("address")]),
        ("/properties/gateway", vec![ip("gateway")]),
    ]
}

/// Of a claim.
pub(crate) fn claim() -> Rules {
    vec![("", vec![Rule::new("self == oldSelf", "IPAddressClaim spec is immutable")])]
}
