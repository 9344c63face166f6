//! Leaves out one guard at a time: a test must notice.

use super::{others, random, takeover};
use crate::machine::flaws::{Flaw, plant};

/// Whether a test fails without this guard.
fn noticed(flaw: Flaw, test: fn()) {
    plant(Some(flaw));
    let seen = std::panic::catch_unwind(test).is_err();
    plant(None);
    assert!(seen, "nothing was noticed of {flaw:?}");
}

macro_rules! flaws {
    ($($name:ident: $flaw:ident by $test:path),* $(,)?) => {
        $(#[test]
        fn $name() {
            noticed(Flaw::$flaw, $test);
        })*
    };
}

flaws! {
    views_of_different_age: ViewsOfDifferentAge by random::some_lives,
    unclaimed_is_free: UnclaimedIsFree by others::what_another_controller_serves_is_left_alone_and_its_addresses_too,
    asking_does_not_count: AskingDoesNotCount by takeover::the_annotation_and_the_field_count_before_the_status_does,
    repeats_at_once_a_field: RepeatsAtOnce by others::a_field_that_is_not_kept_is_not_written_for_ever,
    repeats_at_once_a_webhook: RepeatsAtOnce by others::what_a_webhook_reverts_is_not_written_for_ever,
    serves_all: ServesAll by others::nothing_is_written_before_there_is_something_to_give,
    fights_on: FightsOn by others::two_controllers_do_not_fight_for_ever,
    strips_every_finalizer: StripsEveryFinalizer by others::a_finalizer_is_removed_only_where_kube_vips_cloud_provider_left_it,
}
