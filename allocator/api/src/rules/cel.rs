//! Pieces of CEL.

use std::fmt::Write as _;

/// Whether an optional text was given: absent and empty are the same (Go writes the empty one).
pub(crate) fn given(field: &str) -> String {
    format!("(has(self.{field}) && self.{field} != '')")
}

/// An integer from 0 to 199 as text, of a length that the API server can bound.
pub(crate) fn number(n: &str) -> String {
    let digit = |n: String| format!("'0123456789'.substring({n}, {n} + 1)");
    let (ones, tens) = (digit(format!("({n}) % 10")), digit(format!("({n}) / 10 % 10")));
    format!("(({n}) > 99 ? '1' : '') + (({n}) > 9 ? {tens} : '') + {ones}")
}

/// Whether `a` is a range first-last of two addresses of one family.
pub(crate) fn is_range(a: &str) -> String {
    let (first, last) = ends(a);
    format!(
        "{a}.split('-').size() == 2 && isIP({first}) && isIP({last}) && {first}.contains(':') == {last}.contains(':')"
    )
}

/// Whether `a` is an address, a range or a CIDR.
pub(crate) fn is_entry(a: &str) -> String {
    format!("(isIP({a}) || isCIDR({a}) || ({}))", is_range(a))
}

/// The two ends of a range.
pub(crate) fn ends(a: &str) -> (String, String) {
    (format!("{a}.split('-')[0]"), format!("{a}.split('-')[1]"))
}

/// Whether the network `net` (a CIDR as text) has all of the entry `a`.
pub(crate) fn inside(net: &str, a: &str) -> String {
    let (first, last) = ends(a);
    format!(
        "({a}.contains('/') ? cidr({net}).containsCIDR({a}) : cidr({net}).containsIP({first}) && \
         (!{a}.contains('-') || cidr({net}).containsIP({last})))"
    )
}

/// Whether the IPv4 address `a` is not above `b`: CEL compares no addresses, so as numbers.
pub(crate) fn in_order_v4(a: &str, b: &str) -> String {
    let value = |ip: &str| {
        let octet = |n: usize, weight: u32| format!("int({ip}.split('.')[{n}]) * {weight}");
        [octet(0, 1 << 24), octet(1, 1 << 16), octet(2, 1 << 8), octet(3, 1)].join(" + ")
    };
    format!("{} <= {}", value(a), value(b))
}

/// Whether the IPv6 address `a` is not above `b`. By halves: how many bits are the same (`n`)? Then the next one of `a` must be
/// 0, that is, the network of n + 1 bits around `a` begins where that of n bits does.
pub(crate) fn in_order_v6(a: &str, b: &str) -> String {
    let net = |bits: &str| format!("cidr({a} + '/' + {})", number(bits));
    let mut text = format!("cidr({a} + '/128').containsIP({b}) || ");
    let mut known = "0".to_owned();
    for step in 0..7 {
        let half = 64 >> step;
        let same = format!("n{step}");
        // A list of one, as `all` is the only way of CEL to name a value.
        let wider = net(&format!("{known} + {half}"));
        // Writing to a String cannot fail.
        _ = write!(text, "[{known} + ({wider}.containsIP({b}) ? {half} : 0)].all({same}, ");
        known = same;
    }
    _ = write!(text, "{}.masked().ip() == {}.masked().ip()", net(&format!("{known} + 1")), net(&known));
    text + &")".repeat(7)
}
