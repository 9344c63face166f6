//! The rules of metal3's pools: metal3 has them in a webhook.
//!
//! Not said here: whether `preAllocations` lie in the pool, which would cost the API server too much. The claims that
//! they name say it, and an Event of the pool.

use super::cel::{given, in_order_v4, in_order_v6};
use super::ip_pool::address_or_empty;
use super::{Rule, Rules};

/// All of them.
pub(crate) fn metal3_pool() -> Rules {
    let address = || vec![address_or_empty()];
    vec![
        ("", pool()),
        ("/properties/gateway", address()),
        ("/properties/dnsServers/items", address()),
        ("/properties/pools/items", entry()),
        ("/properties/pools/items/properties/start", address()),
        ("/properties/pools/items/properties/end", address()),
        ("/properties/pools/items/properties/gateway", address()),
        ("/properties/pools/items/properties/dnsServers/items", address()),
        (
            "/properties/pools/items/properties/subnet",
            vec![
                Rule::new("self == '' || isCIDR(self)", "must be a CIDR, 10.0.0.0/24 for example")
                    .says("\"'\" + self + \"' is not a CIDR, 10.0.0.0/24 for example\""),
            ],
        ),
    ]
}

/// Of a claim. What its annotation asks for no rule can see; the claim says what is wrong with it.
pub(crate) fn metal3_claim() -> Rules {
    let pool = || "self.pool.name == oldSelf.pool.name";
    vec![
        ("", vec![Rule::new(pool(), "spec.pool is immutable").about(".pool")]),
        ("/properties/pool", vec![Rule::new("size(self.name) > 0", "spec.pool.name is required")]),
    ]
}

/// Of an address.
pub(crate) fn metal3_address() -> Rules {
    let named = |what: &str| vec![Rule::new("size(self.name) > 0", format!("spec.{what}.name is required"))];
    vec![
        (
            "",
            vec![
                Rule::new("self.address == oldSelf.address", "spec.address is immutable").about(".address"),
                Rule::new("self.pool.name == oldSelf.pool.name", "spec.pool is immutable").about(".pool"),
                Rule::new("self.claim.name == oldSelf.claim.name", "spec.claim is immutable").about(".claim"),
            ],
        ),
        ("/properties/pool", named("pool")),
        ("/properties/claim", named("claim")),
        ("/properties/address", vec![Rule::new("isIP(self)", "address is not a valid IP address")]),
        ("/properties/gateway", vec![address_or_empty()]),
        ("/properties/dnsServers/items", vec![address_or_empty()]),
    ]
}

fn pool() -> Vec<Rule> {
    let strategy = |of: &str| format!("(has({of}.allocationStrategy) ? {of}.allocationStrategy : 'sequential')");
    vec![
        Rule::new("self.namePrefix == oldSelf.namePrefix", "spec.namePrefix is immutable").about(".namePrefix"),
        Rule::new(format!("{} == {}", strategy("self"), strategy("oldSelf")), "spec.allocationStrategy is immutable")
            .about(".allocationStrategy"),
        Rule::new(
            "!has(self.preAllocations) || self.preAllocations.all(k, isIP(self.preAllocations[k]))",
            "preAllocations must be IP addresses",
        )
        .about(".preAllocations"),
    ]
}

fn entry() -> Vec<Rule> {
    let (subnet, start, end) = (given("subnet"), given("start"), given("end"));
    let both = format!("({start} && {end} && isIP(self.start) && isIP(self.end))");
    let one_family = "self.start.contains(':') == self.end.contains(':')";
    let reversed = "an entry of pools ends before it begins: the lower address is start, the higher one end";
    let within = |which: &str, is_given: &str| {
        format!("(!{is_given} || !isIP(self.{which}) || cidr(self.subnet).containsIP(self.{which}))")
    };
    vec![
        Rule::new(
            format!("{subnet} || ({start} && {end})"),
            "an entry of pools has no beginning or no end: give start and end, or subnet",
        ),
        Rule::new(format!("!{both} || {one_family}"), "start and end are of mixed IP families"),
        Rule::new(
            format!(
                "!{both} || !({one_family}) || self.start.contains(':') || {}",
                in_order_v4("self.start", "self.end")
            ),
            reversed,
        ),
        Rule::new(
            format!(
                "!{both} || !({one_family}) || !self.start.contains(':') || {}",
                in_order_v6("self.start", "self.end")
            ),
            reversed,
        ),
        Rule::new(
            format!("!{subnet} || !isCIDR(self.subnet) || ({} && {})", within("start", &start), within("end", &end)),
            "start and end must lie in subnet",
        ),
    ]
}
