//! Each guard left out once: the simulator must notice.

use crate::protocol::flaws::{Flaw, plant};

use super::run;

fn noticed(flaw: Flaw) {
    plant(Some(flaw));
    let seen = (0..4000).find_map(|seed| run(seed).err());
    plant(None);
    assert!(seen.is_some(), "nothing was noticed of {flaw:?}");
    eprintln!("{flaw:?}: {}", seen.unwrap_or_default());
}

macro_rules! flaws {
    ($($name:ident: $flaw:ident),* $(,)?) => {
        $(#[test]
        fn $name() {
            noticed(Flaw::$flaw);
        })*
    };
}

flaws! {
    bind_before_shown: BindBeforeShown,
    list_counts_as_later: ListCountsAsLater,
    unbound_do_not_count: UnboundDoNotCount,
    no_void: NoVoid,
    void_is_bound: VoidIsBound,
    bound_withdraws: BoundWithdraws,
    others_ignored: OthersIgnored,
    no_rest: NoRest,
    orphans_unasked: OrphansUnasked,
    nobody_woken: NobodyWoken,
    no_preconditions: NoPreconditions,
}
