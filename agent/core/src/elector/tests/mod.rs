//! Interleavings that the design names, and those that broke the elector once.

mod defects;
mod election;
mod handover;
mod health;
mod lapsed;
mod law;
mod outage;
mod world;
