//! Rules of the evidence and of health, each with a test that fails without it.

use super::{health, new_vips, one_way, outage};
use crate::planted::{Bug, is_found_by};

/// A bug, and a test that fails with it.
const GUARDS: [(Bug, fn()); 4] = [
    (
        Bug::BelievesBroadcasts,
        outage::who_carries_without_the_api_does_not_yield_to_a_network_that_answers_for_the_dead,
    ),
    (Bug::BelievesBroadcasts, new_vips::a_new_vip_that_only_the_network_answers_for_is_carried),
    (Bug::MuteKeeps, one_way::a_node_that_falls_mute_as_it_takes_gives_the_lease_back),
    (Bug::MatchesByInterface, health::a_holder_hands_over_though_api_servers_are_on_another_interface),
];

#[test]
fn each_rule_has_a_test_that_fails_without_it() {
    for (bug, test) in GUARDS {
        assert!(is_found_by(bug, test), "{bug:?}");
    }
}
