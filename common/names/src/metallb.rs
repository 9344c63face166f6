//! `MetalLB`'s annotations on Services, which Mooring does not honour, and what says the same here.
//!
//! Source: `MetalLB`'s `internal/k8s/controllers` and `controller/service.go`. `ip-allocated-from-pool`, which `MetalLB` itself
//! writes, asks for nothing.

/// The prefixes, the one of today first.
const PREFIXES: [&str; 2] = ["metallb.io/", "metallb.universe.tf/"];

/// Names without their prefix, and what to do instead.
const TABLE: [(Ask, &str, &str); 3] = [
    (Ask::Address, "loadBalancerIPs", "ask for the address in kube-vip.io/loadbalancerIPs"),
    (Ask::Pool, "address-pool", "name the pool in mooring.dev/pool"),
    (Ask::Sharing, "allow-shared-ip", "write the key in mooring.dev/sharing-key"),
];

/// What such an annotation asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask {
    /// An address.
    Address,
    /// A pool.
    Pool,
    /// An address that other Services have.
    Sharing,
}

/// The table: names, and what to do instead.
fn rows() -> impl Iterator<Item = (Ask, String, &'static str)> {
    TABLE.into_iter().flat_map(|(ask, name, instead)| PREFIXES.map(|prefix| (ask, format!("{prefix}{name}"), instead)))
}

/// The table, for people.
#[cfg(test)]
pub(crate) fn not_honoured() -> impl Iterator<Item = (String, &'static str)> {
    rows().map(|(_, name, instead)| (name, instead))
}

/// Which annotations of the table an object has: a bit for each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MetalLb(u8);

impl MetalLb {
    /// Reads the annotations; `get` finds an annotation by its name. An empty value asks for nothing.
    pub fn read<'a>(get: impl Fn(&str) -> Option<&'a str>) -> Self {
        let is_there = |name: &str| get(name).is_some_and(|value| !value.trim().is_empty());
        let there = rows().enumerate().filter(|(_, (_, name, _))| is_there(name));
        Self(there.fold(0, |bits, (index, _)| bits | 1 << index))
    }

    /// Those that ask for something else than this.
    #[must_use]
    pub fn without(self, what: Ask) -> Self {
        let gone = rows().enumerate().filter(|(_, (ask, ..))| *ask == what);
        Self(gone.fold(self.0, |bits, (index, _)| bits & !(1 << index)))
    }

    /// Whether all of these are among the others.
    #[must_use]
    pub const fn are_among(self, others: Self) -> bool {
        self.0 & !others.0 == 0
    }

    /// What is said of them; empty: there are none.
    #[must_use]
    pub fn words(self) -> String {
        let there = rows().enumerate().filter(|(index, _)| self.0 & (1 << index) != 0);
        let each = there.map(|(_, (_, name, instead))| format!("{name} has no effect: {instead}"));
        each.collect::<Vec<_>>().join(". ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_and_new_names_are_noted() {
        let all =
            ["metallb.io/loadBalancerIPs", "metallb.universe.tf/allow-shared-ip", "metallb.io/ip-allocated-from-pool"];
        let noted = MetalLb::read(|name| all.contains(&name).then_some("x"));
        let words = noted.words();
        assert!(words.contains(all[0]) && words.contains(all[1]) && !words.contains("ip-allocated"), "{words}");
        let rest = noted.without(Ask::Address);
        assert_eq!(
            rest.words(),
            "metallb.universe.tf/allow-shared-ip has no effect: write the key in mooring.dev/sharing-key"
        );
        assert!(rest.are_among(noted) && !noted.are_among(rest));
        assert_eq!(MetalLb::read(|_| Some(" ")), MetalLb::default());
    }
}
