//! The lab of Mooring and what is measured in it.

pub mod bench;
pub mod observe;
pub mod report;
pub mod runner;
