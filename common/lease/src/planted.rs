//! Bugs that a test can switch on in this thread, to see that the simulator's checks find them. Without the feature `planted`
//! the bugs are not in the program.

/// A bug of this crate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// Blind time counts, and the observation is always fresh.
    BlindTimeCounts,
    /// A declaration counts though another program has renewed the Lease since.
    BelievesKeptDeclaration,
}

#[cfg(feature = "planted")]
mod switch {
    use std::cell::Cell;

    use super::Bug;

    thread_local! {
        static BUG: Cell<Option<Bug>> = const { Cell::new(None) };
    }

    /// From now on this thread has this bug, or none.
    pub fn plant(bug: Option<Bug>) {
        BUG.set(bug);
    }

    pub(crate) fn is_planted(bug: Bug) -> bool {
        BUG.get() == Some(bug)
    }
}

#[cfg(feature = "planted")]
pub(crate) use switch::is_planted;
#[cfg(feature = "planted")]
pub use switch::plant;

#[cfg(not(feature = "planted"))]
pub(crate) const fn is_planted(_bug: Bug) -> bool {
    false
}
