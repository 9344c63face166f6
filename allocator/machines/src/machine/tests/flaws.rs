//! Leaves out one guard at a time: a test must notice.

use super::{basics, lasting, random, restored};
use crate::machine::flaws::{Flaw, plant};

/// Whether a test fails without this guard.
fn noticed(flaw: Flaw, test: impl FnOnce() + std::panic::UnwindSafe) {
    plant(Some(flaw));
    let seen = std::panic::catch_unwind(test).is_err();
    plant(None);
    assert!(seen, "nothing was noticed of {flaw:?}");
}

macro_rules! at_random {
    ($($name:ident: $flaw:ident),* $(,)?) => {
        $(#[test]
        fn $name() {
            noticed(Flaw::$flaw, || random::lives(0..400));
        })*
    };
}

at_random! {
    acts_while_paused: ActsWhilePaused,
    ignores_deletion: IgnoresDeletion,
    overwrites_addresses: OverwritesAddresses,
    releases_bound: ReleasesBound,
    no_preconditions: NoPreconditions,
    no_finalizer: NoFinalizer,
}

#[test]
fn empty_selector_matches_all() {
    noticed(Flaw::EmptySelectorMatchesAll, basics::no_label_names_no_pool);
    noticed(Flaw::EmptySelectorMatchesAll, || random::lives(0..400));
}

#[test]
fn hidden_for_ever() {
    noticed(Flaw::HiddenForEver, lasting::what_hid_the_name_is_deleted);
    noticed(Flaw::HiddenForEver, || random::lives(0..400));
}

#[test]
fn releases_unasked() {
    noticed(Flaw::ReleasesUnasked, lasting::what_is_shown_before_its_machine_stays);
}

#[test]
fn views_of_different_age() {
    noticed(Flaw::ViewsOfDifferentAge, lasting::what_was_seen_before_others_led_does_not_count);
}

#[test]
fn repeats_at_once() {
    noticed(Flaw::RepeatsAtOnce, lasting::what_is_put_back_is_not_written_for_ever);
}

#[test]
fn forgets_what_it_had() {
    noticed(Flaw::ForgetsWhatItHad, restored::it_has_its_address_again_in_any_order);
}

#[test]
fn releases_the_restored() {
    noticed(Flaw::ReleasesTheRestored, restored::it_has_its_address_again_in_any_order);
}
