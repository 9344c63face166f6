//! metal3's `IPPool`: entries that are used up one after the other, each with a prefix and a gateway of its own.

use serde::{Deserialize, Serialize};

use crate::block::{Block, Family, MAPPED, MAPPED_LAST, address, number};
use crate::range_set::RangeSet;
use crate::text;

use super::error::SpecError;
use super::plan::{Entry, Plan, fault};
use super::remark::Remark;
use super::spec::Policy;

/// The spec of an `IPPool`, v1alpha1.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Metal3Spec {
    /// The entries, in the order in which they are used up.
    pub pools: Vec<Metal3Entry>,
    /// The prefix length of entries without one; 0: none is given, and addresses are given with prefix 0, as metal3 does.
    pub prefix: i64,
    /// The gateway of entries without one.
    pub gateway: Option<String>,
    /// Order, kept addresses and network. An `IPPool` has no quarantine and serves its own namespace.
    #[serde(flatten)]
    pub policy: Policy,
}

/// An entry of an `IPPool`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Metal3Entry {
    /// The first address; absent: the one behind the address that `subnet` is written with.
    pub start: Option<String>,
    /// The last address; absent: the last of `subnet`, for IPv4 the one before it.
    pub end: Option<String>,
    /// The subnet, as a prefix.
    pub subnet: Option<String>,
    /// The prefix length; 0: the pool's, or else that of `subnet`, or else 0.
    pub prefix: i64,
    /// The gateway; absent: the pool's, if it is of the entry's family.
    pub gateway: Option<String>,
}

fn given(text: Option<&String>) -> Option<&str> {
    text.map(String::as_str).filter(|text| !text.is_empty())
}

impl Metal3Spec {
    /// Reads and checks the spec. A gateway is never handed out, unless `preAllocations` keeps it for a claim.
    ///
    /// # Errors
    /// All errors in the spec, not only the first.
    pub fn plan(&self) -> Result<Plan, Vec<SpecError>> {
        let mut errors = Vec::new();
        if self.pools.is_empty() {
            errors.push(SpecError::Empty { field: "pools" });
        }
        let gateway = given(self.gateway.as_ref()).and_then(|g| fault(text::address(g), "gateway", &mut errors));
        let entries: Vec<Entry> = self.pools.iter().filter_map(|one| self.entry(one, &mut errors)).collect();
        let mut usable = RangeSet::default();
        let mut remarks = Vec::new();
        for entry in &entries {
            if usable.within(entry.first, entry.last).next().is_some() {
                let entry = format!("{}-{}", address(entry.first), address(entry.last));
                remarks.push(Remark::Overlap {
                    field: "pools".into(),
                    first: entry,
                    second: "an earlier entry".into(),
                });
            }
            let mut all = RangeSet::of([(entry.first, entry.last)]);
            if Family::of(address(entry.first)) == Family::V6 {
                all.remove(MAPPED, MAPPED_LAST);
            }
            for (first, last) in all.iter() {
                usable.insert(first, last);
            }
        }
        let kept = self.policy.pre_allocations.values().filter_map(|text| text::address(text).ok());
        let kept: Vec<u128> = kept.map(number).collect();
        for gateway in entries.iter().filter_map(|entry| entry.gateway).map(number) {
            if !kept.contains(&gateway) {
                usable.remove(gateway, gateway);
            }
        }
        if usable.is_empty() && errors.is_empty() {
            remarks.push(Remark::NothingUsable { reserved: false });
        }
        Plan::of_entries(usable, entries, gateway, &self.policy, remarks).finish(&self.policy, errors)
    }

    /// An entry; None: its errors were added.
    fn entry(&self, one: &Metal3Entry, errors: &mut Vec<SpecError>) -> Option<Entry> {
        let before = errors.len();
        let mut read = |field: &Option<String>, name| {
            given(field.as_ref()).and_then(|text| fault(text::address(text), name, errors))
        };
        let (start, end) = (read(&one.start, "pools[].start"), read(&one.end, "pools[].end"));
        let gateway = read(&one.gateway, "pools[].gateway");
        let subnet = given(one.subnet.as_ref());
        let subnet = subnet.and_then(|text| Some((text, fault(text::prefix(text), "pools[].subnet", errors)?.0)));
        if errors.len() > before {
            return None;
        }
        // metal3 counts from the address as it is written: the first of 192.168.0.10/24 is 192.168.0.11.
        let written = subnet.and_then(|(text, _)| text::address(text.split('/').next()?).ok()).map(number);
        let subnet = subnet.map(|(_, block)| block);
        let first = start.map(number).or_else(|| written?.checked_add(1));
        let (Some(first), true) = (first, end.is_some() || subnet.is_some()) else {
            errors
                .push(SpecError::Entry("an entry of pools has no beginning or no end: give start and end, or subnet"));
            return None;
        };
        let family = Family::of(start.unwrap_or_else(|| address(first)));
        let last_of = |block: Block| if family == Family::V4 { block.last().saturating_sub(1) } else { block.last() };
        let last = end.map(number).or_else(|| subnet.map(last_of))?;
        for (field, at) in [("pools[].start", start), ("pools[].end", end)] {
            if let (Some(at), Some(subnet)) = (at, subnet.filter(|s| at.is_some_and(|at| !s.overlaps(Block::host(at)))))
            {
                let (address, subnet) = (at.to_string(), subnet.to_string());
                errors.push(SpecError::OutsideSubnet { field, address, subnet });
            }
        }
        for (field, found) in [("pools[].end", end), ("pools[].gateway", gateway)] {
            if let Some(found) = found.map(Family::of).filter(|&found| found != family) {
                errors.push(SpecError::OtherFamily { field, found, expected: family });
            }
        }
        if first > last && errors.len() == before {
            errors.push(SpecError::Entry(
                "an entry of pools ends before it begins: start is the lower address, and subnet has more than one",
            ));
        }
        let prefix = [one.prefix, self.prefix].into_iter().find(|&prefix| prefix != 0);
        // metal3 hands out without a prefix as well.
        let unsaid = || Some(subnet.map_or(0, |subnet| own_length(subnet, family)));
        let length = prefix.map_or_else(unsaid, |prefix| within(prefix, family));
        if let (None, Some(prefix)) = (length, prefix) {
            errors.push(SpecError::Prefix { prefix, family });
        }
        let gateway = gateway.or_else(|| {
            let of_pool = text::address(given(self.gateway.as_ref())?).ok()?;
            (Family::of(of_pool) == family).then_some(of_pool)
        });
        (errors.len() == before).then_some(Entry { first, last, prefix: length?, gateway })
    }
}

/// The length of a prefix in its own family.
const fn own_length(block: Block, family: Family) -> u8 {
    block.length() - (Family::V6.bits() - family.bits())
}

/// A prefix length as written, if the family has it.
fn within(prefix: i64, family: Family) -> Option<u8> {
    u8::try_from(prefix).ok().filter(|&prefix| prefix <= family.bits())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pool::Standing;

    fn entry(start: &str, end: &str, subnet: &str, prefix: i64, gateway: &str) -> Metal3Entry {
        let text = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        Metal3Entry { start: text(start), end: text(end), subnet: text(subnet), prefix, gateway: text(gateway) }
    }

    fn spec(pools: Vec<Metal3Entry>) -> Metal3Spec {
        Metal3Spec { pools, ..Metal3Spec::default() }
    }

    fn host(text: &str) -> Block {
        Block::host(text.parse().unwrap())
    }

    fn ranges(plan: &Plan) -> Vec<String> {
        plan.usable.iter().map(|(first, last)| format!("{}-{}", address(first), address(last))).collect()
    }

    #[test]
    fn each_entry_has_its_own_terms_or_the_pools() {
        let pools = vec![
            entry("10.0.1.10", "10.0.1.20", "", 25, "10.0.1.1"),
            entry("10.0.0.10", "10.0.0.12", "", 0, ""),
            entry("", "", "fd00::/120", 0, ""),
        ];
        let pool = Metal3Spec { prefix: 24, gateway: Some("10.0.0.1".into()), ..spec(pools) };
        let plan = pool.plan().unwrap();
        assert_eq!(plan.terms(host("10.0.1.15")), (25, Some("10.0.1.1".parse().unwrap())));
        assert_eq!(plan.terms(host("10.0.0.12")), (24, Some("10.0.0.1".parse().unwrap())));
        // A gateway of the other family is no gateway.
        assert_eq!(plan.terms(host("fd00::5")), (24, None));
        assert_eq!(plan.total(), 11 + 3 + 255);
    }

    #[test]
    fn without_any_prefix_addresses_are_given_as_metal3_does() {
        let plan =
            spec(vec![entry("10.0.7.10", "10.0.7.50", "", 0, ""), entry("fd00::1", "fd00::9", "", 0, "")]).plan();
        let plan = plan.unwrap();
        assert_eq!((plan.terms(host("10.0.7.10")), plan.terms(host("fd00::9"))), ((0, None), (0, None)));
        assert_eq!(plan.total(), 41 + 9);
    }

    #[test]
    fn a_subnet_begins_behind_the_address_it_is_written_with() {
        let plan = spec(vec![entry("", "", "192.168.0.10/24", 0, "192.168.0.1")]).plan().unwrap();
        assert_eq!(ranges(&plan), ["192.168.0.11-192.168.0.254"]);
        assert_eq!(plan.terms(host("192.168.0.11")).0, 24);
        let plan = spec(vec![entry("192.168.0.20", "", "192.168.0.0/24", 0, "192.168.0.30")]).plan().unwrap();
        assert_eq!(ranges(&plan), ["192.168.0.20-192.168.0.29", "192.168.0.31-192.168.0.254"]);
        assert_eq!(plan.standing(host("192.168.0.30")), Standing::Gateway);
        // Who writes the ends out gets them.
        let plan = spec(vec![entry("10.0.0.0", "10.0.0.255", "", 24, "")]).plan().unwrap();
        assert_eq!(plan.total(), 256);
    }

    #[test]
    fn what_is_kept_is_compared_as_an_address() {
        let mut pool = spec(vec![entry("fd00::1", "fd00::ff", "", 64, "fd00::1")]);
        pool.policy.pre_allocations = [("a".to_owned(), "FD00:0::00AB".to_owned())].into();
        assert_eq!(pool.plan().unwrap().kept["a"], host("fd00::ab"));
        // A person who keeps the gateway for a claim means it.
        pool.policy.pre_allocations.insert("gateway".to_owned(), "fd00::1".to_owned());
        assert_eq!(pool.plan().unwrap().kept["gateway"], host("fd00::1"));
        pool.policy.pre_allocations.insert("b".to_owned(), "fd00::00ab".to_owned());
        assert!(matches!(pool.plan().unwrap().misplaced["b"], SpecError::PreAllocationTwice { .. }));
        pool.policy.pre_allocations.insert("b".to_owned(), "fd00::100".to_owned());
        assert!(matches!(pool.plan().unwrap().misplaced["b"], SpecError::PreAllocationOutside { .. }));
    }

    #[test]
    fn every_mistake_is_named() {
        assert!(matches!(spec(Vec::new()).plan().unwrap_err()[..], [SpecError::Empty { .. }]));
        for (wrong, part) in [
            (entry("10.0.0.9", "", "", 24, ""), "no beginning or no end"),
            (entry("", "10.0.0.9", "", 24, ""), "no beginning or no end"),
            (entry("10.0.0.9", "10.0.0.8", "", 24, ""), "ends before it begins"),
            (entry("", "", "10.0.0.9/32", 24, ""), "ends before it begins"),
            (entry("10.0.0.9", "fd00::1", "", 24, ""), "pools[].end is IPv6"),
            (entry("10.0.0.1", "10.0.0.9", "", 24, "fd00::1"), "pools[].gateway is IPv6"),
            (entry("10.0.0.1", "10.0.0.9", "", 33, ""), "prefix 33"),
            (entry("10.0.1.1", "", "10.0.0.0/24", 24, ""), "not in subnet"),
            (entry("10.0.0.x", "10.0.0.9", "", 24, ""), "10.0.0.x"),
        ] {
            let errors = spec(vec![wrong.clone()]).plan().unwrap_err();
            assert!(errors.len() == 1 && errors[0].to_string().contains(part), "{wrong:?}: {errors:?}");
        }
    }
}
