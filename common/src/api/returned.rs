//! API servers that were all away answer again. Whoever waits before it asks them again waits no longer, and a watch that was open
//! meanwhile is opened anew: its connection may hang for as long as the servers were away.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, sleep, timeout};

use crate::backoff::part_of;

/// Not all watches of all nodes come at once: each waits for a part of this, by chance.
const SPREAD: Duration = Duration::from_millis(500);
/// So long an outage may keep the connection of an open watch waiting much longer: what was not delivered is sent again less and less often.
const LONG: Duration = Duration::from_secs(3);
/// A call that fails within this time after the return was sent before, or to a server that is not back yet.
const JUST: Duration = Duration::from_secs(2);

/// Whether the API servers are away, and who waits for them.
#[derive(Default)]
pub struct Returned {
    state: Mutex<State>,
    told: Notify,
    told_after_long: Notify,
}

#[derive(Clone, Copy, Default)]
struct State {
    /// When one of them last answered.
    answered: Option<Instant>,
    /// Since when no call has been answered.
    away: Option<Instant>,
    /// When they last came back.
    back: Option<Instant>,
}

impl Returned {
    /// None of the servers has answered a call that began then. If none has answered another call since, they are away.
    pub fn none_answered(&self, began: Instant) {
        let mut state = self.state();
        if state.answered.is_none_or(|at| at < began) {
            state.away.get_or_insert(began);
        }
    }

    /// One of them has answered.
    pub fn answered(&self) {
        let now = Instant::now();
        let mut state = self.state();
        state.answered = Some(now);
        let Some(since) = state.away.take() else { return };
        state.back = Some(now);
        drop(state);
        self.told.notify_waiters();
        if now.duration_since(since) >= LONG {
            self.told_after_long.notify_waiters();
        }
    }

    /// Ends a moment after the end of the next long outage, as seen from the first poll on. The moments differ, so that not all watches come
    /// together.
    pub async fn after_long(&self) {
        self.told_after_long.notified().await;
        sleep(part_of(SPREAD)).await;
    }

    /// Waits so long before another call, or until just after the servers are back.
    pub async fn pause(&self, wait: Duration) {
        let told = self.told.notified();
        let is_back = self.is_just_back() || timeout(wait, told).await.is_ok();
        if is_back {
            sleep(part_of(SPREAD).min(wait)).await;
        }
    }

    fn is_just_back(&self) -> bool {
        self.state().back.is_some_and(|at| at.elapsed() < JUST)
    }

    /// Never held across an await.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    const WAIT: Duration = Duration::from_secs(5);

    #[tokio::test(start_paused = true)]
    async fn who_waits_for_servers_that_are_away_waits_no_longer_than_they_are() {
        let returned = Arc::new(Returned::default());
        let begun = Instant::now();
        returned.none_answered(begun);
        let waits = tokio::spawn({
            let returned = returned.clone();
            async move { returned.pause(WAIT).await }
        });
        sleep(Duration::from_secs(1)).await;
        assert!(!waits.is_finished());
        returned.answered();
        waits.await.unwrap();
        assert!(begun.elapsed() <= Duration::from_secs(1) + SPREAD, "{:?}", begun.elapsed());
        // A call that was sent before they were back fails now.
        let begun = Instant::now();
        returned.pause(WAIT).await;
        assert!(begun.elapsed() <= SPREAD);
    }

    #[tokio::test(start_paused = true)]
    async fn what_servers_refuse_that_are_there_is_asked_as_seldom_as_before() {
        let returned = Returned::default();
        let waited = async || {
            let begun = Instant::now();
            returned.pause(WAIT).await;
            begun.elapsed()
        };
        assert_eq!(waited().await, WAIT);
        returned.none_answered(Instant::now());
        assert_eq!(waited().await, WAIT);
        returned.answered();
        sleep(JUST).await;
        returned.answered();
        assert_eq!(waited().await, WAIT);
    }

    #[tokio::test(start_paused = true)]
    async fn a_short_outage_opens_no_watch_anew() {
        for (away, is_long) in [(LONG / 2, false), (LONG, true)] {
            let returned = Arc::new(Returned::default());
            let opens = tokio::spawn({
                let returned = returned.clone();
                async move { returned.after_long().await }
            });
            returned.none_answered(Instant::now());
            sleep(away).await;
            returned.answered();
            sleep(SPREAD).await;
            assert_eq!(opens.is_finished(), is_long, "{away:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn one_call_that_hangs_while_others_are_answered_says_nothing() {
        let returned = Returned::default();
        let sent = Instant::now();
        sleep(Duration::from_secs(1)).await;
        returned.answered();
        returned.none_answered(sent);
        let begun = Instant::now();
        returned.answered();
        returned.pause(WAIT).await;
        assert_eq!(begun.elapsed(), WAIT);
    }
}
