//! A block of addresses: one address, or a prefix.
//!
//! Both families live in one space of 128 bits. IPv4 has its place at the IPv4-mapped addresses (`::ffff:0:0/96`, RFC
//! 4291 section 2.5.5.2): so `10.0.0.1` and `::ffff:10.0.0.1` are the same address. Two blocks are disjoint, or one
//! contains the other.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::num::NonZeroU8;

use serde::{Deserialize, Serialize};

/// Where IPv4 begins in the space of 128 bits.
pub(crate) const MAPPED: u128 = 0xffff_0000_0000;
/// The last IPv4 address in the space of 128 bits.
pub(crate) const MAPPED_LAST: u128 = 0xffff_ffff_ffff;

/// IPv4 or IPv6.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Family {
    /// IPv4, 32 bits.
    V4,
    /// IPv6, 128 bits.
    V6,
}

impl Family {
    /// The family of an address; an IPv4-mapped IPv6 address is IPv4.
    #[must_use]
    pub const fn of(address: IpAddr) -> Self {
        if is_mapped(number(address)) { Self::V4 } else { Self::V6 }
    }

    /// The bits of an address: 32 or 128.
    #[must_use]
    pub const fn bits(self) -> u8 {
        match self {
            Self::V4 => 32,
            Self::V6 => 128,
        }
    }

    /// Converts a prefix length of this family to the space of 128 bits.
    const fn widened(self, length: u8) -> u8 {
        match self {
            Self::V4 => length.saturating_add(96),
            Self::V6 => length,
        }
    }
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::V4 => "IPv4",
            Self::V6 => "IPv6",
        })
    }
}

/// The place of an address in the space of 128 bits.
#[must_use]
pub const fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(a) => MAPPED | a.to_bits() as u128,
        IpAddr::V6(a) => a.to_bits(),
    }
}

/// The address at a place in the space of 128 bits.
#[must_use]
pub const fn address(number: u128) -> IpAddr {
    if is_mapped(number) {
        #[expect(clippy::cast_possible_truncation, reason = "the lower 32 bits are the IPv4 address")]
        IpAddr::V4(Ipv4Addr::from_bits(number as u32))
    } else {
        IpAddr::V6(Ipv6Addr::from_bits(number))
    }
}

const fn is_mapped(number: u128) -> bool {
    number >> 32 == 0xffff
}

/// The host bits of a block of this length.
pub(crate) const fn host_mask(length: u8) -> u128 {
    if length == 0 { u128::MAX } else { (1u128 << (128 - length as u32)) - 1 }
}

/// A block of addresses: all addresses that share the first `length` of 128 bits. Ordered by first address, larger
/// blocks first. There are many blocks: a block takes 24 bytes, also as an `Option`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Block {
    high: u64,
    low: u64,
    /// One more than the length.
    above: NonZeroU8,
}

impl Block {
    /// One address.
    #[must_use]
    pub const fn host(address: IpAddr) -> Self {
        Self::around(number(address), 128)
    }

    /// The prefix of `length` bits (of the address's own family) around an address. None: the length is too long for
    /// the family.
    #[must_use]
    pub fn prefix(address: IpAddr, length: u8) -> Option<Self> {
        let family = Family::of(address);
        (length <= family.bits()).then(|| Self::around(number(address), family.widened(length)))
    }

    /// Parses the text that [`Display`](fmt::Display) writes; None: the text is something else.
    #[must_use]
    pub fn read(text: &str) -> Option<Self> {
        match text.split_once('/') {
            Some((address, length)) => Self::prefix(address.parse().ok()?, length.parse().ok()?),
            None => text.parse().ok().map(Self::host),
        }
    }

    /// The block of `length` of 128 bits around a number.
    #[expect(clippy::cast_possible_truncation, reason = "both halves are taken")]
    pub(crate) const fn around(number: u128, length: u8) -> Self {
        let first = number & !host_mask(length);
        Self { high: (first >> 64) as u64, low: first as u64, above: NonZeroU8::MIN.saturating_add(length) }
    }

    /// The first address, as a number.
    #[must_use]
    pub const fn first(self) -> u128 {
        (self.high as u128) << 64 | self.low as u128
    }

    /// The last address, as a number.
    #[must_use]
    pub const fn last(self) -> u128 {
        self.first() | host_mask(self.length())
    }

    /// How many of 128 bits all addresses of the block share.
    #[must_use]
    pub const fn length(self) -> u8 {
        self.above.get() - 1
    }

    /// The first address.
    #[must_use]
    pub const fn address(self) -> IpAddr {
        address(self.first())
    }

    /// Whether the block has IPv6 addresses and all of IPv4's: a prefix of IPv6 that is no sensible one.
    pub(crate) const fn is_wider_than_ipv4(self) -> bool {
        self.length() < 96 && self.first() <= MAPPED && MAPPED_LAST <= self.last()
    }

    /// Whether the two blocks have an address in common.
    #[must_use]
    pub const fn overlaps(self, other: Self) -> bool {
        self.first() <= other.last() && other.first() <= self.last()
    }
}

impl fmt::Display for Block {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let address = self.address();
        match (self.length(), address) {
            (128, _) => write!(f, "{address}"),
            (length, IpAddr::V4(_)) => write!(f, "{address}/{}", length.saturating_sub(96)),
            (length, IpAddr::V6(_)) => write!(f, "{address}/{length}"),
        }
    }
}

impl fmt::Debug for Block {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mapped_address_is_the_ipv4_address() {
        let v4: IpAddr = "10.1.2.3".parse().unwrap();
        let mapped: IpAddr = "::ffff:10.1.2.3".parse().unwrap();
        assert_eq!(Block::host(v4), Block::host(mapped));
        assert_eq!(Block::host(mapped).to_string(), "10.1.2.3");
    }

    #[test]
    fn what_is_written_is_read() {
        for text in ["10.0.0.7", "fd00::7", "fd00::/64", "10.0.0.0/24", "::/0"] {
            assert_eq!(Block::read(text).unwrap().to_string(), text);
        }
        for text in ["", "10.0.0.7/33", "10.0.0.7/", "x/24", "its IPAddress was deleted"] {
            assert_eq!(Block::read(text), None);
        }
    }

    #[test]
    fn blocks_nest_or_are_apart() {
        let wide = Block::prefix("10.0.0.77".parse().unwrap(), 24).unwrap();
        assert_eq!(wide.to_string(), "10.0.0.0/24");
        assert!(wide.overlaps(Block::host("10.0.0.255".parse().unwrap())));
        assert!(!wide.overlaps(Block::host("10.0.1.0".parse().unwrap())));
        assert!(Block::prefix("10.0.0.1".parse().unwrap(), 33).is_none());
        assert_eq!(Block::prefix("::".parse().unwrap(), 0).unwrap().last(), u128::MAX);
    }
}
