//! Sessions and placement under simulated faults: the core of many VIPs that ships, and around it what may fail. As the
//! simulator of one Lease, with records on many objects, two segments, endpoints that come and go.

pub mod api;
pub mod bounds;
pub mod check;
pub mod fault;
pub mod faults;
pub mod host;
pub mod kernel;
pub mod many;
pub mod plan;
pub mod queue;
pub mod run;
pub mod settings;
pub mod wire;
pub mod world;
