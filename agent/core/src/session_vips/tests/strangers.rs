//! Hosts that are no nodes with a session claim very many VIPs.

use super::crash::busiest;
use super::world::{Api, World, ms, vip};
use crate::evidence::Form;
use crate::mac::Mac;
use crate::rules::{LATE, Rules};
use crate::session_vips::{Event, Report};

/// So many VIPs there are.
const VIPS: u8 = 100;

/// Nodes that carry them, the busiest of them, and which it carries.
fn settled() -> (World, usize, Vec<u8>) {
    let world = World::settled(2, VIPS, &Rules::default());
    let holder = busiest(&world);
    let mine = (0..VIPS).filter(|v| world.carriers(vip(*v)) == [holder]).collect();
    (world, holder, mine)
}

/// Another address for each claim.
fn stranger(n: u64) -> Mac {
    let bytes = n.to_be_bytes();
    Mac([2, 1, 0, bytes[5], bytes[6], bytes[7]])
}

fn claim(world: &mut World, holder: usize, v: u8, mac: Mac) {
    world.tell(holder, Event::Heard { interface: 2, address: vip(v), mac, form: Form::Claim });
}

/// For so many seconds, strangers claim one of these VIPs every 10 ms.
fn storm(world: &mut World, holder: usize, these: &[u8], seconds: u64) {
    for (n, v) in (0..seconds * 100).zip(these.iter().cycle()) {
        claim(world, holder, *v, stranger(n));
        world.run(ms(10));
    }
}

fn defended(world: &World, holder: usize, v: u8) -> usize {
    world.reported(holder, |r| *r == Report::Defended { address: vip(v) })
}

fn contested(world: &World, holder: usize, v: u8) -> usize {
    world.reported(holder, |r| matches!(r, Report::Contested { address, .. } if *address == vip(v)))
}

#[test]
fn strangers_that_claim_all_vips_cost_a_few_rounds() {
    let (mut world, holder, mine) = settled();
    let calls = world.hosts[holder].calls;
    world.run(ms(16_000));
    let usual = world.hosts[holder].calls - calls;
    let calls = world.hosts[holder].calls;
    storm(&mut world, holder, &mine, 16);
    let calls = world.hosts[holder].calls - calls;
    // Five rounds, of two calls each, and a renewal that was under way.
    assert!(calls <= usual + 12, "{calls} calls in 16 s, {usual} without the claims");
    assert!(mine.iter().all(|v| defended(&world, holder, *v) >= 1), "all are defended");
    assert_eq!(world.hosts[holder].carries.len(), mine.len());
}

#[test]
fn after_a_while_without_claims_a_stranger_is_answered_at_once() {
    let (mut world, holder, mine) = settled();
    storm(&mut world, holder, &mine, 10);
    world.run(ms(20_000));
    for v in [mine[0], mine[1]] {
        let before = defended(&world, holder, v);
        claim(&mut world, holder, v, stranger(1));
        world.run(ms(100));
        assert_eq!(defended(&world, holder, v), before + 1);
        world.run(ms(2_500));
    }
}

#[test]
fn a_node_is_answered_at_once_whatever_strangers_claim() {
    let (mut world, holder, mine) = settled();
    let node = world.hosts[1 - holder].mac;
    storm(&mut world, holder, &mine, 10);
    for n in 0..20_u8 {
        let v = mine[usize::from(n)];
        let before = contested(&world, holder, v);
        claim(&mut world, holder, v, stranger(1));
        claim(&mut world, holder, v, node);
        claim(&mut world, holder, v, stranger(2));
        assert_eq!(contested(&world, holder, v), before + 1, "{n}");
        world.run(ms(300));
    }
    // Without an answer of the API it yields, although a stranger has claimed the VIP first, and claims it again.
    world.set_api(holder, Api::Hanging);
    let v = mine[30];
    for mac in [stranger(3), node, stranger(4)] {
        claim(&mut world, holder, v, mac);
    }
    world.run(ms(220));
    assert!(!world.hosts[holder].carries.contains_key(&vip(v)));
    assert_eq!(world.hosts[holder].carries.len(), mine.len() - 1);
}

#[test]
fn a_stranger_that_turns_out_to_be_a_node_is_answered_at_once() {
    for claims in [&[9][..], &[9, 8], &[8, 9]] {
        let (mut world, holder, mine) = settled();
        storm(&mut world, holder, &mine[1..], 10);
        // No round is due for seconds.
        let v = mine[0];
        for n in claims {
            claim(&mut world, holder, v, stranger(*n));
        }
        world.run(ms(50));
        assert_eq!(contested(&world, holder, v), 0, "it waits");
        let node = 1 - holder;
        world.hosts[node].mac = stranger(9);
        world.hosts[node].carries.insert(vip(v), world.now + ms(20_000));
        world.tell_node(node);
        world.run(ms(600));
        let by_node = |r: &Report| matches!(r, Report::Contested { address, node: Some(_), .. } if *address == vip(v));
        assert!(world.reported(holder, by_node) >= 1, "{claims:?}");
    }
}

#[test]
fn a_stranger_that_turns_out_to_be_a_node_while_the_api_is_asked_is_yielded_to() {
    let (mut world, holder, mine) = settled();
    world.reads_refused = true;
    claim(&mut world, holder, mine[0], stranger(9));
    claim(&mut world, holder, mine[1], stranger(8));
    let node = 1 - holder;
    world.hosts[node].mac = stranger(9);
    world.tell_node(node);
    world.run(ms(250));
    assert!(!world.hosts[holder].carries.contains_key(&vip(mine[0])));
    assert!(world.hosts[holder].carries.contains_key(&vip(mine[1])));
}

#[test]
fn a_stranger_does_not_wait_while_this_node_is_not_sure_of_its_session() {
    let (mut world, holder, mine) = settled();
    storm(&mut world, holder, &mine[2..], 10);
    world.set_api(holder, Api::Hanging);
    claim(&mut world, holder, mine[1], stranger(1));
    world.freeze(holder);
    world.run(LATE + ms(500));
    world.thaw(holder);
    world.run(ms(1));
    claim(&mut world, holder, mine[0], stranger(1));
    world.run(ms(250));
    let carries = |v| world.hosts[holder].carries.contains_key(&vip(v));
    assert!(!carries(mine[0]), "another may have taken it meanwhile");
    assert!(carries(mine[1]), "what a stranger claimed before says nothing about now");
}

#[test]
fn a_stranger_that_waits_while_the_session_lapses_is_heard_again() {
    let (mut world, holder, mine) = settled();
    storm(&mut world, holder, &mine[1..], 5);
    world.set_api_everywhere(Api::Refused);
    world.run(ms(6_000));
    claim(&mut world, holder, mine[1], stranger(1));
    claim(&mut world, holder, mine[0], stranger(1));
    world.run(ms(12_000));
    assert_eq!(contested(&world, holder, mine[0]), 0);
    assert!(world.hosts[holder].carries.contains_key(&vip(mine[0])), "nobody has it");
}

/// Without the API, a node does not know whether its session has ended while it was cut off, and a node that began meanwhile is
/// unknown to it.
#[test]
pub(super) fn a_node_that_was_cut_off_yields_to_a_host_that_it_does_not_know() {
    for cut in [false, true] {
        let (mut world, holder, mine) = settled();
        world.set_api_everywhere(Api::Refused);
        if cut {
            world.hosts[holder].group = 1;
        }
        world.run(ms(450));
        world.hosts[holder].group = world.hosts[1 - holder].group;
        let v = mine[0];
        assert!(world.hosts[holder].carries.contains_key(&vip(v)));
        claim(&mut world, holder, v, stranger(1));
        world.run(ms(220));
        assert_eq!(world.hosts[holder].carries.contains_key(&vip(v)), !cut);
    }
}

/// A node has claimed a VIP and got it. Perhaps it took it because this session has ended: then a host that this node does not know may
/// have taken another.
#[test]
pub(super) fn who_has_yielded_to_a_node_without_the_api_yields_to_strangers_too() {
    let (mut world, holder, mine) = settled();
    let node = world.hosts[1 - holder].mac;
    world.set_api(holder, Api::Refused);
    for (v, mac) in [(mine[0], stranger(1)), (mine[1], stranger(1))] {
        claim(&mut world, holder, v, mac);
    }
    claim(&mut world, holder, mine[2], node);
    world.run(ms(300));
    let carries = |world: &World, v| world.hosts[holder].carries.contains_key(&vip(v));
    assert!(carries(&world, mine[0]) && carries(&world, mine[1]) && !carries(&world, mine[2]));
    for v in [mine[0], mine[1]] {
        claim(&mut world, holder, v, stranger(1));
    }
    world.run(ms(210));
    assert!(!carries(&world, mine[0]) && !carries(&world, mine[1]));
    assert_eq!(world.hosts[holder].carries.len(), mine.len() - 3);
}

/// An API that refuses calls is not asked again for each claim.
#[test]
fn claims_while_the_api_refuses_calls_cost_a_few_renewals() {
    let (mut world, holder, mine) = settled();
    world.set_api_everywhere(Api::Refused);
    world.hosts[holder].group = 1;
    world.run(ms(450));
    world.hosts[holder].group = world.hosts[1 - holder].group;
    let calls = world.hosts[holder].calls;
    for (n, v) in (0..40).zip(&mine) {
        claim(&mut world, holder, *v, stranger(n));
        world.run(ms(10));
    }
    let calls = world.hosts[holder].calls - calls;
    assert!(calls <= 6, "{calls} calls in 400 ms");
}
