//! Interleavings that the design names, and those that broke the core of many VIPs once.

mod crash;
#[cfg(feature = "planted")]
mod guards;
mod handover;
mod kernel;
mod lapsed;
mod late;
mod limited;
mod link_up;
mod members;
mod mute;
mod outage;
mod owned;
mod read_only;
mod recalled;
mod refused;
mod removing;
mod standing;
mod stranded;
mod strangers;
mod telling;
mod twins;
mod watched;
mod whose;
mod world;
