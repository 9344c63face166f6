//! Who tells others that a session has ended, or is there at all: its judges, whatever happened to the node that wrote the Lease.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};

use super::crash::busiest;
use super::world::{Api, World, ms, vip};
use crate::event::Failure;
use crate::lease::Record;
use crate::placement::Demand;
use crate::rules::Rules;
use crate::session::View;
use crate::session_vips::{Event, Input};
use crate::time::WallTime;

/// The first `here` nodes have VIPs on their segment; the others are on another segment. Two judges of a session are on its own.
fn two_segments(here: u8, all: u8, vips: u8) -> World {
    on_two_segments(here, all, vips, &Rules::default())
}

fn on_two_segments(here: u8, all: u8, vips: u8, rules: &Rules) -> World {
    let mut world = World::new(all, rules);
    for n in here..all {
        let host = &mut world.hosts[usize::from(n)];
        (host.address, host.group) = (IpAddr::V4(Ipv4Addr::new(198, 51, 100, n + 1)), 1);
    }
    world.begin(ms(1_000), vips, ms(20_000));
    world
}

/// A host crashes. Answers when its Lease says that its session has ended, with the host that wrote that.
fn crash_until_ended(world: &mut World, n: usize) -> usize {
    let name = world.hosts[n].name.clone();
    world.crash(n);
    for _ in 0..40_000 {
        world.run(ms(1));
        if !world.sessions[&name].is_live() {
            let by = &world.sessions[&name].end.as_ref().unwrap().by;
            assert!(world.members[&name].copy.is_live(), "not told yet");
            return world.hosts.iter().position(|host| host.name == *by).unwrap();
        }
    }
    panic!("nobody ended the session of {name}");
}

/// All nodes of a rack die, and none of the others shares a segment with them. Each end takes one session's duration more, at most.
#[test]
pub(super) fn nodes_that_die_together_on_a_segment_of_their_own_are_ended() {
    for here in 2..6 {
        let world = &mut two_segments(here, 12, 20);
        let since = world.now;
        (0..usize::from(here)).for_each(|n| world.crash(n));
        world.run(ms(30_000) + Rules::default().lease_duration * u32::from(here));
        let dead = world.hosts[..usize::from(here)].iter().map(|host| &host.name);
        for name in dead {
            assert!(!world.sessions[name].is_live(), "{name} of {here}");
            assert!(!world.members[name].copy.is_live(), "{name} of {here}");
        }
        world.each_is_carried(20);
        assert!(world.worst(20, since, |n| n > 1).is_zero());
    }
}

/// One node outlives all others, and is neither a watcher nor one of the first two judges of any of them.
#[test]
fn the_only_node_that_lives_ends_all_others() {
    let mut seen = 0;
    for count in 5..14 {
        for survivor in 0..usize::from(count) {
            let world = &mut World::settled(count, 0, &Rules::default());
            let others: Vec<usize> = (0..usize::from(count)).filter(|n| *n != survivor).collect();
            let place = |n: &usize| world.hosts[survivor].session_vips.judge_place(&world.hosts[*n].name);
            if others.iter().any(|n| place(n).is_some_and(|place| place < 2)) {
                continue;
            }
            for n in &others {
                world.crash(*n);
            }
            world.run(ms(30_000) + Rules::default().lease_duration * u32::from(count));
            let live = world.sessions.values().filter(|view| view.is_live()).count();
            assert_eq!(live, 1, "{count} nodes, {survivor} lives");
            seen += 1;
        }
    }
    assert!(seen > 2, "{seen}");
}

/// An API server ends, and the watches of all nodes break together; then it cannot list for a while, and they break again and again.
#[test]
fn broken_watches_make_few_lists_and_not_together() {
    for nodes in [3, 60] {
        let world = &mut World::settled(nodes, 0, &Rules::default());
        world.run(ms(20_000));
        let since = world.now;
        for _ in 0..120 {
            for n in 0..usize::from(nodes) {
                world.tell(n, Event::Input(Input::WatchLost));
            }
            world.run(ms(500));
        }
        for host in &world.hosts {
            let lists = host.lists.iter().filter(|at| **at >= since).count();
            assert!((2..=3).contains(&lists), "{lists} lists of {} in a minute", host.name);
        }
        let mut first: Vec<_> =
            world.hosts.iter().map(|h| h.lists.iter().find(|at| **at >= since).unwrap().since(since)).collect();
        first.sort();
        let (first, last) = (first[0], first[first.len() - 1]);
        let wide = ms(30) * u32::from(nodes);
        assert!(
            last <= wide && (nodes == 3 || last.saturating_sub(first) > wide / 2),
            "{nodes}: from {first:?} to {last:?}"
        );
    }
}

#[test]
fn a_planned_end_is_told() {
    for n in 0..5 {
        let world = &mut two_segments(5, 12, 10);
        let name = world.hosts[n].name.clone();
        world.tell(n, Event::Shutdown);
        world.run(ms(60_000));
        assert!(world.hosts[n].exited && !world.sessions[&name].is_live());
        assert!(!world.members[&name].copy.is_live(), "{name}");
    }
}

/// Something happens to the host that has written the end.
fn told_though(happens: impl Fn(&mut World, usize)) {
    for n in 0..5 {
        let world = &mut two_segments(5, 12, 30);
        let since = world.now;
        let ender = crash_until_ended(world, n);
        let name = world.hosts[n].name.clone();
        happens(world, ender);
        world.run(ms(300_000));
        assert!(!world.members[&name].copy.is_live(), "{name}");
        let worst = world.worst(30, since, |n| n == 0);
        assert!(worst < ms(6_000), "{name}: a VIP was away for {worst:?}");
    }
}

#[test]
pub(super) fn an_end_is_told_though_the_node_that_wrote_it_dies() {
    told_though(World::crash);
}

/// Nobody watches. The first two judges are behind, so the third one writes the end. It dies, and the others are judges still.
#[test]
pub(super) fn an_end_is_told_though_the_judge_of_another_segment_wrote_it_and_dies() {
    let mut seen = 0;
    for n in 0..5 {
        let rules = Rules { witness_interval: ms(0), ..Rules::default() };
        let world = &mut on_two_segments(5, 12, 0, &rules);
        let name = world.hosts[n].name.clone();
        let judge = |world: &World, place: u32| {
            let place_of = |host: usize| world.hosts[host].session_vips.judge_place(&name);
            (0..12).find(|host| *host != n && place_of(*host) == Some(place))
        };
        let Some(third) = judge(world, 2) else { continue };
        for place in 0..2 {
            let host = judge(world, place).unwrap();
            world.hosts[host].delay = ms(1_000);
        }
        if crash_until_ended(world, n) != third {
            continue;
        }
        world.crash(third);
        // Any node that happens to know tells the end within half a minute.
        world.run(ms(10_000));
        assert!(!world.members[&name].copy.is_live(), "{name}");
        seen += 1;
    }
    assert!(seen > 2, "{seen}");
}

#[test]
fn an_end_is_told_though_the_answer_to_its_write_is_lost() {
    told_though(|world, ender| world.hosts[ender].loses_end = true);
}

/// As with a node selector that admits two nodes: the one that dies, and one that is no judge of it.
#[test]
fn a_node_that_is_no_judge_hears_of_the_end_and_takes() {
    let mut seen = 0;
    for (n, other) in (0..5).flat_map(|n| (0..5).map(move |other| (n, other))).filter(|(n, other)| n != other) {
        let world = &mut two_segments(5, 12, 0);
        if world.hosts[other].follows.contains(&world.hosts[n].name) {
            continue;
        }
        let demand = |hosts: &[usize], world: &World| {
            let local: BTreeSet<String> = hosts.iter().map(|host| world.hosts[*host].name.clone()).collect();
            Demand { local: Some(local.into()), ..Demand::of(vip(0)) }
        };
        world.create(vip(0));
        world.demand(&demand(&[n], world));
        world.run(ms(30_000));
        world.demand(&demand(&[n, other], world));
        world.run(ms(20_000));
        assert_eq!(world.carriers(vip(0)), [n]);
        let ender = crash_until_ended(world, n);
        if ender == other {
            continue;
        }
        world.crash(ender);
        world.run(ms(10_000));
        assert_eq!(world.carriers(vip(0)), [other]);
        seen += 1;
    }
    assert!(seen > 3, "{seen}");
}

/// The session of a node that is not among the hosts.
pub(super) fn session_of(node: &str, like: &View) -> View {
    let record = Record { holder: node.into(), ..like.record.clone() };
    View { node: node.into(), record, ..like.clone() }
}

/// All nodes list at once, because their API server was restarted, and find that a member object has no Lease.
#[test]
fn not_all_nodes_end_a_member_object_without_a_lease() {
    let world = &mut World::settled(12, 10, &Rules::default());
    let since = world.now;
    world.store_member(View { uid: "of old".into(), ..session_of("gone", &world.sessions["node1"].clone()) });
    world.run(ms(3));
    for n in 0..12 {
        world.tell(n, Event::Input(Input::WatchLost));
    }
    world.run(ms(40_000));
    assert!(!world.members["gone"].copy.is_live());
    let of = |(at, of): &&(crate::time::Time, String)| *at >= since && of == "gone";
    let writes = world.hosts.iter().flat_map(|host| host.publishes.iter().filter(of)).count();
    assert!(writes <= 3, "{writes} writes");
}

/// A node dies between its Lease and its member object. One other node lists just then, and is no judge.
#[test]
pub(super) fn a_session_that_only_a_list_has_shown_is_told_and_ends() {
    for lister in 0..12 {
        let world = &mut World::settled(12, 10, &Rules::default());
        let like = session_of("late", &world.sessions["node1"].clone());
        world.store("late".into(), None, like.record, like.declared, None);
        world.tell(lister, Event::Input(Input::WatchLost));
        world.run(ms(120_000));
        assert!(!world.sessions["late"].is_live() && !world.members["late"].copy.is_live(), "{lister}");
        let believes = |host: &super::world::Host| host.session_vips.sessions.live().any(|(node, _)| node == "late");
        assert!(!world.hosts.iter().any(believes), "{lister}");
    }
}

/// Nodes are upgraded one after the other. One marks its Lease, and its member object does not come: its agent crashes, or may not write
/// the member object.
#[test]
pub(super) fn a_lease_that_is_marked_and_not_told_is_followed_and_asks_for_few_lists() {
    for renews in [false, true] {
        let world = &mut World::settled(30, 10, &Rules::default());
        let session_of_late = session_of("late", &world.sessions["node1"].clone());
        let mut record = session_of_late.record.clone();
        let declared = session_of_late.declared;
        let before = world.store("late".into(), None, record.clone(), declared.clone(), None);
        for n in 0..30 {
            world.tell(n, Event::Input(Input::Session(View { published: false, ..before.clone() })));
        }
        // It was not renewed for long: nodes that wait for its member object may not judge by what they saw before.
        world.run(ms(12_000));
        let since = world.now;
        world.store("late".into(), Some(before.uid.clone()), record.clone(), declared.clone(), None);
        for n in 0..30 {
            world.tell(n, Event::Input(Input::NotUnpublished("late".into())));
        }
        for _ in 0..20 {
            world.run(ms(2_000));
            if renews && world.sessions["late"].is_live() {
                record.renewed = record.renewed.map(|at| WallTime(at.0 + 1));
                world.store("late".into(), Some(before.uid.clone()), record.clone(), declared.clone(), None);
            }
        }
        // What they saw last of the Lease is old, and it is renewed.
        let ends = world.hosts.iter().filter(|host| !host.ends.is_empty()).count();
        assert!(!renews || ends == 0, "{ends} nodes tried to end it");
        let lists = world.hosts.iter().flat_map(|host| host.lists.iter().filter(|at| **at >= since));
        let mut lists: Vec<u128> = lists.map(|at| at.since(since).as_millis()).collect();
        lists.sort_unstable();
        let together = lists.chunk_by(|a, b| a == b).map(<[_]>::len).max().unwrap_or(0);
        assert!(together <= 3 && lists.len() <= 30, "renews {renews}: {lists:?}");
        let followers = world.hosts.iter().filter(|host| host.follows.contains("late")).count();
        assert!(followers >= 2 || !world.sessions["late"].is_live(), "renews {renews}: {followers} follow the Lease");
        assert!(world.members.contains_key("late"), "renews {renews}");
    }
}

/// Many nodes have marked their Leases and may not write their member objects: the new image came before its manifests, or a quota is full.
#[test]
fn who_may_not_write_member_objects_tries_seldom_for_others() {
    for failure in [Failure::Refused, Failure::Away] {
        let world = &mut World::new(30, &Rules::default());
        world.publish_refused = Some(failure);
        for n in 0..30 {
            world.start(n);
        }
        world.run(ms(5_000));
        // As when the API server is restarted.
        for n in 0..30 {
            world.tell(n, Event::Input(Input::WatchLost));
        }
        world.run(ms(60_000));
        let since = world.now;
        world.run(ms(60_000));
        // The most that a node wrote in the last minute, of those nodes.
        let most = |of_whom: fn(&super::world::Host, &String) -> bool| {
            let writes = |host: &super::world::Host| {
                host.publishes.iter().filter(|(at, of)| *at >= since && of_whom(host, of)).count()
            };
            world.hosts.iter().map(writes).max()
        };
        let writes = most(|host, of| *of != host.name && !host.follows.contains(of));
        let some = Some(1)..=Some(7);
        assert!(some.contains(&writes), "{failure:?}: {writes:?} writes in a minute for nodes that it does not follow");
        let writes = most(|host, of| *of == host.name);
        assert!(some.contains(&writes), "{failure:?}: {writes:?} writes in a minute for itself");
        let lists = world.lists();
        world.publish_refused = None;
        world.run(ms(15_000));
        assert_eq!(world.members.len(), 30);
        assert_eq!(world.lists(), lists);
    }
}

/// A list has shown a session that nobody was told of. Then somebody deletes its Lease. The watch of the Lease begins after that, and
/// while a list is under way that was made before.
#[test]
fn a_lease_that_is_not_there_when_its_watch_begins_is_listed_anew() {
    let mut seen = 0;
    for n in 1..8 {
        let world = &mut World::settled(8, 0, &Rules::default());
        world.publish_refused = Some(Failure::Refused);
        let believes = |world: &World| world.hosts[n].session_vips.sessions.live().any(|(node, _)| node == "late");
        let like = session_of("late", &world.sessions["node1"].clone());
        world.store("late".into(), None, like.record, like.declared, None);
        // The world shows it no watch of this Lease.
        world.hosts[n].follows.insert("late".into());
        world.tell(n, Event::Input(Input::WatchLost));
        world.run(ms(500));
        assert!(believes(world));
        if !world.hosts[n].session_vips.following.asked.contains("late") {
            continue;
        }
        // The API server makes the list after 900 ms, and the answer takes as long.
        world.hosts[n].delay = ms(900);
        world.tell(n, Event::Input(Input::WatchLost));
        world.run(ms(1_000));
        world.sessions.remove("late");
        world.hosts[n].delay = ms(2);
        world.tell(n, Event::Input(Input::Followed { node: "late".into(), view: None }));
        world.run(ms(3_000));
        assert!(!believes(world));
        seen += 1;
    }
    assert!(seen >= 2, "{seen}");
}

/// A node dies, and somebody deletes its Lease and its member object together.
#[test]
fn a_lease_and_its_member_object_that_are_deleted_together_end_the_session() {
    let mut seen = 0;
    for witness in [true, false] {
        for other in 1..12 {
            let mut rules = Rules::default();
            if !witness {
                rules.witness_interval = ms(0);
            }
            let world = &mut World::settled(12, 0, &rules);
            if world.hosts[other].follows.contains("node1") {
                continue;
            }
            let demand = |hosts: &[usize], world: &World| {
                let local: BTreeSet<String> = hosts.iter().map(|host| world.hosts[*host].name.clone()).collect();
                Demand { local: Some(local.into()), ..Demand::of(vip(0)) }
            };
            world.create(vip(0));
            world.demand(&demand(&[0], world));
            world.run(ms(30_000));
            world.demand(&demand(&[0, other], world));
            world.run(ms(20_000));
            assert_eq!(world.carriers(vip(0)), [0]);
            world.crash(0);
            world.run(ms(100));
            world.delete_session("node1");
            world.delete_member("node1");
            world.run(ms(600_000));
            let lives = world.members.get("node1").is_some_and(|member| member.copy.is_live());
            let mut believe = world.hosts[1..].iter().flat_map(|host| host.session_vips.sessions.live());
            let ended = !lives && !believe.any(|(node, _)| node == "node1");
            assert!(ended && world.carriers(vip(0)) == [other], "witness {witness}, other {other}");
            seen += 1;
        }
    }
    assert!(seen > 10, "{seen}");
}

/// An agent of before is back on a node whose Lease was marked for a moment: its renewals are seen again. Then it dies.
#[test]
fn a_lease_that_is_without_a_member_object_again_is_judged() {
    let world = &mut World::settled(8, 0, &Rules::default());
    let like = session_of("old", &world.sessions["node1"].clone());
    let before = View { published: false, ..world.store("old".into(), None, like.record, like.declared, None) };
    world.sessions.insert("old".into(), before.clone());
    let show = |world: &mut World, input: &Input| {
        for n in 0..8 {
            world.tell(n, Event::Input(input.clone()));
        }
    };
    show(world, &Input::Session(before.clone()));
    world.run(ms(1_000));
    show(world, &Input::NotUnpublished("old".into()));
    let version = (before.version.parse::<u64>().unwrap() + 1).to_string();
    let record = Record { renewed: before.record.renewed.map(|at| WallTime(at.0 + 1)), ..before.record.clone() };
    let again = View { version, record, ..before };
    world.sessions.insert("old".into(), again.clone());
    show(world, &Input::Session(again));
    let since = world.now;
    while world.sessions["old"].is_live() && world.now.since(since) < ms(60_000) {
        world.run(ms(100));
    }
    let took = world.now.since(since);
    assert!(took < ms(16_000), "ended after {took:?}, a session of {:?}", Rules::default().lease_duration);
}

/// A judge found by a list that the member object was wrong, and its write was refused. Before it tries again, the Lease changes, and the
/// member object with it; the judge's watch of the Lease is behind.
#[test]
fn a_list_says_nothing_about_a_member_object_that_came_after_it() {
    let world = &mut World::settled(8, 0, &Rules::default());
    world.run(ms(40_000));
    world.hosts[0].running = false;
    let now = world.sessions["node1"].clone();
    world.publish_refused = Some(Failure::Refused);
    world.store_member(View { version: "999999".into(), uid: "other".into(), ..now.clone() });
    world.run(ms(8_000));
    world.publish_refused = None;
    // Its agent ends the session: no watch of the Lease shows that yet.
    let member = world.members["node1"].version.parse::<u64>().unwrap();
    let record = Record { holder: String::new(), ..now.record.clone() };
    let ended = View { version: (member + 1).to_string(), record, ..now };
    world.sessions.insert("node1".into(), ended.clone());
    world.store_member(ended);
    for _ in 0..60 {
        world.run(ms(100));
        assert!(!world.members["node1"].copy.is_live());
    }
}

/// All nodes know that a Lease is gone. Then somebody puts its member object back, and another node starts.
#[test]
fn a_member_object_of_a_lease_that_is_known_to_be_gone_ends() {
    let world = &mut World::settled(8, 0, &Rules::default());
    let old = world.members["node1"].copy.clone();
    world.crash(0);
    world.delete_session("node1");
    world.run(ms(40_000));
    for n in 1..8 {
        world.tell(n, Event::Input(Input::WatchLost));
    }
    world.run(ms(1_000));
    world.store_member(old);
    world.restart(7, &Rules::default());
    world.run(ms(120_000));
    assert!(!world.members["node1"].copy.is_live());
    for n in 1..8 {
        assert!(!world.hosts[n].session_vips.sessions.live().any(|(node, _)| node == "node1"), "{n}");
    }
}

/// Somebody deletes the member object of a node that has just died, before it says that the session has ended.
#[test]
fn an_end_is_told_though_the_member_object_was_deleted() {
    for n in 0..5 {
        let world = &mut two_segments(5, 12, 30);
        let since = world.now;
        crash_until_ended(world, n);
        let name = world.hosts[n].name.clone();
        world.delete_member(&name);
        world.run(ms(120_000));
        let worst = world.worst(30, since, |n| n == 0);
        let believe = world.hosts.iter().enumerate();
        let believe = believe
            .filter(|(m, host)| *m != n && host.session_vips.sessions.live().any(|(node, _)| *node == name))
            .count();
        assert!(worst < ms(6_000) && believe == 0, "{name}: a VIP was away for {worst:?}");
    }
}

/// A renewal tells that the holder lives, though this node is no judge of its session.
#[test]
fn who_carries_a_vip_provisionally_follows_the_lease_of_its_holder() {
    let world = &mut World::settled(8, 20, &Rules::default());
    let holder = busiest(world);
    let name = world.hosts[holder].name.clone();
    let had: Vec<u8> = (0..20).filter(|v| world.carriers(vip(*v)) == [holder]).collect();
    world.set_api_everywhere(Api::Hanging);
    world.run(ms(3_000));
    world.crash(holder);
    world.run(ms(8_000));
    let carriers: BTreeSet<usize> = had.iter().flat_map(|v| world.carriers(vip(*v))).collect();
    let others: Vec<usize> = carriers.into_iter().filter(|n| !world.hosts[*n].follows.contains(&name)).collect();
    assert!(!others.is_empty());
    for n in &others {
        world.set_api(*n, Api::Up);
    }
    world.run(ms(1_500));
    for n in others {
        assert!(world.hosts[n].follows.contains(&name), "{:?}", world.hosts[n].follows);
    }
}
