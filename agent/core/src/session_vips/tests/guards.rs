//! Each rule of member objects, of nodes that were cut off, and of records that somebody removes in a hand-over has a test that fails
//! without it. Drawn runs of the simulator find few of these bugs: versions and compare-and-swap stand behind most of these rules.

use super::{handover, members, mute, outage, owned, read_only, strangers, telling, whose};
use crate::planted::{Bug, is_found_by};

/// A bug, and a test that fails with it.
const GUARDS: [(Bug, fn()); 29] = [
    (
        Bug::BelievesBroadcasts,
        outage::who_carries_without_the_api_does_not_yield_to_a_network_that_answers_for_the_dead,
    ),
    (Bug::DefendsWhenCutOff, strangers::a_node_that_was_cut_off_yields_to_a_host_that_it_does_not_know),
    (Bug::DefendsWhenCutOff, strangers::who_has_yielded_to_a_node_without_the_api_yields_to_strangers_too),
    (Bug::TellsUnlisted, members::who_knows_less_than_the_member_object_lists_before_it_writes),
    (Bug::TellsAllAtOnce, members::many_member_objects_without_leases_are_tried_one_at_a_time),
    (Bug::TellsOthersWithoutApi, members::without_the_api_a_node_tries_to_write_its_own_member_object_alone),
    (Bug::LeavesDeletedUntold, members::a_member_object_without_a_lease_ends),
    (Bug::LeavesUntold, telling::a_session_that_only_a_list_has_shown_is_told_and_ends),
    (Bug::ChoosesJudgesAnew, telling::an_end_is_told_though_the_judge_of_another_segment_wrote_it_and_dies),
    (Bug::JudgesNearbyOnly, telling::nodes_that_die_together_on_a_segment_of_their_own_are_ended),
    (Bug::CarriesOnWhenStripped, handover::a_record_that_is_stripped_as_it_names_the_successor_leaves_one_holder),
    (Bug::ForgetsEndedOwners, owned::an_address_of_a_node_that_crashed_is_not_taken),
    (Bug::TakesFromTheHanging, whose::a_vip_that_is_made_again_is_not_taken_from_an_agent_that_hangs),
    (Bug::RefusedTimeCounts, read_only::nobody_takes_from_nodes_that_answer),
    (Bug::ContestsItsGiver, handover::a_planned_hand_over_overlaps_though_the_api_is_slow),
    (Bug::ClaimsClearForEver, mute::a_node_that_answers_nothing_does_not_keep_its_vips_by_asking),
    (Bug::MuteTakes, mute::a_mute_node_leaves_the_vips_of_a_crashed_one_to_others),
    (Bug::MuteKeeps, mute::a_mute_node_gives_back_what_it_took_before_it_knew),
    (Bug::KeepsUnheard, mute::a_mute_node_that_was_alone_gives_the_vips_to_the_node_that_comes_back),
    (Bug::TakesFromWhoAnswers, mute::what_a_node_that_answers_offers_is_left_alone),
    (Bug::UnheardTakesOffers, mute::where_nobody_hears_anybody_offers_move_nothing),
    (Bug::AsksNothing, members::an_old_member_object_that_stays_is_asked_about_once),
    (Bug::BelievesLateAnswers, outage::nor_to_one_that_answers_late),
    (Bug::UnheardAreGone, outage::a_moment_without_the_api_moves_nothing_where_nodes_do_not_hear_each_other),
    (Bug::NeverSetBack, members::who_sees_that_the_store_was_set_back_lists_at_once),
    (Bug::TellsFromBefore, members::who_sees_that_the_store_was_set_back_tells_nothing_before_it_has_listed),
    (Bug::TellsFromBefore, members::who_was_without_the_api_tells_of_no_end_before_it_has_listed),
    (Bug::NobodyRepairs, telling::an_end_is_told_though_the_node_that_wrote_it_dies),
    (Bug::JudgesUnfollowed, telling::a_lease_that_is_marked_and_not_told_is_followed_and_asks_for_few_lists),
];

#[test]
fn each_rule_has_a_test_that_fails_without_it() {
    for (bug, test) in GUARDS {
        assert!(is_found_by(bug, test), "{bug:?}");
    }
}
