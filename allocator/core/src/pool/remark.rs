//! What is odd about a pool that works all the same.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Something to tell people about a pool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Remark {
    /// Two entries are the same.
    Duplicate {
        /// The field.
        field: String,
        /// The entry.
        entry: String,
    },
    /// Two entries overlap; what both say counts once.
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
    /// An exclusion that excludes nothing.
    ExcludesNothing {
        /// The entry.
        entry: String,
    },
    /// Nothing is left to hand out.
    NothingUsable {
        /// It would be otherwise with `allocateReservedIPAddresses`.
        reserved: bool,
    },
    /// More addresses than are counted.
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
