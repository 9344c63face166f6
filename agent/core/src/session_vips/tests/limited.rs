//! A switch limits the frames of a port: there is room for all that has to be asked, though each waits for its turn.

use super::crash::busiest;
use std::net::{IpAddr, Ipv4Addr};

use super::world::{Api, World, ms, vip};
use crate::action::Why;
use crate::core::{Interface, Probe};
use crate::evidence::Sender;
use crate::frames::Purpose;
use crate::mac::Mac;
use crate::rules::Rules;
use crate::session::{Link, Subnet};
use crate::session_vips::{Event, Output, Report, SessionVips};
use crate::time::Time;

/// Limits that a node has: the default of switches, half of it, what is left of that beside a control plane, and limits of
/// switches that allow more.
const LIMITS: [u32; 9] = [3, 4, 5, 7, 10, 15, 30, 100, 1_000];

fn limited(limit: u32) -> Rules {
    Rules { frames_per_second: Some(limit), ..Rules::default() }
}

/// As `World::settled`, with the time that a limit takes.
fn settled(count: u8, vips: u8, rules: &Rules) -> World {
    let mut world = World::new(count, rules);
    world.begin(ms(2_000), vips, ms(90_000));
    world.each_is_carried(vips);
    world
}

#[test]
fn a_crash_without_an_api_is_made_up_for_under_a_limit_of_frames() {
    for limit in LIMITS {
        for (nodes, vips) in [(4, 24), (3, 3), (2, 12)] {
            for how in [Api::Refused, Api::Hanging] {
                let quorum = crate::peers::Quorum::Nobody;
                let world = &mut settled(nodes, vips, &Rules { quorum, ..limited(limit) });
                world.set_api_everywhere(how);
                world.run(ms(20_000));
                let (since, gone) = (world.now, busiest(world));
                let lost = u64::try_from(world.hosts[gone].carries.len()).unwrap();
                world.crash(gone);
                world.run(ms(120_000));
                let silent = world.worst(vips, since, |n| n == 0);
                let each = 45_000 / u64::from(limit);
                // One look more for each VIP, where the network may answer for hosts that are gone.
                let bound = ms(10_500 + each * lost);
                assert!(
                    silent < bound,
                    "limit {limit}, {nodes} nodes, {vips} VIPs, {how:?}: {silent:?}, not {bound:?}"
                );
            }
        }
    }
}

/// Without the watch, a node hears others only because it asks them. Their agents have just started: they ask for the VIPs that
/// they found long before the API goes away.
#[test]
fn nodes_that_ask_for_their_own_vips_hear_one_another_too() {
    for limit in LIMITS {
        for wait in [1_000, 3_000, 4_300] {
            let rules = Rules { witness_interval: ms(0), ..limited(limit) };
            let world = &mut settled(3, 24, &rules);
            (0..3).for_each(|n| world.restart(n, &rules));
            world.run(ms(wait));
            let since = world.now;
            world.set_api_everywhere(Api::Refused);
            world.run(ms(60_000));
            let cut_off = |r: &Report| matches!(r, Report::LetGo { why: Why::CutOff, .. });
            let away: Vec<usize> = (0..3).map(|n| world.reported(n, cut_off)).collect();
            assert_eq!(away, [0; 3], "limit {limit}, after {wait} ms");
            assert!(world.worst(24, since, |n| n != 1).is_zero(), "limit {limit}, after {wait} ms");
        }
    }
}

/// Many new VIPs are looked for one after the other. A node that doubts whether it may go on asks for its own VIPs meanwhile.
#[test]
fn a_node_that_looks_for_many_new_vips_goes_on_asking_for_its_own() {
    for limit in LIMITS {
        let world = &mut settled(2, 4, &limited(limit));
        world.run(ms(20_000));
        let node = busiest(world);
        world.restart(node, &limited(limit));
        world.run(ms(1_000));
        (10..110).for_each(|v| world.create(vip(v)));
        let own: Vec<_> = world.hosts[node].carries.keys().copied().collect();
        world.run(ms(1_000));
        world.hosts[node].asked.clear();
        world.run(ms(5_000 + 30_000 / u64::from(limit)));
        for address in own {
            let asked = world.hosts[node].asked.iter().filter(|one| **one == address).count();
            assert!(asked > 0, "limit {limit}: {address} was not asked for");
        }
    }
}

/// There is room for one party beside a VIP, so the node's own address is asked for apart, and its answers tell that it lives.
#[test]
fn vips_that_were_deleted_end_no_session_under_a_limit_of_few_frames() {
    for limit in [8, 7, 5] {
        let world = &mut settled(2, 30, &limited(limit));
        let node = busiest(world);
        let had: Vec<_> = world.hosts[node].carries.keys().copied().collect();
        world.hosts[1 - node].behind = ms(10_000);
        for address in &had[1..] {
            world.delete(*address);
        }
        world.run(ms(20_000));
        let ended = world.reported(1 - node, |r| matches!(r, Report::EndedOther { .. }));
        assert_eq!((ended, world.carriers(had[0])), (0, vec![node]), "limit {limit}");
        // The node dies: that is seen long before its session expires.
        let since = world.now;
        world.crash(node);
        world.run(ms(30_000));
        let silent = world.time_with(had[0], since, |n| n == 0);
        assert!(silent < ms(9_000), "limit {limit}: {silent:?}");
    }
}

/// Its requests leave, its session is renewed, and clients ask for its VIPs in vain.
#[test]
fn a_node_that_answers_nothing_loses_its_vips_under_a_limit() {
    for limit in [6, 7, 8, 10, 15, 30] {
        for gateway_is_silent in [false, true] {
            let world = &mut settled(4, 6, &limited(limit));
            world.gateway_is_silent = gateway_is_silent;
            let node = busiest(world);
            let had: Vec<_> = world.hosts[node].carries.keys().copied().collect();
            world.hosts[node].unanswering = true;
            world.run(ms(40_000));
            let left = had.iter().filter(|address| world.carriers(**address).contains(&node)).count();
            assert_eq!(left, 0, "limit {limit}, the gateway answers: {}", !gateway_is_silent);
        }
    }
}

/// The agent is killed while the API is away: the short fence takes its VIPs, and its kernel goes on answering for the node's own address.
#[test]
fn the_vips_of_a_dead_agent_are_carried_without_the_api_though_its_kernel_answers() {
    for limit in LIMITS {
        let world = &mut settled(4, 6, &limited(limit));
        let node = busiest(world);
        world.set_api_everywhere(Api::Refused);
        world.run(ms(20_000));
        let since = world.now;
        world.hosts[node].running = false;
        world.run(ms(90_000));
        let silent = world.worst(6, since, |n| n == 0);
        assert!(silent < ms(60_000), "limit {limit}: {silent:?}");
    }
}

/// Nor is a node's session ended when the last of its VIPs goes, and its own address is asked for in their place.
#[test]
fn the_last_vips_that_were_deleted_end_no_session_under_a_limit() {
    for limit in LIMITS {
        for behind in [2_000, 3_000, 4_000, 6_000, 10_000] {
            let world = &mut settled(2, 12, &limited(limit));
            let node = busiest(world);
            world.hosts[1 - node].behind = ms(behind);
            let had: Vec<_> = world.hosts[node].carries.keys().copied().collect();
            for address in had {
                world.delete(address);
            }
            world.run(ms(20_000));
            let ended = world.reported(1 - node, |r| matches!(r, Report::EndedOther { .. }));
            assert_eq!(ended, 0, "limit {limit}, {behind} ms behind");
        }
    }
}

/// A single frame for the node's own address that gets lost, while none of its VIPs answers, ends no session.
#[test]
fn a_lost_question_for_the_own_address_ends_no_session_under_a_limit_of_few_frames() {
    for limit in LIMITS {
        for lost in 0..12 {
            let world = &mut settled(4, 12, &limited(limit));
            let node = busiest(world);
            world.hosts[node].hushed = world.hosts[node].carries.keys().copied().collect();
            world.run(ms(3_000));
            world.hosts[node].loses_own = Some(lost);
            world.run(ms(40_000));
            let ended = (0..4).map(|n| world.reported(n, |r| matches!(r, Report::EndedOther { .. }))).sum::<usize>();
            assert_eq!(ended, 0, "limit {limit}, {lost} is lost");
        }
    }
}

/// One node dies while the API is away. The others hear one another, and go on.
#[test]
fn who_lives_keeps_its_vips_when_a_node_dies_without_an_api() {
    for limit in LIMITS {
        for nodes in [3, 5] {
            let world = &mut settled(nodes, nodes * 2, &limited(limit));
            world.set_api_everywhere(Api::Refused);
            world.run(ms(16_000));
            let gone = busiest(world);
            let lost: Vec<_> = world.hosts[gone].carries.keys().copied().collect();
            let since = world.now;
            world.crash(gone);
            world.run(ms(120_000));
            for address in (0..nodes * 2).map(vip).filter(|address| !lost.contains(address)) {
                let silent = world.time_with(address, since, |n| n == 0);
                assert!(silent.is_zero(), "limit {limit}, {nodes} nodes, {address}: {silent:?}");
            }
        }
    }
}

/// All but two die, one after the other.
#[test]
fn the_last_two_that_live_find_each_other_and_keep_their_vips_without_an_api() {
    for limit in LIMITS {
        let world = &mut settled(5, 10, &limited(limit));
        world.set_api_everywhere(Api::Refused);
        world.run(ms(16_000));
        let had: Vec<_> = world.hosts[3].carries.keys().chain(world.hosts[4].carries.keys()).copied().collect();
        let since = world.now;
        for n in 0..3 {
            world.crash(n);
            world.run(ms(700));
        }
        world.run(ms(120_000));
        for address in &had {
            let silent = world.time_with(*address, since, |n| n == 0);
            assert!(silent.is_zero(), "limit {limit}, {address}: {silent:?}");
        }
    }
}

/// A gateway that answers nothing hides no silence.
#[test]
fn a_gateway_that_answers_nothing_hides_no_dead_node_under_a_limit() {
    for limit in LIMITS {
        let world = &mut settled(4, 6, &limited(limit));
        world.gateway_is_silent = true;
        world.set_api_everywhere(Api::Refused);
        world.run(ms(20_000));
        let (since, gone) = (world.now, busiest(world));
        world.crash(gone);
        world.run(ms(90_000));
        let silent = world.worst(6, since, |n| n == 0);
        assert!(silent < ms(60_000), "limit {limit}: {silent:?}");
    }
}

/// The watch over another node leaves room for what this node asks for its own VIPs.
#[test]
fn a_node_that_watches_another_asks_for_its_own_vips_too() {
    for limit in LIMITS {
        let world = &mut settled(2, 4, &limited(limit));
        let since = world.now;
        world.set_api_everywhere(Api::Refused);
        world.run(ms(20_000));
        for _ in 0..4 {
            (0..2).for_each(|n| world.hosts[n].asked.clear());
            world.run(ms(15_000));
            for n in 0..2 {
                for address in world.hosts[n].carries.keys() {
                    assert!(
                        world.hosts[n].asked.contains(address),
                        "limit {limit}: {address} was not asked for in 15 s"
                    );
                }
            }
        }
        assert!(world.worst(4, since, |n| n != 1).is_zero(), "limit {limit}");
    }
}

/// Looks wait for one another only where there is no room for several.
#[test]
fn many_new_vips_are_looked_for_as_fast_as_the_limit_allows() {
    for limit in LIMITS {
        let world = &mut World::new(1, &limited(limit));
        world.start(0);
        world.run(ms(2_000));
        (0..60).for_each(|v| world.create(vip(v)));
        // Three probes for each VIP, and a third of the limit for them.
        let probes = 60 * 3 * 3_000 / u64::from(limit);
        world.run(ms(2_000 + probes * 5 / 4));
        assert_eq!(world.hosts[0].carries.len(), 60, "limit {limit}");
    }
}

/// VIPs wait for one another to be looked for. What was heard while they waited says nothing about what is heard now.
#[test]
fn a_node_that_is_cut_off_while_vips_wait_for_their_looks_takes_no_more_of_them() {
    for limit in [3, 7, 15] {
        let world = &mut settled(3, 24, &limited(limit));
        world.set_api_everywhere(Api::Refused);
        world.run(ms(20_000));
        let gone = busiest(world);
        world.crash(gone);
        let one = (gone + 1) % 3;
        let had = world.hosts[one].carries.len();
        for _ in 0..600 {
            if world.hosts[one].carries.len() == had {
                world.run(ms(100));
            }
        }
        assert!(world.hosts[one].carries.len() > had, "limit {limit}: it takes the first of them");
        world.hosts[one].group = 1;
        world.run(ms(500));
        let took = |r: &Report| matches!(r, Report::Took { .. });
        let before = world.reported(one, took);
        world.run(ms(60_000));
        assert_eq!(world.reported(one, took), before, "limit {limit}");
    }
}

/// Which of many nodes are asked changes with each round, whenever the rounds come.
#[test]
fn the_only_other_node_that_lives_is_heard() {
    for rules in [Rules::default(), limited(100), limited(15)] {
        for phase in (0..500).step_by(60) {
            let world = &mut World::settled(
                if rules == Rules::default() { 6 } else { 4 },
                0,
                &Rules { witness_interval: ms(0), ..rules.clone() },
            );
            world.set_api_everywhere(Api::Refused);
            world.run(ms(10_000 + phase));
            (2..world.hosts.len()).for_each(|n| world.crash(n));
            world.run(ms(2_000));
            for _ in 0..100 {
                world.run(ms(100));
                let heard = (0..2).all(|n| world.hosts[n].session_vips.hears_enough());
                assert!(heard, "{:?}, phase {phase}", rules.frames_per_second);
            }
        }
    }
}

/// A node with two interfaces asks on each as soon as there is room.
#[test]
fn an_interface_without_room_does_not_wait_for_the_next_round() {
    let rules = Rules { witness_interval: ms(0), ..limited(15) };
    let world = &mut World::new(2, &rules);
    let second = |n: usize| IpAddr::V4(Ipv4Addr::new(198, 51, 100, 1 + u8::try_from(n).unwrap()));
    for n in 0..2 {
        world.start(n);
        let on = |index: u32, address: IpAddr, mac: Mac| {
            let subnets = vec![Subnet::of(address, 24)];
            let link = Link {
                name: format!("eth{index}"),
                altnames: vec![],
                macs: vec![mac],
                addresses: vec![address],
                subnets,
                up: true,
                unheard: false,
            };
            Interface { index, link, gateways: vec![] }
        };
        let macs = vec![world.hosts[n].mac, Mac([2, 0, 0, 0, 1, u8::try_from(n).unwrap()])];
        let interfaces = vec![on(2, world.hosts[n].address, macs[0]), on(3, second(n), macs[1])];
        world.tell(n, Event::Node { interfaces, macs });
    }
    world.run(ms(30_000));
    world.crash(1);
    world.hosts[0].asked.clear();
    let mut full = world.now;
    while world.hosts[0].asked.is_empty() {
        while world.hosts[0].session_vips.frames.take(world.now, 3, &rules, Purpose::Other, 1).is_ok() {
            full = world.now;
        }
        world.run(ms(10));
    }
    assert_eq!(world.hosts[0].asked, [world.hosts[1].address], "there is room on the first interface only");
    world.run((full + ms(1_020)).since(world.now));
    assert!(world.hosts[0].asked.contains(&second(1)), "{:?}", world.hosts[0].asked);
}

/// A host that was asked by broadcast just before is asked alone a little later: that counts in the second in which it leaves.
#[test]
fn a_probe_that_is_held_back_counts_when_it_leaves() {
    let rules = limited(6);
    let mut session_vips = SessionVips::new(rules.clone());
    let address = |n: u8| IpAddr::V4(Ipv4Addr::new(192, 0, 2, n));
    let ask = |n: u8, to| Probe { interface: 2, address: address(n), to, sender: Sender::Own };
    let first = [ask(2, None), ask(2, Some(Mac([2, 0, 0, 0, 0, 2])))];
    let mut asks = first.into_iter().chain((3..).map(|n| ask(n, None)));
    let mut left: Vec<u64> = vec![];
    for at in 0..3_000 {
        let now = Time::default() + ms(60_000 + at);
        session_vips.step.at.now = now;
        if session_vips.frames.take(now, 2, &rules, Purpose::Watch, 1).is_ok() {
            session_vips.batch.probes.extend(asks.next());
        }
        session_vips.flush();
        for output in std::mem::take(&mut session_vips.step.out) {
            let Output::Probe(probes) = output else { panic!("{output:?}") };
            left.extend(std::iter::repeat_n(at, probes.len()));
        }
    }
    assert!(left.iter().any(|at| (20..1_000).contains(at)), "none was held back: {left:?}");
    let most = rules.most_probes().unwrap();
    for from in &left {
        let within = left.iter().filter(|at| (*from..*from + 1_000).contains(*at)).count();
        assert!(within <= most, "{within} probes within a second from {from} ms: {left:?}");
    }
}
