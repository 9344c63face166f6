//! The machine against a small world: an API server, an allocator and a garbage collector, each as simple as it can be.

mod basics;
mod deleted;
mod flaws;
mod given;
mod interrupted;
mod letting_go;
mod listed;
mod many;
mod moved;
mod objects;
mod random;
mod reapplied;
mod reapplied_often;
mod replaced;
mod restored;
mod shared;
mod unseen;
mod world;

use std::time::Duration;

use self::objects::{POD, config_map, infrastructure, key, plane, secret};
use self::world::World;
use crate::objects::Cluster;

/// Longer than anything waits that is not for ever.
const LONG: Duration = Duration::from_mins(1);

/// A Cluster with all that a chart makes, in one go.
fn create(world: &mut World, cluster: Cluster) {
    let name = cluster.key.name.clone();
    world.put_cluster(cluster);
    world.put_infrastructure(infrastructure(&name));
    world.put_plane(plane(&name));
    world.put_text(&secret(&name), POD);
    world.put_text(&config_map(&name), "10.9.0.0/24");
}

/// The reason that stands for a Cluster.
fn reason(world: &World, name: &str) -> &'static str {
    world.machine.standing(&key(name)).map_or("none", |condition| condition.reason.name())
}
