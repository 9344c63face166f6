//! Pools: reads a pool's spec into a [`Plan`] of what the pool may hand out.

mod error;
mod legacy;
mod metal3;
#[cfg(test)]
mod model;
mod plan;
mod prefixes;
mod remark;
mod spec;
#[cfg(test)]
mod tests;

pub use error::SpecError;
pub use legacy::LegacySpec;
pub use metal3::{Metal3Entry, Metal3Spec};
pub use plan::{Entry, Plan, Standing};
pub use prefixes::PrefixSpec;
pub use remark::Remark;
pub use spec::{Network, Policy, PoolSpec, Strategy};
