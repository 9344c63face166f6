//! Interleavings that the law names, and those that broke the keeper once.

mod defects;
mod election;
mod handover;
mod law;
mod outage;
mod world;
