//! The address families that a Service wants.

use mooring_allocator_core::block::Family;

use crate::objects::{FamilyPolicy, Service};

/// The place of a family in a pair.
#[must_use]
pub const fn place(family: Family) -> usize {
    match family {
        Family::V4 => 0,
        Family::V6 => 1,
    }
}

/// The families that a Service wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// The families, in the Service's order.
    pub families: Vec<Family>,
    /// All families or none; otherwise any family that is available.
    pub all: bool,
}

/// By `ipFamilies` and `ipFamilyPolicy`. The API server has filled in both: the Service has no cluster address of a
/// family that is not in the list, and no node would pass on the traffic of this family.
#[must_use]
pub fn wanted(service: &Service) -> Wanted {
    let mut families = Vec::with_capacity(2);
    for &family in &service.families {
        if !families.contains(&family) {
            families.push(family);
        }
    }
    if families.is_empty() {
        families.push(Family::V4);
    }
    if service.policy == FamilyPolicy::SingleStack {
        families.truncate(1);
    }
    Wanted { all: service.policy != FamilyPolicy::PreferDualStack, families }
}
