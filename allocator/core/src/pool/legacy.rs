//! The v1alpha1 form of a pool: `subnet`, `start` and `end` instead of `addresses`.

use serde::{Deserialize, Serialize};

use crate::block::{Block, Family, address, number};
use crate::text::{self, TextError};

use super::error::SpecError;
use super::plan::fault;
use super::spec::PoolSpec;

/// `InClusterIPPool` and `GlobalInClusterIPPool`, v1alpha1.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct LegacySpec {
    /// As in v1alpha2. If given, `subnet`, `start` and `end` must be absent.
    pub addresses: Vec<String>,
    /// The subnet, as a prefix.
    pub subnet: Option<String>,
    /// The first address; absent: the address after the subnet's own address.
    pub start: Option<String>,
    /// The last address; absent: the address before the subnet's last address.
    pub end: Option<String>,
    /// The subnet's prefix length; absent or 0: the length of `subnet`.
    pub prefix: i64,
    /// The subnet's gateway.
    pub gateway: Option<String>,
}

impl LegacySpec {
    /// Translates to the v1alpha2 form.
    ///
    /// # Errors
    /// All errors in the spec.
    pub fn modern(&self) -> Result<PoolSpec, Vec<SpecError>> {
        let given = |text: &Option<String>| text.clone().filter(|t| !t.is_empty());
        let (subnet, start, end) = (given(&self.subnet), given(&self.start), given(&self.end));
        if !self.addresses.is_empty() {
            if subnet.is_some() || start.is_some() || end.is_some() {
                let why = "addresses is given beside subnet, start or end: use one of the two forms";
                return Err(vec![SpecError::Legacy(why)]);
            }
            return Ok(self.with(self.addresses.clone(), self.prefix));
        }
        let mut errors = Vec::new();
        let start = start.and_then(|t| fault(text::address(&t), "start", &mut errors));
        let end = end.and_then(|t| fault(text::address(&t), "end", &mut errors));
        let subnet = subnet.and_then(|t| fault(text::prefix(&t), "subnet", &mut errors)).map(|(block, _)| block);
        if !errors.is_empty() {
            return Err(errors);
        }
        let Some(subnet) = subnet else {
            return match (start, end) {
                (Some(first), Some(last)) => Ok(self.with(vec![format!("{first}-{last}")], self.prefix)),
                _ => Err(vec![SpecError::Legacy(
                    "neither addresses nor subnet nor start and end are given: give addresses",
                )]),
            };
        };
        let family = Family::of(subnet.address());
        let length = i64::from(subnet.length()) - if family == Family::V4 { 96 } else { 0 };
        for (field, given) in [("start", start), ("end", end)] {
            if let Some(a) = given.filter(|&a| !subnet.overlaps(Block::host(a))) {
                let (address, subnet) = (a.to_string(), subnet.to_string());
                errors.push(SpecError::OutsideSubnet { field, address, subnet });
            }
        }
        if self.prefix != 0 && self.prefix != length {
            errors.push(SpecError::PrefixOfSubnet { prefix: self.prefix, subnet: subnet.to_string() });
        }
        let first = start.map_or_else(|| subnet.first().saturating_add(1), number);
        let last = end.map_or_else(|| subnet.last().saturating_sub(1), number);
        let range = format!("{}-{}", address(first), address(last));
        if errors.is_empty() && first > last {
            errors.push(SpecError::Text { field: "subnet", source: TextError::Reversed(range.clone()) });
        }
        if errors.is_empty() { Ok(self.with(vec![range], length)) } else { Err(errors) }
    }

    fn with(&self, addresses: Vec<String>, prefix: i64) -> PoolSpec {
        PoolSpec { addresses, prefix, gateway: self.gateway.clone(), ..PoolSpec::default() }
    }
}
