//! Guards that the tests leave out, to check that they notice. No guard is ever left out in a program.

/// A guard to leave out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flaw {
    /// Decisions are made before every kind was listed since this allocator leads.
    ViewsOfDifferentAge,
    /// Nobody waits for a Service whose annotation or field names the address that it had before.
    AskingDoesNotCount,
    /// An address that a Service shows without a claim is given to others.
    UnclaimedIsFree,
    /// A write that had no lasting effect is repeated at once.
    RepeatsAtOnce,
    /// Services are served before there is something to give them.
    ServesAll,
    /// A Service is never left to another controller that writes its status.
    FightsOn,
    /// The finalizer of load balancers is removed whoever put it there.
    StripsEveryFinalizer,
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
