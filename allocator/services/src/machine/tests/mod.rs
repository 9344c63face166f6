//! The machine against a small world: an API server, an allocator, and agents, each as simple as it can be.

mod basics;
mod classes;
mod families;
mod flaws;
mod inviting;
mod late;
mod leading;
mod moving;
mod not_yet;
mod others;
mod pools;
mod random;
mod requests;
mod restored;
mod restored_orders;
mod restored_sharers;
mod several;
mod sharing;
mod takeover;
mod tenants;
mod world;
