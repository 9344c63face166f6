//! What people are told beside conditions: Kubernetes Events.

mod events;

pub use events::{Events, Note, Regarding};
