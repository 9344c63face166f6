//! What is known of sessions, after views in this order or that.

use std::time::Duration;

use super::*;
use crate::lease::Record;
use crate::session::{Holder, Incarnation, Member};

fn view(node: &str, version: u64, transitions: u32, live: bool) -> View {
    let record = Record {
        holder: if live { node.into() } else { String::new() },
        duration: Duration::from_secs(15),
        transitions,
        renewed: Some(crate::time::WallTime(i64::try_from(version).unwrap())),
        ..Record::default()
    };
    View {
        node: node.into(),
        uid: "u".into(),
        version: version.to_string(),
        record,
        declared: None,
        end: None,
        published: false,
    }
}

fn at(seconds: u64) -> Time {
    Time::from_nanos(seconds * 1_000_000_000)
}

fn holder(transitions: u32) -> Holder {
    Holder { node: "n1".into(), session: Incarnation { uid: "u".into(), transitions }, to: None }
}

#[test]
fn what_has_not_been_written_has_not_ended() {
    let (mut all, rules) = (Membership::default(), Rules::default());
    assert_eq!(all.has_ended(&holder(1), at(900)), None, "nothing was listed");
    all.see_all(at(100), at(99), vec![view("n1", 5, 1, true)], &rules);
    assert_eq!(all.has_ended(&holder(1), at(900)), Some(false));
    assert_eq!(all.expires("n1", &rules), Some(at(115)));
    assert_eq!(all.has_ended(&holder(1), at(900)), Some(false), "expired is not ended");
    all.see(at(120), view("n1", 6, 1, false), &rules);
    assert_eq!((all.has_ended(&holder(1), at(900)), all.ended_by(&holder(1))), (Some(true), Some(6)));
    all.see(at(121), view("n1", 7, 2, true), &rules);
    assert_eq!((all.has_ended(&holder(1), at(900)), all.has_ended(&holder(2), at(900))), (Some(true), Some(false)));
    assert_eq!(all.has_ended(&holder(3), at(900)), None, "a record may be newer than what is known of sessions");
}

#[test]
fn a_session_that_is_not_in_a_list_has_ended() {
    let (mut all, rules) = (Membership::default(), Rules::default());
    all.see_all(at(1), at(1), vec![view("n1", 5, 1, true)], &rules);
    assert_eq!(all.see_all(at(2), at(2), vec![], &rules), ["n1"]);
    assert_eq!(all.has_ended(&holder(1), at(900)), Some(true));
}

#[test]
fn every_sessions_event_proves_the_watch() {
    let (mut all, rules) = (Membership::default(), Rules::default());
    all.see_all(at(100), at(99), vec![view("n1", 5, 1, true), view("n2", 6, 1, true)], &rules);
    for t in [102, 104, 106, 108, 110, 112, 114] {
        all.see(at(t), view("n2", t, 1, true), &rules);
    }
    assert_eq!(all.expires("n1", &rules), Some(at(115)));
    all.see(at(160), view("n2", 160, 1, true), &rules);
    assert_eq!(all.expires("n1", &rules), Some(at(175)), "blind time does not count");
}

#[test]
fn what_comes_late_of_a_lease_that_is_gone_says_nothing_of_the_next_one() {
    let (mut all, rules) = (Membership::default(), Rules::default());
    all.see_all(at(1), at(1), vec![view("n1", 5, 1, true)], &rules);
    all.deleted(at(2), "n1", &rules);
    let again = View { uid: "again".into(), ..view("n1", 9, 0, true) };
    all.see(at(3), again, &rules);
    let second = Holder { session: Incarnation { uid: "again".into(), transitions: 0 }, ..holder(0) };
    assert_eq!(all.learn(at(4), view("n1", 6, 1, false)), Shown::Nothing, "the answer to the end of the first");
    assert_eq!(all.has_ended(&second, at(3)), Some(false));
    assert_eq!(all.has_ended(&holder(1), at(3)), Some(true));
}

#[test]
fn a_list_that_was_made_before_a_deletion_brings_nothing_back() {
    let (mut all, rules) = (Membership::default(), Rules::default());
    all.see_all(at(1), at(1), vec![view("n1", 5, 1, true)], &rules);
    all.deleted(at(3), "n1", &rules);
    all.see_all(at(4), at(2), vec![view("n1", 5, 1, true)], &rules);
    assert_eq!(all.live().count(), 0);
    all.see_all(at(6), at(5), vec![view("n1", 5, 1, true)], &rules);
    assert_eq!(all.live().count(), 1, "restored from a backup");
}

#[test]
fn the_list_of_a_watch_may_be_older_than_an_answer() {
    let (mut all, rules) = (Membership::default(), Rules::default());
    all.see_unpublished(at(1), vec![view("n1", 5, 1, true)], &rules);
    all.see_members(at(1), vec![]);
    all.learn(at(2), view("n1", 7, 2, true));
    assert!(all.see_unpublished(at(3), vec![view("n1", 6, 1, false)], &rules).0.is_empty());
    assert!(all.is_any_ahead(), "a list that is asked for now tells");
    assert_eq!(all.has_ended(&holder(2), at(3)), Some(false));
    assert_eq!(all.see_all(at(5), at(4), vec![view("n1", 4, 1, true)], &rules), ["n1"], "restored");
    assert_eq!(all.has_ended(&holder(1), at(5)), Some(false));
}

#[test]
fn a_lease_that_was_set_back_ends_what_it_had_counted() {
    let (mut all, rules) = (Membership::default(), Rules::default());
    all.see_all(at(1), at(1), vec![view("n1", 5, 1, true)], &rules);
    assert_eq!(all.has_ended(&holder(3), at(2)), None, "it may have begun since");
    all.see_all(at(4), at(3), vec![view("n1", 6, 1, true)], &rules);
    assert_eq!(all.has_ended(&holder(3), at(2)), Some(true), "a list that was asked for since does not say so");
}

#[test]
fn older_views_are_ignored() {
    let (mut all, rules) = (Membership::default(), Rules::default());
    all.see_all(at(1), at(1), vec![view("n1", 9, 2, true)], &rules);
    assert_eq!(all.see(at(2), view("n1", 8, 1, false), &rules), Shown::Nothing);
    assert!(all.get("n1").unwrap().view.is_live());
}

/// A view of an incarnation that began when the Lease had that version.
fn after(after: u64, view: View) -> View {
    let declared =
        Declared { transitions: view.record.transitions, after: Some(after.to_string()), ..Declared::default() };
    View { declared: Some(declared), ..view }
}

#[test]
fn a_lease_that_is_written_again_after_its_end_ended_no_later() {
    let (mut all, rules) = (Membership::default(), Rules::default());
    all.see(at(1), view("n1", 5, 1, true), &rules);
    all.see(at(2), view("n1", 6, 1, false), &rules);
    all.see(at(3), view("n1", 9, 1, false), &rules);
    assert_eq!(all.ended_by(&holder(1)), Some(6), "a session that began at 7 began after that");
}

#[test]
fn what_came_and_went_since_makes_no_end_later() {
    let (mut all, rules) = (Membership::default(), Rules::default());
    all.see(at(1), view("n1", 5, 1, true), &rules);
    all.see(at(2), after(6, view("n1", 8, 2, true)), &rules);
    assert_eq!(all.ended_by(&holder(1)), Some(6), "the end itself was not seen");
    all.see(at(3), view("n1", 10, 2, false), &rules);
    all.see(at(4), after(10, view("n1", 12, 3, true)), &rules);
    assert_eq!((all.ended_by(&holder(1)), all.ended_by(&holder(2))), (Some(6), Some(10)));
    assert_eq!(all.ended_by(&holder(3)), None, "it lives");
    // A node that has seen only the last incarnation knows no better.
    let mut late = Membership::default();
    late.see(at(4), after(10, view("n1", 12, 3, true)), &rules);
    assert_eq!(late.ended_by(&holder(1)), Some(10));
}

#[test]
fn an_end_is_remembered_when_the_lease_is_gone() {
    let (mut all, rules) = (Membership::default(), Rules::default());
    all.see(at(1), view("n1", 5, 1, true), &rules);
    all.see(at(2), view("n1", 6, 1, false), &rules);
    all.deleted(at(3), "n1", &rules);
    assert_eq!(all.ended_by(&holder(1)), Some(6));
    all.see(at(4), View { uid: "again".into(), ..view("n1", 9, 0, true) }, &rules);
    assert_eq!(all.ended_by(&holder(1)), Some(6));
    all.deleted(at(5), "n1", &rules);
    assert_eq!(all.ended_by(&holder(1)), Some(6));
}

/// Both are deleted when a node is gone for good, in any order.
#[test]
fn the_ends_of_a_node_are_forgotten_with_its_lease_and_its_member_object() {
    for (listed, member_first) in [(false, false), (false, true), (true, false), (true, true)] {
        let (mut all, rules) = (Membership::default(), Rules::default());
        let published = |version, live| View { published: true, ..view("n1", version, 1, live) };
        all.see(at(1), published(5, true), &rules);
        all.see(at(2), published(6, false), &rules);
        all.see_member(at(2), Member { version: "7".into(), copy: published(6, false) });
        let lease_gone = |all: &mut Membership| {
            if listed {
                all.see_all(at(3), at(3), vec![], &rules);
            } else {
                all.deleted(at(3), "n1", &rules);
            }
        };
        if member_first {
            all.member_gone("n1");
            assert_eq!(all.ended_by(&holder(1)), Some(6), "its Lease is still there");
            lease_gone(&mut all);
        } else {
            lease_gone(&mut all);
            assert_eq!(all.ended_by(&holder(1)), Some(6), "its member object is still there");
            all.member_gone("n1");
        }
        assert_eq!(all.ended_by(&holder(1)), None, "{listed}, {member_first}");
    }
}

#[test]
fn an_end_that_a_restored_backup_undid_is_forgotten() {
    let (mut all, rules) = (Membership::default(), Rules::default());
    all.see(at(1), view("n1", 5, 1, true), &rules);
    all.see(at(2), view("n1", 60, 1, false), &rules);
    all.see(at(3), after(60, view("n1", 62, 2, true)), &rules);
    all.see_all(at(4), at(4), vec![view("n1", 5, 1, true)], &rules);
    assert_eq!(all.ended_by(&holder(1)), None);
    all.see(at(5), view("n1", 70, 1, false), &rules);
    assert_eq!(all.ended_by(&holder(1)), Some(70));
}

fn published(version: u64, transitions: u32, live: bool) -> View {
    View { published: true, ..view("n1", version, transitions, live) }
}

fn member(version: u64, copy: View) -> Member {
    Member { version: version.to_string(), copy }
}

/// A member object whose copy was put back says nothing of what came later.
#[test]
fn an_old_copy_replaces_nothing() {
    for old in [View { uid: "before".into(), ..published(3, 2, true) }, published(3, 1, true), published(3, 1, false)] {
        let (mut all, rules) = (Membership::default(), Rules::default());
        all.see_members(at(1), vec![member(1, published(5, 2, true))]);
        all.see_all(at(2), at(2), vec![published(5, 2, true)], &rules);
        all.see_member(at(3), member(6, published(6, 2, true)));
        assert_eq!(all.see_member(at(4), member(9, old.clone())), Shown::Nothing, "{old:?}");
        assert_eq!(all.has_ended(&holder(2), at(1)), Some(false), "{old:?}");
        assert_eq!(all.is_copy_older("n1"), !old.says_as(&published(6, 2, true)));
        assert_eq!(
            all.see_member(at(5), member(12, published(11, 2, false))),
            Shown::Changed,
            "a true one is believed"
        );
        assert_eq!(all.has_ended(&holder(2), at(1)), Some(true));
    }
}

/// A node that knows a session by a member object alone cannot know whether there is a later incarnation, or another Lease.
#[test]
fn a_copy_does_not_prove_that_an_incarnation_is_not_there() {
    for old in [View { uid: "before".into(), ..published(3, 2, true) }, published(3, 1, true)] {
        let (mut all, rules) = (Membership::default(), Rules::default());
        all.see_all(at(5), at(5), vec![], &rules);
        all.see_member(at(6), member(9, old.clone()));
        assert_eq!(all.has_ended(&holder(2), at(1)), None, "{old:?}");
        all.see_all(at(8), at(7), vec![published(5, 2, true)], &rules);
        assert_eq!(all.has_ended(&holder(2), at(1)), Some(false), "{old:?}");
    }
}

/// The watch of a Lease that was followed may be behind the member object.
#[test]
fn what_a_member_object_told_counts_when_the_lease_is_followed_no_longer() {
    let (mut all, rules) = (Membership::default(), Rules::default());
    all.follow(at(1), "n1");
    all.see_listed(at(1), published(5, 1, true), &rules);
    assert_eq!(all.see_member(at(2), member(9, published(8, 1, false))), Shown::Nothing, "its Lease decides");
    assert_eq!(all.unfollow(at(3), "n1"), Shown::Changed);
    assert_eq!(all.get("n1").map(|peer| peer.view.is_live()), Some(false));
    // The store was set back to when the session lived, and all sessions were listed.
    all.follow(at(4), "n1");
    all.see_member(at(4), member(19, published(18, 2, false)));
    all.see_all(at(6), at(5), vec![published(7, 2, true)], &rules);
    assert_eq!(all.unfollow(at(7), "n1"), Shown::Nothing);
    assert_eq!(all.get("n1").map(|peer| peer.view.is_live()), Some(true));
    // Nothing new is nothing new.
    all.follow(at(4), "n1");
    assert_eq!(all.unfollow(at(5), "n1"), Shown::Nothing);
}

/// Before the store was set back there was another Lease, and somebody has told of that afterwards.
#[test]
fn a_copy_of_another_lease_does_not_prove_that_the_known_one_is_gone() {
    let (mut all, rules) = (Membership::default(), Rules::default());
    all.see_all(at(1), at(1), vec![published(5, 2, true)], &rules);
    all.see_member(at(2), member(10, View { uid: "of another time".into(), ..published(9, 0, true) }));
    assert_eq!(all.has_ended(&holder(2), at(1)), None);
    assert_eq!(all.see(at(3), published(12, 2, true), &rules), Shown::Changed);
    assert_eq!(all.has_ended(&holder(2), at(1)), Some(false));
}

#[test]
fn a_member_object_that_cannot_be_read_says_nothing() {
    let (mut all, rules) = (Membership::default(), Rules::default());
    all.see_all(at(1), at(1), vec![published(5, 2, true)], &rules);
    let unread = member(9, View { uid: String::new(), version: String::new(), ..published(5, 2, false) });
    assert_eq!(all.see_member(at(2), unread.clone()), Shown::Nothing);
    assert_eq!(all.see_members(at(3), vec![unread.clone()]).0, Vec::<String>::new());
    assert_eq!((all.has_ended(&holder(2), at(1)), all.is_copy_older("n1")), (Some(false), false));
    assert_eq!(all.member("n1"), Some(&unread), "what is to be written over");
}

/// The list with which the watch of a Lease begins was made, and is on its way. Meanwhile the session ends, another begins and takes
/// a VIP, a list that was asked for since shows that it lives, and its second member object comes.
#[test]
fn the_first_list_of_a_followed_lease_may_be_late() {
    let (mut all, rules) = (Membership::default(), Rules::default());
    all.see_unpublished(at(1), vec![], &rules);
    all.see_members(at(1), vec![member(901, published(900, 6, true))]);
    let listed = published(900, 6, true);
    all.see_member(at(3), member(951, published(950, 6, false)));
    all.see_member(at(4), member(1001, published(1000, 7, true)));
    // A record names incarnation 7. A list is asked for at 6, for whatever reason.
    let seen = at(5);
    all.see_all(at(7), at(6), vec![published(1000, 7, true)], &rules);
    all.see_member(at(8), member(1011, published(1010, 7, true)));
    assert_eq!(all.has_ended(&holder(7), seen), Some(false));
    all.follow(at(9), "n1");
    all.see_listed(at(9), listed, &rules);
    assert_eq!(all.has_ended(&holder(7), seen), None);
    // The watch goes on from there.
    all.see(at(9), published(950, 6, false), &rules);
    assert_eq!(all.has_ended(&holder(7), seen), None);
    all.see(at(9), published(1020, 7, true), &rules);
    assert_eq!(all.has_ended(&holder(7), seen), Some(false));
}

/// The same with the watch of Leases without a member object, whose list of many pages was made before the node was upgraded.
#[test]
fn the_list_of_leases_without_a_member_object_may_be_late() {
    let (mut all, rules) = (Membership::default(), Rules::default());
    all.see_unpublished(at(1), vec![view("n1", 900, 6, true)], &rules);
    all.see_members(at(1), vec![]);
    all.see_member(at(4), member(1001, published(1000, 7, true)));
    let seen = at(5);
    all.see_all(at(7), at(6), vec![published(1000, 7, true)], &rules);
    all.see_member(at(8), member(1011, published(1010, 7, true)));
    assert_eq!(all.has_ended(&holder(7), seen), Some(false));
    all.see_unpublished(at(9), vec![view("n1", 900, 6, true)], &rules);
    assert_eq!(all.has_ended(&holder(7), seen), None);
}

/// The test of what a member object has told fails without that rule.
#[cfg(feature = "planted")]
#[test]
fn who_forgets_what_was_told_is_found() {
    use crate::planted::{Bug, is_found_by};
    let test = what_a_member_object_told_counts_when_the_lease_is_followed_no_longer;
    assert!(is_found_by(Bug::ForgetsWhatWasTold, test));
}
