//! Leaves out one guard at a time: the simulator must notice.

use crate::protocol::flaws::{Flaw, plant};
use crate::protocol::tests;

use super::run;
use super::world::OUTSIDE_FROM;

/// Runs up to 1000 seeds, starting shortly before the first seed that found the flaw when the test was written.
fn noticed(flaw: Flaw, from: u64) {
    plant(Some(flaw));
    let seen = (from..from + 1000).find_map(|seed| run(seed).err());
    plant(None);
    assert!(seen.is_some(), "nothing was noticed of {flaw:?}");
}

/// Drawn runs find these hardly ever: each has a test that fails with it.
#[test]
fn what_draws_hardly_find() {
    let guards: [(Flaw, fn()); 2] = [
        (Flaw::ListCountsAsLater, tests::of_two_in_one_list_each_counts_as_earlier),
        (Flaw::SecondStays, tests::a_second_object_of_a_claim_of_metal3s_goes_once_it_is_void_else_with_its_claim),
    ];
    for (flaw, guard) in guards {
        plant(Some(flaw));
        let seen = std::panic::catch_unwind(guard).is_err();
        plant(None);
        assert!(seen, "nothing was noticed of {flaw:?}");
    }
}

macro_rules! flaws {
    ($($name:ident: $flaw:ident from $seed:expr),* $(,)?) => {
        $(#[test]
        fn $name() {
            noticed(Flaw::$flaw, $seed);
        })*
    };
}

flaws! {
    bind_before_shown: BindBeforeShown from 0,
    unbound_do_not_count: UnboundDoNotCount from 495,
    no_void: NoVoid from 850,
    void_is_bound: VoidIsBound from 40,
    bound_withdraws: BoundWithdraws from 80,
    others_ignored: OthersIgnored from 0,
    no_rest: NoRest from 0,
    orphans_unasked: OrphansUnasked from 0,
    nobody_woken: NobodyWoken from 240,
    no_preconditions: NoPreconditions from 80,
    half_a_list_counts: HalfAListCounts from 0,
    ownerless_stays: OwnerlessStays from 855,
    ownerless_is_held: OwnerlessIsHeld from 160,
    ownerless_goes_at_once: OwnerlessGoesAtOnce from 5290,
    restored_is_released: RestoredIsReleased from 2790,
    conditions_at_once: ConditionsAtOnce from 3285,
    foreign_at_once: ForeignAtOnce from 0,
    every_prefix_counts: EveryPrefixCounts from 120,
    kinds_in_order: KindsInOrder from 1030,
    kinds_not_compared: KindsNotCompared from 745,
    kind_ignored: KindIgnored from 0,
    terms_of_the_pool: TermsOfThePool from 0,
    no_search: NoSearch from OUTSIDE_FROM,
    lost_is_asked_again: LostIsAskedAgain from OUTSIDE_FROM + 4550,
    let_go_unasked: LetGoUnasked from OUTSIDE_FROM,
    asked_before_recorded: AskedBeforeRecorded from OUTSIDE_FROM,
    lies_are_believed: LiesAreBelieved from OUTSIDE_FROM + 200,
}
