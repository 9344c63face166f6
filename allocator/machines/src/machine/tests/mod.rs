//! The machine against a small world: an API server, an allocator and a garbage collector, each as simple as it can be.

mod basics;
mod flaws;
mod lasting;
mod objects;
mod random;
mod restored;
mod world;

use std::time::Duration;

use self::objects::key;
use self::world::World;

/// Longer than anything waits that is not for ever.
const LONG: Duration = Duration::from_mins(1);

/// The reason that stands for a machine.
fn reason(world: &World, name: &str) -> &'static str {
    world.machine.standing(&key(name)).map_or("none", |condition| condition.reason.name())
}

/// The message that stands for a machine.
fn message(world: &World, name: &str) -> String {
    world.machine.standing(&key(name)).map(|condition| condition.message.clone()).unwrap_or_default()
}
