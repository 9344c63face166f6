//! Addresses of nodes and of the control plane are no VIPs of Services.

use std::net::IpAddr;

use super::world::{Api, World, ms, vip};
use crate::core::Interface;
use crate::evidence::Form;
use crate::placement::{self, Demand};
use crate::rules::Rules;
use crate::session::{Link, Subnet};
use crate::session_vips::{Event, Input, Report};

/// Three nodes whose agents have begun.
fn nodes() -> World {
    let mut world = World::new(3, &Rules::default());
    (0..3).for_each(|n| world.start(n));
    world.run(ms(2_000));
    world
}

fn reserve(world: &mut World, n: usize, address: IpAddr) {
    world.tell(n, Event::Input(Input::Reserved([address].into())));
}

/// How often all nodes together reported whose an address is.
fn told(world: &World, address: IpAddr, node: &str, control_plane: bool) -> usize {
    let report = Report::Owned { address, node: node.into(), control_plane };
    (0..world.hosts.len()).map(|n| world.reported(n, |r| *r == report)).sum()
}

/// Whether any node has ever carried it.
fn was_carried(world: &World, address: IpAddr) -> bool {
    let took = |r: &Report| matches!(r, Report::Took { address: taken, .. } if *taken == address);
    (0..world.hosts.len()).any(|n| world.reported(n, took) > 0)
}

#[test]
fn an_address_of_a_node_is_not_taken() {
    for owner in 0..3 {
        let world = &mut nodes();
        world.hosts[owner].own = vec![vip(0)];
        world.tell_node(owner);
        world.run(ms(500));
        world.create(vip(0));
        world.create(vip(1));
        world.run(ms(60_000));
        assert!(!was_carried(world, vip(0)), "{owner}: {:?}", world.carriers(vip(0)));
        assert_eq!(world.carriers(vip(1)).len(), 1);
        let told = told(world, vip(0), &world.hosts[owner].name, false);
        assert!((1..=8).contains(&told), "{owner}: told {told} times in a minute");
        // Somebody takes the address away from the node.
        world.hosts[owner].own = vec![];
        world.tell_node(owner);
        world.run(ms(3_000));
        assert_eq!(world.carriers(vip(0)).len(), 1, "{owner}");
    }
}

#[test]
fn a_vip_that_a_node_gets_as_its_own_address_is_let_go() {
    for away in [0, 1] {
        let world = &mut World::settled(3, 4, &Rules::default());
        let owner = (world.carriers(vip(0))[0] + away) % 3;
        world.hosts[owner].own = vec![vip(0)];
        world.tell_node(owner);
        world.run(ms(500));
        let since = world.now;
        world.run(ms(30_000));
        assert!(world.worst(1, since, |n| n > 0).is_zero(), "{:?}", world.carriers(vip(0)));
        assert!(told(world, vip(0), &world.hosts[owner].name, false) >= 1);
        assert_eq!(world.carriers(vip(1)).len(), 1);
        world.hosts[owner].own = vec![];
        world.tell_node(owner);
        world.run(ms(3_000));
        assert_eq!(world.carriers(vip(0)).len(), 1);
    }
}

/// The first two nodes are of the control plane, and the second one has its VIP.
#[test]
fn a_vip_of_the_control_plane_is_not_taken() {
    for owners_know in [true, false] {
        let world = &mut nodes();
        world.hosts[1].control_plane = vec![vip(0)];
        reserve(world, 0, vip(0));
        if owners_know {
            reserve(world, 1, vip(0));
        }
        world.run(ms(500));
        world.create(vip(0));
        world.create(vip(1));
        world.run(ms(60_000));
        assert!(!was_carried(world, vip(0)), "{:?}", world.carriers(vip(0)));
        assert_eq!(world.carriers(vip(1)).len(), 1);
        assert!(told(world, vip(0), "node1", true) + told(world, vip(0), "node2", true) >= 1);
    }
}

#[test]
fn a_vip_that_turns_out_to_be_the_control_planes_is_let_go() {
    let world = &mut World::settled(3, 4, &Rules::default());
    let holder = world.carriers(vip(0))[0];
    let other = (holder + 1) % 3;
    world.hosts[other].control_plane = vec![vip(0)];
    reserve(world, other, vip(0));
    world.run(ms(500));
    let since = world.now;
    world.run(ms(30_000));
    assert!(world.worst(1, since, |n| n > 0).is_zero(), "{:?}", world.carriers(vip(0)));
    assert!(told(world, vip(0), &world.hosts[other].name, true) >= 1);
}

/// The node may come back. It is gone for good when its Lease and its member object are deleted.
#[test]
pub(super) fn an_address_of_a_node_that_crashed_is_not_taken() {
    for before in [true, false] {
        let world = &mut nodes();
        world.hosts[2].own = vec![vip(0)];
        world.tell_node(2);
        world.run(ms(500));
        if before {
            world.create(vip(0));
            world.run(ms(5_000));
        }
        world.crash(2);
        world.run(ms(2_000));
        assert!(!world.sessions["node3"].is_live());
        if !before {
            world.create(vip(0));
        }
        world.run(ms(60_000));
        assert!(!was_carried(world, vip(0)), "{:?}", world.carriers(vip(0)));
        assert!(told(world, vip(0), "node3", false) >= 1);
        // An agent that begins now knows no more than the objects say.
        world.restart(0, &Rules::default());
        world.run(ms(20_000));
        assert!(!was_carried(world, vip(0)), "{:?}", world.carriers(vip(0)));
        world.delete_session("node3");
        world.run(ms(40_000));
        assert!(!was_carried(world, vip(0)), "{:?}", world.carriers(vip(0)));
        world.delete_member("node3");
        world.run(ms(40_000));
        assert_eq!(world.carriers(vip(0)).len(), 1, "{before}");
    }
}

/// What a node that is gone carried is no address of its own.
#[test]
fn the_vips_of_a_node_that_crashed_are_taken() {
    let world = &mut World::settled(3, 6, &Rules::default());
    world.hosts[2].own = vec![vip(10)];
    world.tell_node(2);
    world.run(ms(500));
    world.crash(2);
    world.run(ms(3_000));
    world.each_is_carried(6);
}

/// The node's agent is gone for good, and its kernel lives.
#[test]
fn an_address_of_a_node_without_an_agent_is_not_taken() {
    let world = &mut nodes();
    world.hosts[1].running = false;
    world.run(ms(30_000));
    assert!(!world.sessions["node2"].is_live());
    let address = world.hosts[1].address;
    world.create(address);
    world.run(ms(60_000));
    assert!(!was_carried(world, address), "{:?}", world.carriers(address));
    assert!(told(world, address, "node2", false) >= 1);
}

#[test]
fn without_the_api_an_address_of_a_node_is_not_carried_either() {
    let world = &mut World::settled(3, 4, &Rules::default());
    let holder = world.carriers(vip(0))[0];
    world.set_api_everywhere(Api::Refused);
    world.run(ms(15_000));
    world.hosts[holder].own = vec![vip(0)];
    world.tell_node(holder);
    world.run(ms(1_000));
    assert!(world.carriers(vip(0)).is_empty(), "{:?}", world.carriers(vip(0)));
    world.run(ms(20_000));
    assert!(world.carriers(vip(0)).is_empty(), "{:?}", world.carriers(vip(0)));
}

/// kube-proxy in IPVS mode puts all VIPs on an interface of every node, and that interface leads nowhere.
#[test]
fn an_interface_that_leads_nowhere_makes_no_node_a_stranger() {
    let world = &mut World::settled(3, 1, &Rules::default());
    for n in 0..3 {
        let host = &world.hosts[n];
        let own = Link {
            name: "eth0".into(),
            altnames: vec![],
            macs: vec![host.mac],
            addresses: vec![host.address],
            subnets: vec![Subnet::of(host.address, 24)],
            up: true,
            unheard: false,
        };
        let nowhere = Link { name: "kube-ipvs0".into(), addresses: vec![vip(0)], subnets: vec![], ..own.clone() };
        let interfaces = [(2, own), (3, nowhere)].map(|(index, link)| Interface { index, link, gateways: vec![] });
        let macs = vec![host.mac];
        world.tell(n, Event::Node { interfaces: interfaces.into(), macs });
    }
    world.run(ms(2_000));
    let holder = world.carriers(vip(0))[0];
    let (peer, mac) = (world.hosts[(holder + 1) % 3].name.clone(), world.hosts[(holder + 1) % 3].mac);
    world.tell(holder, Event::Heard { interface: 2, address: vip(0), mac, form: Form::Claim });
    world.run(ms(1_000));
    let by = |r: &Report| matches!(r, Report::Contested { node, .. } if node.as_ref() == Some(&peer));
    assert_eq!(world.reported(holder, by), 1, "{:?}", world.hosts[holder].reports);
    assert_eq!(world.carriers(vip(0)), [holder]);
}

/// Two segments may use the same addresses.
#[test]
fn an_address_of_a_node_on_another_segment_does_not_count() {
    let world = &mut nodes();
    let host = &world.hosts[0];
    let link = |name: &str, address: IpAddr, own: Vec<IpAddr>| Link {
        name: name.into(),
        altnames: vec![],
        macs: vec![host.mac],
        addresses: std::iter::once(address).chain(own).collect(),
        subnets: vec![Subnet::of(address, 24)],
        up: true,
        unheard: false,
    };
    let here = link("eth0", host.address, vec![]);
    let elsewhere = link("eth1", "198.51.100.1".parse().unwrap(), vec![vip(0)]);
    let interfaces = [(2, here), (3, elsewhere)].map(|(index, link)| Interface { index, link, gateways: vec![] });
    let macs = vec![host.mac];
    world.tell(0, Event::Node { interfaces: interfaces.into(), macs });
    world.run(ms(500));
    world.create(vip(0));
    world.demand(&Demand { interface: placement::Interface::Named("eth0".into()), ..Demand::of(vip(0)) });
    world.run(ms(5_000));
    assert_eq!(world.carriers(vip(0)).len(), 1);
}
