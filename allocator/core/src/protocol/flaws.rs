//! Guards that the tests break, to check that the simulator notices. No guard is ever broken in a program.

/// A guard to leave out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(test), expect(dead_code, reason = "the tests plant them"))]
pub(crate) enum Flaw {
    /// A claim is bound as soon as its object is created.
    BindBeforeShown,
    /// An object that one list shows together with another counts as later.
    ListCountsAsLater,
    /// Only an object that is shown as bound counts as earlier.
    UnboundDoNotCount,
    /// An object is withdrawn without being declared void first.
    NoVoid,
    /// A claim is bound to a void object.
    VoidIsBound,
    /// A bound object with an earlier rival is withdrawn.
    BoundWithdraws,
    /// A claim's other finalizers are not waited for.
    OthersIgnored,
    /// An address does not rest.
    NoRest,
    /// The address of an earlier claim of the same name is taken away without asking the API server.
    OrphansUnasked,
    /// Waiting claims are not woken.
    NobodyWoken,
    /// The server does not look at uid and version of a write about a claim.
    NoPreconditions,
    /// The first page of a list counts as the whole list.
    HalfAListCounts,
    /// An object without owner is not released with the claim that is bound to it.
    OwnerlessStays,
    /// An object without owner keeps our finalizer although it is being deleted.
    OwnerlessIsHeld,
    /// An object without owner that is being deleted goes although a bind to it may be under way.
    OwnerlessGoesAtOnce,
    /// After a restore from a backup, an object is not the claim's of its name.
    RestoredIsReleased,
    /// An object without owner is released with an earlier claim of its name.
    NextIsReleased,
    /// A condition that another allocator replaces is written again at once.
    ConditionsAtOnce,
    /// A creation that met an object of another provider is tried again at once.
    ForeignAtOnce,
    /// A prefix that somebody wrote by hand counts for the pools of all namespaces.
    EveryPrefixCounts,
    /// An object of the other kind that is shown later counts as later.
    KindsInOrder,
    /// An object is bound without being compared with those of the other kind.
    KindsNotCompared,
    /// A second object of a claim that is named after its address stays although it is void.
    SecondStays,
    /// Claims of two kinds that have the same name are taken for one claim.
    KindIgnored,
    /// An entry's own prefix and gateway are ignored.
    TermsOfThePool,
    /// An outside system is asked for an address without a search for one that it gave before.
    NoSearch,
    /// After a lost answer, an outside system is asked again without a search.
    LostIsAskedAgain,
    /// A claim is let go although the outside system was not searched for its entries.
    LetGoUnasked,
    /// An outside system is asked before the claim has our finalizer.
    AskedBeforeRecorded,
    /// An address that an outside system gives twice is handed out twice.
    LiesAreBelieved,
}

#[cfg(test)]
thread_local! {
    static PLANTED: std::cell::Cell<Option<Flaw>> = const { std::cell::Cell::new(None) };
}

#[cfg(test)]
pub(crate) fn plant(flaw: Option<Flaw>) {
    PLANTED.set(flaw);
}

#[cfg(test)]
pub(crate) fn planted(flaw: Flaw) -> bool {
    PLANTED.get() == Some(flaw)
}

#[cfg(not(test))]
pub(crate) const fn planted(_: Flaw) -> bool {
    false
}
