//! A node lets go of a VIP that it carried provisionally: who carries the VIP by its record is told, and announces it.

use super::crash::busiest;
use super::world::{Api, World, ms, vip};
use crate::rules::Rules;
use crate::session::LetGo;
use crate::time::{Time, WallTime};

const VIPS: u8 = 10;

/// The holder is cut off from the segment while the API is away; others carry its VIPs for a while, and let go when they hear it again.
/// The holder, its VIPs, and when the API answers again.
fn heard_again(world: &mut World) -> (usize, Vec<u8>, Time) {
    world.run(ms(20_000));
    let holder = busiest(world);
    let mine: Vec<u8> = (0..VIPS).filter(|v| world.carriers(vip(*v)) == [holder]).collect();
    world.set_api_everywhere(Api::Hanging);
    world.hosts[holder].group = 1;
    world.run(ms(3_000));
    assert!(mine.iter().any(|v| world.carriers(vip(*v)).len() > 1), "others carry them, too");
    world.hosts[holder].group = 0;
    world.run(ms(1_500));
    let up = world.now;
    world.set_api_everywhere(Api::Up);
    (holder, mine, up)
}

fn notes(world: &World) -> Vec<Vec<std::net::IpAddr>> {
    let notes = world.sessions.values().filter_map(|view| view.declared().and_then(|declared| declared.let_go.clone()));
    notes.map(|note| note.vips).collect()
}

#[test]
fn who_carries_it_by_its_record_announces_it_again_once() {
    let world = &mut World::settled(3, VIPS, &Rules::default());
    assert!(notes(world).is_empty());
    let (_, mine, up) = heard_again(world);
    world.run(ms(5_000));
    let named: Vec<_> = notes(world).into_iter().flatten().collect();
    assert!(!named.is_empty() && named.iter().all(|address| mine.iter().any(|v| vip(*v) == *address)), "{named:?}");
    for address in named {
        let carrier = world.carriers(address)[0];
        let since = |at: Time| world.hosts[carrier].announced.iter().filter(|(t, a)| *t > at && *a == address).count();
        assert!(since(up) >= 3, "{address}: a burst");
    }
    world.run(ms(10_000));
    let later = world.now;
    world.run(ms(15_000));
    let again = world.hosts.iter().flat_map(|host| &host.announced).filter(|(at, _)| *at > later).count();
    assert!(again <= usize::from(VIPS), "the usual refresh alone: {again}");
}

/// Notes are told apart by their time.
#[test]
fn each_note_counts_once() {
    let world = &mut World::settled(3, VIPS, &Rules::default());
    world.run(ms(20_000));
    let n = busiest(world);
    let mine: Vec<u8> = (0..VIPS).filter(|v| world.carriers(vip(*v)) == [n]).collect();
    let other = world.hosts.iter().map(|host| host.name.clone()).find(|name| *name != world.hosts[n].name).unwrap();
    let say = |world: &mut World, at: i64| {
        let view = world.sessions[&other].clone();
        let mut declared = view.declared.unwrap();
        declared.let_go = Some(LetGo { at: WallTime(at), vips: vec![vip(mine[0]), vip(VIPS + 1)] });
        world.store(other.clone(), Some(view.uid), view.record, Some(declared), None);
        let since = world.now;
        world.run(ms(1_500));
        world.hosts[n].announced.iter().filter(|(t, a)| *t > since && *a == vip(mine[0])).count()
    };
    let quiet = say(world, 7);
    assert!(quiet >= 3, "a burst: {quiet}");
    // The other node has renewed its session without this note: the same note comes back.
    assert!(say(world, 7) >= 3, "it was taken off between");
    assert!(say(world, 8) >= 3, "another one");
}
