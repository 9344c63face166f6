//! Addresses as people write them: `10.0.0.7`, `10.0.0.7-10.0.0.20`, `10.0.0.0/28`.

use std::net::IpAddr;

use ipnet::IpNet;

use crate::block::{Block, Family, MAPPED, MAPPED_LAST, number};

/// A text that does not name addresses.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TextError {
    /// None of the three forms matches.
    #[error(
        "{0:?} is not an address, a range or a prefix: write 10.0.0.7, 10.0.0.7-10.0.0.20 (no spaces) or 10.0.0.0/28"
    )]
    Unparsable(String),
    /// The end of a range lies before its start.
    #[error("the range {0:?} is reversed: write the lower address first")]
    Reversed(String),
    /// The two ends of a range are of different families.
    #[error("the range {0:?} mixes IPv4 and IPv6: both ends must be of one family")]
    MixedRange(String),
    /// A prefix length beyond the family's bits.
    #[error("the prefix length of {0:?} is too long: at most 32 for IPv4, 128 for IPv6")]
    TooLong(String),
    /// An IPv4-mapped IPv6 address.
    #[error("{0:?} is an IPv4 address written as IPv6: write it as IPv4, without ::ffff:")]
    Mapped(String),
}

/// Addresses of one family, from the first to the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// The family of both ends.
    pub family: Family,
    /// The first address, as a number.
    pub first: u128,
    /// The last.
    pub last: u128,
}

/// Reads one entry. As in CAIP, a prefix with host bits means the prefix without these bits.
pub fn span(text: &str) -> Result<Span, TextError> {
    if let Some((low, high)) = text.split_once('-') {
        let (low, high) = (single(low, text)?, single(high, text)?);
        if Family::of(low) != Family::of(high) {
            return Err(TextError::MixedRange(text.into()));
        }
        let (first, last) = (number(low), number(high));
        if first > last {
            return Err(TextError::Reversed(text.into()));
        }
        return Ok(Span { family: Family::of(low), first, last });
    }
    if text.contains('/') {
        let block = prefix(text)?.0;
        let family = Family::of(block.address());
        return Ok(Span { family, first: block.first(), last: block.last() });
    }
    let address = single(text, text)?;
    Ok(Span { family: Family::of(address), first: number(address), last: number(address) })
}

/// Reads one address.
pub fn address(text: &str) -> Result<IpAddr, TextError> {
    single(text, text)
}

/// Reads a prefix. Returns the block, and whether the text had host bits.
pub fn prefix(text: &str) -> Result<(Block, bool), TextError> {
    let net: IpNet = text.parse().map_err(|_| why_not(text))?;
    if matches!(net.addr(), IpAddr::V6(a) if a.to_ipv4_mapped().is_some()) {
        return Err(TextError::Mapped(text.into()));
    }
    let block = Block::prefix(net.addr(), net.prefix_len()).ok_or_else(|| TextError::TooLong(text.into()))?;
    Ok((block, number(net.addr()) != block.first()))
}

fn why_not(text: &str) -> TextError {
    let parts = text.split_once('/').and_then(|(a, l)| Some((a.parse::<IpAddr>().ok()?, l.parse::<u32>().ok()?)));
    match parts {
        Some((a, l)) if l > if a.is_ipv4() { 32 } else { 128 } => TextError::TooLong(text.into()),
        _ => TextError::Unparsable(text.into()),
    }
}

fn single(text: &str, whole: &str) -> Result<IpAddr, TextError> {
    let address: IpAddr = text.parse().map_err(|_| TextError::Unparsable(whole.into()))?;
    match address {
        IpAddr::V6(a) if (MAPPED..=MAPPED_LAST).contains(&a.to_bits()) => Err(TextError::Mapped(whole.into())),
        a => Ok(a),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_three_forms() {
        for (text, count) in [
            ("10.0.0.7", 1),
            ("10.0.0.7-10.0.0.7", 1),
            ("10.0.0.7-10.0.0.20", 14),
            ("10.0.0.0/28", 16),
            ("10.0.0.5/28", 16),
            ("10.0.0.5/32", 1),
            ("fd00::1", 1),
            ("fd00::1-fd00::ffff", 0xffff),
            ("fd00::/64", 1 << 64),
        ] {
            let span = span(text).unwrap();
            assert_eq!(span.last - span.first + 1, count, "{text}");
        }
    }

    #[test]
    fn what_is_not_one() {
        use TextError::{Mapped, MixedRange, Reversed, TooLong, Unparsable};
        type Make = fn(String) -> TextError;
        let cases: [(&str, Make); 19] = [
            ("", Unparsable),
            ("ten", Unparsable),
            ("10.0.0", Unparsable),
            ("10.0.0.256", Unparsable),
            ("010.0.0.1", Unparsable),
            ("10.0.0.1 - 10.0.0.2", Unparsable),
            ("10.0.0.1-", Unparsable),
            ("10.0.0.1-10.0.0.2-10.0.0.3", Unparsable),
            ("10.0.0.0/24-10.0.1.0/24", Unparsable),
            ("10.0.0.0/-1", Unparsable),
            ("10.0.0.0/", Unparsable),
            ("fe80::1%eth0", Unparsable),
            ("10.0.0.0/33", TooLong),
            ("fd00::/129", TooLong),
            ("10.0.0.2-10.0.0.1", Reversed),
            ("10.0.0.1-fd00::1", MixedRange),
            ("::ffff:10.0.0.1", Mapped),
            ("::ffff:10.0.0.0/120", Mapped),
            ("::ffff:10.0.0.1-::ffff:10.0.0.2", Mapped),
        ];
        for (text, error) in cases {
            assert_eq!(span(text), Err(error(text.into())), "{text:?}");
        }
    }
}
