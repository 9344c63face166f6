//! Guards that the tests leave out, to check that they notice. No guard is ever left out in a program.

/// A guard to leave out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(test), expect(dead_code, reason = "the tests plant them"))]
pub(crate) enum Flaw {
    /// Decisions are made before every kind was listed since this allocator leads.
    ViewsOfDifferentAge,
    /// Something is written although the machine or its Cluster is paused.
    ActsWhilePaused,
    /// Something is written although the machine is being deleted.
    IgnoresDeletion,
    /// Devices that have addresses get others.
    OverwritesAddresses,
    /// Without labels, any pool will do.
    EmptySelectorMatchesAll,
    /// A claim that has its address is released while its machine lives.
    ReleasesBound,
    /// Claims are released without asking whether the machine is gone.
    ReleasesUnasked,
    /// The API server does not look at uid and version of a write.
    NoPreconditions,
    /// A claim has no finalizer of ours.
    NoFinalizer,
    /// A claim that exists and is not shown is never created again.
    HiddenForEver,
    /// A write that had no lasting effect is repeated at once.
    RepeatsAtOnce,
    /// A claim's metadata says nothing about whose it is.
    ForgetsWhatItHad,
    /// Restored claims go as soon as their machine is not there.
    ReleasesTheRestored,
}

#[cfg(test)]
thread_local! {
    static PLANTED: std::cell::Cell<Option<Flaw>> = const { std::cell::Cell::new(None) };
}

#[cfg(test)]
pub(super) fn plant(flaw: Option<Flaw>) {
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
