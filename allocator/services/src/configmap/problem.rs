//! Errors in the `ConfigMap`.

use std::fmt;

use mooring_allocator_core::text::TextError;

use super::entries::RANGES;

/// A part of the `ConfigMap` that could not be read. The rest works.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The key.
    pub key: String,
    /// The entry in the key's value; empty: the whole value.
    pub entry: String,
    /// The error.
    pub why: Why,
}

/// The error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Why {
    /// An unknown key.
    UnknownKey,
    /// Not an address, a range or a CIDR.
    Text(TextError),
    /// `0.0.0.0/32`.
    Dhcp,
    /// The value has no address.
    Empty,
    /// Neither `true` nor `false`.
    NoBoolean,
    /// Neither `asc` nor `desc`.
    NoOrder,
    /// Not a valid interface name.
    NoInterface,
    /// More gaps than a pool can list, alone or with the entries before it: addresses that end in .0 and .255 are handed out too.
    TooLarge,
    /// One more range than a pool can list.
    TooMany,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { key, entry, why } = self;
        write!(f, "{key}: ")?;
        match why {
            Why::UnknownKey => f.write_str(
                "no such key: cidr-, range-, allow-share- and interface- end in a namespace or in global; beside them there are \
                 search-order and skip-end-ips-in-cidr",
            ),
            Why::Text(error) => write!(f, "{error}"),
            Why::Dhcp => write!(f, "{entry} is DHCP to kube-vip; Mooring gives addresses out of pools only: write addresses"),
            Why::Empty => f.write_str("it names no address: write some, or take the key away"),
            Why::NoBoolean => write!(f, "{entry:?} is neither true nor false"),
            Why::NoOrder => write!(f, "{entry:?} is neither asc nor desc; addresses are given from the lowest up"),
            Why::NoInterface => write!(f, "{entry:?} is not the name of an interface"),
            Why::TooMany => write!(f, "{entry} is left out: a pool can list {RANGES} ranges, and those before it are as many; make fewer of them"),
            Why::TooLarge => write!(f, "{entry} is so large that addresses in it which end in .0 and .255 are given out too"),
        }
    }
}
