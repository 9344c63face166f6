//! Member objects that somebody has changed, or that are older than what nodes know.

use std::time::Duration;

use super::crash::busiest;
use super::telling::session_of;
use super::world::{Api, Host, World, ms, vip};
use crate::event::Failure;
use crate::lease::Record;
use crate::rules::Rules;
use crate::session::{Declared, Holder, Member, View};
use crate::session_vips::{Event, Input};

const VIPS: u8 = 20;
/// When every node has listed that waits for the answer to a question.
const ASKED: Duration = Duration::from_secs(40);

/// Eight nodes: most of them do not follow the Lease of the one that is looked at.
fn settled() -> World {
    World::settled(8, VIPS, &Rules::default())
}

/// What the member object of a node would have said once, with this uid and in this incarnation.
fn of_before(now: &View, uid: &str, transitions: u32) -> View {
    let record = Record { transitions, ..now.record.clone() };
    let declared = now.declared.clone().map(|all| Declared { transitions, ..all });
    View { uid: uid.into(), version: "7".into(), record, declared, ..now.clone() }
}

fn says_what_the_lease_says(world: &World, node: &str) -> bool {
    world.members[node].copy.says_as(&world.sessions[node])
}

#[test]
fn an_old_member_object_ends_no_session_and_is_put_right() {
    let rules = Rules::default();
    for other_lease in [true, false] {
        let world = &mut settled();
        let holder = busiest(world);
        // The next incarnation is the second one, and all nodes have listed it.
        world.crash(holder);
        world.run(ms(30_000));
        world.restart(holder, &rules);
        world.run(ms(1_000));
        let name = world.hosts[holder].name.clone();
        let now = world.sessions[&name].clone();
        world.store_holder(vip(0), Some(Holder { node: name.clone(), session: now.incarnation(), to: None }));
        world.run(ASKED);
        assert_eq!(world.carriers(vip(0)), [holder]);
        let moves = world.moves;
        let (uid, transitions) = if other_lease {
            ("before", now.record.transitions)
        } else {
            (now.uid.as_str(), now.record.transitions - 1)
        };
        world.store_member(of_before(&now, uid, transitions));
        world.run(ms(5_000));
        assert_eq!((world.carriers(vip(0)), world.moves), (vec![holder], moves), "other Lease: {other_lease}");
        assert!(says_what_the_lease_says(world, &name));
    }
}

/// The two that follow its Lease put it right before the others ask.
#[test]
fn nobody_lists_because_of_a_member_object_that_is_put_right() {
    let world = &mut settled();
    world.run(ASKED);
    let now = world.sessions["node1"].clone();
    let lists = world.lists();
    world.store_member(of_before(&now, "before", 1));
    world.run(ASKED);
    assert!(says_what_the_lease_says(world, "node1"));
    assert_eq!(world.lists(), lists);
}

/// To this node the member object stays as it was put back: its watch shows nothing more. Or the store was set back.
#[test]
pub(super) fn an_old_member_object_that_stays_is_asked_about_once() {
    let world = &mut settled();
    world.run(ASKED);
    let other = (1..8).find(|n| !world.hosts[*n].follows.contains("node1")).unwrap();
    let old = of_before(&world.sessions["node1"], "before", 1);
    let lists = world.lists();
    let version = (world.members["node1"].version.parse::<u64>().unwrap() + 1).to_string();
    world.tell(other, Event::Input(Input::Member(Member { version, copy: old })));
    world.run(ms(4_000));
    assert_eq!(world.lists(), lists, "it may be put right");
    world.run(ASKED);
    assert_eq!(world.lists(), lists + 1);
    world.run(ASKED);
    assert_eq!(world.lists(), lists + 1);
}

/// A node hears something that its own member object contradicts: it lists once, writes none before the answer, and its own then.
fn lists_before_it_writes(world: &mut World, input: Input) {
    let me = world.hosts[3].name.clone();
    world.hosts[3].delay = ms(50);
    let told = |world: &World| world.hosts[3].publishes.iter().filter(|(_, node)| *node == me).count();
    let (before, all, lists) = (told(world), world.hosts[3].publishes.len(), world.hosts[3].lists.len());
    world.tell(3, Event::Input(input));
    world.run(ms(90));
    let now = (world.hosts[3].publishes.len(), world.hosts[3].lists.len());
    assert_eq!(now, (all, lists + 1), "the list is under way");
    world.run(ms(1_000));
    assert!(told(world) > before);
}

/// A backup of the store was restored: member objects have lower versions than before.
#[test]
pub(super) fn who_sees_that_the_store_was_set_back_lists_at_once() {
    let world = &mut settled();
    world.run(ASKED);
    let all: Vec<Member> = world.members.values().cloned().collect();
    let old: Vec<Member> = all.iter().map(|one| Member { version: "1".into(), ..one.clone() }).collect();
    for (members, asks) in [(all, 0), (old, 1)] {
        let lists = world.lists();
        world.tell(3, Event::Input(Input::Members(members)));
        world.run(ms(10));
        assert_eq!(world.lists() - lists, asks);
    }
}

/// The Leases were set back with the member objects, and this node's session of before may live again.
#[test]
pub(super) fn who_sees_that_the_store_was_set_back_tells_nothing_before_it_has_listed() {
    let world = &mut settled();
    world.run(ASKED);
    let me = world.hosts[3].name.clone();
    let of_backup = |one: &Member| {
        let now = &one.copy;
        let copy = if now.node == me { of_before(now, &now.uid, now.record.transitions + 1) } else { now.clone() };
        Member { version: "1".into(), copy }
    };
    let old: Vec<Member> = world.members.values().map(of_backup).collect();
    lists_before_it_writes(world, Input::Members(old));
}

/// A node saw a session end, and then the API was away, to this node alone. Meanwhile a backup was restored, and the session lives.
#[test]
pub(super) fn who_was_without_the_api_tells_of_no_end_before_it_has_listed() {
    let world = &mut settled();
    world.run(ASKED);
    let judge = (1..8).find(|n| world.hosts[*n].follows.contains("node1")).unwrap();
    let now = world.sessions["node1"].clone();
    let record = Record { holder: String::new(), ..now.record.clone() };
    world.set_api(judge, Api::Refused);
    world.run(ms(5_000));
    world.tell(judge, Event::Input(Input::Session(View { record, ..now })));
    world.run(ms(5_000));
    let writes = world.members["node1"].version.clone();
    world.set_api(judge, Api::Up);
    world.run(ASKED);
    assert_eq!(world.members["node1"].version, writes);
}

/// The backup is of the time before the node had a member object.
#[test]
fn who_misses_a_member_object_in_a_list_lists_sessions_before_it_writes_one() {
    let world = &mut settled();
    world.run(ASKED);
    lists_before_it_writes(world, Input::Members(vec![]));
}

/// The same, and the node learns it by the answer to a write: what it replaces is not there any more.
#[test]
fn an_answer_that_is_older_than_what_was_to_be_replaced_is_followed_by_a_list() {
    let world = &mut settled();
    let (id, now) = about_to_write(world);
    let copy = of_before(&now, &now.uid, now.record.transitions + 1);
    lists_before_it_writes(world, Input::Published { id, result: Ok(Some(Member { version: "1".into(), copy })) });
}

/// The watch has shown a later object by the time the answer comes: the answer says nothing new.
#[test]
fn an_answer_that_the_watch_has_overtaken_changes_nothing() {
    let world = &mut settled();
    let (id, now) = about_to_write(world);
    world.tell(3, Event::Input(Input::Member(Member { version: "1000001".into(), copy: now.clone() })));
    let before = (world.hosts[3].publishes.len(), world.hosts[3].lists.len());
    let member = Member { version: "1000000".into(), copy: of_before(&now, &now.uid, now.record.transitions + 1) };
    world.tell(3, Event::Input(Input::Published { id, result: Ok(Some(member)) }));
    world.run(ms(3_000));
    assert_eq!((world.hosts[3].publishes.len(), world.hosts[3].lists.len()), before);
}

/// A node's own member object was changed, and the node writes it: the number of that call, and what its Lease says.
fn about_to_write(world: &mut World) -> (u64, View) {
    world.run(ASKED);
    let now = world.members[&world.hosts[3].name].copy.clone();
    world.hosts[3].delay = ms(500);
    let changed = Member { version: "999999".into(), copy: of_before(&now, &now.uid, now.record.transitions + 1) };
    let before = world.hosts[3].publishes.len();
    world.tell(3, Event::Input(Input::Member(changed)));
    assert_eq!(world.hosts[3].publishes.len(), before + 1);
    (world.hosts[3].publish_ids[before], now)
}

/// While the API is away, the judges of many sessions do not try to write for each of them.
#[test]
pub(super) fn without_the_api_a_node_tries_to_write_its_own_member_object_alone() {
    let world = &mut settled();
    world.run(ASKED);
    world.set_api_everywhere(Api::Refused);
    world.run(ms(5_000));
    let before = world.hosts[3].publishes.len();
    let changed = |one: &Member| {
        let now = &one.copy;
        Member { version: "999999".into(), copy: of_before(now, &now.uid, now.record.transitions + 1) }
    };
    let all = world.members.values().map(changed).collect();
    world.tell(3, Event::Input(Input::Members(all)));
    world.run(ms(10_000));
    let me = world.hosts[3].name.clone();
    let tried: Vec<_> = world.hosts[3].publishes[before..].iter().map(|(_, node)| node.clone()).collect();
    assert!((5..=11).contains(&tried.len()) && tried.iter().all(|node| *node == me), "{tried:?}");
    world.set_api_everywhere(Api::Up);
    world.run(ASKED);
    assert!(world.hosts.iter().all(|host| says_what_the_lease_says(world, &host.name)));
}

/// A node that follows a Lease knows an earlier version than the member object names.
#[test]
pub(super) fn who_knows_less_than_the_member_object_lists_before_it_writes() {
    let world = &mut settled();
    world.run(ASKED);
    let now = world.sessions["node1"].clone();
    let lists = world.lists();
    let later = View { version: "999999".into(), ..of_before(&now, &now.uid, now.record.transitions + 1) };
    world.store_member(later);
    world.run(ms(300));
    assert!(world.lists() > lists, "the node itself asks at once");
    world.run(ASKED);
    assert!(says_what_the_lease_says(world, "node1"), "the list says that the Lease is as it was");
}

/// What the member object of a node without a Lease says.
fn ghost(world: &World, node: &str) -> View {
    let like = session_of(node, &world.sessions["node1"]);
    View { version: "50".into(), uid: format!("of-{node}"), ..like }
}

/// The member object of a node that was removed from the cluster is restored: the Lease is not there.
#[test]
pub(super) fn a_member_object_without_a_lease_ends() {
    let world = &mut settled();
    world.store_member(ghost(world, "gone"));
    world.run(ASKED + ASKED);
    assert!(!world.members["gone"].copy.is_live());
    let writes = world.members["gone"].version.clone();
    world.run(ASKED);
    assert_eq!(world.members["gone"].version, writes, "once");
}

/// The same of many nodes, and no agent may write: each node tries for the few that it would follow, and for one of the others at a time,
/// and rests after each failure.
#[test]
pub(super) fn many_member_objects_without_leases_are_tried_one_at_a_time() {
    let world = &mut settled();
    world.publish_refused = Some(Failure::Refused);
    for n in 0..20 {
        world.store_member(ghost(world, &format!("gone{n}")));
    }
    world.run(ASKED + ASKED);
    let since = world.now;
    world.run(ms(60_000));
    let of = |host: &Host| host.publishes.iter().filter(|(at, node)| *at >= since && node.starts_with("gone")).count();
    let tried: Vec<usize> = world.hosts.iter().map(of).collect();
    assert!(tried.iter().all(|tried| *tried <= 36) && tried.iter().any(|tried| *tried > 0), "{tried:?} in a minute");
    world.publish_refused = None;
    world.run(ASKED + ASKED);
    assert!((0..20).all(|n| !world.members[&format!("gone{n}")].copy.is_live()));
}

/// One member object cannot be written at all: a webhook is in the way. Others do not wait for it.
#[test]
fn a_member_object_that_cannot_be_written_keeps_no_other_waiting() {
    let world = &mut settled();
    world.publish_refused_for = Some("agone".into());
    for node in ["agone", "zgone"] {
        world.store_member(ghost(world, node));
    }
    world.run(ASKED * 3);
    assert!(world.members["agone"].copy.is_live() && !world.members["zgone"].copy.is_live());
}

/// The API answers now and then, and no write of the own member object is answered: it is tried twice in a renewal period all the same.
#[test]
fn an_api_that_comes_and_goes_is_asked_no_more_often() {
    let world = &mut settled();
    world.run(ASKED);
    world.publish_refused = Some(Failure::Away);
    let me = world.hosts[3].name.clone();
    let now = world.members[&me].copy.clone();
    world.store_member(of_before(&now, &now.uid, now.record.transitions + 1));
    let before = world.hosts[3].publishes.len();
    for n in 0..50 {
        world.set_api(3, if n % 2 == 0 { Api::Refused } else { Api::Up });
        world.run(ms(200));
    }
    let tried = world.hosts[3].publishes[before..].iter().filter(|(_, node)| *node == me).count();
    assert!((2..=11).contains(&tried), "{tried} writes in 10 s");
}

#[test]
fn what_nobody_can_read_is_written_anew() {
    let world = &mut settled();
    let now = world.sessions["node1"].clone();
    let unread = View { uid: String::new(), version: String::new(), declared: None, ..now.clone() };
    for running in [true, false] {
        // Without the node itself, those that follow its Lease write.
        world.hosts[0].running = running;
        world.store_member(unread.clone());
        world.run(ms(1_000));
        assert!(says_what_the_lease_says(world, "node1"), "{running}");
        assert!(world.sessions["node1"].is_live());
    }
}

/// Nodes are upgraded one after the other: the Lease leaves the watch of those without a member object, and that follows at once.
#[test]
fn a_lease_that_leaves_the_watch_of_those_without_a_member_object_is_waited_for() {
    let world = &mut World::new(4, &Rules::default());
    for n in 0..4 {
        world.start(n);
    }
    world.run(ASKED);
    let old = View {
        node: "old".into(),
        uid: "o".into(),
        version: "50".into(),
        published: false,
        ..world.sessions["node1"].clone()
    };
    let old = View { record: Record { holder: "old".into(), ..old.record.clone() }, ..old };
    world.sessions.insert("old".into(), old.clone());
    for n in 0..4 {
        world.tell(n, Event::Input(Input::Session(old.clone())));
    }
    world.run(ms(10));
    let lists = world.lists();
    // Its member object comes a second later than that.
    for n in 0..4 {
        world.tell(n, Event::Input(Input::NotUnpublished("old".into())));
    }
    world.run(ms(1_000));
    let new = View { version: "10000".into(), published: true, ..old.clone() };
    world.sessions.insert("old".into(), new.clone());
    world.store_member(new);
    world.run(ms(3_000));
    assert_eq!(world.lists(), lists);
}

/// A watch that was ended has sent its list before.
#[test]
fn the_list_of_a_watch_that_was_ended_makes_nobody_follow() {
    let world = &mut settled();
    let judge = (1..8).find(|n| !world.hosts[*n].follows.contains("node1")).unwrap();
    let view = Some(world.sessions["node1"].clone());
    world.tell(judge, Event::Input(Input::Followed { node: "node1".into(), view }));
    assert!(!world.hosts[judge].session_vips.sessions.is_followed("node1"));
}
