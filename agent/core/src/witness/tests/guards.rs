//! Rules of the evidence, each with a test that fails without it.

use super::*;
use crate::planted::{Bug, is_found_by};

/// A bug, and a test that fails with it.
const GUARDS: [(Bug, fn()); 6] = [
    (Bug::ClaimsEntitle, what_is_said_unasked_entitles_nobody),
    (Bug::AnyForm, a_third_party_counts_only_for_probes_of_its_form),
    (Bug::AnyFamily, neighbour_discovery_says_nothing_about_arp),
    (Bug::BelievesBroadcasts, who_answers_a_broadcast_for_a_dead_host_does_not_hide_its_silence),
    (Bug::BelievesBroadcasts, who_hears_only_answers_to_broadcasts_finds_nothing_free),
    (Bug::OneSenderIsEnough, a_look_that_no_third_party_answers_asks_as_any_host_too),
];

#[test]
fn each_rule_has_a_test_that_fails_without_it() {
    for (bug, test) in GUARDS {
        assert!(is_found_by(bug, test), "{bug:?}");
    }
}
