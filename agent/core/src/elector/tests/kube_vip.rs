//! A kube-vip adopts the Lease of its own node: it keeps the holder, the tenure and the annotations, and only renews.

use super::world::*;
use crate::lease::Record;
use crate::rules::Rules;
use crate::time::WallTime;

/// It renews every second.
fn renews(world: &mut World) {
    let lease = world.lease.clone().unwrap();
    let renewed = lease.record.renewed.map(|at| WallTime(at.0 + 1_000_000));
    world.store(Record { renewed, ..lease.record }, lease.notes);
}

#[test]
fn the_silence_of_a_kube_vip_that_adopted_the_lease_is_not_judged() {
    let (mut world, holder) = World::settled(3, &Rules::default());
    world.freeze(holder);
    for _ in 0..3 {
        renews(&mut world);
        world.run(ms(1_000));
    }
    // It still renews, and the segment does not reach it.
    let (name, version) = (world.holder().to_owned(), world.version);
    world.crash(holder);
    for _ in 0..5 {
        renews(&mut world);
        world.run(ms(1_000));
    }
    assert_eq!((world.holder(), world.version), (name.as_str(), version + 5), "nobody else wrote the Lease");
}

#[test]
fn nodes_that_add_themselves_leave_the_holders_declaration_valid() {
    let (mut world, _) = World::settled(3, &Rules::default());
    let mut lease = world.lease.clone().unwrap();
    lease.notes.participants.clear();
    world.store(lease.record, lease.notes);
    for _ in 0..400 {
        world.run(ms(100));
        assert!(world.lease.as_ref().unwrap().declaration().is_some());
    }
    assert_eq!(world.lease.as_ref().unwrap().notes.participants.len(), 3);
}
