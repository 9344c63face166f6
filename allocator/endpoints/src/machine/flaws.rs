//! Guards that the tests leave out, to check that they notice. No guard is ever left out in a program.

/// A guard to leave out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(test), expect(dead_code, reason = "the tests plant them"))]
pub(super) enum Flaw {
    /// Decisions are made before every kind was listed since this allocator leads.
    ViewsOfDifferentAge,
    /// The host is written before the other places.
    HostFirst,
    /// A Cluster is unpaused before all places carry the address.
    UnpausesEarly,
    /// A Cluster is unpaused whoever paused it.
    UnpausesAnyPause,
    /// A host that is set to something else is replaced.
    OverwritesHost,
    /// Places are written although the Cluster is paused for another reason.
    ActsWhilePaused,
    /// Places are repaired although the control plane is initialised.
    RepairsAfterInit,
    /// Claims are released without asking whether the Cluster is gone.
    ReleasesUnasked,
    /// The API server does not look at uid and version of a write.
    NoPreconditions,
    /// Places are written although the Cluster is being deleted.
    IgnoresDeletion,
    /// A claim is made for a Cluster that is paused and has its endpoint.
    PinsUnderMove,
    /// A write that had no lasting effect is repeated at once.
    RepeatsAtOnce,
    /// A claim that is being deleted is released while the host is empty.
    EmptyHostIsSettled,
    /// A claim has no finalizer of ours.
    NoFinalizer,
    /// A claim that is being deleted is released although machines get its address.
    LetsGoOfWhatStands,
    /// The address is written into a `Secret` that the machines of another Cluster get too.
    WritesSharedSecrets,
    /// A claim belongs to the Cluster that its label names, whoever owns it.
    BelievesLabels,
    /// A Cluster that waits paused, and is deleted, stays paused.
    KeepsPauseOfTheDeleted,
    /// A Cluster that has machines is unpaused as soon as its address stands everywhere.
    UnpausesAtOnce,
    /// A Cluster that went on once is unpaused as a new one is.
    ForgetsThatItWentOn,
    /// A `Secret` is read again once a minute, whatever else is seen.
    ReadsSecretsByTheMinute,
    /// A Cluster is unpaused by what was read of its `Secret`s a while ago.
    BelievesOldSecrets,
    /// Names in certificates that never had the address get it.
    AddsNames,
    /// A claim that exists and is not shown is never created again.
    HiddenForEver,
    /// Claims for Services are made whatever the target lists.
    ForgetsLists,
    /// They are made by what was read of the target a while ago.
    BelievesOldLists,
    /// Restored claims that are deleted at once are released as any others.
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
pub(super) fn planted(flaw: Flaw) -> bool {
    PLANTED.get() == Some(flaw)
}

#[cfg(not(test))]
pub(super) const fn planted(_: Flaw) -> bool {
    false
}
