//! Errors in a pool's spec. A pool with an error hands out nothing; those of `preAllocations` stop the claims that they name.

use crate::block::Family;
use crate::text::TextError;

/// An error in a pool's spec, and what people can do about it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SpecError {
    /// A field lists nothing.
    #[error("{field} is empty: list what the pool may hand out")]
    Empty {
        /// `addresses` or `prefixes`.
        field: &'static str,
    },
    /// An entry cannot be read.
    #[error("{field}: {source}")]
    Text {
        /// The field.
        field: &'static str,
        /// The error in the entry.
        source: TextError,
    },
    /// A field has entries of two families.
    #[error("{field} has IPv4 and IPv6 entries: make one pool for each family")]
    MixedFamilies {
        /// The field.
        field: &'static str,
    },
    /// A field's family differs from the family of the addresses.
    #[error("{field} is {found}, but the addresses are {expected}: make one pool for each family")]
    OtherFamily {
        /// The field.
        field: &'static str,
        /// The field's family.
        found: Family,
        /// The family of the addresses.
        expected: Family,
    },
    /// The prefix length is impossible.
    #[error("prefix {prefix} is not a prefix length of {family}: it must be 0 to {}", family.bits())]
    Prefix {
        /// The given prefix length.
        prefix: i64,
        /// The family of the addresses.
        family: Family,
    },
    /// An entry lies in another subnet than the lowest address.
    #[error(
        "{entry:?} is not in {subnet}, the subnet of the pool's lowest address: correct the entry or the prefix, or make another pool"
    )]
    OtherSubnet {
        /// The entry.
        entry: String,
        /// The subnet of the lowest address.
        subnet: String,
    },
    /// A time is negative.
    #[error("{field} is {seconds}: it must not be negative")]
    Negative {
        /// The field.
        field: &'static str,
        /// The given time.
        seconds: i64,
    },
    /// `preAllocations` keeps an address that the pool can never hand out.
    #[error("preAllocations keeps {address} for claim {claim:?}, but it is {why}: correct it, or add it to the pool")]
    PreAllocationOutside {
        /// The claim.
        claim: String,
        /// The address.
        address: String,
        /// Why the pool cannot hand out the address.
        why: &'static str,
    },
    /// `preAllocations` keeps an address for two claims.
    #[error("preAllocations keeps {address} for claims {first:?} and {second:?}: an address can be one claim's only")]
    PreAllocationTwice {
        /// The address.
        address: String,
        /// One claim.
        first: String,
        /// The other.
        second: String,
    },
    /// The v1alpha1 form lacks a field, or is mixed with the new form.
    #[error("{0}")]
    Legacy(&'static str),
    /// The spec of a pool of an outside system makes no sense to that system's rules.
    #[error("{0}")]
    Outside(String),
    /// An entry of an `IPPool` makes no sense.
    #[error("{0}")]
    Entry(&'static str),
    /// `start` or `end` is not in `subnet`.
    #[error("{field} {address} is not in subnet {subnet}: correct one of them")]
    OutsideSubnet {
        /// `start` or `end`.
        field: &'static str,
        /// The address.
        address: String,
        /// The subnet.
        subnet: String,
    },
    /// `prefix` and `subnet` disagree.
    #[error("prefix {prefix} is not that of subnet {subnet}: leave prefix out")]
    PrefixOfSubnet {
        /// The prefix.
        prefix: i64,
        /// The subnet.
        subnet: String,
    },
    /// An entry of a prefix pool is not IPv6.
    #[error("{field}: {entry:?} is not IPv6: prefix pools hand out IPv6 prefixes only")]
    NotV6 {
        /// The field.
        field: &'static str,
        /// The entry.
        entry: String,
    },
    /// A prefix has host bits.
    #[error("prefixes: {entry:?} has host bits: write {network}")]
    Unaligned {
        /// The entry.
        entry: String,
        /// The prefix without host bits.
        network: String,
    },
    /// A prefix is smaller than one unit of the pool.
    #[error(
        "prefixes: {entry:?} is smaller than one /{length}: give a larger prefix, or a longer allocationPrefixLength"
    )]
    TooSmall {
        /// The entry.
        entry: String,
        /// `allocationPrefixLength`.
        length: u8,
    },
    /// `allocationPrefixLength` is impossible.
    #[error("allocationPrefixLength {0} is not a prefix length: it must be 1 to 128")]
    AllocationLength(i64),
}
