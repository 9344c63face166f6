//! Oddities in a pool's spec that do not keep the pool from working.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A remark for people about a pool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Remark {
    /// Two entries are equal.
    Duplicate {
        /// The field.
        field: String,
        /// The entry.
        entry: String,
    },
    /// Two entries overlap; the common addresses count once.
    Overlap {
        /// The field.
        field: String,
        /// One entry.
        first: String,
        /// The other.
        second: String,
    },
    /// The gateway is not in the subnet.
    GatewayOutside {
        /// The gateway.
        gateway: String,
        /// The subnet.
        subnet: String,
    },
    /// An entry excludes nothing that the pool lists.
    ExcludesNothing {
        /// The entry.
        entry: String,
    },
    /// The pool has nothing to hand out.
    NothingUsable {
        /// Whether `allocateReservedIPAddresses` would change that.
        reserved: bool,
    },
    /// The pool has more units than the counters can show.
    Huge,
}

impl fmt::Display for Remark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Duplicate { field, entry } => write!(f, "{field} lists {entry} twice; it counts once"),
            Self::Overlap { field, first, second } => {
                write!(f, "{field}: {first} and {second} overlap; what both list counts once")
            }
            Self::GatewayOutside { gateway, subnet } => {
                write!(f, "gateway {gateway} is not in {subnet}: machines may not reach it")
            }
            Self::ExcludesNothing { entry } => write!(f, "excluded {entry} is not in the pool anyway"),
            Self::NothingUsable { reserved: true } => f.write_str(
                "nothing can be handed out: all addresses are the subnet's reserved ones; set allocateReservedIPAddresses",
            ),
            Self::NothingUsable { reserved: false } => {
                f.write_str("nothing can be handed out: all that is listed is excluded or the gateway")
            }
            Self::Huge => f.write_str("the pool has more addresses than are counted; TOTAL and FREE are lower bounds"),
        }
    }
}
