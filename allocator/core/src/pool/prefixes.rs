//! Pools that hand out IPv6 prefixes.

use serde::{Deserialize, Serialize};

use crate::block::{Family, MAPPED, MAPPED_LAST};
use crate::range_set::RangeSet;
use crate::text;

use super::error::SpecError;
use super::plan::{Plan, fault, odd, spans};
use super::remark::Remark;
use super::spec::Policy;

/// `InClusterPrefixPool` and `GlobalInClusterPrefixPool`, v1alpha2.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PrefixSpec {
    /// IPv6 prefixes, without host bits.
    pub prefixes: Vec<String>,
    /// The length of the prefixes to hand out, 1 to 128; 0 or absent: 64.
    pub allocation_prefix_length: i64,
    /// Written to each `IPAddress`. The gateway is not excluded from the pool.
    pub gateway: Option<String>,
    /// Addresses, ranges or prefixes. Units that overlap with them are not handed out.
    pub excluded_prefixes: Vec<String>,
    /// Fields that the in-cluster provider does not have.
    #[serde(flatten)]
    pub policy: Policy,
}

impl PrefixSpec {
    /// Reads and checks the spec.
    ///
    /// # Errors
    /// All errors in the spec, not only the first.
    pub fn plan(&self) -> Result<Plan, Vec<SpecError>> {
        let mut errors = Vec::new();
        let length = if self.allocation_prefix_length == 0 { 64 } else { self.allocation_prefix_length };
        let Some(length) = u8::try_from(length).ok().filter(|l| (1..=128).contains(l)) else {
            return Err(vec![SpecError::AllocationLength(self.allocation_prefix_length)]);
        };
        if self.prefixes.is_empty() {
            errors.push(SpecError::Empty { field: "prefixes" });
        }
        let mut listed = RangeSet::default();
        for entry in &self.prefixes {
            let Some((block, host_bits)) = fault(text::prefix(entry), "prefixes", &mut errors) else { continue };
            if Family::of(block.address()) == Family::V4 {
                errors.push(SpecError::NotV6 { field: "prefixes", entry: entry.clone() });
            } else if host_bits {
                errors.push(SpecError::Unaligned { entry: entry.clone(), network: block.to_string() });
            } else if block.length() > length {
                errors.push(SpecError::TooSmall { entry: entry.clone(), length });
            } else {
                listed.insert(block.first(), block.last());
            }
        }
        let entries = spans(&self.prefixes, "prefixes", &mut Vec::new());
        let mut remarks = odd(&entries, "prefixes");
        let excluded = spans(&self.excluded_prefixes, "excludedPrefixes", &mut errors);
        for (entry, span) in &excluded {
            if span.family == Family::V4 {
                errors.push(SpecError::NotV6 { field: "excludedPrefixes", entry: (*entry).into() });
            } else if listed.within(span.first, span.last).next().is_none() {
                remarks.push(Remark::ExcludesNothing { entry: (*entry).into() });
            }
        }
        remarks.extend(odd(&excluded, "excludedPrefixes"));
        let gateway = self.gateway.as_deref().filter(|g| !g.is_empty());
        let gateway = gateway.and_then(|g| fault(text::address(g), "gateway", &mut errors));
        if let Some(gateway) = gateway.filter(|&g| Family::of(g) == Family::V4) {
            errors.push(SpecError::NotV6 { field: "gateway", entry: gateway.to_string() });
        }
        let excluded = RangeSet::of(excluded.iter().map(|(_, s)| (s.first, s.last)));
        let mut blocked = excluded.clone();
        blocked.insert(MAPPED, MAPPED_LAST);
        let usable = units(&listed, &blocked, length);
        if usable.is_empty() && errors.is_empty() {
            remarks.push(Remark::NothingUsable { reserved: false });
        }
        Plan::of_prefixes(length, usable, excluded, gateway, &self.policy, remarks).finish(&self.policy, errors)
    }
}

/// The numbers of the units of this length that lie completely in `listed` and do not overlap with `blocked`.
fn units(listed: &RangeSet, blocked: &RangeSet, length: u8) -> RangeSet {
    let shift = 128 - u32::from(length);
    let low_bits = (1u128 << (shift % 128)) - 1;
    let mut units = RangeSet::default();
    for (first, last) in listed.iter() {
        // All entries are aligned and at least as large as a unit, so both ends are ends of units.
        units.insert(first >> shift, last >> shift);
    }
    for (first, last) in blocked.iter() {
        units.remove(first >> shift, (last | low_bits) >> shift);
    }
    units
}
