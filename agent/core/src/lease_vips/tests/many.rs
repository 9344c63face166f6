//! Five hundred Services with a Lease each, on twenty nodes, while the API server is away: what this node sends then.

use super::*;

const NODES: u8 = 20;
const SERVICES: u16 = 500;
/// The name of this node.
const HERE: u8 = 1;

fn service(n: u16) -> IpAddr {
    let [high, low] = n.to_be_bytes();
    Ipv4Addr::new(198, 18, high, low).into()
}

fn lease_of(n: u16) -> String {
    format!("shop/kubevip-{n:03}")
}

/// Which node holds it at first.
fn first_holder(n: u16) -> u8 {
    u8::try_from(n % u16::from(NODES)).unwrap() + 1
}

fn held_by(node: u8) -> Vec<u16> {
    (0..SERVICES).filter(|n| first_holder(*n) == node).collect()
}

/// The Leases as their holders renew them.
fn renew(world: &mut World, these: impl Iterator<Item = u16>) {
    let participant = |n: u8| {
        let mac = if n == HERE { ME } else { host(n) };
        Participant { macs: vec![mac], addresses: vec![vip(n)], ..Participant::default() }
    };
    let participants: BTreeMap<_, _> = (1..=NODES).map(|n| (format!("w{n}"), participant(n))).collect();
    for n in these {
        let holder = first_holder(n);
        let view = world.renewed(&format!("w{holder}"), &participants, service(n));
        world.leases.insert(lease_of(n), view.clone());
        if !world.away {
            let event = ForElector::Seen(Some(view));
            world.tell(Event::Input(Input::Lease { name: lease_of(n), event }));
        }
    }
}

/// A node that holds 25 of the Leases, for half a minute.
fn among_twenty(limit: Option<u32>) -> World {
    let mut world = World::new();
    let rules = Rules { frames_per_second: limit, ..rules() };
    world.lease_vips = LeaseVips::new(rules).watching_nodes(ms(100));
    for node in (1..=NODES).filter(|n| *n != HERE) {
        world.others.insert(vip(node), host(node));
        world.others.extend(held_by(node).into_iter().map(|n| (service(n), host(node))));
    }
    renew(&mut world, 0..SERVICES);
    world.tell(Event::Node { interfaces: vec![interface(2, vip(HERE))], macs: vec![ME] });
    let one = |n| Assignment { vips: [(service(n), 2)].into(), up: true, campaigns: true, ..Assignment::default() };
    let all = (0..SERVICES).map(|n| (lease_of(n), one(n))).collect();
    world.tell(Event::Input(Input::Assignments(all)));
    renew(&mut world, 0..SERVICES);
    for _ in 0..15 {
        world.run(ms(2_000));
        let others = (0..SERVICES).filter(|n| first_holder(*n) != HERE);
        renew(&mut world, others);
    }
    assert_eq!(world.carried().len(), held_by(HERE).len());
    world
}

fn crash(world: &mut World, node: u8) {
    world.others.retain(|_, mac| *mac != host(node));
}

/// The API goes away, and a node dies then. No second has too many probes, and this node carries what that one had.
fn a_node_dies_in_an_outage(limit: Option<u32>) {
    let mut world = among_twenty(limit);
    world.away = true;
    let begin = world.now;
    world.run(ms(30_000));
    let most = limit.map_or(200, |limit| usize::try_from(limit).unwrap());
    let worst = world.worst(begin);
    assert!(worst <= most, "{worst} probes in a second");
    assert_eq!(world.carried().len(), held_by(HERE).len());
    let begin = world.now;
    crash(&mut world, 7);
    let has_all = |world: &World| held_by(7).iter().all(|n| world.carries.contains_key(&service(*n)));
    for _ in 0..1_200 {
        if !has_all(&world) {
            world.run(ms(100));
        }
    }
    // In the second of the death, all electors of this node ask who else is there.
    let most = limit.map_or(230, |limit| usize::try_from(limit).unwrap());
    let worst = world.worst(begin);
    assert!(worst <= most, "{worst} probes in a second");
    assert!(has_all(&world), "{} of {}", world.carried().len(), 2 * held_by(7).len());
    assert_eq!(world.carried().len(), 2 * held_by(7).len());
}

#[test]
fn a_node_dies_in_an_outage_without_a_limit() {
    a_node_dies_in_an_outage(None);
}

#[test]
fn a_node_dies_in_an_outage_under_a_high_limit() {
    a_node_dies_in_an_outage(Some(200));
}

#[test]
fn a_node_dies_in_an_outage_under_the_limit_of_switches() {
    a_node_dies_in_an_outage(Some(15));
}

/// Nobody answers this node any more, and the API shows that all others renew. All that is asked for each Lease leaves room for the question
/// whether anybody answers at all.
#[test]
fn many_leases_that_are_asked_for_do_not_hide_that_nobody_answers() {
    let mut world = among_twenty(Some(15));
    let begin = world.now;
    world.others.clear();
    for _ in 0..30 {
        world.run(ms(2_000));
        renew(&mut world, (0..SERVICES).filter(|n| first_holder(*n) != HERE));
    }
    assert_eq!(world.known(|_| true), [State::Nobody].into());
    assert!(world.worst(begin) <= 15, "{} probes in a second", world.worst(begin));
    // All candidates would ask for each of them, beyond their limits.
    assert!(world.leases.values().all(|lease| !lease.is_offered()), "offered under a limit");
}

/// One Lease, and so many nodes that take part in it. The API server goes, and many of them. Most are left.
#[test]
fn many_nodes_die_in_an_outage() {
    for (nodes, alive) in [(40, 25), (64, 40)] {
        let mut world = World::new();
        world.lease_vips = LeaseVips::new(rules()).watching_nodes(ms(100));
        let participants: BTreeMap<_, _> = (2..=nodes)
            .map(|n| {
                (
                    format!("w{n:03}"),
                    Participant { macs: vec![host(n)], addresses: vec![vip(n)], ..Participant::default() },
                )
            })
            .collect();
        let notes = Notes { participants, ..Notes::default() };
        let view = LeaseView { version: "5".into(), record: Record::default(), notes };
        world.leases.insert(lease_of(0), view.clone());
        for n in 2..=nodes {
            world.others.insert(vip(n), host(n));
        }
        world.tell(Event::Node { interfaces: vec![interface(2, vip(HERE))], macs: vec![ME] });
        let one = Assignment { vips: [(service(0), 2)].into(), up: true, campaigns: true, ..Assignment::default() };
        world.tell(Event::Input(Input::Assignments([(lease_of(0), one)].into())));
        world.tell(Event::Input(Input::Lease { name: lease_of(0), event: ForElector::Seen(Some(view)) }));
        world.run(ms(40_000));
        let settled = world.carried().len();
        world.away = true;
        world.run(ms(20_000));
        let before = world.carried().len();
        world.others.retain(|address, _| (nodes - alive + 1..=nodes).any(|n| vip(n) == *address));
        let mut without = 0;
        for _ in 0..1_200 {
            world.run(ms(100));
            without += usize::from(world.carried().is_empty());
        }
        assert_eq!((settled, before, without), (1, 1, 0), "{nodes} nodes, {alive} of them left: tenths without");
    }
}
