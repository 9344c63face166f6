//! Nodes that are odder than most: ports that are down before anything else happens, segments that few nodes share, several
//! gateways, bonds that change their Ethernet address.

use std::collections::BTreeSet;

use mooring_agent_core::peers::Quorum;
use mooring_agent_core::rules::Rules;
use mooring_sim::clock::{MS, SECOND};
use mooring_sim::fault::{Fault, How, Planned};
use mooring_sim::run::run;
use mooring_sim::session_vips::fault::Fault as Own;
use mooring_sim::session_vips::{Plan, World};

/// Nodes with default settings on two segments, twelve VIPs, and only these faults.
fn plan(nodes: usize, faults: Vec<Planned<Own>>) -> Plan {
    let mut plan = Plan::drawn(1, Some(nodes), 0);
    let settings = &mut plan.settings;
    (settings.rules, settings.defaults) = (Rules::default(), true);
    (settings.segments, settings.absent) = (2, BTreeSet::new());
    (settings.spread, settings.ppm, settings.api) = (500 * MS, vec![0; nodes], (MS / 2, 4 * MS));
    (settings.own.vips, settings.own.local) = (12, BTreeSet::new());
    plan.faults = faults;
    plan
}

fn at(seconds: u64, lasts: u64, fault: Fault<Own>) -> Planned<Own> {
    Planned { at: seconds * SECOND, lasts: lasts * SECOND, fault }
}

/// The VIPs of a segment (their numbers are even or odd) that no living node carries.
fn nobodys(world: &World<'_>, segment: usize) -> Vec<usize> {
    (0..12).filter(|vip| vip % 2 == segment && world.carriers(*vip).is_empty()).collect()
}

#[test]
fn a_port_that_was_down_before_a_crash_delays_nothing_on_the_other_segment() {
    for crashed in 0..3 {
        let mut plan = plan(3, vec![at(50, 30, Fault::Crash(crashed))]);
        plan.settings.down = Some((0, 1));
        assert_eq!(run(&plan).violation, None, "node {crashed} crashes, and node 0 has a port that is down");
    }
}

#[test]
fn a_port_that_is_down_does_not_keep_a_watcher_from_carrying_without_the_api() {
    for down in [(0, 1), (1, 1)] {
        let mut plan = plan(2, vec![at(50, 60, Fault::Api(1, How::Refused)), at(60, 40, Fault::Crash(1))]);
        // By default the last of two nodes takes nothing without the API.
        plan.settings.rules.quorum = Quorum::Nobody;
        plan.settings.down = Some(down);
        let mut world = World::new(&plan);
        world.run(60 * SECOND - MS);
        assert_eq!(world.carriers(0), [1], "the node that is to crash has a VIP");
        world.run(65 * SECOND);
        assert_eq!((world.violation.clone(), nobodys(&world, 0)), (None, vec![]), "the port {down:?} is down");
    }
}

/// The first node is on both segments, two on the second one only, all others on the first one only. The first segment is dead:
/// only the two can see that the first node crashes.
#[test]
fn each_segment_of_a_node_has_watchers() {
    let nodes = 14;
    let mut faults: Vec<_> = (0..nodes - 2).map(|node| at(50, 60, Fault::LinkDown(node, 0, false))).collect();
    faults.push(at(60, 40, Fault::Crash(0)));
    let mut plan = plan(nodes, faults);
    plan.settings.absent = (1..nodes).map(|node| (node, usize::from(node < nodes - 2))).collect();
    let mut world = World::new(&plan);
    world.run(60 * SECOND - MS);
    assert_eq!((world.violation.clone(), nobodys(&world, 1)), (None, vec![]));
    let had = (0..12).filter(|vip| vip % 2 == 1 && world.carriers(*vip) == [0]).count();
    assert!(had > 0, "the first node has a VIP of the second segment");
    world.run(62 * SECOND);
    assert_eq!((world.violation.clone(), nobodys(&world, 1)), (None, vec![]));
}

#[test]
fn many_gateways_do_not_hinder_the_last_node() {
    let mut plan = plan(2, vec![at(50, 30, Fault::Crash(0))]);
    plan.settings.gateways = 5;
    assert_eq!(run(&plan).violation, None);
}

/// Watchers ask for VIPs that the node has let go, and the node answers from its own address.
#[test]
fn a_node_that_loses_many_vips_at_once_keeps_its_session() {
    for (nodes, late) in [(2, 400), (3, 900), (5, 400), (5, 3_000)] {
        let lag = |node| at(49, 10, Fault::Own(Own::WatchLag(node, late, None)));
        let mut faults: Vec<_> = (1..nodes).map(lag).collect();
        faults.push(at(50, 20, Fault::Own(Own::Namespace(0))));
        let mut plan = plan(nodes, faults);
        (plan.settings.own.vips, plan.settings.own.apart) = (30, false);
        let outcome = run(&plan);
        assert_eq!(outcome.violation, None, "{nodes} nodes, {late} ms late");
    }
}

#[test]
fn a_host_with_the_same_address_on_another_segment_moves_nothing() {
    let lapsed = (0..12).map(|vip| at(75, 0, Fault::Own(Own::Elsewhere(vip))));
    let mut faults: Vec<_> = (0..12).map(|vip| at(50, 0, Fault::Own(Own::Elsewhere(vip)))).collect();
    faults.push(at(55, 30, Fault::Api(1, How::Refused)));
    faults.extend(lapsed);
    assert_eq!(run(&plan(4, faults)).violation, None);
}

#[test]
fn a_node_whose_ethernet_address_changes_keeps_its_session_and_its_vips() {
    for nodes in 2..6 {
        for replaced in [false, true] {
            let mut plan = plan(nodes, vec![at(50, 0, Fault::NewMac(0)), at(80, 0, Fault::NewMac(0))]);
            plan.settings.replaced = replaced;
            assert_eq!(run(&plan).violation, None, "{nodes} nodes, a card that is replaced: {replaced}");
        }
    }
}

/// Switches with ARP inspection shut a port down above a number of frames a second, whatever the frames are.
#[test]
fn a_limit_of_frames_is_one_of_probes_too() {
    let faults =
        vec![at(50, 40, Fault::Crash(0)), at(120, 20, Fault::Api(1, How::Refused)), at(125, 30, Fault::Crash(1))];
    let mut plan = plan(6, faults);
    plan.settings.rules.frames_per_second = Some(15);
    let mut world = World::new(&plan);
    world.run(60 * SECOND);
    assert_eq!(world.violation, None);
    assert_eq!((nobodys(&world, 0), nobodys(&world, 1)), (vec![], vec![]), "ten seconds after the crash");
    world.run(170 * SECOND);
    assert_eq!(world.violation, None);
    assert_eq!((nobodys(&world, 0), nobodys(&world, 1)), (vec![], vec![]));
    assert!(world.counts.busiest <= 10, "{} probes within a second", world.counts.busiest);
}

/// Ten nodes of twelve fall silent at once. Each of them needs several probes before its session may be ended.
#[test]
fn many_silent_nodes_do_not_go_beyond_the_limit_of_frames() {
    let mut plan = plan(12, (0..10).map(|node| at(50, 60, Fault::Crash(node))).collect());
    plan.settings.rules.frames_per_second = Some(15);
    let mut world = World::new(&plan);
    world.run(80 * SECOND);
    assert_eq!(world.violation, None);
    assert_eq!((nobodys(&world, 0), nobodys(&world, 1)), (vec![], vec![]), "all VIPs are carried again");
    let live = world.api.store.sessions.values().filter(|session| session.is_live()).count();
    assert_eq!(live, 2, "the sessions of all ten were ended");
    world.run(100 * SECOND);
    // A third of the limit is left to announcements.
    assert!(world.counts.busiest <= 10, "{} probes within a second", world.counts.busiest);
}
