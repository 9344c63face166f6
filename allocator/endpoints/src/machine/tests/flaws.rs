//! Leaves out one guard at a time: a test must notice.

use super::{
    deleted, given, letting_go, listed, many, moved, random, reapplied, reapplied_often, restored, shared, unseen,
};
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
    host_first: HostFirst,
    unpauses_early: UnpausesEarly,
    unpauses_any_pause: UnpausesAnyPause,
    overwrites_host: OverwritesHost,
    acts_while_paused: ActsWhilePaused,
    repairs_after_init: RepairsAfterInit,
    no_preconditions: NoPreconditions,
    ignores_deletion: IgnoresDeletion,
    pins_under_move: PinsUnderMove,
    no_finalizer: NoFinalizer,
}

/// The first of the seeds that notice it is 314.
#[test]
fn empty_host_is_settled() {
    noticed(Flaw::EmptyHostIsSettled, || random::lives(300..400));
}

#[test]
fn lets_go_of_what_stands() {
    noticed(Flaw::LetsGoOfWhatStands, letting_go::what_stands_in_places_stays);
    noticed(Flaw::LetsGoOfWhatStands, || random::lives(0..400));
}

#[test]
fn writes_shared_secrets() {
    noticed(Flaw::WritesSharedSecrets, shared::one_has_its_address_and_the_other_waits);
    noticed(Flaw::WritesSharedSecrets, || random::lives(0..400));
}

#[test]
fn keeps_pause_of_the_deleted() {
    noticed(Flaw::KeepsPauseOfTheDeleted, deleted::the_pause_ends_whatever_it_waits_for);
    noticed(Flaw::KeepsPauseOfTheDeleted, || random::lives(0..400));
}

#[test]
fn unpauses_at_once() {
    noticed(Flaw::UnpausesAtOnce, reapplied::nothing_is_rolled_out);
}

#[test]
fn believes_old_secrets() {
    noticed(Flaw::BelievesOldSecrets, reapplied::secrets_are_read_again);
}

#[test]
fn forgets_that_it_went_on() {
    noticed(Flaw::ForgetsThatItWentOn, reapplied_often::one_that_went_on_once_waits);
}

#[test]
fn reads_secrets_by_the_minute() {
    noticed(Flaw::ReadsSecretsByTheMinute, reapplied_often::seconds_hide_no_secret);
}

#[test]
fn adds_names() {
    noticed(Flaw::AddsNames, reapplied::names_without_the_address_stay);
    noticed(Flaw::AddsNames, || random::lives(0..400));
}

#[test]
fn believes_labels() {
    noticed(Flaw::BelievesLabels, moved::labels_are_put_back);
    noticed(Flaw::BelievesLabels, || random::lives(0..400));
}

#[test]
fn hidden_for_ever() {
    noticed(Flaw::HiddenForEver, unseen::what_hid_the_name_is_deleted);
    noticed(Flaw::HiddenForEver, || random::lives(0..400));
}

#[test]
fn forgets_lists() {
    noticed(Flaw::ForgetsLists, listed::what_the_list_has_is_had_again);
    noticed(Flaw::ForgetsLists, || random::lives(0..400));
}

#[test]
fn believes_old_lists() {
    noticed(Flaw::BelievesOldLists, listed::what_was_taken_out_is_not_asked_for);
}

#[test]
fn releases_unasked() {
    noticed(Flaw::ReleasesUnasked, given::what_is_shown_before_its_cluster_stays);
}

#[test]
fn views_of_different_age() {
    noticed(Flaw::ViewsOfDifferentAge, many::what_is_done_is_not_done_again_after_a_restart);
}

#[test]
fn repeats_at_once() {
    noticed(Flaw::RepeatsAtOnce, many::what_is_put_back_is_not_written_for_ever);
}

#[test]
fn releases_the_restored() {
    noticed(Flaw::ReleasesTheRestored, restored::what_comes_before_its_cluster_waits);
    noticed(Flaw::ReleasesTheRestored, restored::what_a_paused_cluster_has_stays);
    noticed(Flaw::ReleasesTheRestored, restored::claims_for_services_wait_for_what_says_what_they_had);
}
