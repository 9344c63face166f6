//! The rules of prefix pools.

use super::ip_pool::{address_or_empty, entry, keys};
use super::{Rule, Rules};

/// All of them. `global`: of the kind without a namespace.
pub(crate) fn prefix_pool(global: bool) -> Rules {
    let mut excluded = entry();
    excluded.push(Rule::new(
        "!isIP(self.split('/')[0].split('-')[0]) || self.contains(':')",
        "only IPv6 excluded prefixes are supported",
    ));
    vec![
        ("", pool(global)),
        ("/properties/prefixes/items", prefix()),
        ("/properties/excludedPrefixes/items", excluded),
        (
            "/properties/gateway",
            vec![address_or_empty(), Rule::new("!isIP(self) || self.contains(':')", "provided gateway must be IPv6")],
        ),
    ]
}

fn prefix() -> Vec<Rule> {
    vec![
        Rule::new("isCIDR(self)", "provided entry is not a valid IPv6 CIDR")
            .says("\"'\" + self + \"' is not a valid IPv6 CIDR\""),
        Rule::new("!isCIDR(self) || self.contains(':')", "only IPv6 prefixes are supported"),
        Rule::new(
            "!isCIDR(self) || cidr(self).masked() == cidr(self)",
            "CIDR must be network-aligned: no bits set behind its length",
        )
        .says("\"CIDR must be network-aligned: '\" + self + \"' has bits set behind its length\""),
    ]
}

fn pool(global: bool) -> Vec<Rule> {
    // The API server puts the default in; objects of before may lack it.
    let length = "(has(self.allocationPrefixLength) ? self.allocationPrefixLength : 64)";
    let old = "(has(oldSelf.allocationPrefixLength) ? oldSelf.allocationPrefixLength : 64)";
    vec![
        Rule::new(
            "has(self.prefixes) && size(self.prefixes) > 0",
            "prefixes is required: list at least one IPv6 network",
        )
        .about(".prefixes"),
        Rule::new(
            format!("!has(self.prefixes) || self.prefixes.all(p, !isCIDR(p) || cidr(p).prefixLength() <= {length})"),
            "CIDR prefix length must be <= allocationPrefixLength",
        )
        .about(".prefixes"),
        Rule::new(format!("{length} == {old}"), "spec.allocationPrefixLength is immutable")
            .about(".allocationPrefixLength"),
        keys(global),
        Rule::new(
            "!has(self.preAllocations) || self.preAllocations.all(k, isIP(self.preAllocations[k]) && \
             self.preAllocations[k].contains(':'))",
            "preAllocations must be IPv6 addresses: the first of the prefix that is kept",
        )
        .about(".preAllocations"),
    ]
}
