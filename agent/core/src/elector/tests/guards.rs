//! Rules of the evidence and of health, each with a test that fails without it.

use super::{handover, health, new_vips, one_way, outage, proxied, read_only};
use crate::planted::{Bug, is_found_by};

/// A bug, and a test that fails with it.
const GUARDS: [(Bug, fn()); 22] = [
    (
        Bug::BelievesBroadcasts,
        outage::who_carries_without_the_api_does_not_yield_to_a_network_that_answers_for_the_dead,
    ),
    (Bug::BelievesLateAnswers, outage::nor_to_one_that_answers_late),
    (Bug::BelievesBroadcasts, new_vips::a_new_vip_that_only_the_network_answers_for_is_carried),
    (Bug::BelievesProxies, proxied::a_crash_is_noticed_before_the_lease_ends),
    (Bug::BelievesProxies, proxied::of_two_nodes_the_other_takes_the_lease_when_it_has_ended),
    (Bug::BelievesProxies, proxied::an_outage_of_the_api_moves_nothing),
    (Bug::BelievesProxies, proxied::a_node_that_only_the_router_answers_takes_nothing_without_the_api),
    (Bug::BelievesProofs, proxied::what_is_answered_for_a_node_does_not_show_that_nodes_hear_each_other),
    (Bug::AnyOwnerIsHolder, new_vips::a_foreign_host_that_takes_a_carried_vip_does_not_hide_a_crash),
    (Bug::AnyOwnerIsHolder, new_vips::a_foreign_host_that_takes_a_carried_vip_does_not_hide_a_crash_without_the_api),
    (Bug::OnlyHoldersCarry, new_vips::who_carries_provisionally_is_no_foreign_owner_of_any_vip),
    (Bug::TakesFromTheLiving, read_only::nobody_takes_from_a_holder_that_answers),
    (Bug::TakesFromTheLiving, read_only::candidates_try_seldom),
    (Bug::ContestsItsGiver, handover::a_planned_hand_over_overlaps_though_the_api_is_slow),
    (Bug::GivesUpRelease, handover::one_release_that_is_not_answered_costs_the_vips_nothing),
    (Bug::HandsOverNothing, handover::a_lease_whose_vips_nobody_wants_is_released_to_nobody),
    (Bug::WaitsForNodes, new_vips::what_another_node_still_has_is_carried_as_soon_as_that_node_lets_go),
    (Bug::MuteKeeps, one_way::a_node_that_falls_mute_as_it_takes_gives_the_lease_back),
    (Bug::KeepsUnheard, one_way::a_mute_node_that_was_handed_the_lease_is_relieved_by_who_comes_back),
    (Bug::TakesFromWhoAnswers, one_way::an_offer_of_a_holder_that_answers_is_left_alone),
    (Bug::UnheardTakesOffers, one_way::where_nobody_is_answered_an_offer_moves_nothing),
    (Bug::MatchesByInterface, health::a_holder_hands_over_though_api_servers_are_on_another_interface),
];

#[test]
fn each_rule_has_a_test_that_fails_without_it() {
    for (bug, test) in GUARDS {
        assert!(is_found_by(bug, test), "{bug:?}");
    }
}
