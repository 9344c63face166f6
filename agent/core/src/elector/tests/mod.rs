//! Interleavings that the design names, and those that broke the elector once.

mod challenge;
mod defects;
mod election;
mod foreign_host;
#[cfg(feature = "planted")]
mod guards;
mod handover;
mod health;
mod kernel;
mod kube_vip;
mod lapsed;
mod law;
mod new_vips;
mod one_way;
mod outage;
mod proxied;
mod read_only;
mod releasing;
mod renamed;
mod twins;
mod world;
