//! A bug that a test can switch on in this thread, to see that the simulator's checks find it. Without the feature
//! `planted` the bug is not in the program.

#[cfg(feature = "planted")]
mod switch {
    use std::cell::Cell;

    thread_local! {
        static BLIND_TIME_COUNTS: Cell<bool> = const { Cell::new(false) };
    }

    /// Switches the bug on or off. On: blind time counts in this thread, and the observation is always fresh.
    pub fn plant(on: bool) {
        BLIND_TIME_COUNTS.set(on);
    }

    pub(crate) fn blind_time_counts() -> bool {
        BLIND_TIME_COUNTS.get()
    }
}

#[cfg(feature = "planted")]
pub(crate) use switch::blind_time_counts;
#[cfg(feature = "planted")]
pub use switch::plant;

#[cfg(not(feature = "planted"))]
pub(crate) const fn blind_time_counts() -> bool {
    false
}
