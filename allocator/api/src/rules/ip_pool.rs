//! The rules of address pools.

use super::cel::{ends, given, in_order_v4, in_order_v6, inside, is_entry, is_range, number};
use super::{Rule, Rules};

/// The text whose family all others must have: the first address in either form.
const FIRST: &str = "(has(self.addresses) && size(self.addresses) > 0 ? self.addresses[0] : has(self.subnet) && self.subnet != '' \
                     ? self.subnet : has(self.start) ? self.start : '')";

/// All of them. `global`: of the kind without a namespace.
pub(crate) fn ip_pool(global: bool) -> Rules {
    let mut pool = required();
    pool.extend(families());
    pool.push(prefix_of_family());
    pool.push(one_network());
    pool.extend(old_form());
    pool.extend(pre_allocations(global));
    vec![
        ("", pool),
        ("/properties/addresses/items", entry()),
        ("/properties/excludedAddresses/items", entry()),
        ("/properties/gateway", vec![address_or_empty()]),
        ("/properties/start", vec![address_or_empty()]),
        ("/properties/end", vec![address_or_empty()]),
        (
            "/properties/subnet",
            vec![
                Rule::new("self == '' || isCIDR(self)", "must be a CIDR, 10.0.0.0/24 for example")
                    .says("\"'\" + self + \"' is not a CIDR, 10.0.0.0/24 for example\""),
            ],
        ),
    ]
}

/// The rules of an entry: an address, a range in order, or a CIDR.
pub(crate) fn entry() -> Vec<Rule> {
    let (first, last) = ends("self");
    let range = is_range("self");
    let reversed = "\"'\" + self + \"' ends before it begins: the lower address comes first\"";
    vec![
        Rule::new(is_entry("self"), "provided address is not a valid IP, range, nor CIDR")
            .says("\"'\" + self + \"' is not a valid IP, range (first-last), nor CIDR\""),
        Rule::new(
            format!("self.contains(':') || !({range}) || {}", in_order_v4(&first, &last)),
            "the range ends before it begins: the lower address comes first",
        )
        .says(reversed),
        Rule::new(
            format!("!self.contains(':') || !({range}) || {}", in_order_v6(&first, &last)),
            "the range ends before it begins: the lower address comes first",
        )
        .says(reversed),
    ]
}

/// An address; the empty text is none.
pub(crate) fn address_or_empty() -> Rule {
    Rule::new("self == '' || isIP(self)", "must be an IP address").says("\"'\" + self + \"' is not an IP address\"")
}

fn required() -> Vec<Rule> {
    let (subnet, start, end) = (given("subnet"), given("start"), given("end"));
    let addresses = "(has(self.addresses) && size(self.addresses) > 0)";
    vec![
        Rule::new(
            format!("{addresses} || {subnet} || ({start} && {end})"),
            "addresses is required: list at least one address, range (first-last) or CIDR",
        )
        .about(".addresses"),
        Rule::new(
            format!("has(self.prefix) || {subnet}"),
            "a valid prefix is required: the length of the network's prefix, 24 for example",
        )
        .about(".prefix"),
    ]
}

fn families() -> Vec<Rule> {
    let gateway = given("gateway");
    vec![
        Rule::new(
            "!has(self.addresses) || self.addresses.all(a, a.contains(':') == self.addresses[0].contains(':'))",
            "provided addresses are of mixed IP families: IPv4 and IPv6 need a pool each",
        )
        .about(".addresses"),
        Rule::new(
            "!has(self.excludedAddresses) || self.excludedAddresses.all(a, a.contains(':') == \
             self.excludedAddresses[0].contains(':'))",
            "provided excluded addresses are of mixed IP families",
        )
        .about(".excludedAddresses"),
        Rule::new(
            format!(
                "!has(self.excludedAddresses) || size(self.excludedAddresses) == 0 || {FIRST} == '' || \
                 self.excludedAddresses[0].contains(':') == {FIRST}.contains(':')"
            ),
            "addresses and excluded addresses are of mixed IP families",
        )
        .about(".excludedAddresses"),
        Rule::new(
            format!("!{gateway} || {FIRST} == '' || self.gateway.contains(':') == {FIRST}.contains(':')"),
            "provided gateway and addresses are of mixed IP families",
        )
        .about(".gateway"),
    ]
}

fn prefix_of_family() -> Rule {
    Rule::new(
        format!("!has(self.prefix) || self.prefix <= 32 || {FIRST} == '' || {FIRST}.contains(':')"),
        "provided prefix is not valid: an IPv4 network has one of 0 to 32",
    )
    .about(".prefix")
}

/// The network around the first address of the list, as text.
fn network() -> String {
    format!("self.addresses[0].split('-')[0].split('/')[0] + '/' + {}", number("self.prefix"))
}

fn one_network() -> Rule {
    let (network, entry, inside) = (network(), is_entry("a"), inside("net", "a"));
    let counted =
        "has(self.addresses) && size(self.addresses) > 0 && has(self.prefix) && self.prefix >= 0 && self.prefix <= 128";
    Rule::new(
        format!("!({counted}) || [{network}].all(net, !isCIDR(net) || self.addresses.all(a, !{entry} || {inside}))"),
        "provided address belongs to a different subnet than others: all must be in one network of the length prefix",
    )
    .says(format!(
        "'provided address belongs to a different subnet than others: all must be in the network of ' + self.addresses[0] + \
         ' with the prefix ' + {}",
        number("self.prefix")
    ))
    .about(".addresses")
}

fn old_form() -> Vec<Rule> {
    let (subnet, start, end) = (given("subnet"), given("start"), given("end"));
    let both = format!("({start} && {end} && isIP(self.start) && isIP(self.end))");
    let one_family = "self.start.contains(':') == self.end.contains(':')";
    let within = |which: &str, is_given: &str| {
        format!("(!{is_given} || !isIP(self.{which}) || cidr(self.subnet).containsIP(self.{which}))")
    };
    let reversed = "the pool ends before it begins: the lower address is start, the higher one end";
    vec![
        Rule::new(format!("{start} == {end} || {subnet}"), "start and end go together: one of them alone needs subnet"),
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

/// Rules that both kinds of pools share: `preAllocations` by claim.
pub(crate) fn keys(global: bool) -> Rule {
    if global {
        Rule::new(
            "!has(self.preAllocations) || self.preAllocations.all(k, k.split('/').size() == 2)",
            "a pool without a namespace names the claims of preAllocations NAMESPACE/NAME",
        )
    } else {
        Rule::new(
            "!has(self.preAllocations) || self.preAllocations.all(k, !k.contains('/'))",
            "preAllocations names claims of the pool's own namespace: NAME, without a /",
        )
    }
    .about(".preAllocations")
}

fn pre_allocations(global: bool) -> Vec<Rule> {
    let network = network();
    vec![
        keys(global),
        Rule::new(
            "!has(self.preAllocations) || self.preAllocations.all(k, isIP(self.preAllocations[k]))",
            "preAllocations must be IP addresses",
        )
        .about(".preAllocations"),
        Rule::new(
            format!(
                "!has(self.preAllocations) || !(has(self.addresses) && size(self.addresses) > 0 && has(self.prefix) && \
                 self.prefix >= 0 && self.prefix <= 128) || [{network}].all(net, !isCIDR(net) || \
                 self.preAllocations.all(k, !isIP(self.preAllocations[k]) || \
                 cidr(net).containsIP(self.preAllocations[k])))"
            ),
            "preAllocations must lie in the pool's network",
        )
        .about(".preAllocations"),
    ]
}
