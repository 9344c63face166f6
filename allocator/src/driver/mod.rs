//! Carries words between the API server and the protocol.

mod answers;
mod held;
mod intake;
mod known;
mod notes;
mod pace;
mod pool_status;
mod queue;
mod run;
mod services;
mod steering;
#[cfg(test)]
mod tests;
mod writes;

pub use held::Scope;
pub use run::{DriverError, run};
