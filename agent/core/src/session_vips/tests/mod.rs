//! Interleavings that the design names, and those that broke the core of many VIPs once.

mod crash;
mod handover;
mod lapsed;
mod late;
mod outage;
mod whose;
mod world;
